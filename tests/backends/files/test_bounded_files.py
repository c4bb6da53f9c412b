"""Small files that would fill the memory, take minutes, or never end; each is refused at once, in one line."""

import io
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from builders.generated.topic_rounds import read_topic_samples
from builders.recall.caption_words import parse_phrases
from flows.definition_loader import load_definition
from querytruth.backends.files import parquet_files as bounded_parquet
from querytruth.backends.files.parquet_files import encode_readable, read_parquet
from querytruth.backends.files.text_formats import load_yaml
from querytruth.backends.models.chat.captions_file import CaptionsFileOptions
from querytruth.backends.models.chat.captions_file import load as load_captions
from querytruth.errors import UserError
from querytruth.evaluation.run_files import read_run
from querytruth.formats.importers import webdataset
from querytruth.formats.set_images import ImageStore
from querytruth.sets import decision_log, set_files
from querytruth.sets.decision_records import QueryDecision
from tests.images import make_jpeg
from tests.small_sets import publish_small_set, small_tables

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("text", [LAUGHS, "a: &a [*a]", "[" * 400 + "]" * 400, "[" * 200_000, "x" * (2 << 20)])
@pytest.mark.thorough
def test_a_definition_of_aliases_or_brackets_is_refused_at_once(tmp_path: Path, text: str) -> None:
    start = time.monotonic()
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)
    (tmp_path / "set.yaml").write_text(text)
    with pytest.raises(UserError) as error:
        load_definition(tmp_path / "set.yaml", [], "gallery")
    assert "\n" not in str(error.value) and time.monotonic() - start < 20


def test_a_definition_with_a_few_aliases_is_read() -> None:
    assert load_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a\n") == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1},
    }
    assert load_yaml("") is None


@pytest.mark.parametrize("text", ["3.jpg", "an image on a table " * 20])
def test_a_table_of_ours_is_readable_however_often_it_repeats_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(bounded_parquet, "_SMALL_TABLE", 1 << 20)
    table = pa.table({"item": [text] * 300_000, "place": np.arange(300_000) // 1000})
    pq.write_table(table, tmp_path / "small.parquet", compression="zstd")
    with pytest.raises(OSError, match="expands"):
        read_parquet(tmp_path / "small.parquet")
    (tmp_path / "ours.parquet").write_bytes(encode_readable(table, compression="zstd"))
    assert read_parquet(tmp_path / "ours.parquet").equals(table)


def test_a_table_that_repeats_a_long_text_a_million_times_is_refused(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(np.zeros(1_000_000, np.int32), ["x" * 9000])
    pq.write_table(pa.table({"text": column}), tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    with pytest.raises(OSError, match=r"expands .* to more than"):
        read_parquet(tmp_path / "bomb.parquet")
    assert pa.total_allocated_bytes() - before < 100 << 20


@pytest.mark.thorough
def test_a_table_of_pages_that_compress_well_is_refused(tmp_path: Path) -> None:
    texts = pa.array([bytes([65 + n]) * (4 << 20) for n in range(20)])
    table = pa.table({"text": pa.concat_arrays([texts] * 4)})
    pq.write_table(table, tmp_path / "b.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(OSError, match=r"expands .* to more than"):
        read_parquet(tmp_path / "b.parquet")


def test_tables_are_read_as_they_were_written(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", None, "b"] * 5000, "n": range(15_000), "of": [["x"], None, []] * 5000})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=4000)
    assert read_parquet(tmp_path / "t.parquet").equals(table)
    assert read_parquet(tmp_path / "t.parquet", ["n"]).column_names == ["n"]
    pq.write_table(table.slice(0, 0), tmp_path / "t.parquet")
    assert read_parquet(tmp_path / "t.parquet").equals(table.slice(0, 0))


def write_shard(folder: Path, fill: Callable[[tarfile.TarFile], object]) -> Path:
    (folder / "test").mkdir(parents=True)
    (folder / "test" / "nshards.txt").write_text("1")
    with tarfile.open(folder / "test" / "0.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        fill(tar)
    return folder


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def read_shards(folder: Path) -> None:
    webdataset.read(folder, None, ImageStore(folder / "images"))


def sparse_header(size: int) -> bytes:
    """The header of a GNU sparse member that unpacks to `size` zeros and holds none of them."""
    member = tarfile.TarInfo("s1.jpg")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = b"S"
    header[386:398] = b"%011o\0" % 0
    header[398:410] = b"%011o\0" % 0
    header[483:495] = b"%011o\0" % size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def test_a_sparse_member_of_a_shard_is_refused(tmp_path: Path) -> None:
    folder = write_shard(tmp_path, lambda tar: add(tar, "s0.jpg", make_jpeg((9, 9, 9), (64, 64))))
    whole = (folder / "test" / "0.tar").read_bytes()
    (folder / "test" / "0.tar").write_bytes(whole.rstrip(b"\0").ljust(-(-len(whole.rstrip(b"\0")) // 512) * 512, b"\0"))
    with (folder / "test" / "0.tar").open("ab") as file:
        file.write(sparse_header(150 << 20) + bytes(1024))
    with pytest.raises(UserError, match=r"s1\.jpg.*sparse"):
        read_shards(folder)


def test_a_header_of_gigabytes_in_a_shard_is_refused(tmp_path: Path) -> None:
    folder = write_shard(tmp_path, lambda tar: add(tar, "s0.jpg", b"x"))
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 4 << 30
    (folder / "test" / "0.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT))
    os.truncate(folder / "test" / "0.tar", 5 << 30)  # takes no room on disk
    with pytest.raises(UserError, match="a header declares"):
        read_shards(folder)


def test_files_of_a_shard_that_nobody_reads_take_no_memory(tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add(tar, "s0.jpg", make_jpeg((9, 9, 9), (64, 64)))
        add(tar, "s0.npy", bytes(1 << 20))
        add(tar, "s0.txt", "一只狗".encode())

    folder = write_shard(tmp_path, fill)
    assert [sorted(files) for _, files in webdataset._samples(folder / "test" / "0.tar")] == [[], ["jpg", "txt"]]
    add_text = write_shard(tmp_path / "long", lambda tar: add(tar, "s0.txt", bytes(5 << 20)))
    with pytest.raises(UserError, match=r"s0\.txt"):
        read_shards(add_text)


@pytest.mark.parametrize(
    ("members", "samples"),
    [
        (["a.jpg", "a.txt", "a.mask.png", "b.jpg", "b.txt"], {"a": ["jpg", "txt"], "b": ["jpg", "txt"]}),
        (["trip.2024.jpg", "trip.2024.txt"], {"trip.2024": ["jpg", "txt"]}),
        (["a.jpg", "a.txt", "a.v2.jpg", "a.v2.txt"], {"a": ["jpg", "txt"], "a.v2": ["jpg", "txt"]}),
        (["x/IMG.1.PNG", "x/IMG.1.txt", "x/IMG.2.webp"], {"x/IMG.1": ["png", "txt"], "x/IMG.2": ["webp"]}),
        (["a.jpg", "a.cls", "README", "a.b.npy"], {"a": ["jpg"]}),
    ],
)
def test_every_member_of_a_shard_is_of_a_sample_or_named(
    members: list[str], samples: dict[str, list[str]], tmp_path: Path
) -> None:
    folder = write_shard(tmp_path, lambda tar: [add(tar, member, b"x") for member in members])
    found = list(webdataset._samples(folder / "test" / "0.tar"))
    assert {name: sorted(files) for name, files in found if files} == samples
    assert sum(max(len(files), 1) for _, files in found) == len(members)


def test_a_word_of_a_hundred_thousand_letters_takes_no_time() -> None:
    start = time.monotonic()
    for word in ("a" * 100_000, "狗" * 100_000, "a-" * 50_000, "a in " * 20_000, "1" * 100_000):
        parse_phrases(word)
    assert time.monotonic() - start < 5


READERS: dict[str, Callable[[Path], object]] = {
    "run.json": read_run,
    "run.trec": read_run,
    "run.csv": read_run,
    "run.parquet": read_run,
    "set.yaml": lambda path: load_definition(path, [], "gallery"),
    "captions.jsonl": lambda path: load_captions(CaptionsFileOptions(path=path)),
    "samples.yaml": read_topic_samples,
}


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_or_an_endless_device_in_place_of_a_file_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match="regular file"):
        READERS[name](path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_verify_names_each_file_of_a_set_that_is_a_pipe_or_a_device(tmp_path: Path, kind: str) -> None:
    version = publish_small_set(tmp_path, small_tables()).path
    for path in sorted(path for path in version.rglob("*") if path.is_file() and path.name != "manifest.json"):
        data = path.read_bytes()
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
        assert any(path.name in problem for problem in set_files.verify_set(version))
        path.unlink()
        path.write_bytes(data)
    (version / "manifest.json").unlink()
    os.mkfifo(version / "manifest.json") if kind == "pipe" else (version / "manifest.json").symlink_to("/dev/zero")
    assert list(set_files.verify_set(version)) == ["manifest.json: cannot be read as the manifest of a set"]
    with pytest.raises(UserError, match="regular file"):
        set_files.read_set(version)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_decision_log_that_is_a_pipe_or_a_device_does_not_hang_the_review(tmp_path: Path, kind: str) -> None:
    log = tmp_path / "decisions.jsonl"
    os.mkfifo(log) if kind == "pipe" else log.symlink_to("/dev/zero")
    with pytest.raises(UserError, match="regular file"):
        decision_log.read_decisions(tmp_path, QueryDecision)
