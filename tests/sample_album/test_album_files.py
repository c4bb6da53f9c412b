"""The album's files: the same everywhere, readable, and broken only where they are meant to be."""

import hashlib
import re
import shutil
import warnings
from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from pathlib import Path

import pytest
from PIL import ExifTags, Image, UnidentifiedImageError

from querytruth.errors import UserError
from querytruth.sample_album import album as album_data
from querytruth.sample_album.album import AlbumImage, read_album, read_table, read_words
from tests.sample_album.conftest import AnnotatedImage

NOT_LISTED = {"README.md", "sha256.txt"}


def test_every_file_of_the_data_is_listed_with_its_digest() -> None:
    folder = album_data.DATA_FOLDER
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    found = [
        f"{hashlib.sha256(files[name].read_bytes()).hexdigest()}  {name}" for name in sorted(set(files) - NOT_LISTED)
    ]
    assert (folder / "sha256.txt").read_text("utf-8").splitlines() == found
    assert sum(path.stat().st_size for path in files.values()) < 6_500_000


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("pictures/2023/autumn/park_0001.jpg", lambda path: path.write_bytes(path.read_bytes()[:-1]), "differs from"),
        ("pictures/2024/summer/beach_9003.jpg", lambda path: path.write_bytes(b"no longer empty"), "differs from"),
        ("scenes.jsonl", lambda path: path.write_bytes(path.read_bytes().replace(b"Dog", b"Cat")), "differs from"),
        ("pictures/2023/autumn/park_0001.jpg", lambda path: path.unlink(), "cannot be read .No such file"),
    ],
)
def test_data_other_than_those_shipped_are_refused(
    name: str, change: Callable[[Path], object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(album_data.DATA_FOLDER, tmp_path / "data")
    monkeypatch.setattr(album_data, "DATA_FOLDER", tmp_path / "data")
    assert len(read_album(2)) == 2 + 6
    change(tmp_path / "data" / name)
    with pytest.raises(UserError, match=f"{re.escape(name)}.*{reason}.*install querytruth again"):
        read_album(2)


def test_some_scenes_are_the_first_of_all(album: list[AlbumImage]) -> None:
    few = read_album(9)
    assert [image.file_name for image in few if image.duplicate_of] == ["shared/copy_0007.jpg"]
    assert few == album[:10] + album[-6:]
    for name in ("captions", "descriptions", "fitting"):
        names = {image.file_name for image in few}
        rows = read_table(name, few)
        assert rows == [
            row for row in read_table(name, album) if {row["file_name"], row.get("fits", row["file_name"])} <= names
        ]
        assert rows


def test_the_album_has_scenes_near_duplicates_and_six_faulty_files(album: list[AlbumImage]) -> None:
    assert len(album) == 240 + 12 + 6
    assert sum(image.duplicate_of is not None for image in album) == 12
    assert len({image.file_name for image in album}) == len(album)
    assert len({hashlib.sha256(image.data).hexdigest() for image in album}) == len(album)


def test_good_files_decode_to_the_promised_size_once_turned_upright(
    good: list[AlbumImage], annotated: dict[str, AnnotatedImage]
) -> None:
    turned = 0
    for image in good:
        with Image.open(BytesIO(image.data)) as opened:
            opened.load()
            size = opened.size
            if opened.getexif().get(ExifTags.Base.Orientation) == 6:
                size = (size[1], size[0])
                turned += 1
        assert size == (annotated[image.file_name].width, annotated[image.file_name].height), image.file_name
        assert max(size) <= 5000
    assert turned == 2


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


def test_the_bomb_is_refused_by_its_header_alone(album: list[AlbumImage], annotated: dict[str, AnnotatedImage]) -> None:
    bomb = album[-2]
    assert len(bomb.data) < 2000
    claimed = annotated[bomb.file_name]
    assert (claimed.width, claimed.height) == (60_000, 60_000)
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
    words = {word.casefold() for label in read_words()["labels"] for word in re.findall(r"[A-Za-z]+", label)}
    for image in album:
        assert re.fullmatch(r"[a-z0-9_/]+\.(jpg|png|webp)", image.file_name)
        named = re.findall(r"[a-z]+", image.file_name)
        assert not {word.removesuffix("s") for word in named} & words
        assert not set(named) & words


def test_near_duplicates_look_like_their_scene(album: list[AlbumImage], annotated: dict[str, AnnotatedImage]) -> None:
    by_name = {image.file_name: image for image in album}
    for copy in (image for image in album if image.duplicate_of):
        scene = by_name[copy.duplicate_of or ""]
        assert copy.data != scene.data
        one, other = annotated[copy.file_name], annotated[scene.file_name]
        assert one.labels == other.labels
        assert (copy.facts, copy.claims) == (scene.facts, scene.claims)
        small = [Image.open(BytesIO(image.data)).convert("L").resize((16, 16)).tobytes() for image in (copy, scene)]
        assert one.width / one.height == pytest.approx(other.width / other.height, rel=0.02)
        assert sum(abs(a - b) for a, b in zip(*small, strict=True)) / 256 < 16
