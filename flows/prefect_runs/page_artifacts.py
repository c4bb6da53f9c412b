"""The pages that a run leaves, and the links to them on Prefect's page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prefect.artifacts import create_link_artifact

from backends.run_files.result_files import PAGE_FILE
from builders.errors import UserError
from evaluation.evaluation_result import EvaluationResult
from flows.pages.result_pages import write_evaluation_page
from flows.pages.set_pages import write_set_page
from flows.prefect_runs.progress import artifact_key, call_server_if_available
from flows.scoring.judged_sets import EvaluationView
from flows.set_publication import BuildResult
from flows.steps import current_run, step


def create_set_page_artifact(result: BuildResult) -> None:
    """The page of a version, in `shown/` beside the versions, which hold nothing but what they were published with."""
    name = str(result.manifest["name"])
    page = result.path.parent / "shown" / f"{result.path.name}.html"
    _write_and_link(lambda: write_set_page(result.path, page), page, name, f"{name}/v{result.version}")


def create_result_page_artifact(result: EvaluationResult, view: EvaluationView, folder: Path) -> None:
    """The page of a result, in the result's folder."""
    page, about = folder / PAGE_FILE, f"{folder.name} on {view.judged_set.description['name']}"
    _write_and_link(lambda: write_evaluation_page(result, view, page), page, about, about)


def _write_and_link(write: Callable[[], None], page: Path, artifact_name: str, about: str) -> None:
    """A page that cannot be written is said, and costs the run nothing: what it is about is kept by then."""
    try:
        _write(write, page)
    except UserError as error:
        current_run().reporter.log(str(error))
        return
    link, description = page.absolute().as_uri(), f"The page of {about}, one file on the machine that ran this: {page}"
    call_server_if_available(
        lambda: create_link_artifact(link, about, artifact_key(artifact_name, "page"), description)
    )


@step("write page")
def _write(write: Callable[[], None], page: Path) -> None:
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("write page", page, f"cannot be written ({error.strerror})", "fix that") from None
    write()
