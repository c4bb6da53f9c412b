"""Pairs of an image and a text in a table of one's own: CSV, TSV, JSON lines, Parquet or the first sheet of an .xlsx
file, as OpenCLIP (filepath, title), the imagefolder of datasets (file_name, text) and most scripts write them.

A text that stands beside several images is one query, for which each of them is right. A column relevance or grade
states how right a pair is, from 0 for one that was judged and is wrong.
"""

from pathlib import Path
from typing import Any

from querytruth.backends.files.table_rows import iterate_rows, read_columns
from querytruth.backends.files.text_files import find_file, import_error
from querytruth.formats.import_layouts import CAPTION_GRADES, SINGLE_IMAGE_LIMITATION
from querytruth.formats.importers import (
    ImportedTables,
    build_image_table,
    build_judgment_table,
    build_query_table,
    list_grades,
)
from querytruth.formats.set_images import ImageStore

_SUFFIXES = ("csv", "tsv", "jsonl", "parquet", "xlsx")
_FILES = [f"{name}.{suffix}" for name in ("metadata", "captions", "pairs") for suffix in _SUFFIXES]
_IMAGES = ("image", "file_name", "filename", "filepath", "image_name", "image_path", "path", "file", "图片", "文件名")
_TEXTS = ("query", "text", "caption", "title", "comment", "description", "查询", "文本", "描述")
_GRADES = ("relevance", "grade", "相关性")


def read(source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Reads the table, or metadata.csv, captions.csv and the like of a folder; `split`: rows whose column split is it.
    Empty cells of images and texts are listed in the ledger. Raises UserError for a table without both columns, and for
    a grade that is no whole number."""
    path = source if source.is_file() else find_file(source, _FILES, "table of images and texts")
    names = read_columns(path)
    image, text = (_find_column(path, names, usual, what) for usual, what in ((_IMAGES, "images"), (_TEXTS, "texts")))
    grade = next((name for name in _GRADES if name in names), None)
    columns = [image, text, *([grade] if grade else []), *(["split"] if split is not None else [])]
    queries: dict[str, str] = {}
    rows, rejections = [], []
    for place, row in iterate_rows(path, columns):
        if split is not None and row["split"] != split:
            continue
        cells = [str(row[name] if row[name] is not None else "").strip() for name in (image, text)]
        if not all(cells):
            kind, reason = ("query", "empty_text") if cells[0] else ("image", "missing_file_name")
            rejections.append((kind, place.removeprefix(f"{path.parent}/"), reason, ""))
            continue
        query = queries.setdefault(cells[1], str(len(queries) + 1))
        rows.append((query, cells[0], _read_grade(place, row[grade]) if grade else 1))
    texts = ((query, words) for words, query in queries.items())
    return ImportedTables(
        queries=build_query_table(texts, "query" if grade else "caption"),
        images=build_image_table((name, name, None) for name in dict.fromkeys(name for _, name, _ in rows)),
        qrels=build_judgment_table(rows, "table" if grade else "caption"),
        files=[path],
        grades=list_grades((row[2] for row in rows), "the table's grade") if grade else CAPTION_GRADES,
        title=path.stem,
        known_limitations=[] if grade else [SINGLE_IMAGE_LIMITATION],
        rejections=rejections,
    )


def _find_column(path: Path, names: list[str], usual: tuple[str, ...], what: str) -> str:
    if (found := next((name for name in usual if name in names), None)) is None:
        raise import_error(
            path, f"has no column of {what} (it has {', '.join(names) or 'none'})", f"name it {usual[0]}"
        )
    return found


def _read_grade(place: str, cell: Any) -> int:
    try:
        value = float(cell)
        if value != int(value):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise import_error(
            place, f"has the grade {str(cell)[:40]!r}", "give whole numbers, 0 for a wrong pair"
        ) from None
    return int(value)
