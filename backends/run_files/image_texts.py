"""Texts of images from a CSV, for text-only search."""

import csv
import io
from pathlib import Path

import pandas as pd

from backends.file_errors import translate_read_errors
from backends.file_formats import refuse_repeated_columns
from backends.regular_files import read_regular
from builders.errors import UserError

_STAGE = "read texts"
_NAMES = ("image_id", "file_name")
_TEXTS = ("text", "caption", "description", "title")


def read_image_texts(path: Path, images: pd.DataFrame) -> pd.DataFrame:
    """Reads a CSV with a column image_id or file_name and a column text, caption, description or title. Returns a table
    image_id, text; rows of other images are skipped. Raises UserError where none is left."""
    with translate_read_errors(_STAGE, path, also=(csv.Error,)):
        lines = io.StringIO(read_regular(path).decode("utf-8-sig"), newline="")
        table = csv.DictReader(lines, strict=True)
        rows = list(table)
    names = list(table.fieldnames or []) if rows else []
    refuse_repeated_columns(_STAGE, path, names, {*_NAMES, *_TEXTS})
    by = next((name for name in _NAMES if name in names), None)
    text = next((name for name in _TEXTS if name in names), None)
    if by is None or text is None:
        reason = f"has the columns {', '.join(map(str, names)) or 'none'}"
        raise UserError(_STAGE, path, reason, f"name the pictures {' or '.join(_NAMES)}, the texts {_TEXTS[0]}")
    known = dict(zip(images[by], images["image_id"], strict=True))
    texts = [(known[row[by]], row[text]) for row in rows if row[by] in known and row[text]]
    if not texts:
        raise UserError(_STAGE, path, f"has no text of a picture of this set by its {by}", "check the names")
    return pd.DataFrame(texts, columns=["image_id", "text"])
