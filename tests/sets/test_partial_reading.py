"""A share of the images: how many are read, and how surely a fault would have been seen."""

import random
from math import comb
from pathlib import Path

import pytest

import querytruth as qt
from querytruth.errors import UserError
from querytruth.sets.partial_reading import PartialReading
from tests.small_sets import publish_small_set, small_tables


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), ("100%", 1), (" 12.5% ", 0.125)])
def test_shares_are_read_in_percent_or_as_a_number(text: str, share: float) -> None:
    assert PartialReading.parse(text).share == share


@pytest.mark.parametrize("text", ["", "five", "0", "0%", "101%", "1.5", "-5%", "5 %%", "nan"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is no share of the images"):
        PartialReading.parse(text)


def test_the_probability_is_the_share_of_draws_that_have_a_damaged_image() -> None:
    reading = PartialReading(0.05)
    assert len(reading.choose([str(n) for n in range(240)])) == reading.read == 12
    for faulty in (1, 3, 24, 228, 229, 240):
        assert reading.seen(faulty) == pytest.approx(1 - comb(240 - faulty, 12) / comb(240, 12), abs=1e-12)
    assert reading.seen(229) == 1


def test_draws_find_damage_as_often_as_is_stated() -> None:
    paths, damaged = [f"images/{n}.jpg" for n in range(60)], {"images/7.jpg", "images/30.jpg", "images/59.jpg"}
    dice, found = random.Random(0), 0
    for _ in range(2000):
        reading = PartialReading(0.2, seed=str(dice.random()))
        found += bool(reading.choose(paths) & damaged)
    assert found / 2000 == pytest.approx(reading.seen(3), abs=0.04)


def test_a_share_reads_that_many_images_and_sees_each_missing_one(tmp_path: Path) -> None:
    path = publish_small_set(tmp_path, small_tables()).path
    reading, read = qt.PartialReading(0.5), [0]
    assert qt.verify(path, reading=reading, progress=lambda size: read.__setitem__(0, read[0] + size)) == []
    assert (reading.read, reading.total) == (2, 4)
    assert str(reading) == ("2 of 4 images read; probability that a fault would have been seen: 1 damaged: 50.0%")
    whole = sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and file.name != "manifest.json")
    images = sorted(path.rglob("*.jpg"))
    assert whole - sum(image.stat().st_size for image in images) < read[0] < whole
    images[0].unlink()
    assert any("is missing" in problem for problem in qt.verify(path, reading=qt.PartialReading(0.01)))


def test_tables_are_read_whole_at_any_share(tmp_path: Path) -> None:
    path = publish_small_set(tmp_path, small_tables()).path
    data = bytearray((path / "qrels.parquet").read_bytes())
    data[60] ^= 1
    (path / "qrels.parquet").write_bytes(data)
    assert any(one.startswith("qrels.parquet") for one in qt.verify(path, reading=qt.PartialReading(0.01)))
