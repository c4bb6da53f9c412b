"""Rows of judgments for people: a sample chosen by hash, and pairs that a person adds to the exported table."""

import unicodedata
from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pandas as pd

from querytruth.array_types import Hashes, RowIndices
from querytruth.records import codes_of, mix_bits, stable_hash
from querytruth.sets.benchmark_set import Tables

_SHOWN_CANDIDATES = 5


class InvalidAddition(Exception):
    """A row that adds no judgment: the column and the reason."""


class JudgmentAdditions:
    """Resolves added rows against the set: the query by id, the image by id or by file name. `names`: our ids by the
    ids and names of others that the rows have."""

    def __init__(self, tables: Tables, names: Mapping[str, str] = {}) -> None:
        self._tables, self._names = tables, names

    def resolve_row(self, row: Mapping[str, str], ignores_changes: bool = False) -> dict[str, str]:
        """Return the row with query_id, image_id and text of the set, as if it had been exported; nobody judged it.
        `ignores_changes`: the text may be another one. Raises InvalidAddition."""
        query_id = row["query_id"].strip()
        query_id = query_id if query_id in self._texts else self._names.get(query_id, query_id)
        text = self._texts.get(query_id)
        if text is None:
            raise InvalidAddition(f"query_id: {query_id!r} is not a query of the set")
        if row["text"].strip() not in ("", text.strip()) and not ignores_changes:
            raise InvalidAddition(f"text: the text of {query_id} is {text!r}; leave the cell empty")
        named = {self._find_image(column, cell) for column in ("image_id", "image") if (cell := row[column].strip())}
        if not named:
            raise InvalidAddition("image_id: give the id or the file name of an image")
        if len(named) > 1:
            raise InvalidAddition(f"image: it is {max(named)}, but image_id is {min(named)}")
        return {**row, "query_id": query_id, "image_id": named.pop(), "text": text, "relevance": ""}

    def is_judged(self, query_id: str, image_id: str) -> bool:
        """Return whether the set has a judgment of the pair."""
        qrels = self._tables.qrels
        return bool(((qrels["query_id"] == query_id) & (qrels["image_id"] == image_id)).any())

    def has_name(self, name: str) -> bool:
        """Return whether an image has this id or file name."""
        return name in self._image_ids or any(_normalize(name) in names for names in self._ids_by_name)

    def _find_image(self, column: str, cell: str) -> str:
        if cell in self._image_ids:
            return cell
        candidates = next((ids for names in self._ids_by_name if (ids := names.get(_normalize(cell)))), {})
        exact = [image_id for image_id, name in candidates.items() if name == cell] or list(candidates)
        if not exact and (named := self._names.get(cell)) in self._image_ids:
            return str(named)
        if not exact:
            raise InvalidAddition(f"{column}: {cell!r} is not the id or file name of an image of the set")
        if len(exact) > 1:
            shown = ", ".join(f"{image_id} ({candidates[image_id]})" for image_id in sorted(exact)[:_SHOWN_CANDIDATES])
            more = ", …" if len(exact) > _SHOWN_CANDIDATES else ""
            raise InvalidAddition(f"{column}: {len(exact)} images have the name {cell!r}; give the id: {shown}{more}")
        return exact[0]

    @cached_property
    def _texts(self) -> dict[str, str]:
        return dict(zip(self._tables.queries["query_id"], self._tables.queries["text"], strict=True))

    @cached_property
    def _image_ids(self) -> frozenset[str]:
        return frozenset(self._tables.images["image_id"])

    @cached_property
    def _ids_by_name(self) -> list[dict[str, dict[str, str]]]:
        """Return the images by full name and by its last part, as id and name. A near-duplicate outside the gallery is
        replaced by its representative."""
        images, duplicates = self._tables.images, self._tables.duplicates
        of_group = duplicates[duplicates["is_representative"].astype(bool)]
        representatives = dict(zip(of_group["duplicate_group"], of_group["image_id"], strict=True))
        names = [
            *zip(images["path"], images["image_id"], strict=True),
            *zip(duplicates["item"], duplicates["duplicate_group"].map(representatives), strict=True),
            *zip(images["file_name"], images["image_id"], strict=True),
        ]
        whole: dict[str, dict[str, str]] = {}
        last: dict[str, dict[str, str]] = {}
        for name, image_id in names:
            if isinstance(name, str) and image_id in self._image_ids:
                whole.setdefault(_normalize(name), {})[image_id] = name
                last.setdefault(_normalize(name).rpartition("/")[2], {})[image_id] = name
        return [whole, last]


def _normalize(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/")).casefold()


def sample_rows(qrels: pd.DataFrame, sample: int) -> RowIndices:
    """Return the positions of a sample in which every query has one judgment before any query has two.

    Queries are ordered by their hashes, and so are the images of one query. A judgment's position does not depend on
    other queries' judgments: the sample is stable when these change.
    """
    if len(qrels) <= sample:
        return np.arange(len(qrels))
    query = codes_of(qrels["query_id"])
    hashes, used = _category_hashes(qrels["query_id"])
    sampled = used[np.argsort(hashes[used], kind="stable")][:sample]  # later queries cannot be in the sample
    place = np.full(len(hashes), -1, dtype=np.int64)
    place[sampled] = np.arange(len(sampled))
    rows = np.flatnonzero(place[query] >= 0)
    of_query = place[query[rows]]
    of_image = _category_hashes(qrels["image_id"])[0][codes_of(qrels["image_id"])[rows]]
    # One key by query and hash sorts ten times as fast as two.
    pair_hashes = mix_bits(hashes[query[rows]] * np.uint64(0x9E3779B97F4A7C15) + of_image)
    order = np.argsort((of_query << 40) | (pair_hashes >> np.uint64(24)).astype(np.int64), kind="stable")
    of_query = of_query[order]
    starts = np.flatnonzero(np.diff(of_query, prepend=-1))
    turn = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    return np.sort(rows[order[np.argsort(turn, kind="stable")[:sample]]])


def _category_hashes(column: pd.Series) -> tuple[Hashes, RowIndices]:
    """Return a hash per category, 0 for unused ones, and the codes that are used."""
    names = column.cat.categories.to_list()
    used = np.flatnonzero(np.bincount(codes_of(column), minlength=len(names)))
    hashes = np.zeros(len(names), dtype=np.uint64)
    hashes[used] = [stable_hash("sample", names[code]) for code in used]
    return hashes, used
