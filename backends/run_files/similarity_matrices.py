"""Similarity matrices: a .npy file, and two lists of ids, one per line, for its rows and columns."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.file_errors import translate_read_errors
from backends.regular_files import open_regular, read_regular
from builders.errors import UserError, first_line

_STAGE = "read similarities"
_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class SimilarityMatrix:
    """The matrix (rows, columns), mapped from the file, and the ids of its rows and columns."""

    matrix: NDArray[Any]
    row_ids: list[str]
    column_ids: list[str]


def read_similarity_matrix(matrix: Path, row_ids: Path, column_ids: Path) -> SimilarityMatrix:
    """Reads a matrix of any number type. Raises UserError for another shape than the lists' and for repeated ids."""
    next_step = "write it with numpy.save"
    with translate_read_errors(_STAGE, matrix), open_regular(matrix) as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise UserError(_STAGE, matrix, "is no .npy file", next_step)
    try:
        values = np.load(matrix, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise UserError(_STAGE, matrix, f"cannot be read as .npy ({first_line(error)[:200]})", next_step) from None
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        reason = f"holds {values.ndim} axes of {values.dtype}"
        raise UserError(_STAGE, matrix, reason, "give one matrix of numbers")
    rows, columns = _ids(row_ids), _ids(column_ids)
    if values.shape != (len(rows), len(columns)):
        reason = f"is {values.shape[0]} x {values.shape[1]}, the lists have {len(rows)} and {len(columns)} ids"
        raise UserError(_STAGE, matrix, reason, "give an id per row and per column, in their order")
    return SimilarityMatrix(values, rows, columns)


def _ids(path: Path) -> list[str]:
    with translate_read_errors(_STAGE, path):
        ids = read_regular(path).decode("utf-8-sig").split("\n")
    ids = [name.removesuffix("\r") for name in (ids[:-1] if ids[-1] == "" else ids)]
    seen: set[str] = set()
    for line, name in enumerate(ids, start=1):
        if not name or name in seen:
            raise UserError(_STAGE, f"{path} line {line}", "is empty" if not name else f"has {name} again", "fix it")
        seen.add(name)
    return ids
