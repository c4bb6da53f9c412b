"""The pages that a run leaves, and the links to them. This room may not know how they are written: whoever deploys the
flows says so (querytruth/deployed.py); where nobody did, there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prefect.artifacts import create_link_artifact

from backends.run_files.result_files import PAGE_FILE
from builders.errors import UserError
from evaluation.evaluation_result import EvaluationResult
from flows.prefect_runs.progress import artifact_key, call_server_if_available
from flows.scoring.judged_sets import EvaluationView
from flows.set_publication import BuildResult
from flows.steps import current_run, step


@dataclass(frozen=True, slots=True)
class PageWriters:
    """Each writes one HTML file, its last argument: about the version in a folder, and about a system's result."""

    write_set_page: Callable[[Path, Path], None]
    write_result_page: Callable[[EvaluationResult, EvaluationView, Path], None]


class _ConfiguredWriters:
    writers: PageWriters | None = None


def set_page_writers(writers: PageWriters) -> None:
    """For all flows that run in this process from now on."""
    _ConfiguredWriters.writers = writers


def create_set_page_artifact(result: BuildResult) -> None:
    """The page of a version, in `shown/` beside the versions, which hold nothing but what they were published with."""
    writers, name = _ConfiguredWriters.writers, str(result.manifest["name"])
    if writers is not None:
        page = result.path.parent / "shown" / f"{result.path.name}.html"
        _write_and_link(lambda: writers.write_set_page(result.path, page), page, name, f"{name}/v{result.version}")


def create_result_page_artifact(result: EvaluationResult, view: EvaluationView, folder: Path) -> None:
    """The page of a result, in the result's folder."""
    writers, about = _ConfiguredWriters.writers, f"{folder.name} on {view.judged_set.description['name']}"
    if writers is not None:
        page = folder / PAGE_FILE
        _write_and_link(lambda: writers.write_result_page(result, view, page), page, about, about)


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
        raise UserError("write page", page, f"cannot be written ({error.strerror})", "mend that") from None
    write()
