"""Draws the album, file by file."""

import random
from collections.abc import Iterator
from dataclasses import replace

from sample_album.album_records import AlbumImage
from sample_album.camera import CameraSettings, encode_image
from sample_album.caption_truth import choose_claims
from sample_album.captions import format_caption_en, format_caption_zh
from sample_album.faulty_files import make_faulty_files
from sample_album.near_duplicates import has_near_duplicate, make_near_duplicate
from sample_album.scene_painting import PaintedScene, paint_scene
from sample_album.scene_plan import ScenePlan, plan_scene

_WITHOUT_EXIF_EVERY = 23  # one scene in so many carries no EXIF
_SIDEWAYS = (31, 152)  # scenes stored turned by 90 degrees
_SUFFIXES = {44: ".png", 118: ".webp", 170: ".png", 199: ".webp"}  # all others are JPEG


def draw_album(scenes: int = 240, seed: int = 0) -> Iterator[AlbumImage]:
    """The scenes in order, a near-duplicate right after its scene, and six faulty files at the end."""
    for index in range(scenes):
        plan = plan_scene(seed, index)
        painted = paint_scene(seed, plan)
        image = _make_album_image(seed, plan, painted)
        yield image
        if has_near_duplicate(index):
            yield _make_copy(image, plan, painted)
    yield from make_faulty_files()


def _camera_settings(seed: int, plan: ScenePlan) -> CameraSettings:
    located = random.Random(f"{seed}/camera/{plan.index}").random() < 0.85
    return CameraSettings(
        taken_at=plan.taken_at,
        offset=plan.site.offset,
        latitude=plan.latitude if located else None,
        longitude=plan.longitude if located else None,
        suffix=_SUFFIXES.get(plan.index, ".jpg"),
        without_exif=plan.index % _WITHOUT_EXIF_EVERY == 5,
        is_rotated=plan.index in _SIDEWAYS,
    )


def _make_album_image(seed: int, plan: ScenePlan, painted: PaintedScene) -> AlbumImage:
    shot = _camera_settings(seed, plan)
    claims = choose_claims(seed, plan.index)
    rng = random.Random(f"{seed}/words/{plan.index}")
    return AlbumImage(
        file_name=plan.stem + shot.suffix,
        data=encode_image(painted.image, shot),
        width=plan.width,
        height=plan.height,
        boxes=painted.boxes(),
        caption_zh=format_caption_zh(claims, rng),
        caption_en=format_caption_en(claims, rng),
        place=plan.place,
        light=plan.light,
        facts=plan.facts,
        claims=claims,
        taken_at=None if shot.without_exif else plan.taken_at.isoformat(),
        latitude=None if shot.without_exif else shot.latitude,
        longitude=None if shot.without_exif else shot.longitude,
        duplicate_of=None,
        defect=None,
    )


def _make_copy(original: AlbumImage, plan: ScenePlan, painted: PaintedScene) -> AlbumImage:
    edited, boxes, quality = make_near_duplicate(painted, plan.index)
    # Like most programs that save pictures again, this one keeps the hour and drops the position.
    shot = CameraSettings(
        plan.taken_at, plan.site.offset, None, None, ".jpg", original.taken_at is None, False, quality
    )
    return replace(
        original,
        file_name=f"shared/copy_{plan.index:04d}.jpg",
        data=encode_image(edited, shot),
        width=edited.width,
        height=edited.height,
        boxes=boxes,
        latitude=None,
        longitude=None,
        duplicate_of=original.file_name,
    )
