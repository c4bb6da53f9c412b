"""Which queries and pictures of a recall set a page shows: the same whenever the set is, however large it is."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables
from builders.records import stable_hash

_LANGUAGES = ("zh", "en")  # the order in which the wordings of a picture are read
_STYLES = ("caption", "phrase", "keywords", "question")
_CLEANING = "clean"  # the ledger's stage of replies that hold no caption
_CANDIDATES = 2000  # rejected replies looked at per reason
_EXAMPLES = 4  # of them shown


@dataclass(frozen=True, slots=True)
class Asked:
    """One query; `also` are other pictures that are right for it, sorted."""

    query_id: str
    text: str
    language: str
    style: str
    also: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Described:
    """A picture with all that is asked of it. Without one: a query that no picture of the set is right for."""

    image_id: str | None
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Replies that are no captions, for one reason: how many, and what some of them say (item, reply)."""

    reason: str
    count: int
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RecallSelection:
    """What the page shows: described pictures of `there`, ambiguous captions as the manifest's notes have them, and
    replies that were no captions."""

    described: list[Described]
    there: int
    ambiguous: list[dict[str, Any]]
    refused: list[Refused]
    most: int  # pictures that are shown beside a query's own

    @property
    def image_ids(self) -> list[str]:
        """Every picture shown, once, in the order of the page."""
        shown = [one.image_id for one in self.described if one.image_id is not None]
        shown += [name for one in self.described for asked in one.asked for name in asked.also[: self.most]]
        for example in self.ambiguous:
            shown += [example["image_id"], *[rival["image_id"] for rival in example["rivals"]]]
        return list(dict.fromkeys(shown))


def select_described(
    tables: Tables, notes: dict[str, Any], *, pictures: int = 96, examples: int = 24, also: int = 3
) -> RecallSelection:
    """So many described pictures at most, drawn by their ids, which are digests; `notes` are the manifest's."""
    right = _right(tables)
    shown = _shown(tables.queries, right)
    there = shown.dropna().unique()
    chosen = heapq.nsmallest(pictures, there)
    lost = heapq.nsmallest(pictures - len(chosen), tables.queries.loc[shown.isna(), "query_id"])
    ambiguous = (notes.get("ambiguity") or {}).get("examples", [])[:examples]
    return RecallSelection(
        [*_described(tables.queries, shown, chosen, right), *_without_picture(tables.queries, lost)],
        len(there),
        ambiguous,
        list(_refused(tables.ledger)),
        also,
    )


def _right(tables: Tables) -> pd.DataFrame:
    """Queries with their right pictures, as far as the set has both, sorted."""
    qrels = tables.qrels[tables.qrels["relevance"] > 0]
    plain = qrels[["query_id", "image_id"]].astype("str")
    plain = plain[plain["image_id"].isin(tables.images["image_id"])]
    return plain.sort_values(["query_id", "image_id"], ignore_index=True)


def _shown(queries: pd.DataFrame, right: pd.DataFrame) -> pd.Series:
    """Per query the picture it is shown with: the one that it was written of if that is right, else the first that
    is, as in a smaller gallery that lacks its own."""
    pairs = pd.MultiIndex.from_frame(right)
    own = pd.MultiIndex.from_arrays([queries["query_id"].astype("str"), queries["source_image_id"].astype("object")])
    first = right.drop_duplicates("query_id").set_index("query_id")["image_id"]
    found: pd.Series = queries["source_image_id"].where(own.isin(pairs), queries["query_id"].map(first))
    return found


def _described(queries: pd.DataFrame, shown: pd.Series, chosen: list[str], right: pd.DataFrame) -> Iterator[Described]:
    asked = queries[shown.isin(chosen)].assign(picture=shown[shown.isin(chosen)])
    of_query = right[right["query_id"].isin(asked["query_id"])].groupby("query_id")["image_id"].agg(tuple).to_dict()
    by_picture: dict[str, list[Asked]] = {image_id: [] for image_id in chosen}
    for row in asked.itertuples(index=False):
        also = tuple(image_id for image_id in of_query[row.query_id] if image_id != row.picture)
        by_picture[row.picture].append(Asked(row.query_id, row.text, row.language, row.style, also))
    for image_id, found in by_picture.items():
        yield Described(image_id, tuple(sorted(found, key=_reading_order)))


def _without_picture(queries: pd.DataFrame, lost: Iterable[str]) -> Iterator[Described]:
    for row in queries[queries["query_id"].isin(list(lost))].sort_values("query_id").itertuples(index=False):
        yield Described(None, (Asked(row.query_id, row.text, row.language, row.style, ()),))


def _reading_order(asked: Asked) -> tuple[int, str, int, str, str]:
    return _rank(asked.language, _LANGUAGES), asked.language, _rank(asked.style, _STYLES), asked.style, asked.query_id


def _rank(value: str, order: tuple[str, ...]) -> int:
    return order.index(value) if value in order else len(order)


def _refused(ledger: pd.DataFrame) -> Iterator[Refused]:
    """The most frequent reason first."""
    rows = ledger.loc[ledger["stage"] == _CLEANING, ["item", "reason", "detail"]].astype("object")
    counts = rows["reason"].value_counts()
    for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        own = rows[rows["reason"] == reason].sort_values(["item", "detail"])
        own = own.iloc[:: -(-len(own) // _CANDIDATES)]
        drawn = heapq.nsmallest(
            _EXAMPLES, own.itertuples(index=False), key=lambda row: (stable_hash("page", row.item), row.item)
        )
        said = tuple((row.item, row.detail if isinstance(row.detail, str) else "") for row in drawn)
        yield Refused(reason, int(count), said)
