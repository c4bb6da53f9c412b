"""Where a set's images lie, and which bytes they must be."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from querytruth.errors import UserError
from querytruth.sets.set_files import locate_images
from tests.small_sets import image_id_of, publish_small_set, small_tables


def test_images_in_the_set_have_the_sha256_of_what_lies_there(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    for place in locate_images(stored):
        assert place.location is not None and place.reason == ""
        assert hashlib.sha256(Path(place.location).read_bytes()).hexdigest() == place.sha256
    assert [place.image_id for place in locate_images(stored)] == stored.tables.images["image_id"].tolist()


def test_images_elsewhere_have_the_sha256_of_their_source(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    images = stored.tables.images.copy()
    images["path"] = ["/photos/a.jpg", "s3://bucket/a.jpg", "https://example.org/a.jpg", "../../etc/passwd"]
    moved = replace(stored, tables=replace(stored.tables, images=images))
    told = [(place.location, place.sha256, place.reason) for place in locate_images(moved)]
    digests = images["sha256"].tolist()
    assert told == [
        ("/photos/a.jpg", digests[0], ""),
        ("s3://bucket/a.jpg", digests[1], ""),
        (None, None, "on_the_web"),
        (None, None, "outside_the_set"),
    ]


def test_a_set_without_images_says_so_and_damage_is_one_line(tmp_path: Path) -> None:
    bare = publish_small_set(tmp_path / "bare", small_tables(), images=False)
    assert {(place.location, place.reason) for place in locate_images(bare)} == {(None, "no_image")}
    stored = publish_small_set(tmp_path / "whole", small_tables())
    (stored.path / "images" / "checksums.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="run verify on the set"):
        locate_images(stored)
    assert image_id_of("dog") in {place.image_id for place in locate_images(bare)}
