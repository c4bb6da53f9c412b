"""TREC formats: runs (`query Q0 image rank score tag`) and qrels (`query 0 image grade`), separated by blanks.

As in trec_eval, the rank and fields after the tag are ignored, and a grade below 0 means that the pair is not judged.
Lines that begin with # are comments.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from backends.file_errors import translate_read_errors
from backends.run_files.run_table_builder import RunTableBuilder
from builders.errors import UserError

RUN_FILE_STAGE = "read run file"


def read_trec_run(path: Path) -> pd.DataFrame:
    """Returns a table query_id, image_id, score. Raises UserError."""
    rows = RunTableBuilder()
    for line, fields in _lines(path):
        if len(fields) < 5:
            raise _line_error(path, line, f"has {len(fields)} fields", "write query Q0 image rank score tag")
        rows.add(fields[0], fields[2], parse_number(path, line, fields[4]))
    return rows.build_table("score")


def read_trec_qrels(path: Path) -> pd.DataFrame:
    """Returns a table query_id, image_id, relevance (int16) of the judged pairs. Raises UserError."""
    rows = RunTableBuilder()
    with translate_read_errors("read qrels", path):
        for line, fields in _lines(path):
            if len(fields) < 4:
                raise _line_error(path, line, f"has {len(fields)} fields", "write query 0 image grade")
            grade = parse_number(path, line, fields[3])
            if not abs(grade) < 30_000 or grade != int(grade):
                raise _line_error(path, line, f"has the grade {fields[3]}", "give a whole number below 30,000")
            if grade >= 0:
                rows.add(fields[0], fields[2], grade)
    return rows.build_table("relevance").astype({"relevance": "int16"})


def parse_number(path: Path, line: int, text: str) -> float:
    """Returns the number in a field. Raises UserError for what is no number."""
    try:
        if "_" in text:  # Python reads 1_000 as a number
            raise ValueError
        return float(text)
    except ValueError:
        raise _line_error(path, line, f"has {text[:40]!r} where a number is wanted", "fix the line") from None


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    with path.open(encoding="utf-8-sig") as file:
        for line, text in enumerate(file, start=1):
            if (fields := text.split()) and not text.startswith("#"):
                yield line, fields


def _line_error(path: Path, line: int, reason: str, next_step: str) -> UserError:
    return UserError(RUN_FILE_STAGE, f"{path} line {line}", reason, next_step)
