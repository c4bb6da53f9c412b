"""Every kind of set by its name: what builds its tables, and the build as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flows.definitions import SetDefinition
from flows.gallery_set import gallery_tables, plan_gallery
from flows.precision_set import plan_precision, precision_tables
from flows.publish import BuildResult, Built, publish_built

TABLES: dict[str, Callable[[Any], Built]] = {"gallery": gallery_tables, "precision": precision_tables}
PLANS: dict[str, Callable[[Any], dict[str, Any]]] = {"gallery": plan_gallery, "precision": plan_precision}


def build_set(definition: SetDefinition) -> BuildResult:
    """Build and publish: what every way to run a build calls."""
    return publish_built(definition, TABLES[definition.kind](definition))


def plan_set(definition: SetDefinition) -> dict[str, Any]:
    """What a build would do; nothing is published."""
    return PLANS[definition.kind](definition)
