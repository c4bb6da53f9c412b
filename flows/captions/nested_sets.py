"""Smaller sets within a recall set: the same queries in a smaller gallery, each a set of its own."""

from pathlib import Path
from typing import Any

import pandas as pd

from backends.contained_paths import contained_path
from backends.sets import set_files
from backends.sets.set_files import StoredSet
from builders.benchmark_set import Tables
from builders.decisions.reworded_queries import list_edited_waiting
from builders.errors import UserError
from builders.ledger import Ledger, rejection_rows
from builders.recall.nested_tables import NestedTables, cut_nested_tables
from flows.captions.recall_gallery import selection_ranks
from flows.definitions import RecallDefinition
from flows.empty_set_guard import has_content
from flows.set_publication import BuildResult, BuiltTables, cut_from_set, publish_built
from flows.steps import current_run, step


def publish_nested_sets(definition: RecallDefinition, whole: BuildResult) -> list[BuildResult]:
    """Cuts each size of the definition out of the published version, with people's decisions applied."""
    if not definition.sizes:
        return []
    stored = set_files.read_set(whole.path)
    too_large = [size for size in definition.sizes if size >= len(stored.tables.images)]
    if too_large:
        reason = f"is not smaller than the gallery, which has {len(stored.tables.images)} pictures"
        raise UserError("cut sizes", too_large[0], reason, "name smaller sizes: the whole gallery is published already")
    results = []
    for size, built in build_nested_sets(definition, stored).items():
        if not has_content(definition.kind, built.tables):
            current_run().reporter.log(f"{definition.name}-{size}: none of its pictures has a query: not published")
            continue
        title = f"{stored.manifest['title']}, {size:,} pictures"
        named = definition.model_copy(update={"name": f"{definition.name}-{size}", "title": title})
        results.append(publish_built(named, built))
    return results


@step("cut sizes")
def build_nested_sets(definition: RecallDefinition, whole: StoredSet) -> dict[int, BuiltTables]:
    """Returns per size the tables of its set."""
    tables = whole.tables
    rank = selection_ranks(tables.images, definition).to_numpy()
    candidates = tables.candidate_judgments
    waiting = candidates[candidates["query_id"].isin(list_edited_waiting(tables))]
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
    nested_tables = Tables(
        nested.queries,
        nested.images,
        nested.qrels,
        duplicates=_within(tables.duplicates, "duplicate_group", nested.images["duplicate_group"]),
        candidate_judgments=_within(open_pairs, "image_id", nested.images["image_id"]),
    )
    parent_name = f"{manifest['name']}/v{manifest['version']}"
    return cut_from_set(whole, nested_tables, ledger, {"nested": {"of": parent_name, "size": size, **nested.figures}})


def _within(frame: pd.DataFrame, column: str, values: pd.Series) -> pd.DataFrame:
    return frame[frame[column].isin(values.dropna())].reset_index(drop=True)


def rebuild_nested_set(definition: RecallDefinition, manifest: dict[str, Any], out: Path) -> BuiltTables:
    """Cuts the set of a manifest out of its parent once more."""
    nested = manifest["notes"]["nested"]
    whole = set_files.read_set(set_files.find_set(str(contained_path(out, nested["of"], "rebuild"))))
    return build_nested_sets(definition.model_copy(update={"sizes": [nested["size"]]}), whole)[nested["size"]]
