"""Six files that only look like pictures, as every real collection holds some."""

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO

from PIL import Image

from sample_album.album_records import AlbumImage, ObjectBox

_TEXT = b"This file was renamed by mistake. It holds the packing list of a journey, and no picture at all.\n"
_HTML = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body>Not Found</body></html>\n"
_BOMB_SIDE = 60_000


def make_faulty_files() -> Iterator[AlbumImage]:
    """Each with the size and the boxes that an annotation file would claim for it."""
    bomb = (_BOMB_SIDE, _BOMB_SIDE)
    dog, bench = ObjectBox("Dog", 120, 210, 180, 170), ObjectBox("Bench", 350, 240, 220, 120)
    yield _faulty("2023/autumn/park_9001.jpg", "truncated", _truncated(), (640, 480), dog, bench)
    yield _faulty("2023/winter/street_9002.jpg", "not_an_image", _TEXT, (640, 480), ObjectBox("Car", 80, 250, 300, 140))
    umbrella, person = ObjectBox("Umbrella", 200, 90, 260, 280), ObjectBox("Person", 500, 160, 90, 230)
    yield _faulty("2024/summer/beach_9003.jpg", "empty", b"", (720, 480), umbrella, person)
    yield _faulty(
        "2024/autumn/lake_9004.jpg", "not_an_image", _HTML, (640, 480), ObjectBox("Sailboat", 210, 120, 190, 220)
    )
    yield _faulty("2025/spring/meadow_9005.png", "oversized", _bomb(), bomb, ObjectBox("Sheep", 9e3, 21e3, 24e3, 19e3))
    yield _faulty(
        "2025/summer/beach_9006.jpg", "oversized", _panorama(), (5200, 400), ObjectBox("Boat", 3100, 190, 120, 60)
    )


def _faulty(name: str, defect: str, data: bytes, size: tuple[int, int], *boxes: ObjectBox) -> AlbumImage:
    return AlbumImage(
        file_name=name,
        data=data,
        width=size[0],
        height=size[1],
        boxes=boxes,
        caption_zh="",
        caption_en="",
        place=name.rsplit("/", 1)[1].split("_")[0],
        light="day",
        facts=(),
        claims=None,
        taken_at=None,
        latitude=None,
        longitude=None,
        duplicate_of=None,
        defect=defect,
    )


def _truncated() -> bytes:
    """A JPEG whose second half never arrived."""
    whole = Image.linear_gradient("L").resize((640, 480)).convert("RGB")
    out = BytesIO()
    whole.save(out, "JPEG", quality=88)
    return out.getvalue()[: len(out.getvalue()) // 2]


def _bomb() -> bytes:
    """A PNG of a few hundred bytes whose header claims 60000 x 60000 pixels; its data ends after two rows."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", _BOMB_SIDE, _BOMB_SIDE, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(2 * (_BOMB_SIDE + 1)), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _panorama() -> bytes:
    """A sound JPEG, 5200 x 400: wider than a gallery should take."""
    bands = Image.new("RGB", (5200, 400), (126, 190, 222))
    bands.paste((92, 164, 196), (0, 190, 5200, 280))
    bands.paste((246, 220, 170), (0, 280, 5200, 400))
    out = BytesIO()
    bands.save(out, "JPEG", quality=80)
    return out.getvalue()
