"""The ledger of a version as people go through it: by what turned items away, the nearest to its cut first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from builders.gallery.picture_filters import missed_by
from builders.records import content_id
from builders.rescuable import is_rescuable

MOST = 2000  # rejects in a queue
_OF_A_GROUP = ("stage", "kind", "bucket", "reason")
Rows = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Group:
    """Rejects of one kind, turned away at one stage for one reason."""

    stage: str
    kind: str
    bucket: str
    reason: str

    @property
    def is_rescuable(self) -> bool:
        """Whether a build can let them in."""
        return is_rescuable(self.stage, self.kind, self.bucket, self.reason)


@dataclass(frozen=True, slots=True)
class Reject:
    """A row of the ledger. `key` names it on the page: its place and a digest of what stands there, so that a page
    which is left open cannot mean another row."""

    key: str
    item: str
    detail: str
    group: Group


@dataclass(frozen=True, slots=True)
class RejectFilter:
    """What a person wants to see; empty words let everything through."""

    stage: str = ""
    reason: str = ""
    bucket: str = ""
    state: str = "all"
    search: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a queue, and per group (by its place in `RejectTable.groups`) how many there are, and are listed."""

    rows: Rows
    found: dict[int, int]
    listed: dict[int, int]


class RejectTable:
    """Columns, never an object per row: a gallery may have turned a million pictures away."""

    def __init__(self, ledger: pd.DataFrame) -> None:
        self._items, self._details = (texts_of(ledger[name]) for name in ("item", "detail"))
        self.groups, self._group = _grouped(ledger)
        missed = missed_by(self._details)
        self._order = np.lexsort((missed, self._group))  # of the same distance in the ledger's order, which is by name

    def __len__(self) -> int:
        return len(self._items)

    def counts(self) -> dict[Group, int]:
        """How many rejects each group has."""
        found = np.bincount(self._group, minlength=len(self.groups))
        return {group: int(number) for group, number in zip(self.groups, found, strict=True)}

    def listed(self, wanted: RejectFilter, decided: Mask) -> Listed:
        """The rows that pass, each group's share of at most MOST of them, the nearest to a cut first. `decided`: per
        row whether somebody wants it."""
        mask = self._passing(wanted, decided)[self._order]
        rows = self._order[mask]
        groups = self._group[rows]
        found = np.bincount(groups, minlength=len(self.groups))
        share = _shares(found, MOST)
        first = np.cumsum(found) - found  # rows are by group
        kept = rows[np.arange(len(rows)) - first[groups] < share[groups]]
        there = np.flatnonzero(found)
        return Listed(kept, {int(n): int(found[n]) for n in there}, {int(n): int(share[n]) for n in there})

    def rejects(self, rows: Sequence[int] | Rows) -> list[Reject]:
        """The rows of these places."""
        places = pa.array(rows, pa.int64())
        items, details = (column.take(places).to_pylist() for column in (self._items, self._details))
        groups = [self.groups[code] for code in self._group[np.asarray(rows, dtype=np.int64)]]
        told = zip(rows, items, details, groups, strict=True)
        return [Reject(_key(int(row), item, group), item, detail, group) for row, item, detail, group in told]

    def row_of(self, key: str) -> int | None:
        """The place of the reject that a page names so; None where there is none."""
        place = key.partition("-")[0]
        if not (place.isascii() and place.isdigit() and len(place) < 12 and int(place) < len(self)):
            return None
        row = int(place)
        return row if self.rejects([row])[0].key == key else None

    def rows_of(self, items: Iterable[str]) -> dict[str, Rows]:
        """The places where the ledger names these items."""
        wanted = pa.array(sorted({item for item in items if _is_text(item)}), pa.string())
        rows = np.flatnonzero(pc.is_in(self._items, wanted).to_numpy(zero_copy_only=False))
        found: dict[str, list[int]] = {}
        for row, item in zip(rows, self._items.take(pa.array(rows)).to_pylist(), strict=True):
            found.setdefault(item, []).append(int(row))
        return {item: np.array(places, dtype=np.int64) for item, places in found.items()}

    def of_kinds(self, rows: Rows, kinds: Iterable[str]) -> Rows:
        """Those of the rows whose items are of these kinds."""
        wanted = [code for code, group in enumerate(self.groups) if group.kind in kinds]
        return rows[np.isin(self._group[rows], wanted)]

    def _passing(self, wanted: RejectFilter, decided: Mask) -> Mask:
        asked = {"stage": wanted.stage, "reason": wanted.reason, "bucket": wanted.bucket}
        groups = [
            all(not word or getattr(group, name) == word for name, word in asked.items()) for group in self.groups
        ]
        mask: Mask = np.array(groups, dtype=bool)[self._group]
        if wanted.state != "all":
            mask &= decided == (wanted.state == "decided")
        if (word := wanted.search.strip()) and _is_text(word):
            for_both = (pc.match_substring(column, word, ignore_case=True) for column in (self._items, self._details))
            mask &= pc.or_(*for_both).to_numpy(zero_copy_only=False)
        return mask


def texts_of(column: pd.Series) -> pa.Array:
    """A column of texts as Arrow holds them, nothing as ""; what is no text (half a character) with a mark in its
    place, as a page would have to show it."""
    try:
        texts = pa.chunked_array(pa.array(column, pa.string(), from_pandas=True)).combine_chunks()
        texts.validate(full=True)
    except (pa.ArrowException, TypeError, UnicodeError):
        whole = pa.array(column.array, pa.binary(), from_pandas=True) if _is_arrow(column) else None
        rows = column if whole is None else whole.to_pylist()
        texts = pa.array([_mended(value) for value in rows], pa.string())
    return texts.fill_null("")


def _is_arrow(column: pd.Series) -> bool:
    return hasattr(column.array, "__arrow_array__")


def _mended(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _is_text(word: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in word)


def _grouped(ledger: pd.DataFrame) -> tuple[list[Group], Rows]:
    """The groups, those that can be rescued first and else as the build went, and each row's."""
    codes = [ledger[name].astype("category").cat for name in _OF_A_GROUP]
    shape = [max(len(one.categories), 1) for one in codes]
    flat = np.ravel_multi_index([one.codes.to_numpy(dtype=np.int64) for one in codes], shape)
    distinct, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    named = np.unravel_index(distinct, shape)
    groups = [
        Group(*(str(one.categories[place[n]]) for one, place in zip(codes, named, strict=True)))
        for n in range(len(distinct))
    ]
    stages: dict[str, int] = {}
    for n in np.argsort(first, kind="stable"):
        stages.setdefault(groups[n].stage, len(stages))
    order = sorted(
        range(len(groups)), key=lambda n: (not groups[n].is_rescuable, stages[groups[n].stage], groups[n].reason)
    )
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups))
    return [groups[n] for n in order], rank[inverse.ravel()]


def _shares(found: Rows, most: int) -> Rows:
    """How many each group gets of `most`: all that it has, or as many as any other that does not."""
    share, left = np.zeros_like(found), most
    for place, n in enumerate(np.argsort(found, kind="stable")):
        share[n] = min(found[n], left // (len(found) - place))
        left -= int(share[n])
    return share


def _key(row: int, item: str, group: Group) -> str:
    return f"{row}-{content_id('r', item, group.stage, group.kind, group.bucket, group.reason)[2:14]}"
