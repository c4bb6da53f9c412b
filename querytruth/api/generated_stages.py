"""The stages of a generated set that ask a chat model and the web, and end with a table for people; and training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders.errors import UserError
from flows.definitions import GeneratedDefinition, TrainingDefinition, load_definition
from flows.dual_encoder_training import TrainingResult, train_dual_encoder
from flows.generation.collect_stage import CollectResult, run_collect_stage
from flows.steps import BuildRun, active_run
from flows.topics_and_objects import StageResult, run_objects_stage, run_topics_stage
from querytruth.api.set_builds import AnyDefinition, read_definition


def topics(definition: AnyDefinition, *, offline: bool = False, retry_failures: bool = False) -> StageResult:
    """Have a chat model propose topics and objects of them. The result has `file`, the table to choose from, `rows`,
    `calls`, `health` and `page`. Raises UserError."""
    with active_run(BuildRun(offline=offline, retry_failures=retry_failures)):
        return run_topics_stage(*_read(definition))


def objects(definition: AnyDefinition, *, offline: bool = False, retry_failures: bool = False) -> StageResult:
    """Have the chat model propose more objects for each accepted topic; the result is as of `topics`."""
    with active_run(BuildRun(offline=offline, retry_failures=retry_failures)):
        return run_objects_stage(*_read(definition))


def collect(definition: AnyDefinition, *, offline: bool = False) -> CollectResult:
    """Search the web for the accepted queries and fetch their images; none is fetched twice. The result has `file`, a
    table of what became of each query, `fetches`, `pending` and `figures`."""
    with active_run(BuildRun(offline=offline)):
        return run_collect_stage(*_read(definition))


def train(definition: str | Path | TrainingDefinition) -> TrainingResult:
    """Train a dual encoder on a set's own images and queries, or continue a stopped training. The result has `folder`,
    `test_set`, `is_new`, `history` and `figures`. Raises UserError."""
    checked: Any = definition
    if not isinstance(definition, TrainingDefinition):
        checked = load_definition(Path(definition), [], "training")
    return train_dual_encoder(checked)


def _read(definition: AnyDefinition) -> tuple[GeneratedDefinition, str]:
    """The definition, and how the next command names it."""
    checked = read_definition(definition)
    if not isinstance(checked, GeneratedDefinition):
        raise UserError("generate", checked.name, f"is of kind {checked.kind}", "give a definition of kind generated")
    return checked, str(definition) if isinstance(definition, str | Path) else checked.name
