"""The ledger of a version for review: grouped by the rule, the nearest to its threshold first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.records import content_id
from querytruth.review.deck import CardFilter, ShortText
from querytruth.sets.decision_outcomes import is_overridable
from querytruth.sets.ledger import describe_rejection

MAX_QUEUE_LENGTH = 2000  # rejections
_GROUP_COLUMNS = ("stage", "kind", "bucket", "reason")
_TEXT_COLUMNS = ("item", "item_id", "measure", "related_item", "image_id", "language", "text", "detail")
_SEARCHED_COLUMNS = ("item", "related_item", "text", "detail")
_NUMBER_COLUMNS = ("value", "threshold", "rank")


@dataclass(frozen=True, slots=True)
class RejectionGroup:
    """The rejections of one kind at one stage for one reason."""

    stage: str
    kind: str
    bucket: str
    reason: str

    @property
    def is_overridable(self) -> bool:
        """Return whether a build can accept them after an override."""
        return is_overridable(self.stage, self.kind, self.bucket, self.reason)


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """A row of the ledger. `key`: its row number and a digest of its content, so that a page that was left open cannot
    name another row. `description`: its measured value and other details."""

    key: str
    group: RejectionGroup
    item: str
    item_id: str
    image_id: str
    language: str
    text: str
    related_item: str
    description: str

    @property
    def name(self) -> str:
        """Return the name for people: the text where the ledger has an id as the item."""
        return self.text if self.text and self.item == self.item_id else self.item


class RejectionFilter(CardFilter):
    """A filter of rejections; an empty text excludes none."""

    stage: ShortText = ""
    reason: ShortText = ""
    bucket: ShortText = ""


class RejectionTable:
    """The ledger as columns without an object per row, for ledgers of a million rows."""

    def __init__(self, ledger: pd.DataFrame) -> None:
        texts = {name: to_text_array(ledger[name]) for name in _TEXT_COLUMNS}
        numbers = {name: pa.array(ledger[name], pa.float64(), from_pandas=True) for name in _NUMBER_COLUMNS}
        self._rows = pa.table(texts | numbers)
        self.groups, self._group = _grouped(ledger)
        self._order = np.lexsort((relative_misses(ledger), self._group))  # equal distances keep the ledger's order

    def __len__(self) -> int:
        return len(self._rows)

    def count_by_group(self) -> dict[RejectionGroup, int]:
        """Return the number of rejections of each group."""
        sizes = np.bincount(self._group, minlength=len(self.groups))
        return {group: int(number) for group, number in zip(self.groups, sizes, strict=True)}

    def build_queue(
        self, rejection_filter: RejectionFilter, decided: BoolArray
    ) -> tuple[RowIndices, dict[int, tuple[int, int]]]:
        """Return the rows that pass, at most MAX_QUEUE_LENGTH shared among the groups, the nearest to a threshold
        first; and by position in `groups` the size of a group and how many are listed. `decided`: whether each row is
        overridden, shape (rows,)."""
        mask = self._passing(rejection_filter, decided)[self._order]
        rows = self._order[mask]
        groups = self._group[rows]
        group_sizes = np.bincount(groups, minlength=len(self.groups))
        share = _shares(group_sizes, MAX_QUEUE_LENGTH)
        first = np.cumsum(group_sizes) - group_sizes  # rows are by group
        listed_rows = rows[np.arange(len(rows)) - first[groups] < share[groups]]
        return listed_rows, {int(n): (int(group_sizes[n]), int(share[n])) for n in np.flatnonzero(group_sizes)}

    def get_rejections(self, rows: Sequence[int] | RowIndices) -> list[RejectedItem]:
        """Return the rejected items of these row numbers."""
        groups = [self.groups[code] for code in self._group[np.asarray(rows, dtype=np.int64)]]
        fields = self._rows.take(pa.array(rows, pa.int64())).to_pylist()
        return [_rejected_item(int(row), group, own) for row, group, own in zip(rows, groups, fields, strict=True)]

    def find_row(self, key: str) -> int | None:
        """Return the row number of a key, None for an unknown one."""
        place = key.partition("-")[0]
        if not (place.isascii() and place.isdigit() and len(place) < 12 and int(place) < len(self)):
            return None
        row = int(place)
        return row if self.get_rejections([row])[0].key == key else None

    def find_rows(self, items: Iterable[str]) -> dict[str, RowIndices]:
        """Return the row numbers of these names or ids."""
        searched_items = pa.array(sorted({item for item in items if _is_text(item)}), pa.string())
        rows_by_item: dict[str, set[int]] = {}
        for column in (self._rows["item"], self._rows["item_id"]):
            rows = np.flatnonzero(pc.is_in(column, searched_items).to_numpy())
            for row, item in zip(rows, column.take(pa.array(rows)).to_pylist(), strict=True):
                rows_by_item.setdefault(item, set()).add(int(row))
        return {item: np.array(sorted(places), dtype=np.int64) for item, places in rows_by_item.items()}

    def _passing(self, rejection_filter: RejectionFilter, decided: BoolArray) -> BoolArray:
        wanted = {name: value for name in ("stage", "reason", "bucket") if (value := getattr(rejection_filter, name))}
        groups = [all(getattr(group, name) == value for name, value in wanted.items()) for group in self.groups]
        mask: BoolArray = np.array(groups, dtype=bool)[self._group]
        if rejection_filter.state != "all":
            mask &= decided == (rejection_filter.state == "decided")
        if (search_text := rejection_filter.search.strip()) and _is_text(search_text):
            columns = [self._rows[name] for name in _SEARCHED_COLUMNS]
            columns.append(self._rows["value"].cast(pa.string()).fill_null(""))
            found = (pc.match_substring(column, search_text, ignore_case=True).to_numpy() for column in columns)
            mask &= np.logical_or.reduce(list(found))
        return mask


def to_text_array(column: pd.Series) -> pa.Array:
    """Return a column of texts as an Arrow array; nulls become "", and invalid characters U+FFFD or ?."""
    try:
        texts = pa.chunked_array(pa.array(column, pa.string(), from_pandas=True)).combine_chunks()
        texts.validate(full=True)
    except (pa.ArrowException, TypeError, UnicodeError):
        is_arrow = hasattr(column.array, "__arrow_array__")
        rows = pa.array(column.array, pa.binary(), from_pandas=True).to_pylist() if is_arrow else column
        texts = pa.array([_replace_invalid(value) for value in rows], pa.string())
    return texts.fill_null("")


def _replace_invalid(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _is_text(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _grouped(ledger: pd.DataFrame) -> tuple[list[RejectionGroup], RowIndices]:
    """Return the groups, those that can be overridden first, then in the order of stages; and the group of each row."""
    columns = ledger[list(_GROUP_COLUMNS)]
    rows = columns.drop_duplicates().itertuples(index=False, name=None)
    groups = [RejectionGroup(*map(str, row)) for row in rows]  # in the order of the ledger, as the numbers of groupby
    numbers = columns.groupby(list(_GROUP_COLUMNS), observed=True, sort=False).ngroup().to_numpy(dtype=np.int64)
    stages = list(dict.fromkeys(group.stage for group in groups))
    order = sorted(
        range(len(groups)),
        key=lambda n: (not groups[n].is_overridable, stages.index(groups[n].stage), groups[n].reason),
    )
    return [groups[n] for n in order], np.argsort(order)[numbers]


def _shares(group_sizes: RowIndices, most: int) -> RowIndices:
    """Return the share of each group in `most`: all of its rows, or as many as any other cut group."""
    share, left = np.zeros_like(group_sizes), most
    for place, n in enumerate(np.argsort(group_sizes, kind="stable")):
        share[n] = min(group_sizes[n], left // (len(group_sizes) - place))
        left -= int(share[n])
    return share


def relative_misses(ledger: pd.DataFrame) -> FloatArray:
    """Return per row the distance of the value from its threshold, relative to the threshold (absolute for a threshold
    of 0); NaN where nothing was measured. Shape (rows,)."""
    value, threshold = (ledger[name].to_numpy(np.float64, na_value=np.nan) for name in ("value", "threshold"))
    with np.errstate(invalid="ignore"):  # a ledger may hold values beyond all bounds
        share: FloatArray = np.abs(value - threshold) / np.where(threshold == 0, 1, np.abs(threshold))
    return share


def _rejected_item(row: int, group: RejectionGroup, fields: dict[str, Any]) -> RejectedItem:
    texts = {name: fields[name] for name in _TEXT_COLUMNS if name not in ("measure", "detail")}
    description = ", ".join(describe_rejection(fields))
    digest = content_id("r", texts["item"], group.stage, group.kind, group.bucket, group.reason)[2:14]
    return RejectedItem(f"{row}-{digest}", group, description=description, **texts)
