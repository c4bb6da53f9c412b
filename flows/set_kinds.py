"""Every kind of set by its name: what builds its tables, and the build as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flows.captions.nested_sets import publish_nested_sets
from flows.captions.recall_gallery import pin_gallery_version
from flows.captions.recall_plan import plan_recall
from flows.definitions import GeneratedDefinition, RecallDefinition, SetDefinition
from flows.gallery_set import build_gallery_tables, plan_gallery
from flows.generated_set import build_generated_tables, plan_generated
from flows.import_set import build_imported_tables
from flows.precision_set import build_precision_tables, plan_precision
from flows.recall_set import build_recall_tables
from flows.set_publication import BuildResult, BuiltTables, publish_built
from flows.steps import current_run

TABLE_BUILDERS: dict[str, Callable[[Any], BuiltTables]] = {
    "gallery": build_gallery_tables,
    "precision": build_precision_tables,
    "recall": build_recall_tables,
    "generated": build_generated_tables,
    "imported": build_imported_tables,
}
PLANNERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "gallery": plan_gallery,
    "precision": plan_precision,
    "recall": plan_recall,
    "generated": plan_generated,
}


def build_set(definition: SetDefinition) -> BuildResult:
    """Build and publish: what every way to run a build calls."""
    if isinstance(definition, GeneratedDefinition):
        return publish_built(definition, build_generated_tables(definition, connected=not current_run().offline))
    if not isinstance(definition, RecallDefinition):
        return publish_built(definition, TABLE_BUILDERS[definition.kind](definition))
    definition = pin_gallery_version(definition)
    result = publish_built(definition, build_recall_tables(definition))
    return replace(result, nested_results=publish_nested_sets(definition, result))


def plan_set(definition: SetDefinition) -> dict[str, Any]:
    """What a build would do; nothing is published."""
    return PLANNERS[definition.kind](definition)
