"""Images and captions of WebDataset shards, also hostile ones, and the memory that they take."""

import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from querytruth.audit.overlap_sources import ReadCounts, copy_members, iterate_captions, iterate_image_files
from querytruth.backends.files.tar_files import MAX_TEXT_BYTES, Shard
from querytruth.errors import UserError
from tests.hostile_containers import hostile_tars
from tests.images import make_jpeg
from tests.publisher_files import make_tar


def _shard(folder: Path, data: bytes) -> Shard:
    (folder / "0.tar").write_bytes(data)
    return Shard("0.tar", folder / "0.tar")


def _images(shards: list[Shard], counts: ReadCounts) -> Iterator[tuple[str, bytes]]:
    for batch in iterate_image_files(shards, "find overlap", counts):
        yield from ((item, Path(place).read_bytes()) for item, place in batch)


def test_a_shard_that_webdataset_wrote_gives_its_images_and_captions(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(tmp_path / "0.tar")) as sink:
        sink.write(
            {"__key__": "a/1", "jpg": make_jpeg((9, 9, 9)), "txt": "a dog", "json": {"caption": "a dog", "n": 1}}
        )
        sink.write({"__key__": "2", "left.png": b"x", "json": {"caption": "a cat", "text": ["a\nbird", ""]}})
        sink.write({"__key__": "3", "npy": b"x", "json": [1]})
    shard, counts = Shard("0.tar", tmp_path / "0.tar"), ReadCounts()
    assert [item for item, _ in _images([shard], counts)] == ["0.tar/a/1.jpg", "0.tar/2.left.png"]
    texts = list(iterate_captions([shard], "find overlap", counts))
    assert texts == [("0.tar/a/1", "a dog"), ("0.tar/2", "a cat"), ("0.tar/2", "a"), ("0.tar/2", "bird")]
    assert not counts.skipped and counts.read == 4
    copies = copy_members([shard], ["0.tar/2.left.png", "0.tar/none.png", "1.tar/2.left.png"], tmp_path, "find overlap")
    assert {item: Path(place).read_bytes() for item, place in copies.items()} == {"0.tar/2.left.png": b"x"}


def test_links_devices_and_what_is_too_large_are_counted_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for name, kind in (
            ("link.jpg", tarfile.SYMTYPE),
            ("hard.jpg", tarfile.LNKTYPE),
            ("device.txt", tarfile.CHRTYPE),
            ("pipe.json", tarfile.FIFOTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "secret"
            tar.addfile(member)
    long = make_tar({"a.txt": b"x" * (MAX_TEXT_BYTES + 1), "b.txt": b"\xff", "c.json": b"[" * 100_000})
    (tmp_path / "1.tar").write_bytes(long)
    counts, shards = ReadCounts(), [Shard(name, tmp_path / name) for name in ("0.tar", "1.tar")]
    assert not list(_images(shards, counts))
    assert not list(iterate_captions(shards, "find overlap", counts))
    assert counts.skipped == {"not_a_regular_file": 4, "too_large": 1, "no_utf_8_or_json": 2}


@pytest.mark.parametrize(("name", "data"), hostile_tars().items())
def test_a_hostile_shard_is_read_or_refused_and_nothing_is_written_beside_it(
    name: str, data: bytes, tmp_path: Path
) -> None:
    shard, counts = _shard(tmp_path, data), ReadCounts()
    for read in (_images, lambda shards, counts: iterate_captions(shards, "find overlap", counts)):
        try:
            assert all(item.startswith("0.tar/") for item, _ in read([shard], counts))
        except UserError as error:
            assert "0.tar" in str(error), name
    assert [file.name for file in tmp_path.iterdir()] == ["0.tar"]
    assert not Path("/tmp/owned.jpg").exists()


def test_a_tar_after_a_tar_is_refused_because_its_members_would_not_be_read(tmp_path: Path) -> None:
    first, second = (make_tar({f"{name}.txt": b"a dog"}) for name in "ab")
    shard, counts = _shard(tmp_path, first + second), ReadCounts()
    with pytest.raises(UserError, match=r"more after its end, which is after a\.txt"):
        list(iterate_captions([shard], "find overlap", counts))


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_shard(tmp_path: Path) -> None:
    data = make_tar({f"{number}.{suffix}": bytes(200_000) for number in range(600) for suffix in ("jpg", "npy", "txt")})
    shard = _shard(tmp_path, data)
    del data
    tracemalloc.start()
    assert sum(1 for _ in _images([shard], ReadCounts())) == 600
    assert sum(1 for _ in iterate_captions([shard], "find overlap", ReadCounts())) == 600
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000, "a few members at a time, of 360 MB"
