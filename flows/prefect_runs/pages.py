"""The pages that a run leaves, and the links to them. This room may not know how they are written: whoever deploys the
flows says so (querytruth/deployed.py); where nobody did, there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prefect.artifacts import create_link_artifact

from backends.run_files.result_files import PAGE
from builders.errors import UserError
from evaluation.evaluated import Evaluated
from flows.prefect_runs.telling import if_it_answers, slug
from flows.publish import BuildResult
from flows.scoring.judged_sets import View
from flows.steps import current, step


@dataclass(frozen=True, slots=True)
class PageWriters:
    """Each writes one HTML file, its last argument: about the version in a folder, and about a system's result."""

    of_set: Callable[[Path, Path], None]
    of_result: Callable[[Evaluated, View, Path], None]


class _Given:
    writers: PageWriters | None = None


def write_pages_with(writers: PageWriters) -> None:
    """For all flows that run in this process from now on."""
    _Given.writers = writers


def show_set_page(result: BuildResult) -> None:
    """The page of a version, in `shown/` beside the versions, which hold nothing but what they were published with."""
    writers, name = _Given.writers, str(result.manifest["name"])
    if writers is not None:
        page = result.path.parent / "shown" / f"{result.path.name}.html"
        _show(lambda: writers.of_set(result.path, page), page, name, f"{name}/v{result.version}")


def show_result_page(found: Evaluated, view: View, folder: Path) -> None:
    """The page of a result, in the result's folder."""
    writers, about = _Given.writers, f"{folder.name} on {view.judged.described['name']}"
    if writers is not None:
        page = folder / PAGE
        _show(lambda: writers.of_result(found, view, page), page, about, about)


def _show(write: Callable[[], None], page: Path, named: str, about: str) -> None:
    """A page that cannot be written is said, and costs the run nothing: what it is about is kept by then."""
    try:
        _write(write, page)
    except UserError as error:
        current().reporter.say(str(error))
        return
    link, told = page.absolute().as_uri(), f"The page of {about}, one file on the machine that ran this: {page}"
    if_it_answers(lambda: create_link_artifact(link, about, slug(named, "page"), told))


@step("write page")
def _write(write: Callable[[], None], page: Path) -> None:
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("write page", page, f"cannot be written ({error.strerror})", "mend that") from None
    write()
