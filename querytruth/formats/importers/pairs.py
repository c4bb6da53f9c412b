"""Pairs of an image and a text in a user's table: CSV, TSV, JSON (lines or a list), Parquet or the first sheet of
an .xlsx file, as OpenCLIP (filepath, title), the imagefolder of datasets (file_name, text) and most scripts write them.

A text with several images is one query, and each of the images is relevant. A column relevance or grade states the
grade of a pair, from 0 for a judged pair that is not relevant; true and false are 1 and 0, and an empty cell is an
unjudged pair.
"""

import math
from pathlib import Path

from querytruth.backends.files.column_profile import check_bad_rows
from querytruth.backends.files.spreadsheet_rows import NumberCell
from querytruth.backends.files.table_profile import COLUMN_NAMES, report_profile
from querytruth.backends.files.table_rows import find_usual_column, iterate_rows, read_columns, refuse_objects
from querytruth.backends.files.text_files import find_file, import_error
from querytruth.formats import importers
from querytruth.formats.import_layouts import CAPTION_GRADES, SINGLE_IMAGE_LIMITATION
from querytruth.formats.set_images import ImageStore, decode_base64_image, find_image_defect

_SUFFIXES = ("csv", "tsv", "jsonl", "json", "parquet", "xlsx")
_FILES = [f"{name}.{suffix}" for name in ("metadata", "captions", "pairs") for suffix in _SUFFIXES]
_IMAGES, _TEXTS, _GRADES = (COLUMN_NAMES[name] for name in ("image", "text", "grade"))
_BASE64 = ("/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR")  # how JPEG, PNG, GIF and WebP begin in base64
_LONGEST_NAME = 255  # characters
_ANSWERS = dict.fromkeys(("true", "yes", "relevant", "是", "相关"), 1) | dict.fromkeys(
    ("false", "no", "not relevant", "irrelevant", "否", "不相关"), 0
)


def read(source: Path, split: str | None, image_store: ImageStore) -> importers.ImportedTables:
    """Read the table, or metadata.csv, captions.csv and the like of a folder; `split`: the value of the column split.
    Empty cells of images and texts are listed in the ledger. Raises UserError for a table without both columns, and for
    an invalid grade."""
    path = source if source.is_file() else find_file(source, _FILES, "table of images and texts")
    names = read_columns(path, usual=(*_IMAGES, *_TEXTS, *_GRADES))
    image, text = (_find_column(path, names, usual, what) for usual, what in ((_IMAGES, "images"), (_TEXTS, "texts")))
    grade = find_usual_column(names, _GRADES)
    columns = [image, text, *([grade] if grade else []), *(["split"] if split is not None else [])]
    queries: dict[str, str] = {}
    rows, rejections, count = [], [], 0
    places: dict[str, str] = {}  # by name of an image that is in a cell, where it is in the store
    about = "every pair is relevant" if grade is None else f"grades: {grade!r}"
    unread = ", ".join(name for name in names if name.strip() and name not in columns)
    report_profile(path, f"images: {image!r}", f"texts: {text!r}", about, f"not read: {unread}" if unread else "")
    for count, (place, row) in enumerate(iterate_rows(path, columns, objects=True), 1):  # noqa: B007
        if split is not None and row["split"] != split:
            continue
        (named, problem), texts = _list_names(place, row[image], image_store, places), _list_texts(place, row[text])
        if problem:
            rejections.append(("image", place.removeprefix(f"{path.parent}/"), problem, ""))
        if not named or not texts or isinstance(row[text], NumberCell):
            if problem:
                continue
            kind, reason = ("query", "not_a_text" if texts else "empty_text")
            if not named:
                kind, reason = "image", "missing_file_name"
            rejections.append((kind, place.removeprefix(f"{path.parent}/"), reason, ""))
            continue
        relevance = _read_grade(place, row[grade]) if grade else 1
        if relevance is None:
            rejections.append(("query", place.removeprefix(f"{path.parent}/"), "no_grade", ""))
            continue
        asked = [queries.setdefault(words, str(len(queries) + 1)) for words in texts]
        rows += [(query, name, relevance) for query in asked for name in named]
    bad = ((reason, item) for _, item, reason, _ in rejections if reason != "no_grade")
    check_bad_rows("import", path, bad, count)
    query_rows = ((query, words) for words, query in queries.items())
    return importers.ImportedTables(
        queries=importers.build_query_table(query_rows, "query" if grade else "caption"),
        images=importers.build_image_table(
            (name, name, places.get(name)) for name in dict.fromkeys(name for _, name, _ in rows)
        ),
        qrels=importers.build_judgment_table(rows, "table" if grade else "caption"),
        files=[path],
        grades=importers.list_grades((row[2] for row in rows), "the table's grade") if grade else CAPTION_GRADES,
        title=path.stem,
        known_limitations=[] if grade else [SINGLE_IMAGE_LIMITATION],
        rejections=rejections,
    )


def _find_column(path: Path, names: list[str], usual: list[str], what: str) -> str:
    if (found := find_usual_column(names, usual)) is None:
        raise import_error(
            path, f"has no column of {what} (it has {', '.join(names) or 'none'})", f"name it {usual[0]}"
        )
    return found


def _read_grade(place: str, cell: object) -> int | None:
    """Return the grade, or None for an empty cell (unjudged). Raises UserError for an invalid grade."""
    text = str("" if cell is None else cell).strip().casefold()
    try:
        value = float(_ANSWERS.get(text, text or "nan"))
        if math.isnan(value):
            return None
        if value != int(value):
            raise ValueError(text)
    except (ValueError, OverflowError):
        reason = f"has the invalid grade {str(cell)[:40]!r}"
        raise import_error(place, reason, "use whole numbers, 0 for not relevant; or true and false") from None
    return int(value)


def _list_texts(place: str, cell: object) -> list[str]:
    """Return the texts of a cell except blank ones; a cell of JSON lines or Parquet may be a list. Raises UserError for
    a value that is neither a text nor a number."""
    cells = cell if isinstance(cell, list) else [cell]
    refuse_objects(place, "import", cells)
    return [str(one).strip() for one in cells if one is not None and str(one).strip()]


def _list_names(place: str, cell: object, image_store: ImageStore, places: dict[str, str]) -> tuple[list[str], str]:
    """Return the names of the images of a cell, and the reason if embedded data is not an image. An embedded image, as
    hubs store them (bytes, or bytes and path) or in base64, is put into the store, and its place into `places`."""
    names, problem = list[str](), ""
    for one in cell if isinstance(cell, list) else [cell]:
        data, name = _split_image(place, one)
        defect = find_image_defect(data) if isinstance(data, bytes) else data
        problem = problem or defect or ""
        if isinstance(data, bytes) and not defect:
            stored = image_store.put(data)
            name = name if name and places.get(name, stored) == stored else stored
            places[name] = stored
        names += [name] if name and not defect else []
    return names, problem


def _split_image(place: str, cell: object) -> tuple[bytes | str | None, str]:
    """Return the bytes of an image embedded in a cell (None: no image), the reason if they are invalid, and its
    name."""
    if isinstance(cell, dict):
        return _split_image(place, cell.get("bytes"))[0], str(cell.get("path") or "")
    if isinstance(cell, bytes):
        return cell, ""
    refuse_objects(place, "import", [cell])
    text = "" if cell is None else str(cell)
    encoded = text.partition("base64,")[2] if text.startswith("data:image/") else text
    is_encoded = encoded is not text or (len(text) > _LONGEST_NAME and text.startswith(_BASE64))
    return (decode_base64_image(encoded), "") if is_encoded else (None, text if text.strip() else "")
