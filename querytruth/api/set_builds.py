"""Builds of sets, sets from the files of others, the stages that ask a model and the web, and training."""

from dataclasses import replace
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BeforeValidator, Field

from builders.generated.collect_stage import CollectResult, run_collect_stage
from builders.generated.stages import StageResult, run_objects_stage, run_topics_stage
from builders.publication import BuildResult
from flows.definition_checks import check_definition
from flows.definition_loader import parse_definition
from flows.flow_entrypoint import silence_prefect
from flows.rebuild import refresh_replies as set_replies_aside
from flows.requests import (
    BuildRequest,
    ChatStage,
    DefinitionRequest,
    ImportRequest,
    ModelBuild,
    RefreshRequest,
    TrainingRequest,
    list_overrides,
)
from flows.set_kinds import build_set, build_set_with_page, plan_set
from flows.training import TrainingResult, train_dual_encoder
from querytruth.api.loaded_set import SetBuild
from querytruth.backends.steps import Reporter, SilentReporter, active_run, cluster_hosts, current_run, use_cluster
from querytruth.requests import ByPlace, takes_request
from querytruth.terminal import TerminalReporter


class ProgramBuild(ModelBuild):
    """A build from a program: of a YAML file, a dict of its keys, or a typed definition such as Recall(name=…)."""

    overrides: Annotated[list[str], BeforeValidator(list_overrides)] = Field(
        default_factory=list, description='Keys of the definition to replace in this build: {"select.count": 1000}.'
    )
    progress: bool = Field(False, description="Show progress bars on stderr.")


@takes_request(ProgramBuild)
def build(request: ProgramBuild) -> SetBuild:
    """Build and publish the next version of a set, with its page. Raises UserError."""
    return SetBuild(run_build(request, TerminalReporter() if request.progress else SilentReporter()))


@takes_request(DefinitionRequest)
def plan(request: DefinitionRequest) -> dict[str, Any]:
    """Return what a build would do: funnel, numbers of images and model calls, time, bytes. Publishes nothing."""
    return plan_set(request.load_definition())


def run_build(request: BuildRequest, reporter: Reporter, *, prefect: bool = False) -> BuildResult:
    """Build in process or as a Prefect flow. Raises UserError."""
    definition = request.load_definition()
    if prefect:
        silence_prefect()
        from flows import prefect_engine

        return prefect_engine.run_build_in_prefect(request, definition, reporter)
    run = request.start_run(reporter)
    run.engine_hosts = cluster_hosts(request.runner)
    with active_run(run), use_cluster(request.runner, run.workers) as run.cluster:
        return build_set_with_page(definition)


@takes_request(ImportRequest)
def import_set(request: ImportRequest) -> SetBuild:
    """Publish another publisher's files (docs/formats.md) as the set in the folder `to`. Raises UserError."""
    definition: Any = parse_definition(request.keys, "imported", str(request.source))
    with active_run(replace(current_run(), accept_loss=request.accept_loss)):
        return SetBuild(build_set(definition))


class ProgramStage(ChatStage):
    """A stage from a program."""

    name: Annotated[Literal["topics", "objects", "collect"], ByPlace("STAGE")] = Field(description="Stage to run.")


@takes_request(ProgramStage)
def generate(request: ProgramStage) -> StageResult | CollectResult:
    """Run a stage of a generated set that ends with a table for people. topics: a chat model proposes topics and
    objects of them; objects: it proposes more for each accepted topic; collect: the web is searched for the accepted
    queries and their images are fetched, none of them twice. The result has `file`, the table to choose from, and what
    was asked. Raises UserError."""
    definition: Any = request.load_definition()
    with active_run(request.start_run(SilentReporter())):
        if request.name == "collect":
            return run_collect_stage(definition, request.source)
        return {"topics": run_topics_stage, "objects": run_objects_stage}[request.name](definition, request.source)


@takes_request(TrainingRequest)
def train(request: TrainingRequest) -> TrainingResult:
    """Train a dual encoder on a set's own images and queries, or continue a stopped training. The result has `folder`,
    `test_set`, `is_new`, `history` and `figures`. Raises UserError."""
    definition: Any = request.load_definition()
    with active_run(request.start_run(SilentReporter())):
        return train_dual_encoder(definition)


@takes_request(DefinitionRequest)
def doctor(request: DefinitionRequest) -> pd.DataFrame:
    """Return the checks of a definition: a row with check, found and problem, None where all is well. Endpoints get one
    call that asks nothing; nothing is built."""
    checks = check_definition(request.load_definition())
    rows = [(one.name, one.found, None if one.problem is None else str(one.problem)) for one in checks]
    return pd.DataFrame(rows, columns=["check", "found", "problem"])


@takes_request(RefreshRequest)
def refresh_replies(request: RefreshRequest) -> int:
    """Have the next build ask a model again; return the number of replies that are set aside. A rebuild of an older
    version uses the replies of its time."""
    return set_replies_aside(request.load_definition(), request.model)
