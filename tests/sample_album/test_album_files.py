"""The album's files: the same everywhere, readable, and broken only where they are meant to be."""

import hashlib
import os
import re
import subprocess
import sys
import warnings
from datetime import datetime
from io import BytesIO
from pathlib import Path

import pytest
from PIL import ExifTags, Image, ImageChops, ImageOps, ImageStat, UnidentifiedImageError

from sample_album import AlbumImage, draw_album
from sample_album.scene_painting import paint_scene
from sample_album.scene_plan import plan_scene

pytestmark = pytest.mark.thorough  # the whole album is drawn: ten seconds
ROOT = Path(__file__).parents[2]
DIGEST = """
import hashlib
from sample_album import draw_album
digest = hashlib.sha256()
for picture in draw_album(scenes=12, seed=3):
    digest.update(picture.data)
    digest.update(repr((picture.file_name, picture.boxes, picture.caption_zh, picture.taken_at)).encode())
print(digest.hexdigest())
"""


def test_same_seed_gives_the_same_bytes_under_another_hash_seed_and_time_zone() -> None:
    digests = set()
    for hash_seed, zone, language in (("0", "UTC", "C"), ("4711", "Asia/Tokyo", "tr_TR.UTF-8")):
        env = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "TZ": zone,
            "LC_ALL": language,
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1


def test_a_scene_does_not_depend_on_how_many_others_are_drawn(album: list[AlbumImage]) -> None:
    few = [image for image in draw_album(scenes=9) if image.defect is None]
    assert few == album[: len(few)]


def test_another_seed_gives_other_images(album: list[AlbumImage]) -> None:
    first = next(draw_album(scenes=1, seed=1))
    assert first.data != album[0].data


def test_the_album_has_scenes_near_duplicates_and_six_faulty_files(album: list[AlbumImage]) -> None:
    assert len(album) == 240 + 12 + 6
    assert sum(image.duplicate_of is not None for image in album) == 12
    assert len({image.file_name for image in album}) == len(album)
    assert len({hashlib.sha256(image.data).hexdigest() for image in album}) == len(album)


def test_good_files_decode_to_the_promised_size_once_turned_upright(good: list[AlbumImage]) -> None:
    turned = 0
    for image in good:
        with Image.open(BytesIO(image.data)) as opened:
            opened.load()
            size = opened.size
            if opened.getexif().get(ExifTags.Base.Orientation) == 6:
                size = (size[1], size[0])
                turned += 1
        assert size == (image.width, image.height), image.file_name
        assert max(size) <= 5000
    assert turned == 2


def test_images_stored_sideways_show_their_scene_once_turned(scenes: list[AlbumImage]) -> None:
    for index in (31, 152):
        with Image.open(BytesIO(scenes[index].data)) as image:
            stored = image.size
            upright = ImageOps.exif_transpose(image).convert("RGB")
        painted = paint_scene(0, plan_scene(0, index)).image
        assert stored == painted.size[::-1]
        assert ImageStat.Stat(ImageChops.difference(upright, painted)).mean[1] < 3  # JPEG's own loss


def test_exif_says_when_and_where(good: list[AlbumImage]) -> None:
    for image in good:
        with Image.open(BytesIO(image.data)) as opened:
            exif = opened.getexif()
        inner, gps = exif.get_ifd(ExifTags.IFD.Exif), exif.get_ifd(ExifTags.IFD.GPSInfo)
        if image.taken_at is None:
            assert ExifTags.Base.DateTimeOriginal not in inner
        else:
            taken = datetime.fromisoformat(image.taken_at)
            assert inner[ExifTags.Base.DateTimeOriginal] == f"{taken:%Y:%m:%d %H:%M:%S}"
            assert re.fullmatch(r"\+\d\d:00", inner[ExifTags.Base.OffsetTimeOriginal])
            assert 2023 <= taken.year <= 2025
        if image.latitude is None or image.longitude is None:
            assert not gps
        else:
            assert _degrees(gps[2]) == pytest.approx(image.latitude, abs=1e-6)
            assert _degrees(gps[4]) == pytest.approx(image.longitude, abs=1e-6)
            assert (gps[1], gps[3]) == ("N", "E")


def _degrees(parts: tuple[float, float, float]) -> float:
    return float(parts[0]) + float(parts[1]) / 60 + float(parts[2]) / 3600


def test_most_files_carry_hour_and_place_and_some_carry_nothing(scenes: list[AlbumImage]) -> None:
    assert 0.75 < sum(image.latitude is not None for image in scenes) / len(scenes) < 0.95
    assert 5 <= sum(image.taken_at is None for image in scenes) <= 15
    assert {Path(image.file_name).suffix for image in scenes} == {".jpg", ".png", ".webp"}


def test_some_scenes_were_taken_within_minutes_of_each_other(scenes: list[AlbumImage]) -> None:
    days = [image.taken_at[:10] + image.place for image in scenes if image.taken_at]
    assert max(days.count(day) for day in set(days)) >= 4


@pytest.mark.parametrize(
    ("number", "fault"), [(0, "truncated"), (1, "not_an_image"), (2, "empty"), (3, "not_an_image")]
)
def test_faulty_files_cannot_be_read(album: list[AlbumImage], number: int, fault: str) -> None:
    image = album[-6:][number]
    assert image.defect == fault
    with pytest.raises(OSError) as caught, Image.open(BytesIO(image.data)) as image:
        image.load()
    assert (caught.type is UnidentifiedImageError) == (fault != "truncated")


def test_the_bomb_is_refused_by_its_header_alone(album: list[AlbumImage]) -> None:
    bomb = album[-2]
    assert len(bomb.data) < 2000
    assert (bomb.width, bomb.height) == (60_000, 60_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Image.DecompressionBombError):
            Image.open(BytesIO(bomb.data))


def test_the_panorama_is_sound_but_too_wide(album: list[AlbumImage]) -> None:
    with Image.open(BytesIO(album[-1].data)) as image:
        image.load()
        assert image.size == (5200, 400)
    assert len(album[-1].data) < 100_000


def test_file_names_are_plain_and_tell_nothing_of_what_is_seen(album: list[AlbumImage]) -> None:
    words = {word.casefold() for image in album for box in image.boxes for word in re.findall(r"[A-Za-z]+", box.label)}
    for image in album:
        assert re.fullmatch(r"[a-z0-9_/]+\.(jpg|png|webp)", image.file_name)
        named = re.findall(r"[a-z]+", image.file_name)
        assert not {word.removesuffix("s") for word in named} & words
        assert not set(named) & words


def test_near_duplicates_look_like_their_scene(album: list[AlbumImage]) -> None:
    by_name = {image.file_name: image for image in album}
    for copy in (image for image in album if image.duplicate_of):
        scene = by_name[copy.duplicate_of or ""]
        assert copy.data != scene.data
        assert [box.label for box in copy.boxes] == [box.label for box in scene.boxes]
        assert (copy.facts, copy.claims) == (scene.facts, scene.claims)
        small = [Image.open(BytesIO(image.data)).convert("L").resize((16, 16)).tobytes() for image in (copy, scene)]
        if copy.width / copy.height == pytest.approx(scene.width / scene.height, rel=0.02):
            assert sum(abs(a - b) for a, b in zip(*small, strict=True)) / 256 < 16
