"""Label tables and compatible-label maps: folders with labels.csv, tree.csv and compatible.csv; some are shipped."""

import csv
import hashlib
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from backends.file_formats import refuse_repeated_columns
from backends.regular_files import read_regular
from backends.spreadsheet_csv import unescape_formula
from builders.errors import UserError
from builders.manifest_records import InputRecord

# A link to the folder datasets/ of a checkout; a folder of the package where that is installed.
DATASETS_FOLDER = Path(__file__).parents[1] / "shipped"
_STAGE = "read label table"


def list_shipped_tables() -> list[str]:
    """Returns the names of the shipped tables."""
    return sorted(folder.parent.name for folder in DATASETS_FOLDER.glob("*/labels.csv"))


def find_table_folder(labels: str) -> Path:
    """Returns the folder for a shipped name or a path. Raises UserError where it is neither."""
    for folder in (DATASETS_FOLDER / labels, Path(labels).expanduser()):
        if (folder / "labels.csv").is_file():
            return folder
    choices = ", ".join([*list_shipped_tables(), "from_annotations", "from_supercategories"])
    reason = "is neither a shipped label table nor a folder with labels.csv"
    raise UserError(_STAGE, labels, reason, f"choose from {choices}, or give a folder")


def find_fitting_table(names: Iterable[str]) -> str | None:
    """Returns the shipped table that has all of the names, whatever their case; None where there is none."""
    wanted = {name.strip().casefold() for name in names}
    for table in list_shipped_tables():
        listed, _ = read_label_csv(find_table_folder(table) / "labels.csv")
        if wanted <= {name.strip().casefold() for name in listed["name"]}:
            return table
    return None


def find_compatibility_file(compatible: str) -> Path:
    """Returns the compatible-label file for a shipped name or a path. Raises UserError where it is neither."""
    for path in (DATASETS_FOLDER / compatible / "compatible.csv", Path(compatible).expanduser()):
        if path.is_file():
            return path
    next_step = f"choose from {', '.join(list_shipped_tables())}, or give a CSV file"
    raise UserError(_STAGE, compatible, "is neither a shipped map nor a file", next_step)


def read_label_csv(path: Path) -> tuple[pd.DataFrame, InputRecord]:
    """Returns the cells as text, and the file's input record.

    Raises UserError if the file cannot be read, is not CSV in UTF-8, is empty, or has rows of different lengths.
    """
    try:
        data = read_regular(path)
        rows = list(csv.reader(data.decode("utf-8-sig").splitlines(), strict=True))
    except OSError as error:
        raise UserError(_STAGE, path, f"cannot be read ({error.strerror})", "check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(_STAGE, path, f"is no CSV in UTF-8 ({error})", "save it as CSV UTF-8") from None
    if not rows:
        raise UserError(_STAGE, path, "is empty", "give it a line of column names")
    refuse_repeated_columns(_STAGE, path, rows[0], rows[0])
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            reason = f"has {len(row)} cells, the header {len(rows[0])}"
            raise UserError(_STAGE, f"{path} row {number}", reason, "quote cells that hold commas")
    frame = pd.DataFrame(rows[1:], columns=pd.Index(rows[0], dtype="str"), dtype="str")
    frame = frame.map(unescape_formula)
    # Official names may contain blanks at their ends; all other cells are written by hand.
    frame = frame.assign(**{c: frame[c].str.strip() for c in frame.columns if c != "name"})
    name, sha256 = f"{path.parent.name}/{path.name}", hashlib.sha256(data).hexdigest()
    return frame, InputRecord(name, sha256, {"rows": len(frame)})


def read_former_names(folder: Path) -> dict[str, set[str]]:
    """Returns the names of other versions of the label set, by version, from files like v1_names.csv in the folder."""
    names_by_version = {}
    for path in sorted(folder.glob("*_names.csv")):
        frame, _ = read_label_csv(path)
        names_by_version[f"{folder.name} {path.name.removesuffix('_names.csv')}"] = set(frame["name"])
    return names_by_version
