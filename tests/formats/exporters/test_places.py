"""Where images were taken stays in the house, unless an export or a publication is asked to keep it."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import querytruth as qt
from querytruth.formats import exporters
from querytruth.sets.set_files import StoredSet
from tests.small_sets import publish_small_set, small_tables

SECRET = 31.23043


@pytest.fixture
def private(tmp_path: Path) -> StoredSet:
    tables = small_tables(graded=False)
    latitude = [SECRET, *[float("nan")] * (len(tables.images) - 1)]
    images = tables.images.assign(latitude=latitude, longitude=[121.4737, *latitude[1:]])
    return publish_small_set(tmp_path, replace(tables, images=images))


def read_all(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("name", sorted(exporters.EXPORTERS.list_plugins()))
def test_no_export_says_where_an_image_was_taken_unasked(private: StoredSet, tmp_path: Path, name: str) -> None:
    said = qt.load(private.path).export(name, tmp_path / name, allow_loss=True)
    assert "the places where 1 of the images were taken (--with-places keeps them)" in said
    assert str(SECRET).encode() not in read_all(tmp_path / name)
    for file in (tmp_path / name).rglob("*.parquet"):
        table = pd.read_parquet(file)
        assert "latitude" not in table or table["latitude"].isna().all()


def test_places_are_kept_where_that_is_asked(private: StoredSet, tmp_path: Path) -> None:
    said = qt.load(private.path).export("csv", tmp_path / "out", allow_loss=True, with_places=True)
    assert not any("place" in line for line in said) and str(SECRET).encode() in read_all(tmp_path / "out")


def test_a_version_with_places_is_published_where_that_is_asked(private: StoredSet, tmp_path: Path) -> None:
    to = (tmp_path / "shared").as_uri()
    with pytest.raises(qt.UserError, match=r"contains the places where 1 of its images were taken\. .*--with-places"):
        qt.load(private.path).publish(to)
    assert qt.load(private.path).publish(to, with_places=True).is_new


def test_a_set_without_places_goes_out_without_a_word(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables(graded=False).without_places())
    assert not any("place" in line for line in qt.load(stored.path).export("csv", tmp_path / "out", allow_loss=True))
    assert qt.load(stored.path).publish((tmp_path / "shared").as_uri()).is_new
