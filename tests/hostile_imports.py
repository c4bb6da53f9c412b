"""Files of publishers that an attacker could send, in every import format: whole ones with one thing in them replaced.
Each case is a name, the format, and a function that writes the source and gets the folder of the victim."""

import functools
import json
import os
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.hostile_containers import HostileImport, hostile_archives, hostile_front_matters, hostile_tables, make_case
from tests.hostile_sets import IDS, TEXTS
from tests.publisher_files import PUBLISHER_FILES, RED, FirstEntry, make_tar, write_source

_FILE_NAMES = [
    *("../../home/private.jpg", "/etc/passwd", "..", ".", "", "link.jpg", "pipe.jpg", "zero.jpg", "folder", "a/" * 900),
    *("red.jpg\x00", "file:///etc/passwd", "http://127.0.0.1:9/a.jpg", "\x1b[2J.jpg", "\ud800.jpg", "x" * 5000),
]
_GRADES = ["9" * 20, "-" + "9" * 20, "9" * 5000, "NaN", "1e999", "-1", "", "128", "١"]
_URLS = [
    "javascript:alert(1)",
    "http://127.0.0.1:9/\x1b]0;x\x07",
    '"><script src=//127.0.0.1:9/x></script>',
    "x" * 99_999,
]
_ENTRIES = {
    **{f"image {number}": {"image": value} for number, value in enumerate(IDS)},
    **{f"query {number}": {"query": value} for number, value in enumerate([*IDS, "\ud800"])},
    **{f"text {number}": {"text": value} for number, value in enumerate([*TEXTS, "\ud800", "", "{0.__class__}"])},
    **{f"file {number}": {"file_name": value} for number, value in enumerate(_FILE_NAMES)},
    **{f"grade {number}": {"grade": value} for number, value in enumerate(_GRADES)},
    **{f"url {number}": {"url": value} for number, value in enumerate(_URLS)},
}


def hostile_imports() -> Iterator[HostileImport]:
    """All cases, in one order."""
    for layout in PUBLISHER_FILES:
        yield from _entries(layout)
        for path, content in PUBLISHER_FILES[layout](FirstEntry()).items():
            if not path.endswith(".jpg"):
                yield from _files(layout, path)
                yield from _edits(layout, path, content)
    yield from hostile_front_matters()
    yield from hostile_tables()
    yield from hostile_archives()
    yield from _descriptions()
    yield from _images()


def _entries(layout: str) -> Iterator[HostileImport]:
    """Another value in the first entry, where the layout has it."""
    whole = PUBLISHER_FILES[layout](FirstEntry())
    for name, values in _ENTRIES.items():
        entry = FirstEntry()._replace(**values)
        if PUBLISHER_FILES[layout](entry) != whole:

            def write(source: Path, home: Path, entry: FirstEntry = entry) -> None:
                write_source(layout, source, entry)
                _lay_traps(source.with_name("photos"), home)
                _lay_traps(source, home)

            yield HostileImport(name, layout, write)


def _lay_traps(folder: Path, home: Path) -> None:
    (folder / "link.jpg").symlink_to(home / "private.jpg")
    (folder / "zero.jpg").symlink_to("/dev/zero")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe.jpg")


def _files(layout: str, path: str) -> Iterator[HostileImport]:
    """A file that is none, or that holds something else."""

    def replaced(make: Callable[[Path, Path], object]) -> Callable[[Path, Path], None]:
        def change(source: Path, home: Path) -> None:
            (source / path).unlink()
            make(source / path, home)

        return change

    yield make_case(
        layout, f"{path} is a link outside", replaced(lambda file, home: file.symlink_to(home / "note.txt"))
    )
    yield make_case(
        layout, f"{path} is a link upwards", replaced(lambda file, home: file.symlink_to("../" * 9 + "etc/passwd"))
    )
    yield make_case(layout, f"{path} is a device", replaced(lambda file, _home: file.symlink_to("/dev/zero")))
    yield make_case(layout, f"{path} is a pipe", replaced(lambda file, _home: os.mkfifo(file)))
    yield make_case(layout, f"{path} is a folder", replaced(lambda file, _home: file.mkdir()))
    yield make_case(layout, f"{path} is empty", replaced(lambda file, _home: file.write_bytes(b"")))
    yield make_case(layout, f"{path} is deep", replaced(lambda file, _home: file.write_bytes(b'{"a":' * 200_000)))
    yield make_case(layout, f"{path} is one word", replaced(lambda file, _home: file.write_bytes(b"x" * 3_000_000)))
    yield make_case(layout, f"{path} is zeros", replaced(lambda file, _home: os.truncate(_touched(file), 3 << 30)))


def _touched(file: Path) -> Path:
    file.touch()
    return file


def _edits(layout: str, path: str, content: Any) -> Iterator[HostileImport]:
    """A file with some of its bytes or texts replaced."""
    data = content if isinstance(content, bytes) else content.encode()

    def case(name: str, new: bytes) -> Iterator[HostileImport]:
        if new != data:
            yield make_case(layout, f"{path} {name}", lambda source, _home: (source / path).write_bytes(new))

    yield from case("is cut", data[: len(data) // 2])
    yield from case("has no UTF-8", data.replace(b"a", b"\xff"))
    yield from case("has NULs", data.replace(b"a", b"\x00"))
    yield from case("has flipped bits", _flipped(data, len(data)))
    if not isinstance(content, bytes):
        yield from case("has huge numbers", re.sub(rb"\b\d+\b", b"9" * 20, data))
        yield from case("has NaN", re.sub(rb"\b\d+\b", b"NaN", data))
        yield from case("has lists as texts", re.sub(rb'"[^"]*"(?!:)', b"[[]]", data))
        yield from case("has numbers as texts", re.sub(rb'"[^"]*"(?!:)', b"7", data))
        yield from case("has nulls", re.sub(rb"(?<=: )[^\s,}]+", b"null", data))
        yield from case("has keys twice", re.sub(rb"({.*?, )", rb"\1\1", data).replace(b"{{", b"{"))
        yield from case("has other keys", re.sub(rb'"(\w+)":', rb'"x\1":', data, count=2))
        yield from case("has other columns", re.sub(rb"^\w", b"x", data))
        yield from case("has a quote", data.replace(b"\n", b'\n"', 1))
        yield from case("has no line ends", data.replace(b"\n", b" "))


def _flipped(data: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    flipped = bytearray(data)
    for _ in range(max(1, len(data) // 200)):
        flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def _descriptions() -> Iterator[HostileImport]:
    values: dict[str, Any] = {
        "name": "../../home",
        "version": 10**30,
        "title": TEXTS[0] + TEXTS[4],
        "faults": ["<img src=http://127.0.0.1:9/x>", TEXTS[1], "x" * 1_000_000],
        "grades": {"9" * 20: "\x1b[2J", "x": "y"},
        "render": {"size": 10**30, "mode": "squash"},
        "licence": "[x](javascript:alert(1))",
    }
    values |= {
        f"render {number}": {"size": size, "mode": mode}
        for number, (size, mode) in enumerate(
            [(-1, "squash"), (10**9, "squash"), (0, "fit"), (384, "../.."), (384, "\x1b[2J")]
        )
    }
    for layout in ("csv", "huggingface"):
        for name, value in values.items():

            def change(source: Path, _home: Path, name: str = name, value: Any = value) -> None:
                path = source / "querytruth.json"
                path.write_text(json.dumps(json.loads(path.read_text()) | {name.split()[0]: value}))

            yield make_case(layout, f"description {name}", change)


@functools.cache
def _png(width: int, height: int) -> bytes:
    """A whole PNG of one colour, of a thousandth of its size in memory."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    squeeze = zlib.compressobj(9)
    row = bytes(1 + width // 8)
    pixels = b"".join([*(squeeze.compress(row * 1000) for _ in range(height // 1000)), squeeze.flush()])
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _images() -> Iterator[HostileImport]:
    """Images that are none, or unpack to gigabytes."""
    contents: dict[str, Callable[[], bytes]] = {
        "a bomb": lambda: _png(60_000, 60_000),  # seconds of work that a run of other tests need not pay
        "a page": lambda: b"<html>",
        "nothing": lambda: b"",
        "cut": lambda: RED[: len(RED) // 2],
        "a head": lambda: RED[:20],
    }
    for name, draw in contents.items():
        for layout in ("coco_captions", "csv"):

            def change(source: Path, _home: Path, layout: str = layout, draw: Callable[[], bytes] = draw) -> None:
                folder = source if layout == "csv" else source.with_name("photos")
                (folder / "red.jpg").write_bytes(draw())

            yield make_case(layout, f"an image that is {name}", change)

        def pack(source: Path, _home: Path, draw: Callable[[], bytes] = draw) -> None:
            tar = make_tar({"red.jpg": draw(), "red.txt": b"a dog", "blue.jpg": RED, "blue.txt": b"a cat"})
            (source / "test/0.tar").write_bytes(tar)

        yield make_case("webdataset", f"an image that is {name}", pack)
