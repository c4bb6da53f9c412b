"""Parquet and tar files, and READMEs that name files, as an attacker could send them."""

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from querytruth.formats.parquet_shards import IMAGE_TYPE
from tests.publisher_files import RED, FirstEntry, make_tar, write_source


class HostileImport(NamedTuple):
    """A source; `write` gets its folder and the victim's."""

    name: str
    layout: str
    write: Callable[[Path, Path], None]


def hostile_front_matters() -> Iterator[HostileImport]:
    """READMEs that name no files, files elsewhere, or too many."""
    aliases = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
        for before, after in zip("abcdefgh", "bcdefghi", strict=True)
    )
    patterns: list[Any] = [
        "",
        ".",
        "..",
        "../../**",
        "**",
        "**/" * 40 + "*",
        "/etc/*",
        "../../../home/*.parquet",
        "[",
        "\x00",
    ]
    patterns += [7, None, {}, [7], [[]], [{}], [{"split": 7}, 7], [{"split": "test", "path": {}}], ["*" * 9000]]
    files = {f"glob {number}": json.dumps(value) for number, value in enumerate(patterns)}
    texts = {
        name: f'{{"configs": [{{"config_name": "images", "data_files": {value}}}]}}' for name, value in files.items()
    }
    texts |= {
        "aliases": aliases,
        "depth": "[" * 5000,
        "a list": "[1]",
        "a text": "x",
        "an object": "!!python/object:os.system x",
    }
    texts |= {"configs as a number": "configs: 7", "configs as texts": "configs: [x]", "no config": "configs: []"}
    for layout in ("huggingface", "mteb"):
        for name, text in texts.items():

            def change(source: Path, _home: Path, text: str = text) -> None:
                (source / "README.md").write_text(f"---\n{text}\n---\n")

            yield make_case(layout, f"front matter {name}", change)


def hostile_tables() -> Iterator[HostileImport]:
    """Parquet that is small on disk and huge in memory, or has columns of other kinds."""
    rows = 3_000_000
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 20_000]))
    image = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, np.int32)), pa.array([RED + bytes(400_000)]))
    nested: pa.Array = pa.array([1] * 2)
    for _ in range(60):
        nested = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), nested)
    columns: dict[str, Callable[[], Any]] = {
        "repeats a long text": lambda: long,
        "repeats a large image": lambda: pa.StructArray.from_arrays(
            [image, pa.nulls(20_000, pa.string())], ["bytes", "path"]
        ),
        "is one huge text": lambda: pa.array(["x" * (1 << 30), "y"], pa.large_string()),
        "is empty values": lambda: pa.nulls(2, pa.string()),
        "is nested": lambda: nested,
        "is times": lambda: pa.array([2**62, -1], pa.timestamp("ns")),
        "is not a number": lambda: pa.array([float("nan"), float("inf")]),
        "is huge numbers": lambda: pa.array([2**63, 2**64 - 1], pa.uint64()),
        "is bytes": lambda: pa.array([b"\xff\xfe", b"\x00"]),
        "is a text for an image": lambda: pa.array(["/etc/passwd", "../../home/private.jpg"]),
        "is other images": lambda: pa.array([{"bytes": None, "path": "/etc/passwd"}] * 2, IMAGE_TYPE),
    }
    places = {
        "huggingface": ["images.image", "images.image_id", "images.width", "queries.text"],
        "mteb": ["corpus.image", "qrels.score"],
    }
    for layout, names in places.items():
        for place in names:
            for name, make in columns.items():

                def change(source: Path, _home: Path, place: str = place, make: Callable[[], Any] = make) -> None:
                    config, column = place.split(".")
                    _replace_column(source / config / "test-0.parquet", column, make())

                yield make_case(layout, f"{place} {name}", change)
            yield make_case(
                layout, f"{place} is missing", lambda source, _home, place=place: _drop_column(source, place)
            )


def _replace_column(path: Path, name: str, column: Any) -> None:
    table = pq.read_table(path)
    rows = pa.array(np.arange(len(column)) % len(table))
    others = {other: table[other].take(rows) for other in table.column_names if other != name}
    pq.write_table(pa.table({**others, name: column}), path, compression="zstd", use_dictionary=len(column) > 2)


def _drop_column(source: Path, place: str) -> None:
    config, column = place.split(".")
    path = source / config / "test-0.parquet"
    pq.write_table(pq.read_table(path).drop_columns([column]), path)


def hostile_tars() -> dict[str, bytes]:
    """Tars whose headers promise what they do not hold, by a description."""

    def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, **fields: Any) -> bytes:
        info = tarfile.TarInfo(name)
        info.type, info.size = kind, size
        for field, value in fields.items():
            setattr(info, field, value)
        return info.tobuf(tarfile.GNU_FORMAT)

    def sparse() -> bytes:
        header = bytearray(member("red.jpg", b"S", 512))
        header[386:398], header[398:410] = b"00000000000\0", b"00000001000\0"
        header[483:495] = b"77777777777\0"
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
        return bytes(header) + RED[:512].ljust(512, b"\0")

    pax = io.BytesIO()
    with tarfile.open(fileobj=pax, mode="w", format=tarfile.PAX_FORMAT) as tar:
        one = tarfile.TarInfo("red.jpg")
        one.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.realsize": "9" * 30,
            "size": "1e9",
        }
        tar.addfile(one)
    end = bytes(1024)
    return {
        "sparse": sparse() + end,
        "sparse in pax": pax.getvalue(),
        "a size of 8 GB": member("red.jpg", size=8 << 30) + end,
        "a name of 8 GB": member("././@LongLink", b"L", 8 << 30) + end,
        "a header of 8 GB": member("pax", b"x", 8 << 30) + end,
        "a negative size": member("red.jpg", size=-1) + end,
        "a link": member("red.jpg", tarfile.SYMTYPE, linkname="/etc/passwd") + end,
        "a hard link": member("red.jpg", tarfile.LNKTYPE, linkname="../../home/private.jpg") + end,
        "a device": member("red.jpg", tarfile.CHRTYPE, devmajor=1, devminor=5) + end,
        "a pipe": member("red.jpg", tarfile.FIFOTYPE) + end,
        "names upwards": make_tar({"../../home/owned.jpg": RED, "../../home/owned.txt": b"x"}),
        "absolute names": make_tar({"/tmp/owned.jpg": RED, "/tmp/owned.txt": b"x"}),
        "gzip": b"\x1f\x8b\x08" + bytes(5000),
        "many members": member("x") * 20_000 + end,
        "a text of 5 MB": make_tar({"red.jpg": RED, "red.txt": b"x" * (5 << 20)}),
        "many texts": make_tar({"red.jpg": RED, "red.txt": b"x\n" * 10_000}),
        "deep json": make_tar({"red.jpg": RED, "red.txt": b"x", "red.json": b"[" * 100_000}),
        "json of others": make_tar({"red.jpg": RED, "red.txt": b"x", "red.json": b'{"image_id": 7, "query_ids": {}}'}),
    }


def hostile_archives() -> Iterator[HostileImport]:
    """Shards of hostile tars, and lists of them with wrong numbers."""
    for name, data in hostile_tars().items():
        yield make_case(
            "webdataset", f"tar with {name}", lambda source, _home, data=data: (source / "test/0.tar").write_bytes(data)
        )
    for number in ("9" * 30, "-1", "999999", "٣", "0", "", "../../home"):
        yield make_case(
            "webdataset",
            f"{number!a:.20} shards",
            lambda source, _home, number=number: (source / "test/nshards.txt").write_text(number),
        )


def make_case(layout: str, name: str, change: Callable[[Path, Path], object]) -> HostileImport:
    """The whole files of a layout, changed by a function of the source and the folder of the victim."""

    def write(source: Path, home: Path) -> None:
        write_source(layout, source, FirstEntry())
        change(source, home)

    return HostileImport(name, layout, write)
