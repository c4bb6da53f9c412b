"""Writes the page of a stage of a generated set: how its generator did."""

from __future__ import annotations

from pathlib import Path

from backends.durable_files import translate_write_errors, write_atomically
from flows.definitions.generated import GeneratedDefinition
from flows.generation.pool_review import review_table_path
from flows.topics_and_objects import list_finished_runs
from review.health_page import render_health_page


def write_health_page(definition: GeneratedDefinition, stage: str) -> Path:
    """Write the page of a stage that ended, beside the table that it handed out, and return its path."""
    runs = list_finished_runs(definition, stage)
    page = review_table_path(definition, stage).with_name(f"{stage}-health.html")
    html = render_health_page(definition.name, next(run for run in runs if run["is_current"]), runs)
    with translate_write_errors("write page", page, "fix that, and run again"):
        write_atomically(page, html.encode("utf-8", "replace"))
    return page
