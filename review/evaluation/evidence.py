"""What a set's tables know of the pictures and queries that an evaluation's page shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables
from review.evaluation.selection import NEAR, Asked, judgments_of

_MANY, _MUCH = 5, 5.0  # queries, and times as often as by chance, from which a picture comes back for everything
Moment = tuple[datetime, float, float]  # when and where: degrees north and east


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the pictures and queries that are shown."""

    texts: dict[str, str] = field(default_factory=dict)  # of queries, by id
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of queries
    captions: dict[str, dict[str, str]] = field(default_factory=dict)  # of pictures: queries they are right for
    seen: dict[str, frozenset[str]] = field(default_factory=dict)  # labels on pictures, by queries for one label
    groups: dict[str, str] = field(default_factory=dict)  # duplicate group, or digest of the bytes, by picture
    moments: dict[str, Moment] = field(default_factory=dict)  # of pictures
    suspected: dict[tuple[str, str], str] = field(default_factory=dict)  # evidence by query and picture
    right: dict[str, frozenset[str]] = field(default_factory=dict)  # right pictures, by query
    knows_wrong: bool = True  # whether the truth judges pictures not relevant at all
    intruders: dict[str, int] = field(default_factory=dict)  # queries with the picture among their first five, wrongly


def known_of(asked: Sequence[Asked], ranked: pd.DataFrame, tables: Tables | None, gallery: int | None = None) -> Known:
    """What the tables say of these queries and their results. `gallery`: how many pictures there are to find, by which
    it is told what comes back more often than by chance."""
    intruders = intruding(ranked, gallery or ranked["image_id"].nunique())
    if tables is None:
        return Known(intruders=intruders)
    names = [one.query_id for one in asked]
    truth = judgments_of(names, tables.qrels)
    results = {one.item_id for query in asked for one in query.results}
    right = {name: frozenset(image for image, j in pairs.items() if j.relevance > 0) for name, pairs in truth.items()}
    pictures = results.union(*right.values()) if right else results
    captions, labels = _captions(results, tables)
    wanted = {*names, *results, *(name for pairs in captions.values() for name in pairs), *pictures}
    rows = tables.queries[tables.queries["query_id"].isin(wanted)]
    texts = dict(zip(rows["query_id"].astype("str"), rows["text"], strict=True))
    return Known(
        texts=texts,
        labels={str(name): _labels(value) for name, value in zip(rows["query_id"], rows["labels"], strict=True)},
        captions={image: {name: texts[name] for name in found if name in texts} for image, found in captions.items()},
        seen=labels,
        groups=_groups(pictures, tables),
        moments=_moments(tables.images[tables.images["image_id"].isin(pictures)]),
        suspected=_suspicions(names, tables.suspicions),
        right=right,
        knows_wrong=bool((tables.qrels["relevance"] == 0).any()),
        intruders=intruders,
    )


def intruding(ranked: pd.DataFrame, gallery: int) -> dict[str, int]:
    """Pictures that come back for far more queries than chance has it, being right for none of these: how many."""
    first = ranked[ranked["rank"] <= NEAR]
    counts = first.loc[first["relevance"] <= 0, "image_id"].value_counts()
    least = max(_MANY, _MUCH * len(first) / max(gallery, 1))
    return {str(name): int(number) for name, number in counts[counts >= least].items()}


def _captions(images: set[str], tables: Tables) -> tuple[dict[str, list[str]], dict[str, frozenset[str]]]:
    """Per picture the queries it is right for, and the labels of those that ask for one label alone."""
    mine = tables.qrels[(tables.qrels["relevance"] > 0) & tables.qrels["image_id"].isin(images)]
    pairs = sorted(zip(mine["image_id"].astype("str"), mine["query_id"].astype("str"), strict=True))
    asking = tables.queries[tables.queries["query_id"].isin({name for _, name in pairs})]
    single = {
        str(name): labels[0]
        for name, value in zip(asking["query_id"], asking["labels"], strict=True)
        if len(labels := _labels(value)) == 1
    }
    captions: dict[str, list[str]] = {}
    labels_of: dict[str, set[str]] = {}
    for image, name in pairs:
        captions.setdefault(image, []).append(name)
        if name in single:
            labels_of.setdefault(image, set()).add(single[name])
    return captions, {image: frozenset(found) for image, found in labels_of.items()}


def _labels(value: Any) -> tuple[str, ...]:
    return tuple(str(label) for label in value) if value is not None and not isinstance(value, float) else ()


def _groups(pictures: set[str], tables: Tables) -> dict[str, str]:
    images = tables.images[tables.images["image_id"].isin(pictures)]
    found: dict[str, str] = {}
    for frame, column in ((images, "sha256"), (images, "duplicate_group"), (tables.duplicates, "duplicate_group")):
        mine = frame[frame["image_id"].isin(pictures) & frame[column].notna()]
        found |= dict(zip(mine["image_id"].astype("str"), mine[column].astype("str"), strict=True))
    return found


def _moments(images: pd.DataFrame) -> dict[str, Moment]:
    known = images[images["taken_at"].notna() & images["latitude"].notna() & images["longitude"].notna()]
    found = {}
    for row in known.itertuples(index=False):
        try:
            found[str(row.image_id)] = (datetime.fromisoformat(row.taken_at), row.latitude, row.longitude)
        except ValueError:  # a camera may write the 31st of February
            continue
    return found


def _suspicions(query_ids: list[str], suspicions: pd.DataFrame) -> dict[tuple[str, str], str]:
    mine = suspicions[suspicions["query_id"].isin(query_ids)].astype("object")
    return {(str(row.query_id), str(row.image_id)): str(row.evidence) for row in mine.itertuples(index=False)}
