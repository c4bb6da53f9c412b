"""Files of existing captions: CSV, JSON lines, COCO. Each record names its image."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.file_formats import refuse_repeated_columns, require_text
from builders.errors import UserError
from builders.strict_json import parse_json

NAME_COLUMNS = ("file_name", "path", "image", "image_id", "sha256")
TEXT_COLUMNS = ("caption", "captions", "text")
_STAGE = "read captions"


@dataclass(frozen=True, slots=True)
class CaptionRecord:
    """A caption, its language where the file gives one, and the names of its image in the file."""

    names: tuple[str, ...]
    text: str
    language: str = ""


def read_caption_file(path: Path, data: bytes, encoding: str = "utf-8") -> list[CaptionRecord]:
    """Returns all captions that are not empty, in the order of the file. The suffix determines the format. Raises
    UserError for what cannot be read."""
    readers = {".csv": _csv, ".tsv": _csv, ".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _coco}
    if path.suffix.lower() not in readers:
        raise UserError(_STAGE, path, "has none of the known suffixes", "name it " + ", ".join(sorted(readers)))
    if encoding.lower().replace("-", "").startswith("utf8"):
        require_text(_STAGE, path, data[:4096])
    try:
        text = data.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except (UnicodeDecodeError, LookupError):
        raise UserError(_STAGE, path, f"is not {encoding}", "give its encoding, such as gb18030") from None
    return [caption for caption in readers[path.suffix.lower()](path, text) if caption.text.strip()]


def _csv(path: Path, text: str) -> Iterator[CaptionRecord]:
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        columns = [column or "" for column in rows.fieldnames or []]
    except csv.Error as error:
        raise UserError(_STAGE, f"{path} line 1", str(error), "fix that line") from None
    if not set(columns) & set(NAME_COLUMNS) or not set(columns) & set(TEXT_COLUMNS):
        next_step = f"name one of {', '.join(NAME_COLUMNS)} and one of {', '.join(TEXT_COLUMNS)}"
        raise UserError(_STAGE, path, f"has the columns {', '.join(columns[:10]) or 'none'}", next_step)
    refuse_repeated_columns(_STAGE, path, columns, {*NAME_COLUMNS, *TEXT_COLUMNS})
    try:
        for row in rows:
            yield from _of_record(path, rows.line_num, row)
    except csv.Error as error:
        raise UserError(_STAGE, f"{path} line {rows.line_num}", str(error), "fix that line") from None


def _json_lines(path: Path, text: str) -> Iterator[CaptionRecord]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield from _of_record(path, number, _json(path, line, f" line {number}"))


def _coco(path: Path, text: str) -> Iterator[CaptionRecord]:
    """COCO: `images` with names, `annotations` with image ids and captions; or a plain list of records."""
    whole = _json(path, text, "")
    if isinstance(whole, list):
        for number, record in enumerate(whole, start=1):
            yield from _of_record(path, number, record)
        return
    images, annotations = (whole.get(key) if isinstance(whole, dict) else None for key in ("images", "annotations"))
    if not isinstance(images, list) or not isinstance(annotations, list):
        reason = "has no lists `images` and `annotations`"
        raise UserError(_STAGE, path, reason, "give COCO captions, CSV or JSON lines")
    complete = [image for image in images if isinstance(image, dict) and {"id", "file_name"} <= image.keys()]
    names = {str(image["id"]): str(image["file_name"]) for image in complete}
    for number, record in enumerate(annotations, start=1):
        image = str(record.get("image_id")) if isinstance(record, dict) else ""
        if image not in names or not isinstance(record.get("caption"), str):
            raise UserError(_STAGE, f"{path} annotation {number}", "has no known image_id or no caption", "fix it")
        yield CaptionRecord((names[image],), record["caption"])


def _of_record(path: Path, number: int, record: Any) -> Iterable[CaptionRecord]:
    """Returns the captions of a record: several where its caption is a list."""
    if not isinstance(record, dict):
        raise UserError(_STAGE, f"{path} line {number}", "is no record with names", "fix that line")
    names = tuple(str(record[column]) for column in NAME_COLUMNS if record.get(column) not in (None, ""))
    given = next((record[column] for column in TEXT_COLUMNS if record.get(column) is not None), None)
    texts = given if isinstance(given, list) else [] if given is None else [given]
    if not names or not all(isinstance(text, str) for text in texts):
        raise UserError(_STAGE, f"{path} line {number}", "names no picture, or its caption is no text", "fix that line")
    return [CaptionRecord(names, text, str(record.get("language") or "")) for text in texts]


def _json(path: Path, text: str, place: str) -> Any:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise UserError(_STAGE, f"{path}{place}", f"is no JSON ({error})", "fix it") from None
