"""The listing of a source, in little more memory than the names take: a source may hold millions."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

NUMBER_COLUMNS = ("latitude", "longitude")
CARRIED_COLUMNS = ("source_url", "page_url", "licence", "taken_at", *NUMBER_COLUMNS)


@dataclass(frozen=True, slots=True)
class SourceListing:
    """`items` are sorted and unique. `refused` (item, reason, detail) has a row per entry that is no item. `carried`
    has a row per item with those of CARRIED_COLUMNS that the table has; None where it has none."""

    items: pa.LargeStringArray
    refused: pa.Table
    carried: pa.Table | None


class ListingBuilder:
    """Collects what a source lists, entry by entry."""

    def __init__(self, carried: Sequence[str] = ()) -> None:
        self._items = _Texts()
        self._refused = (_Texts(), _Texts(), _Texts())
        self._carried = {name: _Numbers() if name in NUMBER_COLUMNS else _Texts() for name in carried}

    def accept(self, item: str, values: Iterable[Any] = ()) -> None:
        """Adds an item, with a value for each carried column: "" or NaN where there is none."""
        self._items.add(item)
        for column, value in zip(self._carried.values(), values, strict=True):
            column.add(value)

    def refuse(self, item: str, reason: str, detail: str | None = None) -> None:
        """Adds an entry that is no item, with its reason."""
        for column, value in zip(self._refused, (item, reason, detail or ""), strict=True):
            column.add(value)

    def build(self) -> SourceListing:
        """Returns the listing. Of repeated items the first entry counts. Call it once."""
        items, self._items = self._items.values(), _Texts()
        order = pc.sort_indices(items)
        items = items.take(order)
        # Column by column, so that only one of them is in memory twice.
        carried = {name: self._carried.pop(name).nullable().take(order) for name in list(self._carried)}
        again = pc.equal(items[1:], items[:-1])
        if pc.any(again).as_py():
            for item in items[1:].filter(again):
                self.refuse(item.as_py(), "listed_twice")
            first = pa.concat_arrays([pa.array([True]), pc.invert(again)])
            items = items.filter(first)
            carried = {name: column.filter(first) for name, column in carried.items()}
        item, reason, detail = self._refused
        refused = pa.table({"item": item.values(), "reason": reason.values(), "detail": detail.nullable()})
        in_order = [("item", "ascending"), ("reason", "ascending"), ("detail", "ascending")]
        return SourceListing(items, refused.sort_by(in_order), pa.table(carried) if carried else None)


class _Texts:
    """Strings in one buffer, which takes a third of a list's memory."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("q", [0])

    def add(self, text: str) -> None:
        self._bytes += text.encode("utf-8", "backslashreplace")
        self._ends.append(len(self._bytes))

    def values(self) -> pa.LargeStringArray:
        """Returns all of them without a copy; nothing can be added afterwards."""
        ends, data = pa.py_buffer(self._ends), pa.py_buffer(self._bytes)
        return pa.LargeStringArray.from_buffers(len(self._ends) - 1, ends, data)

    def nullable(self) -> pa.LargeStringArray:
        """Returns all of them, null where empty."""
        values = self.values()
        _, ends, data = values.buffers()
        return pa.LargeStringArray.from_buffers(len(values), ends, data, pc.not_equal(values, "").buffers()[1])


class _Numbers:
    """Numbers in one buffer."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, number: float) -> None:
        self._values.append(number)

    def nullable(self) -> pa.DoubleArray:
        """Returns all of them, null where NaN."""
        values = pa.Array.from_buffers(pa.float64(), len(self._values), [None, pa.py_buffer(self._values)])
        return pc.if_else(pc.is_nan(values), None, values)
