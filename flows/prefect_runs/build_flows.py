"""The flows of whole builds: each reads its definition, builds, publishes, and says in its state what came of it."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.prefect_runs.build_parameters import GalleryBuild, PrecisionBuild, RecallBuild
from flows.prefect_runs.flow_runner import build_and_publish, build_run_name, execute_build


@flow(name="gallery-set", flow_run_name=build_run_name, persist_result=False)
def gallery_set(build: GalleryBuild) -> State[Any]:
    """Filter, deduplicate, select and render a pile of pictures, and publish what is left as a gallery."""
    return execute_build(build, build_and_publish)


@flow(name="precision-set", flow_run_name=build_run_name, persist_result=False)
def precision_set(build: PrecisionBuild) -> State[Any]:
    """Make queries of detection labels and judge every picture by its boxes, and publish a precision set."""
    return execute_build(build, build_and_publish)


@flow(name="recall-set", flow_run_name=build_run_name, persist_result=False)
def recall_set(build: RecallBuild) -> State[Any]:
    """Caption pictures, settle captions that fit several, and publish a recall set, and the smaller ones within it."""
    return execute_build(build, build_and_publish)
