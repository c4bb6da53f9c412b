"""Parquet and the other files of strangers: read in bounded memory, checked, or refused with what is wrong."""

import gc
import io
import os
import random
import signal
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from builders.generated.topic_rounds import read_topic_samples
from builders.precision.label_files import read_label_csv
from builders.recall.caption_words import parse_phrases
from flows.definition_loader import load_definition
from querytruth.audit.overlap import find_text_column
from querytruth.backends.files import parquet_files
from querytruth.backends.files.parquet_files import (
    encode_readable,
    iterate_parquet,
    read_checked,
    read_parquet,
    write_checked,
)
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_formats import load_yaml
from querytruth.backends.images import worker_starts
from querytruth.backends.images.image_reading import ScannedImage, read_image
from querytruth.backends.images.source_readers import list_table
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.images.worker_starts import WorkerLimits
from querytruth.backends.models.chat.captions_file import CaptionsFileOptions, read_caption_file
from querytruth.backends.models.chat.captions_file import load as load_captions
from querytruth.errors import UserError
from querytruth.evaluation.run_files import read_run
from querytruth.evaluation.run_formats import read_image_texts
from querytruth.formats.importers import webdataset
from querytruth.formats.set_images import ImageStore
from querytruth.sets import set_files
from tests.images import make_jpeg
from tests.publisher_files import write_shard
from tests.small_sets import publish_small_set, small_tables


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.parquet"


ROWS = 40_000_000
IDLE = worker_starts._idle
ONE_PAGE = {"data_page_size": 1 << 30, "max_rows_per_page": ROWS}


def varint(number: int, length: int = 0) -> bytes:
    """A number as Thrift writes it, or with zeros in front of it that no writer makes and every reader accepts."""
    number, data = number << 1, []
    while number >= 128 or len(data) + 1 < length:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def forge(data: bytes, number: int, forged: int, *, in_footer: bool) -> bytes:
    """The file with another number in its footer, or in the headers of its pages."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    pages, footer = data[:start], data[start:]
    assert varint(number) in (footer if in_footer else pages)
    if in_footer:
        return pages + footer.replace(varint(number), varint(forged, len(varint(number))))
    return pages.replace(varint(number), varint(forged)) + footer


def write(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def assert_refused(path: Path, data: bytes, reason: str) -> None:
    path.write_bytes(data)
    before = pa.total_allocated_bytes()
    with pytest.raises(OSError, match=reason):
        read_parquet(path)
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.thorough
def test_millions_of_rows_in_a_few_bytes_are_refused_whatever_the_footer_states(path: Path) -> None:
    data = write(pa.table({"n": pa.nulls(ROWS, pa.int64())}), row_group_size=ROWS, **ONE_PAGE)
    assert len(data) < 200_000
    assert_refused(path, data, "expands .* to more than")
    path.write_bytes(forge(data, ROWS, 1, in_footer=True))
    assert len(read_parquet(path)) == 1, "a row is all that it says to have"


def test_a_row_with_a_list_of_millions_is_refused(path: Path) -> None:
    data = write(pa.table({"n": pa.ListArray.from_arrays([0, 100_000], np.zeros(100_000, np.int64))}), **ONE_PAGE)
    path.write_bytes(data)
    assert len(read_parquet(path)["n"][0]) == 100_000
    assert_refused(path, forge(data, 100_000, 1 << 30, in_footer=False), "expands .* to more than|end of stream")


def test_a_page_whose_header_asks_for_two_gigabytes_is_refused(path: Path) -> None:
    data = write(pa.table({"t": [b"x" * 5000]}), use_dictionary=False, write_statistics=False)
    assert data[4:7] == b"\x15\x00\x15" and data[7] > 127 and data[8] < 128, "two bytes of size"
    forged = data[:7] + varint((1 << 31) - 1) + data[9:]
    assert_refused(path, forged, "expands .* to more than|end of stream")
    assert_refused(path, data[:4] + b"\xff" * 16 + data[20:], "deserialize")


def test_a_dictionary_that_asks_for_gigabytes_of_texts_is_refused(path: Path) -> None:
    data = write(pa.table({"t": [str(number) for number in range(3000)]}), write_statistics=False)
    forged = forge(data, 3000, 1 << 30, in_footer=False)
    assert_refused(path, forged, "expands from 7 KB to more than 2,048 MB")


@pytest.mark.thorough
def test_a_long_text_that_a_small_file_repeats_counts_as_if_it_were_written_out(path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(np.zeros(40_000, np.int32), ["x" * 400_000])  # ten bytes a value
    data = write(pa.table({"t": column}), store_schema=False, dictionary_pagesize_limit=1 << 24)
    assert len(data) < 1000
    assert_refused(path, data, "expands .* to more than")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", None])
def test_every_encoding_is_read_as_arrow_reads_it(path: Path, version: str, encoding: str | None) -> None:
    texts = [f"text {number}" if number % 3 else None for number in range(5000)]
    table = pa.table({"t": texts, "of": [[text, text] if text else [] for text in texts]})
    options = {"use_dictionary": True} if encoding is None else {"use_dictionary": False, "column_encoding": encoding}
    path.write_bytes(write(table, data_page_version=version, data_page_size=4000, **options))
    assert read_parquet(path).equals(table)
    assert [len(batch) for batch in iterate_parquet(path, ["t"], 2000)] == [2000, 2000, 1000]
    with path.open("rb") as file:
        assert sum(len(batch) for batch in iterate_parquet(file)) == 5000


def test_half_a_table_that_is_left_holds_nobody_up(path: Path) -> None:
    path.write_bytes(write(pa.table({"n": range(9000)})))
    first = iterate_parquet(path, rows=100)
    assert len(next(first)) == 100
    assert len(read_parquet(path)) == 9000
    assert sum(len(batch) for batch in first) == 8900


@pytest.mark.parametrize(
    ("harm", "reason"), [(signal.SIGSTOP, "took too long"), (signal.SIGSEGV, r"worker crashed \(SIGSEGV\)")]
)
def test_a_worker_that_hangs_or_dies_costs_the_file_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, harm: signal.Signals, reason: str
) -> None:
    path.write_bytes(write(pa.table({"n": range(9000)})))
    before = all_workers()
    reading = iterate_parquet(path, rows=100)
    next(reading)
    [worker] = [one for one in all_workers() if one not in before] or [one for one in before if one not in IDLE]
    os.kill(worker._process.pid, harm)
    with monkeypatch.context() as patch, pytest.raises(OSError, match=reason):
        patch.setattr(parquet_files, "_LIMITS", WorkerLimits(seconds=0.5))
        list(reading)
    assert len(read_parquet(path)) == 9000


def all_workers() -> list[worker_starts.WorkerProcess]:
    return [
        one for one in gc.get_objects() if isinstance(one, worker_starts.WorkerProcess) and one._process.poll() is None
    ]


@pytest.mark.thorough
def test_texts_that_each_repeat_the_one_before_are_refused_where_they_are_many(path: Path) -> None:
    texts = ["x" * 1_000_000 + str(number) for number in range(280)]
    delta = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY", **ONE_PAGE}
    path.write_bytes(data := write(pa.table({"t": texts}), **delta))
    assert len(data) < 100_000
    with pytest.raises(OSError, match=r"expands .* to more than"):
        read_parquet(path)
    path.write_bytes(write(pa.table({"t": texts[:9]}), **delta))
    assert read_parquet(path)["t"].to_pylist() == texts[:9]


def test_a_worker_that_has_read_a_table_reads_images_as_before(tmp_path: Path, path: Path) -> None:
    worker_starts.end_idle_workers()
    path.write_bytes(write(pa.table({"n": range(9000)})))
    (tmp_path / "a.jpg").write_bytes(make_jpeg())
    read_parquet(path)
    [image] = map_in_workers(read_image, [str(tmp_path / "a.jpg")])
    assert isinstance(image, ScannedImage) and image.reason is None


@pytest.mark.parametrize("answer", [7, 1 << 40, None, [b""], b"no message of Arrow", b"x" * 999_999])
def test_nonsense_of_a_worker_is_not_believed(path: Path, monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    path.write_bytes(write(pa.table({"n": range(9000)})))
    reading = iterate_parquet(path, rows=100)
    assert len(next(reading)) == 100
    with monkeypatch.context() as patch, pytest.raises((OSError, pa.ArrowInvalid)):
        patch.setattr(worker_starts.WorkerProcess, "receive", lambda _worker, _limits: answer)
        list(reading)


TABLE = pa.table({"item": ["a", "b", None], "size": [1, 2, 3], "turned": [[1, 2], None, [3]]})


def test_what_is_written_is_read_back_and_any_reader_reads_it(tmp_path: Path) -> None:
    write_checked(tmp_path / "a.parquet", TABLE)
    assert read_checked(tmp_path / "a.parquet") == TABLE == pq.read_table(tmp_path / "a.parquet")
    assert read_checked(tmp_path / "a.parquet", ["size"]) == TABLE.select(["size"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_no_damage_goes_unseen(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_checked(path, TABLE)
    whole = path.read_bytes()
    bits = random.Random(7)
    for place in range(0, len(whole), 3):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bits.randrange(8)
        path.write_bytes(flipped)
        assert read_checked(path) is None, place
    for length in range(0, len(whole), 17):
        path.write_bytes(whole[:length])
        assert read_checked(path) is None, length
    path.write_bytes(whole + b"\x00")
    assert read_checked(path) is None


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
    expected = {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1}}
    assert load_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a\n") == expected
    assert load_yaml("") is None


@pytest.mark.parametrize("text", ["3.jpg", "an image on a table " * 20])
def test_a_table_that_repeats_its_rows_is_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(parquet_files, "_SMALL_TABLE", 1 << 20)
    table = pa.table({"item": [text] * 300_000, "place": np.arange(300_000) // 1000})
    pq.write_table(table, tmp_path / "small.parquet", compression="zstd")
    with pytest.raises(OSError, match="expands"):
        read_parquet(tmp_path / "small.parquet")
    (tmp_path / "ours.parquet").write_bytes(encode_readable(table, compression="zstd"))
    assert read_parquet(tmp_path / "ours.parquet").equals(table)


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
    shard = write_shard(tmp_path, {"s0.jpg": make_jpeg((9, 9, 9), (64, 64))})
    whole = shard.read_bytes()
    shard.write_bytes(whole.rstrip(b"\0").ljust(-(-len(whole.rstrip(b"\0")) // 512) * 512, b"\0"))
    with shard.open("ab") as file:
        file.write(sparse_header(150 << 20) + bytes(1024))
    with pytest.raises(UserError, match=r"s1\.jpg.*sparse"):
        read_shards(tmp_path)


def test_a_header_of_gigabytes_in_a_shard_is_refused(tmp_path: Path) -> None:
    shard = write_shard(tmp_path, {})
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 4 << 30
    shard.write_bytes(member.tobuf(tarfile.GNU_FORMAT))
    os.truncate(shard, 5 << 30)  # takes no room on disk
    with pytest.raises(UserError, match="a header declares"):
        read_shards(tmp_path)


def test_files_of_a_shard_that_nobody_reads_take_no_memory(tmp_path: Path) -> None:
    members = {"s0.jpg": make_jpeg((9, 9, 9), (64, 64)), "s0.npy": bytes(1 << 20), "s0.txt": "一只狗".encode()}
    shard = write_shard(tmp_path, members)
    assert [sorted(files) for _, files in webdataset._samples(shard)] == [[], ["jpg", "txt"]]
    write_shard(tmp_path / "long", {"s0.txt": bytes(5 << 20)})
    with pytest.raises(UserError, match=r"s0\.txt"):
        read_shards(tmp_path / "long")


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
def test_members_of_a_shard_have_samples(members: list[str], samples: dict[str, list[str]], tmp_path: Path) -> None:
    shard = write_shard(tmp_path, dict.fromkeys(members, b"x"))
    found = list(webdataset._samples(shard))
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


IMAGES = pd.DataFrame({"image_id": ["a"], "file_name": ["a.jpg"]})


def read_image_list(path: Path) -> object:
    with path.open("rb") as file:
        return list_table(file, str(path), remote=False)


TABLE_READERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "captions": (read_caption_file, "image,caption", "caption"),
    "run": (read_run, "query_id,image_id,score", "score"),
    "texts of images": (lambda path: read_image_texts(path, IMAGES), "image_id,text", "text"),
    "list of images": (read_image_list, "path,taken_at", "path"),
    "publisher's table": (lambda path: list(iterate_rows(path, ["id", "text"])), "id,text", "text"),
    "labels": (read_label_csv, "id,name", "name"),
    "texts of an overlap": (find_text_column, "url,caption", "caption"),
}


@pytest.mark.parametrize("reader", TABLE_READERS)
def test_a_column_that_is_there_twice_is_named(tmp_path: Path, reader: str) -> None:
    read, header, repeated = TABLE_READERS[reader]
    path = tmp_path / "table.csv"
    cells = ",".join("1" for _ in header.split(","))
    path.write_text(f"{header},{repeated}\n{cells},2\n")
    with pytest.raises(UserError, match=f"column '{repeated}' twice") as raised:
        read(path)
    assert "\n" not in str(raised.value) and "table.csv" in str(raised.value)
