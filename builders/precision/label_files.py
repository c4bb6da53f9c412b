"""Files about labels: label tables, compatible-label maps, and lists of fully annotated labels per image.

A table is a folder with labels.csv, tree.csv and compatible.csv; some are shipped. The lists are those of LVIS:
`neg_category_ids` (verified: the image shows nothing of it) and `not_exhaustive_category_ids` (some objects have no
box). Other labels without a box are unknown.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from builders.precision.annotation_records import parse_record_id
from builders.precision.label_index import LabelListFile
from querytruth.array_types import AnyArray
from querytruth.backends.files import json_stream, safe_paths, text_formats
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.table_rows import iterate_rows, read_columns
from querytruth.errors import UserError, translate_read_errors
from querytruth.sets.manifest import Input

# A link to the folder datasets/ of a checkout; a folder of the package where that is installed.
SHIPPED_FOLDER = Path(__file__).parents[2] / "querytruth" / "shipped"
_STAGE = "read label table"
_NEGATIVE, _PARTIAL = "neg_category_ids", "not_exhaustive_category_ids"
_KEYS = (f'"{_NEGATIVE}"'.encode(), f'"{_PARTIAL}"'.encode())
_PIECE = 1 << 22  # bytes


def list_shipped_tables() -> list[str]:
    """Return the names of the shipped tables."""
    return sorted(folder.parent.name for folder in SHIPPED_FOLDER.glob("*/labels.csv"))


def find_table_folder(labels: str) -> Path:
    """Return the folder for a shipped name or a path. Raises UserError where it is neither."""
    for folder in (SHIPPED_FOLDER / labels, Path(labels).expanduser()):
        if (folder / "labels.csv").is_file():
            return folder
    choices = ", ".join([*list_shipped_tables(), "from_annotations", "from_supercategories"])
    reason = "is neither a shipped label table nor a folder with labels.csv"
    raise UserError(_STAGE, labels, reason, f"choose from {choices}, or give a folder")


def find_fitting_table(names: Iterable[str]) -> str | None:
    """Return the shipped table that has all of the names, ignoring case; None if there is none."""
    wanted = {name.strip().casefold() for name in names}
    for table in list_shipped_tables():
        listed, _ = read_label_csv(find_table_folder(table) / "labels.csv")
        if wanted <= {name.strip().casefold() for name in listed["name"]}:
            return table
    return None


def read_known_words() -> dict[str, tuple[str, str]]:
    """Return article and plural of the English names of the shipped tables, casefolded."""
    tables = [read_label_csv(find_table_folder(table) / "labels.csv")[0] for table in list_shipped_tables()]
    return {row.en.casefold(): (row.article, row.plural) for table in tables for row in table.itertuples()}


def find_compatibility_file(compatible: str) -> Path:
    """Return the compatible-label file for a shipped name or a path. Raises UserError where it is neither."""
    for path in (SHIPPED_FOLDER / compatible / "compatible.csv", Path(compatible).expanduser()):
        if path.is_file():
            return path
    next_step = f"choose from {', '.join(list_shipped_tables())}, or give a CSV file"
    raise UserError(_STAGE, compatible, "is neither a shipped map nor a file", next_step)


def read_label_csv(path: Path) -> tuple[pd.DataFrame, Input]:
    """Return the cells as text, and the file's input record.

    Raises UserError if the file cannot be read, is not CSV in UTF-8, is empty, or has rows of different lengths.
    """
    header = read_columns(path, _STAGE)
    rows = [list(row.values()) for _, row in iterate_rows(path, header, stage=_STAGE)]
    if not header:
        raise UserError(_STAGE, path, "is empty", "add a header row with the column names")
    frame = pd.DataFrame(rows, columns=pd.Index(header, dtype="str"), dtype="str")
    frame = frame.map(text_formats.unescape_formula)
    # Official names may contain blanks at their ends; all other cells are written by hand.
    frame = frame.assign(**{c: frame[c].str.strip() for c in frame.columns if c != "name"})
    name, sha256 = f"{path.parent.name}/{path.name}", file_sha256(path)[0]
    return frame, Input(file=name, sha256=sha256, counts={"rows": len(frame)})


def read_former_names(folder: Path) -> dict[str, set[str]]:
    """Return the names of other versions of the label set, by version, from files like v1_names.csv in the folder."""
    names_by_version = {}
    for path in sorted(folder.glob("*_names.csv")):
        frame, _ = read_label_csv(path)
        names_by_version[f"{folder.name} {path.name.removesuffix('_names.csv')}"] = set(frame["name"])
    return names_by_version


class _Lists(msgspec.Struct, gc=False):
    id: Any = None
    neg_category_ids: Any = None
    not_exhaustive_category_ids: Any = None


def read_label_lists(path: Path) -> LabelListFile:
    """Read the lists of all images. A list without ids is treated as missing: nothing follows from it."""
    absent, partial = list[tuple[Any, Any]](), list[tuple[Any, Any]]()
    listed = list[Any]()
    with json_stream.JsonObjectReader(path) as reader:
        for key in reader.keys():  # noqa: SIM118 - a generator, no mapping
            if key != "images":
                reader.skip()
                continue
            for _, batch, fits in reader.batches(msgspec.json.Decoder(list[_Lists])):
                for record in batch if fits else map(_pick, batch):
                    found = _parse_ids(record.not_exhaustive_category_ids)
                    image = parse_record_id(record.id)
                    absent += [(image, category) for category in _parse_ids(record.neg_category_ids) or ()]
                    partial += [(image, category) for category in found or ()]
                    listed += [image] if found is not None else []
        digest = reader.sha256
    one, two, three, four = (_ids([pair[side] for pair in pairs]) for pairs in (absent, partial) for side in (0, 1))
    return LabelListFile(digest, one, two, three, four, _ids(listed))


def _pick(record: object) -> _Lists:
    found = record if isinstance(record, dict) else {}
    return _Lists(*(found.get(name) for name in ("id", _NEGATIVE, _PARTIAL)))


def _parse_ids(value: object) -> list[int | str] | None:
    """Return the ids of a list, None if it is not a list of ids."""
    if not isinstance(value, list):
        return None
    ids = [parse_record_id(one) for one in value]
    known = [one for one in ids if one is not None]
    return known if len(known) == len(ids) else None


def _ids(values: list[Any]) -> AnyArray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def check_label_lists(path: Path, exhaustive: bool | str) -> None:
    """Raise UserError where the images of a file list their labels and the definition denies it, or the reverse. All
    other labels are unknown there, so that the file is not exhaustive."""
    key = _find_key(path)
    if exhaustive == "by_image" and not key:
        reason = f"has no lists of labels per image ({_NEGATIVE}, {_PARTIAL})"
        raise UserError("families", path, reason, "set exhaustive: true if every object of every label has a box")
    if exhaustive != "by_image" and key:
        reason = f"lists per image which labels are fully annotated ({key}), so some objects have no box"
        raise UserError("families", path, reason, "set exhaustive: by_image")


def _find_key(path: Path) -> str:
    """Return the first key of a list that the file has, or ''. Reads until there."""
    with translate_read_errors("read annotations", path), safe_paths.open_regular(path) as file:
        tail = b""
        while piece := file.read(_PIECE):
            text = tail + piece
            if key := next((key for key in _KEYS if key in text), None):
                return key.decode().strip('"')
            tail = text[-len(_KEYS[1]) :]
    return ""
