"""What was read from images is kept: only what changed is read again, and nothing that is damaged is believed."""

import os
import pickle
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from querytruth.backends.images import image_reading as images
from querytruth.backends.images import scan_parts
from querytruth.backends.images.image_sources import FileState, open_source, read_file_state
from querytruth.backends.images.scan_parts import (
    count_reusable_rows,
    plan_scan_parts,
    read_scan_parts,
    remove_stale_parts,
    scan_part,
    scan_store_folder,
)
from querytruth.backends.images.worker_starts import WorkerFailure
from querytruth.errors import UserError
from querytruth.records import SCANNED_IMAGES_SCHEMA


class Album:
    """Files of a few bytes, and a reader that keeps count of what it is asked to read."""

    def __init__(self, root: Path, store: Path, count: int) -> None:
        self.root, self.store = root, store
        self.was_read: list[str] = []
        self.lost: dict[str, WorkerFailure | str] = {}
        for number in range(count):
            self.write(f"{number:04}.jpg", f"image {number}")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, locations: Iterable[str]) -> Iterator[Any]:
        for location in locations:
            name = Path(location).name
            self.was_read.append(name)
            trouble = self.lost.get(name)
            if isinstance(trouble, WorkerFailure):
                yield trouble
                continue
            facts = read_file_state(location)
            assert isinstance(facts, FileState)
            empty = dict.fromkeys(SCANNED_IMAGES_SCHEMA.names)
            text = Path(location).read_text()
            yield SimpleNamespace(**empty | facts._asdict() | {"sha256": text, "reason": trouble or ""})

    def jobs(self) -> list[Any]:
        source = open_source(str(self.root))
        return plan_scan_parts(source, source.list_items().items, self.store)

    def scan_parts(self) -> list[Any]:
        jobs = self.jobs()
        for job in jobs:
            scan_part(job, read=self.read)
        return jobs

    def scan(self, **options: Any) -> dict[str, Any]:
        """One build: the items and what their rows say."""
        self.was_read.clear()
        jobs = self.jobs()
        assert [scan_part(job, read=self.read, **options) for job in jobs] == [job.path for job in jobs]
        remove_stale_parts(jobs)
        rows = read_scan_parts(jobs, ["item", "sha256", "reason"])
        return {row["item"]: row["reason"] or row["sha256"] for row in rows.to_pylist()}


@pytest.fixture
def album(tmp_path: Path) -> Album:
    return Album(tmp_path / "album", tmp_path / "store", 40)


def expected(count: int) -> dict[str, str]:
    return {f"{number:04}.jpg": f"image {number}" for number in range(count)}


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_the_second_build_reads_and_writes_nothing(album: Album) -> None:
    first = album.scan()
    assert list(first.items()) == list(expected(40).items())
    assert len(album.was_read) == 40
    written = times(album.store)
    assert album.scan() == first
    assert album.was_read == []
    assert times(album.store) == written


def test_a_changed_a_new_and_a_removed_file_cost_themselves_alone(album: Album) -> None:
    album.scan()
    album.write("0007.jpg", "another")
    album.write("new.jpg", "new")
    (album.root / "0009.jpg").unlink()
    rows = album.scan()
    assert sorted(album.was_read) == ["0007.jpg", "new.jpg"]
    expect = expected(40) | {"0007.jpg": "another", "new.jpg": "new"}
    del expect["0009.jpg"]
    assert rows == expect
    assert album.scan() == rows
    assert album.was_read == []


def test_same_size_and_time_but_another_beginning_is_another_file(album: Album) -> None:
    album.scan()
    path = album.root / "0003.jpg"
    stamp = path.stat().st_mtime_ns
    path.write_text("IMAGE 3")
    os.utime(path, ns=(stamp, stamp))
    assert album.scan()["0003.jpg"] == "IMAGE 3"
    assert album.was_read == ["0003.jpg"]


def test_a_rescan_reads_everything(album: Album) -> None:
    album.scan()
    assert album.scan(rescan=True) == expected(40)
    assert len(album.was_read) == 40


def test_a_killed_scan_goes_on_with_the_parts_that_are_missing(album: Album) -> None:
    jobs = album.jobs()
    done = [item for job in jobs[:5] for item in job.items.to_pylist()]
    for job in jobs[:5]:
        scan_part(job, read=album.read)
    assert album.scan() == expected(40)
    assert sorted(album.was_read) == sorted(expected(40).keys() - set(done))


def test_what_may_be_otherwise_next_time_is_tried_again_and_what_is_settled_is_not(album: Album) -> None:
    album.lost = {
        "0001.jpg": WorkerFailure("worker_crashed", "SIGSEGV"),
        "0002.jpg": WorkerFailure("took_too_long", "more than 60 s"),
        "0003.jpg": WorkerFailure("out_of_memory", "more than 1024 MiB"),
        "0004.jpg": "unreadable",
        "0005.jpg": "not_an_image",
    }
    rows = album.scan()
    reasons = {name: one if isinstance(one, str) else one.reason for name, one in album.lost.items()}
    assert {name: rows[name] for name in album.lost} == reasons
    written = times(album.store)
    album.scan()
    assert sorted(album.was_read) == ["0001.jpg", "0002.jpg", "0003.jpg", "0004.jpg"]
    assert times(album.store) == written, "the same rows are not written again"
    album.lost = {}
    assert album.scan() == expected(40) | {"0005.jpg": "not_an_image"}


def test_a_file_that_goes_missing_or_leads_away_is_told_and_comes_back(album: Album) -> None:
    jobs = album.jobs()
    (album.root / "0001.jpg").unlink()
    (album.root / "0002.jpg").unlink()
    (album.root / "0002.jpg").symlink_to("/etc/passwd")
    for job in jobs:
        scan_part(job, read=album.read)
    table = read_scan_parts(jobs, ["item", "reason", "detail"])
    assert [row for row in table.to_pylist() if row["reason"]] == [
        {"item": "0001.jpg", "reason": "missing", "detail": "No such file or directory"},
        {"item": "0002.jpg", "reason": "link_out_of_folder", "detail": None},
    ]
    (album.root / "0002.jpg").unlink()
    album.write("0001.jpg", "image 1")
    album.write("0002.jpg", "image 2")
    assert album.scan() == expected(40)
    assert sorted(album.was_read) == ["0001.jpg", "0002.jpg"]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "rubbish"])
def test_a_damaged_part_is_scanned_again_and_only_that_part(album: Album, damage: str) -> None:
    album.scan()
    job = album.jobs()[3]
    data = bytearray(job.path.read_bytes())
    flipped = data[:]
    flipped[len(data) // 2] ^= 1
    job.path.write_bytes({"cut": data[: len(data) // 2], "flip": flipped, "empty": b"", "rubbish": b"PAR1PAR1"}[damage])
    assert album.scan() == expected(40)
    assert sorted(album.was_read) == job.items.to_pylist()


def test_a_part_that_is_damaged_or_gone_is_never_left_out_of_the_table(album: Album) -> None:
    album.scan()
    jobs = album.jobs()
    path = jobs[2].path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="is missing, damaged or from another build"):
        read_scan_parts(jobs, ["item"])
    path.unlink()
    with pytest.raises(UserError, match="run again: results so far are kept"):
        read_scan_parts(jobs, ["item"])


def test_a_build_whose_part_another_one_replaced_is_told(album: Album) -> None:
    jobs = album.scan_parts()
    album.write("new.jpg", "new")
    assert len(album.scan()) == 41
    with pytest.raises(UserError, match="from another build"):
        read_scan_parts(jobs, ["item"])
    assert len(album.scan()) == 41
    assert album.was_read == []


def test_a_scan_killed_while_the_layout_changed_loses_nothing(album: Album, monkeypatch: pytest.MonkeyPatch) -> None:
    album.scan()
    monkeypatch.setattr(scan_parts, "_MOST", 2)
    album.was_read.clear()
    for job in album.jobs()[::2]:
        scan_part(job, read=album.read)
    assert album.scan() == expected(40)
    assert album.was_read == []


def test_files_half_written_by_a_dead_build_are_cleared_away_in_time(album: Album) -> None:
    album.scan()
    fresh, old = album.store / ".00001-of-00016.parquet.77", album.store / ".00002-of-00016.parquet.78"
    fresh.touch()
    old.touch()
    os.utime(old, (1, 1))
    album.scan()
    assert fresh.exists()
    assert not old.exists()


def test_parts_have_a_thousand_items_or_two_and_hold_every_item_once(tmp_path: Path) -> None:
    source = open_source(str(tmp_path))
    for count, parts in ((3, 16), (31_000, 16), (33_000, 32), (70_000, 64)):
        items = pa.array([f"folder/{number}.jpg" for number in range(count)])
        jobs = plan_scan_parts(source, items, tmp_path)
        assert {job.parts for job in jobs} == {parts}
        assert sorted(item for job in jobs for item in job.items.to_pylist()) == sorted(items.to_pylist())
        if count > 100:
            assert all(0.8 < len(job.items) / (count / parts) < 1.2 for job in jobs)


def test_where_an_item_belongs_does_not_depend_on_the_others(tmp_path: Path) -> None:
    source = open_source(str(tmp_path))
    jobs = plan_scan_parts(source, pa.array(["a.jpg", "图.jpg", "c/d.jpg"]), tmp_path)
    assert {item: job.path.name for job in jobs for item in job.items.to_pylist()} == {
        "a.jpg": "00015-of-00016.parquet",
        "图.jpg": "00007-of-00016.parquet",
        "c/d.jpg": "00002-of-00016.parquet",
    }


def test_a_job_travels_and_is_small(tmp_path: Path) -> None:
    source = open_source(str(tmp_path))
    jobs = plan_scan_parts(source, pa.array([f"{n}.jpg" for n in range(100_000)]), tmp_path)
    data = pickle.dumps((scan_part, jobs[0]))
    assert len(data) < 40_000
    assert pickle.loads(data)[1].items == jobs[0].items


def test_rows_are_as_declared_and_come_in_the_items_order(album: Album) -> None:
    jobs = album.scan_parts()
    whole = read_scan_parts(jobs, SCANNED_IMAGES_SCHEMA.names)
    assert whole.schema == SCANNED_IMAGES_SCHEMA
    assert whole["item"].to_pylist() == sorted(expected(40))
    chosen = read_scan_parts(jobs[::-1], ["sha256", "size"])
    assert chosen == whole.select(["sha256", "size"])
    assert read_scan_parts([], ["item"]).num_rows == 0
    ids = [digest and f"img_{digest[:20]}" for digest in whole["sha256"].to_pylist()]
    for rows in ([3, 0, 17], [], list(range(40))[::-1], [n % 2 == 0 for n in range(len(whole))]):
        some = read_scan_parts(jobs, ["image_id", "item"], np.array(rows, dtype=bool if True in rows else np.int64))
        wanted = [n for n, is_in in enumerate(rows) if is_in] if True in rows else rows
        assert some["item"].to_pylist() == [whole["item"][n].as_py() for n in wanted]
        assert some["image_id"].to_pylist() == [ids[n] for n in wanted]


def test_how_many_are_known_is_told_without_a_look_at_the_files(album: Album, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_reusable_rows(album.jobs()) == 0
    album.lost = {"0001.jpg": WorkerFailure("took_too_long", "more than 60 s"), "0002.jpg": "not_an_image"}
    album.scan()
    album.write("new.jpg", "new")
    assert count_reusable_rows(album.jobs()) == 39
    monkeypatch.setattr(scan_parts, "_MOST", 2)
    assert count_reusable_rows(album.jobs()) == 39


def test_progress_counts_every_item_once(album: Album) -> None:
    for _ in range(2):
        counts: list[int] = []
        for job in album.jobs():
            scan_part(job, counts.append, read=album.read)
        assert sum(counts) == 40


def test_other_limits_are_another_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = scan_store_folder(tmp_path)
    assert one == scan_store_folder(tmp_path)
    assert one.parent == tmp_path / ".scan"
    monkeypatch.setattr(images, "MAX_PIXELS", 1)
    other = scan_store_folder(tmp_path)
    monkeypatch.setattr(scan_parts, "SCAN_VERSION", 99)
    assert len({one, other, scan_store_folder(tmp_path)}) == 3


def test_a_store_that_cannot_be_written_is_one_line(album: Album, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, table: pa.Table) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scan_parts, "write_checked", full)
    with pytest.raises(UserError, match=r"cannot be written \(No space left on device\)"):
        album.scan()


def test_an_old_part_that_cannot_be_removed_is_one_line(album: Album, monkeypatch: pytest.MonkeyPatch) -> None:
    album.scan()
    (album.store / "half.tmp").touch()
    os.utime(album.store / "half.tmp", (0, 0))

    def refuse(*_: object, **_options: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(UserError, match=r"scan images.*cannot be written.*run again: results so far are kept"):
        album.scan()


def test_images_in_an_archive_are_read_once_and_again_where_they_changed(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    was_read: list[str] = []

    def read(locations: Iterable[str]) -> Iterator[Any]:
        for location in locations:
            was_read.append(location.partition("::")[0])
            yield SimpleNamespace(
                **dict.fromkeys(SCANNED_IMAGES_SCHEMA.names) | {"size": 1, "modified": 0, "head": "as read"}
            )

    def scan(name: str) -> Any:
        was_read.clear()
        source = open_source(f"zip://in::file://{tmp_path / name}")
        jobs = plan_scan_parts(source, source.list_items().items, tmp_path / "store")
        for job in jobs:
            scan_part(job, read=read)
        return read_scan_parts(jobs, ["size"])["size"].to_pylist()

    for name, text in (("one.zip", "b"), ("other.zip", "changed")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(zipfile.ZipInfo("in/a.jpg"), "a")
            archive.writestr(zipfile.ZipInfo("in/b.jpg"), text)
    assert scan("one.zip") == [1, 1]
    assert sorted(was_read) == ["zip://in/a.jpg", "zip://in/b.jpg"]
    scan("one.zip")
    assert was_read == []
    assert scan("other.zip") == [1, 7]
    assert was_read == ["zip://in/b.jpg"]
