"""Draws the album, file by file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from builders.sample_album.camera import Shot, encode
from builders.sample_album.caption_truth import claims_of
from builders.sample_album.captions import caption_en, caption_zh
from builders.sample_album.faults import faulty_files
from builders.sample_album.near_duplicates import altered, is_copied
from builders.sample_album.records import AlbumPicture
from builders.sample_album.scene_plan import ScenePlan, plan_scene
from builders.sample_album.stage import Painted, paint_scene

_BARE = 23  # one scene in so many carries no EXIF
_SIDEWAYS = (31, 152)  # scenes stored turned by 90 degrees
_SUFFIXES = {44: ".png", 118: ".webp", 170: ".png", 199: ".webp"}  # all others are JPEG


def draw_album(scenes: int = 240, seed: int = 0) -> Iterator[AlbumPicture]:
    """The scenes in order, a near-duplicate right after its scene, and six faulty files at the end."""
    for index in range(scenes):
        plan = plan_scene(seed, index)
        painted = paint_scene(seed, plan)
        picture = _photograph(seed, plan, painted)
        yield picture
        if is_copied(index):
            yield _copy(picture, plan, painted)
    yield from faulty_files()


def _shot(seed: int, plan: ScenePlan) -> Shot:
    located = random.Random(f"{seed}/camera/{plan.index}").random() < 0.85
    return Shot(
        taken_at=plan.taken_at,
        offset=plan.site.offset,
        latitude=plan.latitude if located else None,
        longitude=plan.longitude if located else None,
        suffix=_SUFFIXES.get(plan.index, ".jpg"),
        bare=plan.index % _BARE == 5,
        sideways=plan.index in _SIDEWAYS,
    )


def _photograph(seed: int, plan: ScenePlan, painted: Painted) -> AlbumPicture:
    shot = _shot(seed, plan)
    claims = claims_of(seed, plan.index)
    words = random.Random(f"{seed}/words/{plan.index}")
    return AlbumPicture(
        file_name=plan.stem + shot.suffix,
        data=encode(painted.image, shot),
        width=plan.width,
        height=plan.height,
        boxes=painted.boxes(),
        caption_zh=caption_zh(claims, words),
        caption_en=caption_en(claims, words),
        place=plan.place,
        light=plan.light,
        facts=plan.facts,
        claims=claims,
        taken_at=None if shot.bare else plan.taken_at.isoformat(),
        latitude=None if shot.bare else shot.latitude,
        longitude=None if shot.bare else shot.longitude,
        duplicate_of=None,
        fault=None,
    )


def _copy(picture: AlbumPicture, plan: ScenePlan, painted: Painted) -> AlbumPicture:
    image, boxes, quality = altered(painted, plan.index)
    # Like most programs that save pictures again, this one keeps the hour and drops the position.
    shot = Shot(plan.taken_at, plan.site.offset, None, None, ".jpg", picture.taken_at is None, False, quality)
    return replace(
        picture,
        file_name=f"shared/copy_{plan.index:04d}.jpg",
        data=encode(image, shot),
        width=image.width,
        height=image.height,
        boxes=boxes,
        latitude=None,
        longitude=None,
        duplicate_of=picture.file_name,
    )
