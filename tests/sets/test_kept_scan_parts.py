"""Parts of a scan in a bucket: scanned where nothing else is shared, and believed only where they are whole."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.backends.files.bucket_urls import BucketFolder
from querytruth.backends.files.parquet_files import read_checked, write_checked
from querytruth.backends.images.image_sources import open_source
from querytruth.backends.images.scan_parts import (
    ScanPartJob,
    is_sound_part,
    plan_scan_parts,
    read_scan_parts,
    scan_part,
)
from querytruth.errors import UserError
from querytruth.records import SCANNED_IMAGES_SCHEMA, stable_hash
from querytruth.sets import kept_work as kept_objects
from querytruth.sets.kept_scan_parts import (
    KeptScanJob,
    count_kept_rows,
    fetch_scanned_parts,
    plan_kept_jobs,
    scan_kept_part,
    store_local_parts,
)
from querytruth.sets.kept_work import KeptObject, KeptObjects
from tests.images import make_jpeg
from tests.object_service import ObjectService


class KeptScan:
    """Three photos, the jobs of their scan on this machine, and the folder of the bucket that keeps it."""

    def __init__(self, place: Path, service: ObjectService) -> None:
        self.album, self.place, self.service = place / "album", place, service
        self.album.mkdir()
        for number in range(3):
            (self.album / f"{number}.jpg").write_bytes(make_jpeg((90 * number, 20, 20), (64, 48)))
        self.folder = BucketFolder.parse(f"s3://{service.bucket}/work")
        self.objects = KeptObjects(self.folder)

    def plan(self, machine: str = "here") -> list[ScanPartJob]:
        source = open_source(str(self.album))
        return plan_scan_parts(source, source.list_items().items, self.place / machine)

    def kept_jobs(self) -> list[KeptScanJob]:
        return plan_kept_jobs(self.plan(), self.folder, self.objects.list_kept())

    def scan(self, rescan: bool = False) -> list[KeptObject]:
        return [scan_kept_part(job, rescan=rescan) for job in self.kept_jobs()]

    def requests(self, method: str) -> int:
        """The number of requests of a method for objects since the last call."""
        count = sum(verb == method and key.endswith(".parquet") for verb, key in self.service.asked)
        self.service.asked.clear()
        return count


@pytest.fixture
def scan(tmp_path: Path, object_service: ObjectService) -> KeptScan:
    return KeptScan(tmp_path, object_service)


@pytest.mark.thorough
def test_what_workers_stored_is_what_a_scan_here_writes(scan: KeptScan) -> None:
    kept, jobs = scan.scan(), scan.plan("here")
    assert fetch_scanned_parts(scan.objects, jobs, kept) == []
    for job in (local := scan.plan("local")):
        scan_part(job)
    columns = ["item", "sha256", "width", "views"]
    assert read_scan_parts(jobs, columns).equals(read_scan_parts(local, columns))
    assert count_kept_rows(scan.plan("elsewhere"), scan.folder) == 3


@pytest.mark.thorough
def test_what_did_not_change_is_neither_read_nor_stored_again(scan: KeptScan) -> None:
    first, jobs = scan.scan(), scan.plan("here")
    fetch_scanned_parts(scan.objects, jobs, first)
    scan.requests("PUT")
    assert {one.name for one in scan.scan()} == {one.name for one in first}
    assert scan.requests("PUT") == 0
    assert fetch_scanned_parts(scan.objects, jobs, first) == []
    assert scan.requests("GET") == 0, "the files here have these bytes"
    (scan.album / "1.jpg").write_bytes(make_jpeg((1, 200, 20), (64, 48)))
    scan.scan()
    assert scan.requests("PUT") == 1


def change_rows(data: bytes, place: Path) -> bytes:
    """A sound part of the same items with other rows."""
    (place / "changed").write_bytes(data)
    rows = pq.read_table(place / "changed").to_pylist()
    other = [row | {"width": row["width"] + 1} for row in rows]
    write_checked(place / "changed", pa.Table.from_pylist(other, SCANNED_IMAGES_SCHEMA))
    assert is_sound_part(place / "changed")
    return (place / "changed").read_bytes()


def damage(data: bytes) -> bytes:
    return data[:200] + bytes([data[200] ^ 1]) + data[201:]


@pytest.mark.thorough
@pytest.mark.parametrize("harm", ["damaged", "cut", "empty", "gone", "another"])
def test_a_damaged_part_is_seen_and_scanned_again(scan: KeptScan, harm: str) -> None:
    kept, jobs = scan.scan(), scan.plan("here")
    key = f"work/{kept[0].name}"
    whole = scan.service.ask("GET", key)
    if harm == "gone":
        scan.service.ask("DELETE", key)
    else:
        harmed = {"damaged": damage(whole), "cut": whole[:-9], "empty": b"", "another": change_rows(whole, scan.place)}
        scan.service.ask("PUT", key, harmed[harm])
    assert [job.number for job in fetch_scanned_parts(scan.objects, jobs, kept)] == [jobs[0].number]
    assert not jobs[0].path.exists()
    again = scan.scan()
    assert fetch_scanned_parts(scan.objects, jobs, again) == []
    assert scan.service.ask("GET", key) == whole, "the same bytes have the same name"


def part_of(item: str) -> int:
    """The number of the item's part of sixteen."""
    return stable_hash(item) >> 60


@pytest.mark.thorough
def test_a_part_of_another_build_is_no_part_of_this_one(scan: KeptScan) -> None:
    mine = scan.scan()
    shared = next(name for name in map(str, range(1000)) if part_of(name) == part_of("0.jpg"))
    (scan.album / shared).write_bytes(make_jpeg((7, 7, 200), (64, 48)))
    theirs = {one.label: one for one in scan.scan()}
    (scan.album / shared).unlink()
    jobs = scan.plan("here")
    wrong = fetch_scanned_parts(scan.objects, jobs, [theirs[one.label] for one in mine])
    assert [job.number for job in wrong] == [part_of("0.jpg")]
    assert fetch_scanned_parts(scan.objects, jobs, mine) == []


@pytest.mark.thorough
def test_parts_of_another_number_of_parts_are_used(scan: KeptScan) -> None:
    source = open_source(str(scan.album))
    (whole,) = (ScanPartJob(source, pa.array(["0.jpg", "1.jpg", "2.jpg"]), scan.place / "one", 0, 1),)
    scan_part(whole)
    marked = pq.read_table(whole.path).to_pylist()
    write_checked(whole.path, pa.Table.from_pylist([row | {"detail": "kept"} for row in marked], SCANNED_IMAGES_SCHEMA))
    scan.objects.store(whole.path, "parquet", whole.path.stem)
    kept_jobs = scan.kept_jobs()
    assert {one.label for kept_job in kept_jobs for one in kept_job.earlier} == {"00000-of-00001"}
    kept = [scan_kept_part(kept_job) for kept_job in kept_jobs]
    assert fetch_scanned_parts(scan.objects, jobs := scan.plan(), kept) == []
    assert read_scan_parts(jobs, ["detail"])["detail"].to_pylist() == ["kept"] * 3, "no image was read again"


@pytest.mark.thorough
def test_a_worker_that_does_not_see_the_images_says_so(scan: KeptScan) -> None:
    kept_job, *_ = scan.kept_jobs()
    scan.album.rename(scan.place / "moved")
    with pytest.raises(UserError, match=r"album.*is not on this machine, which does part of the build"):
        scan_kept_part(kept_job)


@pytest.mark.thorough
def test_parts_that_lie_here_are_given_to_an_empty_bucket(scan: KeptScan) -> None:
    for job in (jobs := scan.plan("here")):
        scan_part(job)
    given = store_local_parts(scan.objects, jobs, [])
    assert {one.label for one in given} == {job.path.stem for job in jobs}
    scan.requests("PUT")
    assert fetch_scanned_parts(scan.objects, scan.plan("there"), scan.scan()) == [] and scan.requests("PUT") == 0
    assert store_local_parts(scan.objects, jobs, scan.objects.list_kept()) == []


HOSTILE = {
    "a digest that leads out of the folder": {"sha256": "../../../etc/cron.d/x"},
    "a reason with a line of its own": {"reason": "a\nb"},
    "a thumbnail that is shorter than it states": {"thumbnail": b"\x00\xff\xff1"},
    "views that are cut": {"views": b"123"},
    "details of another size": {"details": bytes(100)},
    "no width": {"width": 0},
    "an image without a digest": {"sha256": None},
}


@pytest.mark.parametrize("harm", HOSTILE)
def test_a_part_with_hostile_values_is_not_used(harm: str, tmp_path: Path) -> None:
    (tmp_path / "album").mkdir()
    (tmp_path / "album" / "0.jpg").write_bytes(make_jpeg((20, 20, 90), (200, 160)))
    source = open_source(str(tmp_path / "album"))
    (job,) = plan_scan_parts(source, source.list_items().items, tmp_path / "scan")
    scan_part(job)
    assert is_sound_part(job.path)
    table = read_checked(job.path)
    assert table is not None
    (row,) = table.to_pylist()
    write_checked(job.path, pa.Table.from_pylist([row | HOSTILE[harm]], table.schema))
    assert not is_sound_part(job.path)


def test_a_file_of_another_form_is_no_part(tmp_path: Path) -> None:
    for name, data in (("empty", b""), ("text", b"PAR1 and more"), ("pickle", b"\x80\x04N.")):
        (tmp_path / name).write_bytes(data)
        assert not is_sound_part(tmp_path / name)
    pq.write_table(pa.table({"item": ["a"]}), tmp_path / "table")
    assert not is_sound_part(tmp_path / "table")


@pytest.mark.thorough
def test_only_old_parts_that_are_superseded_are_removed(scan: KeptScan, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scan.scan()
    scan.objects.remove_superseded(scan.objects.list_kept())
    assert {one.name for one in scan.objects.list_kept()} == {one.name for one in before}, "another build may use them"
    scan.objects.remove_superseded([replace_time(one, -48) for one in before[:1]])
    assert {one.name for one in scan.objects.list_kept()} == {one.name for one in before[1:]}
    monkeypatch.setattr(kept_objects, "_ABANDONED", -9)
    scan.objects.remove_superseded(scan.objects.list_kept())
    assert scan.objects.list_kept() == []


def replace_time(kept: KeptObject, hours: float) -> KeptObject:
    return kept._replace(stored_at=kept.stored_at + 3600 * hours)


def test_a_job_for_a_worker_has_no_folder_of_this_machine(tmp_path: Path) -> None:
    source = replace(open_source(str(tmp_path)), skip=None)
    jobs = [ScanPartJob(source, pa.array(["a"]), tmp_path / "deep", 0, 16)]
    (kept_job,) = plan_kept_jobs(jobs, BucketFolder.parse("s3://bucket/work"), [])
    assert kept_job.job.folder == Path() and kept_job.earlier == ()
