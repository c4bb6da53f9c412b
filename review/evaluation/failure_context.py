"""Facts from a set's tables on the images and queries that an evaluation page shows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pandas as pd

from builders.benchmark_set import Tables
from review.evaluation.query_selection import MIDDLE_MAX_RANK, SelectedQuery, collect_judgments
from review.page_parts import labels_or_empty

# A hub image is wrongly among the first five of so many queries, and so many times more often than by chance.
_HUB_MIN_QUERIES, _HUB_MIN_RATIO = 5, 5.0
CaptureMoment = tuple[datetime, float, float]  # when and where: degrees north and east


@dataclass(frozen=True, slots=True)
class FailureContext:
    """Facts by query id and image id. `image_captions`: texts of the queries that an image is relevant for, by query
    id; `image_labels`: labels from queries for one label; `duplicate_groups`: group, or digest of the bytes;
    `candidate_judgments`: evidence by (query_id, image_id); `has_negatives`: whether the set has judgments of grade 0;
    `hub_images`: number of queries with the image wrongly among the first five."""

    query_texts: dict[str, str] = field(default_factory=dict)
    query_labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    image_captions: dict[str, dict[str, str]] = field(default_factory=dict)
    image_labels: dict[str, frozenset[str]] = field(default_factory=dict)
    duplicate_groups: dict[str, str] = field(default_factory=dict)
    moments: dict[str, CaptureMoment] = field(default_factory=dict)
    candidate_judgments: dict[tuple[str, str], str] = field(default_factory=dict)
    relevant_images: dict[str, frozenset[str]] = field(default_factory=dict)
    has_negatives: bool = True
    hub_images: dict[str, int] = field(default_factory=dict)


def collect_failure_context(
    queries: Sequence[SelectedQuery], ranked: pd.DataFrame, tables: Tables | None
) -> FailureContext:
    """Collect the facts on these queries and their results."""
    hub_images = find_hub_images(ranked, ranked["image_id"].nunique())
    if tables is None:
        return FailureContext(hub_images=hub_images)
    names = [one.query_id for one in queries]
    truth = collect_judgments(names, tables.qrels)
    results = {one.item_id for query in queries for one in query.results}
    right = {name: frozenset(image for image, j in pairs.items() if j.relevance > 0) for name, pairs in truth.items()}
    images = results.union(*right.values()) if right else results
    candidates = tables.candidate_judgments[tables.candidate_judgments["query_id"].isin(names)]
    captions, labels = _captions(results, tables)
    wanted = {*names, *results, *(name for pairs in captions.values() for name in pairs), *images}
    rows = tables.queries[tables.queries["query_id"].isin(wanted)]
    texts = dict(zip(rows["query_id"].astype("str"), rows["text"], strict=True))
    return FailureContext(
        query_texts=texts,
        query_labels=dict(zip(texts, map(labels_or_empty, rows["labels"]), strict=True)),
        image_captions={
            image: {name: texts[name] for name in query_ids if name in texts} for image, query_ids in captions.items()
        },
        image_labels=labels,
        duplicate_groups=_groups(images, tables),
        moments=_moments(tables.images[tables.images["image_id"].isin(images)]),
        candidate_judgments={(str(r.query_id), str(r.image_id)): str(r.evidence) for r in candidates.itertuples()},
        relevant_images=right,
        has_negatives=bool((tables.qrels["relevance"] == 0).any()),
        hub_images=hub_images,
    )


def find_hub_images(ranked: pd.DataFrame, gallery_size: int) -> dict[str, int]:
    """Return images that are wrongly among the first five of far more queries than by chance, and how many."""
    first = ranked[ranked["rank"] <= MIDDLE_MAX_RANK]
    counts = first.loc[first["relevance"] <= 0, "image_id"].value_counts()
    least = max(_HUB_MIN_QUERIES, _HUB_MIN_RATIO * len(first) / max(gallery_size, 1))
    return {str(name): int(number) for name, number in counts[counts >= least].items()}


def _captions(images: set[str], tables: Tables) -> tuple[dict[str, list[str]], dict[str, frozenset[str]]]:
    """Return per image the queries it is relevant for, and the labels of those for a single label."""
    mine = tables.qrels[(tables.qrels["relevance"] > 0) & tables.qrels["image_id"].isin(images)]
    pairs = sorted(zip(mine["image_id"].astype("str"), mine["query_id"].astype("str"), strict=True))
    asking = tables.queries[tables.queries["query_id"].isin({name for _, name in pairs})]
    single = {
        str(name): labels[0]
        for name, value in zip(asking["query_id"], asking["labels"], strict=True)
        if len(labels := labels_or_empty(value)) == 1
    }
    captions: dict[str, list[str]] = {}
    labels_of: dict[str, set[str]] = {}
    for image, name in pairs:
        captions.setdefault(image, []).append(name)
        if name in single:
            labels_of.setdefault(image, set()).add(single[name])
    return captions, {image: frozenset(image_labels) for image, image_labels in labels_of.items()}


def _groups(image_ids: set[str], tables: Tables) -> dict[str, str]:
    images = tables.images[tables.images["image_id"].isin(image_ids)]
    group_by_image: dict[str, str] = {}
    for frame, column in ((images, "sha256"), (images, "duplicate_group"), (tables.duplicates, "duplicate_group")):
        mine = frame[frame["image_id"].isin(image_ids) & frame[column].notna()]
        group_by_image |= dict(zip(mine["image_id"].astype("str"), mine[column].astype("str"), strict=True))
    return group_by_image


def _moments(images: pd.DataFrame) -> dict[str, CaptureMoment]:
    known = images[images["taken_at"].notna() & images["latitude"].notna() & images["longitude"].notna()]
    moments = {}
    for row in known.itertuples(index=False):
        try:
            moments[str(row.image_id)] = (datetime.fromisoformat(row.taken_at), row.latitude, row.longitude)
        except ValueError:  # a camera may write the 31st of February
            continue
    return moments
