"""Tables of captions as the other side of an overlap, read as streams."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from backends.bounded_parquet import iterate_parquet, read_parquet_schema
from backends.file_errors import translate_read_errors
from backends.file_formats import refuse_repeated_columns
from backends.regular_files import open_regular
from flows.overlap.source_images import STAGE

_TEXT_COLUMNS = ("text", "caption")


def find_text_column(file: Path) -> str | None:
    """Returns the column of captions that a .csv or .parquet file has, or None."""
    if file.suffix == ".parquet":
        with translate_read_errors(STAGE, file, also=(pa.ArrowException,)):
            columns = list(read_parquet_schema(file).names)
    else:
        with translate_read_errors(STAGE, file, also=(csv.Error,)), _open_text(file) as lines:
            columns = next(csv.reader(lines), [])
    refuse_repeated_columns(STAGE, file, columns, _TEXT_COLUMNS)
    return next((name for name in _TEXT_COLUMNS if name in columns), None)


def read_texts(file: Path, column: str) -> Iterator[tuple[str, str]]:
    """Yields (`row N`, text) of a table of captions; holds one batch of rows in memory. Raises UserError."""
    row = 0
    with translate_read_errors(STAGE, file, also=(pa.ArrowException, csv.Error)):
        for texts in _text_batches(file, column):
            for text in texts:
                row += 1
                if isinstance(text, str):
                    yield f"row {row}", text


def _text_batches(file: Path, column: str) -> Iterator[list[str | None]]:
    if file.suffix == ".parquet":
        for batch in iterate_parquet(file, [column]):
            yield batch.column(0).to_pylist()
        return
    with _open_text(file) as lines:
        for record in csv.DictReader(lines):
            yield [record[column]]


def _open_text(file: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_regular(file), "utf-8-sig", newline="")
