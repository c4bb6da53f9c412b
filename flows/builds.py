"""Every kind of set by its name: what builds its tables, and the build as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flows.captions.nested_sets import publish_sizes
from flows.captions.recall_gallery import pinned
from flows.captions.recall_plan import plan_recall
from flows.definitions import GeneratedDefinition, RecallDefinition, SetDefinition
from flows.gallery_set import gallery_tables, plan_gallery
from flows.generated_set import generated_tables, plan_generated
from flows.import_set import imported_tables
from flows.precision_set import plan_precision, precision_tables
from flows.publish import BuildResult, Built, publish_built
from flows.recall_set import recall_tables
from flows.steps import current

TABLES: dict[str, Callable[[Any], Built]] = {
    "gallery": gallery_tables,
    "precision": precision_tables,
    "recall": recall_tables,
    "generated": generated_tables,
    "imported": imported_tables,
}
PLANS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "gallery": plan_gallery,
    "precision": plan_precision,
    "recall": plan_recall,
    "generated": plan_generated,
}


def build_set(definition: SetDefinition) -> BuildResult:
    """Build and publish: what every way to run a build calls."""
    if isinstance(definition, GeneratedDefinition):
        return publish_built(definition, generated_tables(definition, connected=not current().offline))
    if not isinstance(definition, RecallDefinition):
        return publish_built(definition, TABLES[definition.kind](definition))
    definition = pinned(definition)
    result = publish_built(definition, recall_tables(definition))
    return replace(result, smaller=publish_sizes(definition, result))


def plan_set(definition: SetDefinition) -> dict[str, Any]:
    """What a build would do; nothing is published."""
    return PLANS[definition.kind](definition)
