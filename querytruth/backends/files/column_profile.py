"""Properties of whole columns, found before any row is read: the number format, the scale of scores, the share of bad
rows. A file that contradicts itself is refused with three of its rows and the option that resolves it (`tables` of a
definition).
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from querytruth.defaults import hold_value
from querytruth.errors import UserError

if TYPE_CHECKING:
    from querytruth.array_types import FloatArray

_FEWEST_BAD = 2  # rows that are left out of any file
_NUMBER = re.compile(r"([+-]?)(\d[\d.,' ]*|[.,]\d+)(e[+-]?\d+)? ?([kmb千万萬億亿%]?)", re.IGNORECASE)
_GROUPED = (
    r"(?:\d+|\d{{1,3}}(?:[{0}' ]\d{{3}})+|\d{{1,2}}(?:[{0}]\d{{2}})+[{0}]\d{{3}}|)(?:{1}\d*)?"  # 12,34,567: India
)
_FORMS = {".": re.compile(_GROUPED.format(",", r"\.")), ",": re.compile(_GROUPED.format(".", ","))}
_THOUSANDS = re.compile(r"([1-9]\d{0,2})[.,]\d{3}")  # or one, with three digits behind the mark
_OTHER = {".": ",", ",": "."}
_TIMES = {"k": 1e3, "m": 1e6, "b": 1e9, "千": 1e3, "万": 1e4, "萬": 1e4, "億": 1e8, "亿": 1e8}
_MARKS = str.maketrans({"−": "-", "’": "'", "ʼ": "'", "٬": "'", "٫": "."})


class ReadingOptions(BaseModel):
    """How foreign tables are read; null: detected from the file. `encoding`: such as gb18030; `sheet`: the sheet of a
    workbook; `numbers`: the number format; `scores`: the score that means certain (1, 100), or logits; `boxes`: the
    meaning of their four numbers; `bad_rows`: the share of a file's rows that may be left out for one reason."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    encoding: str | None = None
    sheet: str | None = None
    numbers: Literal["1,234.5", "1.234,5"] | None = None
    scores: Annotated[float, Field(gt=0)] | Literal["logits"] | None = None
    boxes: Literal["xywh", "corners", "centre"] | None = None
    bad_rows: float = Field(0.1, ge=0, le=1)


_options: ContextVar[ReadingOptions] = ContextVar("tables", default=ReadingOptions())  # noqa: B039 - frozen


def use_table_options(options: ReadingOptions) -> AbstractContextManager[None]:
    """Have the readers of this context read tables by the options."""
    return hold_value(_options, options)


find_table_options = _options.get


def check_bad_rows(stage: str, item: object, bad: Iterable[tuple[str, str]], total: int) -> None:
    """Raise UserError where one reason leaves out more than the accepted share of the rows. `bad`: reason and row."""
    by_reason: dict[str, list[str]] = {}
    for reason, row in bad:
        by_reason.setdefault(reason, []).append(row)
    for reason, rows in by_reason.items():
        if len(rows) > max(_FEWEST_BAD, find_table_options().bad_rows * total):
            shown = f"{'; '.join(row[:80] for row in rows[:3])}{' …' if len(rows) > 3 else ''}"
            share = math.ceil(100 * len(rows) / total) / 100
            problem = f"{len(rows):,} of {total:,} rows would be left out as {reason.replace('_', ' ')} ({shown})"
            raise UserError(stage, item, problem, f"fix the file, or accept the loss: tables.bad_rows: {share:g}")


def is_number(text: str) -> bool:
    """Return whether a cell is a number, however it is written."""
    return _NUMBER.fullmatch(_fold_number(text)) is not None


def _fold_number(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip().translate(_MARKS)


class NumberForm(NamedTuple):
    """The number format of a column: its decimal mark, and whether all numbers are whole."""

    decimal: str
    is_whole: bool

    def read(self, value: Any) -> float | None:
        """Return the number (a percentage without its sign), or None if the text is not a number in this format."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        parts = _NUMBER.fullmatch(_fold_number(value)) if isinstance(value, str) else None
        if isinstance(value, str) and (parts is None or not _FORMS[self.decimal].fullmatch(parts[2].strip())):
            return None
        if parts is not None:
            digits = re.sub("[,.' ]", lambda found: "." if found[0] == self.decimal else "", parts[2])
            value = float(f"{parts[1]}{digits}{parts[3] or ''}") * _TIMES.get(parts[4].casefold(), 1.0)
        number = round(value, 6) if self.is_whole and abs(value) < 1e15 else float(value)
        return None if not math.isfinite(number) or (self.is_whole and number % 1) else float(number)


def find_number_form(
    stage: str, item: object, cells: Iterable[Any], delimiter: str = "", *, is_whole: bool = False
) -> NumberForm:
    """Return the number format of all cells. 1.204 can mean 1.204 or 1204: other cells decide, then whether all are
    whole, then the delimiter (a semicolon implies decimal commas). Raises UserError if the cells use both formats."""
    given = find_table_options().numbers
    if given is not None:
        return NumberForm(given[-2], is_whole)
    sure: dict[str, list[str]] = {".": [], ",": []}
    open_: dict[str, list[str]] = {".": [], ",": []}
    for cell in cells:
        parts = _NUMBER.fullmatch(_fold_number(cell)) if isinstance(cell, str) else None
        marks = re.sub("[^.,]", "", parts[2]) if parts else ""
        if parts and marks and _THOUSANDS.fullmatch(parts[2]) and not parts[3] and parts[4] in ("", "%"):
            open_[marks].append(cell)
        elif marks:  # the last one, unless there are several of one kind
            is_decimal = len(marks) == 1 or len(set(marks)) > 1
            sure[marks[-1] if is_decimal else _OTHER[marks[-1]]].append(cell)
    if is_whole and not any(sure.values()):  # 1.204 is a thousand, but 2.000 may be two
        is_open = all(cell.strip().endswith(".000") for cell in open_["."]) and delimiter != ";"
        sure = {",": open_["."], ".": open_["."] if is_open else open_[","]}
    if all(sure.values()):
        shown = ", ".join([*dict.fromkeys([*sure["."][:2], *sure[","][:2]])][:4])
        reason = f"has ambiguous numbers, 1.204 may mean 1.204 or 1204: {shown}"
        raise UserError(stage, item, reason, 'set the number format: tables.numbers: "1.234,5", or "1,234.5"')
    has_comma = bool(sure[","]) or (not sure["."] and delimiter == ";" and bool(open_[","]))
    return NumberForm("," if has_comma else ".", is_whole)


def read_scores(stage: str, item: object, cells: "Sequence[Any] | FloatArray") -> "tuple[FloatArray, str]":
    """Return the scores of all cells from 0 to 1 (NaN: not a score) and their scale: up to 1, per cent, or the scale of
    the options. Raises UserError if too many scores fit no scale."""
    import numpy as np  # of no use to most readers, and slow to load

    raw, is_percent, given = np.asarray(cells), np.zeros(1, dtype=bool), find_table_options().scores
    if not isinstance(cells, np.ndarray):
        form = find_number_form(stage, item, cells)
        raw = np.array([math.nan if (value := form.read(cell)) is None else value for cell in cells])
        is_percent = np.array([isinstance(cell, str) and cell.strip().endswith(("%", "％")) for cell in cells])
    if given == "logits":
        return 1 / (1 + np.exp(-raw)), "logits"
    known = raw[np.isfinite(raw)]
    few, outside = 0.1 * len(known), ((known < 0) | (known > 1)).sum()
    if given is None and not is_percent.any() and outside <= max(_FEWEST_BAD, few) and 3 * outside <= len(known):
        given = 1.0
    elif given is None and ((known < 0) | (known > 100)).sum() <= few:
        is_large = not is_percent.any() and ((known > 0) & (known < 1)).sum() <= few
        given = 100.0 if is_large or is_percent.all() else None
    if given is None:
        order = np.argsort(raw, kind="stable")[: len(known)]
        shown = ", ".join(f"{cells[place]!s:.12}" for place in (order[0], order[len(order) // 2], order[-1]))
        reason = f"has {len(known):,} scores on no single scale (0 to 1, or per cent), such as {shown}"
        raise UserError(stage, item, reason, "set the score that means certain: tables.scores: 100 (or 1), or logits")
    scores = raw / given
    return np.where((scores >= 0) & (scores <= 1), scores, np.nan), f"up to {given:g}"
