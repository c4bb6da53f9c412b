"""Builds of sets, the publication of decisions, and sets in and from the formats of others.

The stages of a generated set that ask a chat model and the web, and end with a table for people; and training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from builders.generated.collect_stage import CollectResult, run_collect_stage
from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import StageResult, run_objects_stage, run_topics_stage
from builders.publication import BuildResult, publish_decisions
from flows.definition_loader import load_definition, parse_definition
from flows.flow_entrypoint import silence_prefect
from flows.set_kinds import SET_KINDS, build_set, build_set_with_page, plan_set
from flows.training import TrainingResult, train_dual_encoder
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, LoadedSet, find_version, load
from querytruth.audit.corrections import find_accepted_labels
from querytruth.backends.clusters import cluster_hosts, use_cluster
from querytruth.backends.steps import BuildRun, active_run, current_run
from querytruth.definitions import SetDefinition
from querytruth.dual_encoder.definition import TrainingDefinition
from querytruth.errors import UserError, translate_write_errors
from querytruth.formats import exporters
from querytruth.sets import set_files
from querytruth.sets.published_files import image_roots
from querytruth.terminal import TerminalReporter

AnyDefinition = str | Path | Mapping[str, Any] | SetDefinition


@dataclass(frozen=True, slots=True, repr=False)
class SetBuild:
    """The published version, or the newest one where nothing changed (`is_new` is False). `set`: its tables; `result`:
    stale decisions, conflicts and nested sets."""

    result: BuildResult

    @property
    def path(self) -> Path:
        """The folder of the version."""
        return self.result.path

    @property
    def is_new(self) -> bool:
        """Whether a version was published."""
        return self.result.is_new

    @property
    def page(self) -> Path | None:
        """The HTML page of the version, if it was written."""
        return self.result.page

    @property
    def set(self) -> LoadedSet:
        """The version, read from disk."""
        return load(self)

    @property
    def funnel(self) -> pd.DataFrame:
        """A row per stage, with the numbers that entered and were accepted."""
        return self.set.funnel

    def __repr__(self) -> str:
        """Whether it was published, and the set in one line."""
        return f"{'published' if self.is_new else 'unchanged'}: {self.set!r}"

    def _repr_html_(self) -> str:
        return self.set._repr_html_()


def build(
    definition: AnyDefinition,
    *,
    overrides: Mapping[str, Any] | None = None,
    workers: int = 2,
    offline: bool = False,
    rescan: bool = False,
    retry_failures: bool = False,
    accept_loss: bool = False,
    progress: bool = False,
) -> SetBuild:
    """Build and publish the next version of a set, with its page. `definition`: a YAML file, a dict of its keys, or a
    typed definition such as Recall(name=…, images=…); `overrides`: keys such as {"select.count": 1000}. `workers`:
    worker processes for images; `offline`: connect to nothing; `rescan`: read unchanged images again;
    `retry_failures`: ask a chat model again what it failed at; `accept_loss`: go on where a decision log lost
    decisions; `progress`: bars on stderr. Raises UserError."""
    run = BuildRun(workers=workers, offline=offline, rescan=rescan, retry_failures=retry_failures)
    run.accept_loss = accept_loss
    if progress:
        run.reporter = TerminalReporter()
    return SetBuild(run_build(read_definition(definition, _override_texts(overrides)), run))


def plan(definition: AnyDefinition, *, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what a build would do: funnel, numbers of images and model calls, time, bytes. Publishes nothing."""
    return plan_set(read_definition(definition, _override_texts(overrides)))


def read_definition(
    definition: AnyDefinition | None, overrides: Sequence[str] = (), kind: str | None = None
) -> SetDefinition:
    """Return a checked definition that is a set's. `overrides` are of the form key=value. Raises UserError."""
    if isinstance(definition, SetDefinition):
        if overrides:
            raise UserError("read definition", type(definition).__name__, "takes no overrides", "set its keys")
        checked = definition
    else:
        given = Path(definition) if isinstance(definition, str) else definition
        checked = load_definition(given, overrides, kind)
    if checked.kind not in SET_KINDS:
        raise UserError("build", checked.name, f"is of kind {checked.kind}, which is no set", "run querytruth train")
    return checked


def run_build(
    definition: SetDefinition, run: BuildRun, *, prefect: bool = False, runner: str = "threads"
) -> BuildResult:
    """Build in process or as a Prefect flow. `runner`: threads, dask or ray, the latter two with `:ADDRESS` for a
    cluster that is up. Raises UserError."""
    if prefect:
        silence_prefect()
        from flows import prefect_engine

        result: BuildResult = prefect_engine.run_build_in_prefect(definition, run, runner)
        return result
    run.engine_hosts = cluster_hosts(runner)
    with active_run(run), use_cluster(runner, run.workers) as run.cluster:
        return build_set_with_page(definition)


def _override_texts(overrides: Mapping[str, Any] | None) -> list[str]:
    return [f"{key}={json.dumps(value, default=str)}" for key, value in (overrides or {}).items()]


def apply(
    set_: AnySet,
    *,
    out: str | Path = DATASETS_FOLDER,
    accept_loss: bool = False,
    accept_at: float | None = None,
    audit: str = "audit",
) -> SetBuild:
    """Publish the next version of a set from the decisions made on it. With `accept_at`, also with the labels of the
    judge of the audit `audit`, of grades that are at least so precise. Raises UserError for another version than the
    newest, where the decision log lost decisions of that, unless `accept_loss`, and where no grade is so precise."""
    path = find_version(set_, out)
    newest = set_files.find_set(str(path.parent))
    if path.resolve() != newest.resolve():
        reason = f"is not the newest version, applying to it would undo {newest.name}"
        raise UserError("apply", path, reason, f"apply to {newest}")
    with active_run(replace(current_run(), accept_loss=accept_loss)):
        accepted = None if accept_at is None else find_accepted_labels(path, audit, accept_at)
        return SetBuild(publish_decisions(path, accepted))


def check_format(format: str) -> None:
    """Raise UserError for a name that is no export format."""
    exporters.EXPORTERS.import_plugin(format)


def export(
    set_: AnySet,
    format: str,
    to: str | Path,
    *,
    allow_loss: bool = False,
    out: str | Path = DATASETS_FOLDER,
    images: Sequence[str | Path] = (),
) -> list[str]:
    """Write a set in another format (docs/formats.md) into a new or empty folder. Return what the format does not
    hold. Raises UserError for a loss that changes figures unless `allow_loss`."""
    check_format(format)
    path, target = find_version(set_, out, remote="whole"), Path(to)
    roots = [str(root) for root in images]
    with image_roots(roots), translate_write_errors("export", target, "or give another folder"):
        return exporters.export_set(format, set_files.read_set(path), target, allow_loss=allow_loss)


def import_set(
    format: str,
    source: str | Path,
    to: str | Path,
    *,
    images: str | Path | None = None,
    split: str | None = None,
    title: str = "",
    licence: str = "",
    lose_at_most: float | None = 0.2,
) -> SetBuild:
    """Publish another publisher's files (docs/formats.md) as the set in the folder `to`. `images`: their folder, where
    they lie apart; `split`: the part to import, None: the one that is evaluated on; `lose_at_most`: the share of the
    last version that may be gone, None: all of it."""
    target = Path(to)
    # Absolute, so that rebuild --check finds them from anywhere; the manifest's configuration keeps the names alone.
    places = {"annotations": str(Path(source).absolute()), "images": images and str(Path(images).absolute())}
    given = {"format": format, "split": split, **places}
    named = {"name": target.name, "out": str(target.parent), "title": title, "licence": licence}
    keys = {**given, **named, "lose_at_most": lose_at_most}
    definition: Any = parse_definition(keys, "imported", str(source))
    return SetBuild(build_set(definition))


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
