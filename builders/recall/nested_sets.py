"""Smaller sets within a recall set: 1K within 10K within 100K, the same queries, each a set of its own.

Ambiguity is resolved in the largest gallery: a query that is unambiguous there is unambiguous in every smaller one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd
from numpy.typing import NDArray

from builders.publication import BuildResult, BuiltTables, cut_from_set, publish_built
from builders.publication_guards import has_content
from builders.recall.definition import RecallDefinition
from builders.recall.steps import selection_ranks
from querytruth.backends.files.safe_paths import contained_path
from querytruth.backends.steps import current_run, step
from querytruth.errors import UserError
from querytruth.records import drop_unused_categories
from querytruth.sets import benchmark_set, decision_application, set_files
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest import Manifest
from querytruth.sets.manifest_notes import Nested
from querytruth.sets.set_files import StoredSet


@dataclass(frozen=True, slots=True)
class NestedTables:
    """The tables of one size. `rejections`: ledger rows of the queries without a relevant image in this gallery;
    `figures`: counts of queries, images, judgments, and `narrower`: queries that lose some relevant images."""

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    rejections: pd.DataFrame
    figures: dict[str, int]


def cut_nested_tables(
    sizes: Sequence[int],
    rank: NDArray[Any],
    queries: pd.DataFrame,
    images: pd.DataFrame,
    qrels: pd.DataFrame,
    waiting: pd.DataFrame | None = None,
) -> dict[int, NestedTables]:
    """Return the tables of each size, smallest first. `rank`: the rank of each row of `images` in the selection; the
    gallery of size n has the first n images.

    A query is in every set whose gallery has an image relevant to it, or, of an edited text, an image that waits for a
    person (`waiting`: query_id, image_id). Judgments of images outside the gallery are left
    out. Raises ValueError for repeated ranks, UserError for a size that is not within the gallery.
    """
    order = rank.argsort(kind="stable")
    if (distinct := len(set(rank.tolist()))) != len(images):
        raise ValueError(f"{distinct} different ranks for {len(images)} images")
    for size in sizes:
        if not 1 <= size <= len(images):
            raise UserError("cut sizes", size, f"is not within 1 to {len(images)} images", "choose a smaller one")
    return {size: _cut(images.iloc[sorted(order[:size])], queries, qrels, waiting) for size in sorted(set(sizes))}


def _cut(
    images: pd.DataFrame, queries: pd.DataFrame, qrels: pd.DataFrame, waiting: pd.DataFrame | None
) -> NestedTables:
    inside = qrels["image_id"].isin(images["image_id"])
    relevant = qrels["relevance"] > 0
    answered = set(qrels.loc[inside & relevant, "query_id"].unique())
    if waiting is not None:
        answered |= set(waiting.loc[waiting["image_id"].isin(images["image_id"]), "query_id"])
    is_answered = queries["query_id"].isin(answered)
    truth = qrels[inside & qrels["query_id"].isin(answered)]
    narrower = set(qrels.loc[~inside & relevant, "query_id"].unique()) & answered
    outside = queries.loc[~is_answered, "query_id"].sort_values()
    return NestedTables(
        queries[is_answered].reset_index(drop=True),
        images.reset_index(drop=True),
        drop_unused_categories(truth).reset_index(drop=True),
        rejection_rows(outside, "rejected", "image_outside", item_id=outside),
        {"queries": len(answered), "images": len(images), "judgments": len(truth), "narrower": len(narrower)},
    )


def publish_nested_sets(definition: RecallDefinition, whole: BuildResult) -> list[BuildResult]:
    """Cut each size of the definition out of the published version, with people's decisions applied."""
    if not definition.sizes:
        return []
    stored = set_files.read_set(whole.path)
    too_large = [size for size in definition.sizes if size >= len(stored.tables.images)]
    if too_large:
        reason = f"is not smaller than the gallery, which has {len(stored.tables.images)} images"
        raise UserError("cut sizes", too_large[0], reason, "use smaller sizes: the whole gallery is already published")
    results = []
    for size, built in build_nested_sets(definition, stored).items():
        if not has_content(definition.kind, built.tables):
            current_run().reporter.log(f"{definition.name}-{size}: not published, no image has a query")
            continue
        title = f"{stored.manifest['title']}, {size:,} images"
        named = definition.model_copy(update={"name": f"{definition.name}-{size}", "title": title})
        results.append(publish_built(named, built))
    return results


@step("cut sizes")
def build_nested_sets(definition: RecallDefinition, whole: StoredSet) -> dict[int, BuiltTables]:
    """Return per size the tables of its set."""
    tables = whole.tables
    rank = selection_ranks(tables.images, definition).to_numpy()
    candidates = tables.candidate_judgments
    waiting = candidates[candidates["query_id"].isin(decision_application.list_edited_waiting(tables))]
    cut = cut_nested_tables(definition.sizes, rank, tables.queries, tables.images, tables.qrels, waiting)
    return {size: _cut_nested_set(whole, size, nested) for size, nested in cut.items()}


def _cut_nested_set(whole: StoredSet, size: int, nested: NestedTables) -> BuiltTables:
    tables, manifest = whole.tables, whole.manifest
    outside = tables.images[~tables.images["image_id"].isin(nested.images["image_id"])]
    names = outside["file_name"].fillna(outside["image_id"])
    ledger = Ledger()
    rejections = rejection_rows(names, "rejected", "outside_of_size", item_id=outside["image_id"])
    ledger.record_stage("size", "image", len(tables.images), len(nested.images), rejections)
    ledger.record_stage("answers", "caption", len(tables.queries), len(nested.queries), nested.rejections)
    open_pairs = _within(tables.candidate_judgments, "query_id", nested.queries["query_id"])
    nested_tables = benchmark_set.Tables(
        nested.queries,
        nested.images,
        nested.qrels,
        duplicates=_within(tables.duplicates, "duplicate_group", nested.images["duplicate_group"]),
        candidate_judgments=_within(open_pairs, "image_id", nested.images["image_id"]),
    )
    parent_name = f"{manifest['name']}/v{manifest['version']}"
    return cut_from_set(
        whole, nested_tables, ledger, {"nested": cast(Nested, {"of": parent_name, "size": size, **nested.figures})}
    )


def _within(frame: pd.DataFrame, column: str, values: pd.Series) -> pd.DataFrame:
    return frame[frame[column].isin(values.dropna())].reset_index(drop=True)


def rebuild_nested_set(definition: RecallDefinition, manifest: Manifest, out: Path) -> BuiltTables:
    """Cut the set of a manifest out of its parent once more."""
    nested = manifest["notes"]["nested"]
    whole = set_files.read_set(set_files.find_set(str(contained_path(out, nested["of"], "rebuild"))))
    return build_nested_sets(definition.model_copy(update={"sizes": [nested["size"]]}), whole)[nested["size"]]
