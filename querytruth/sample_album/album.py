"""Reads the album: its images with what is true of them, and the tables and annotations of all or some of them."""

import csv
import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from querytruth.errors import UserError

DATA_FOLDER = Path(__file__).parent / "data"
Facts = tuple[tuple[str, str, int], ...]  # label as Objects365 writes it, colour, count


@dataclass(frozen=True, slots=True)
class CaptionRequirement:
    """The statement of a caption about one label: a count of None means at least one, a number means exactly that many
    (of the colour, if one is given)."""

    label: str
    colour: str | None
    count: int | None


@dataclass(frozen=True, slots=True)
class CaptionClaims:
    """All statements of a caption; None if it does not mention the place or the light."""

    place: str | None
    light: str | None
    required: tuple[CaptionRequirement, ...]


@dataclass(frozen=True, slots=True)
class AlbumImage:
    """One file of the album; a faulty one (`defect`) has neither facts nor claims. `claims`: the statements of its
    captions, in both languages; `taken_at`: ISO 8601, local time. Time and position are given only if the file's EXIF
    has them."""

    file_name: str
    data: bytes
    place: str
    light: str  # day, evening, night or snow
    facts: Facts
    claims: CaptionClaims | None
    taken_at: str | None
    latitude: float | None
    longitude: float | None
    duplicate_of: str | None
    defect: str | None


def read_album(scenes: int | None = None) -> list[AlbumImage]:
    """Return the scenes in order, a near-duplicate right after its scene, and six faulty files at the end. A number of
    `scenes` leaves out those that follow, with their near-duplicates."""
    rows = [json.loads(line) for line in _read_data("scenes.jsonl").splitlines()]
    kept = set([row["file_name"] for row in rows if not row["duplicate_of"] and not row["defect"]][:scenes])
    return [_parse_image(row) for row in rows if row["defect"] or (row["duplicate_of"] or row["file_name"]) in kept]


def read_table(
    name: Literal["captions", "descriptions", "fitting"], images: Iterable[AlbumImage]
) -> list[dict[str, str]]:
    """Return the rows about these images. captions and descriptions (all that is to be seen): file_name, language (zh,
    en), caption; fitting: file_name, fits (another image that its caption is true of)."""
    kept = {image.file_name for image in images}
    rows = csv.DictReader(io.StringIO(_read_data(f"{name}.csv").decode()))
    return [row for row in rows if {row["file_name"], row.get("fits", row["file_name"])} <= kept]


def read_annotations(images: Iterable[AlbumImage]) -> dict[str, Any]:
    """Return the boxes of these images as COCO's JSON, with the ids and names of Objects365; faulty files are listed
    like any other, with boxes that are only claimed."""
    names = {image.file_name for image in images}
    coco: dict[str, Any] = json.loads(_read_data("annotations.json"))
    coco["images"] = [record for record in coco["images"] if record["file_name"] in names]
    ids = {record["id"] for record in coco["images"]}
    coco["annotations"] = [box for box in coco["annotations"] if box["image_id"] in ids]
    return coco


def read_words() -> dict[str, Any]:
    """Return the Chinese words of the captions. labels: `zh` and `measure_word_zh` by label; colours: the word by
    colour."""
    words: dict[str, Any] = json.loads(_read_data("words.json"))
    return words


def _parse_image(row: dict[str, Any]) -> AlbumImage:
    claims = row["claims"] and CaptionClaims(
        row["claims"]["place"],
        row["claims"]["light"],
        tuple(CaptionRequirement(*requirement) for requirement in row["claims"]["required"]),
    )
    facts = tuple((label, colour, count) for label, colour, count in row["facts"])
    return AlbumImage(**row | {"data": _read_data(f"pictures/{row['file_name']}"), "facts": facts, "claims": claims})


def _read_data(name: str) -> bytes:
    """Return the bytes of a file of the data. Raises UserError where they are not those that sha256.txt lists."""
    try:
        data = (DATA_FOLDER / name).read_bytes()
    except OSError as error:
        raise _broken_data(name, f"cannot be read ({error.strerror})") from None
    if hashlib.sha256(data).hexdigest() != _read_digests()[name]:
        raise _broken_data(name, "differs from the file that was shipped (sha256.txt)")
    return data


@cache
def _read_digests() -> dict[str, str]:
    """Return the digests by file name, in the format of `sha256sum`."""
    lines = (DATA_FOLDER / "sha256.txt").read_text("utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def _broken_data(name: str, reason: str) -> UserError:
    return UserError("read sample album", DATA_FOLDER / name, reason, "install querytruth again")
