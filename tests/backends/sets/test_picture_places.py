"""Where a set's pictures lie, and which bytes they must be."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from backends.sets.picture_places import picture_places
from builders.errors import UserError
from tests.small_sets import image_of, publish, small_tables


def test_pictures_in_the_set_have_the_sha256_of_what_lies_there(tmp_path: Path) -> None:
    stored = publish(tmp_path, small_tables())
    for place in picture_places(stored):
        assert place.location is not None and place.reason == ""
        assert hashlib.sha256(Path(place.location).read_bytes()).hexdigest() == place.sha256
    assert [place.image_id for place in picture_places(stored)] == stored.tables.images["image_id"].tolist()


def test_pictures_elsewhere_have_the_sha256_of_their_source(tmp_path: Path) -> None:
    stored = publish(tmp_path, small_tables())
    images = stored.tables.images.copy()
    images["path"] = ["/photos/a.jpg", "s3://bucket/a.jpg", "https://example.org/a.jpg", "../../etc/passwd"]
    moved = replace(stored, tables=replace(stored.tables, images=images))
    told = [(place.location, place.sha256, place.reason) for place in picture_places(moved)]
    digests = images["sha256"].tolist()
    assert told == [
        ("/photos/a.jpg", digests[0], ""),
        ("s3://bucket/a.jpg", digests[1], ""),
        (None, None, "on_the_web"),
        (None, None, "outside_the_set"),
    ]


def test_a_set_without_pictures_says_so_and_damage_is_one_line(tmp_path: Path) -> None:
    bare = publish(tmp_path / "bare", small_tables(), pictures=False)
    assert {(place.location, place.reason) for place in picture_places(bare)} == {(None, "no_picture")}
    stored = publish(tmp_path / "whole", small_tables())
    (stored.path / "images" / "checksums.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="run verify on the set"):
        picture_places(stored)
    assert image_of("dog") in {place.image_id for place in picture_places(bare)}
