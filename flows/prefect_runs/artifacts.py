"""What Prefect shows of a run: lines and a bar of progress, then funnel, contact sheet, change and links.

If the server does not answer, the run continues without artifacts.
"""

import base64
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from prefect import artifacts
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from builders.publication import BuildResult
from querytruth.backends.images.rendering import ThumbnailJob, make_contact_sheet, run_thumbnail_job
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.images.worker_starts import WorkerLimits
from querytruth.backends.steps import Advance, Reporter
from querytruth.records import stable_hash
from querytruth.sets import benchmark_set, manifest, set_files, version_difference
from querytruth.sets.set_files import locate_set_images

R = TypeVar("R")
_PAUSE_SECONDS = 300.0
_REPORT_INTERVAL = 5.0  # seconds between two reports of a step: each is a call of the server
_SHOWN, _SIDE = 40, 120
_LISTED = 10  # queries of a change note
_LONGEST = 120  # characters of a cell in it
_MARKS = "\\`*_{}[]()#+!|~<>"
_LIMITS = WorkerLimits(seconds=30)


class _ServerPause:
    """The time, by the monotonic clock, until which the server is not called."""

    until = 0.0


def artifact_key(*parts: str) -> str:
    """Return an artifact's key from names: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


@contextmanager
def retrying_once() -> Iterator[None]:
    """Let Prefect's client retry only once within the block. Settings take a tenth of a second to copy: several calls
    of `call_server_if_available` share one block."""
    if PREFECT_CLIENT_MAX_RETRIES.value() <= 1:
        yield
        return
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}):
        yield


def call_server_if_available(call: Callable[[], R]) -> R | None:
    """Return the answer of the server; None where it fails, so that no build is lost with its server. After a failure
    it is not called for minutes; the client retries once."""
    if time.monotonic() < _ServerPause.until:
        return None
    try:
        with retrying_once():
            return call()
    except Exception as error:  # of the server, the connection or Prefect's HTTP client, which is its own affair
        _ServerPause.until = time.monotonic() + _PAUSE_SECONDS
        get_run_logger().warning("Prefect's server did not accept an artifact (%s)", type(error).__name__)
        return None


@dataclass(frozen=True, slots=True)
class ProgressReporter:
    """Reports to `inner` and to Prefect's server. `name`: the first part of the artifacts' keys."""

    inner: Reporter
    name: str

    def log(self, text: str) -> None:
        """Report one line, also in the run's log."""
        get_run_logger().info("%s", text)
        self.inner.log(text)

    @contextmanager
    def bar(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        """Show a progress bar; its artifact is created when the step has taken some seconds."""
        progress = _Progress(artifact_key(self.name, title), f"{title}: {total:,} {unit}", max(total, 1))
        with self.inner.bar(title, total, unit) as shown:

            def advance(count: int) -> None:
                shown(count)
                progress.add(count)

            yield advance
        progress.report()


class _Progress:
    """Counts units from any thread, and reports every few seconds."""

    def __init__(self, key: str, about: str, total: int) -> None:
        self._key, self._about, self._total = key, about, total
        self._lock = threading.Lock()
        self._done, self._reported = 0, time.monotonic()
        self._artifact: Any = None

    def add(self, count: int) -> None:
        """Add units; the first thread to do so after some seconds reports."""
        with self._lock:
            self._done += count
            due = time.monotonic() - self._reported >= _REPORT_INTERVAL
            if due:
                self._reported = time.monotonic()
        if due:
            self._send()

    def report(self) -> None:
        """Report the final count, if the artifact exists."""
        if self._artifact is not None:
            self._send()

    def _send(self) -> None:
        share = min(100.0, 100.0 * self._done / self._total)
        artifact_id = self._artifact
        if artifact_id is None:
            self._artifact = call_server_if_available(lambda: create_progress_artifact(share, self._key, self._about))
        else:
            call_server_if_available(lambda: update_progress_artifact(artifact_id, share))


@retrying_once()
def create_build_artifacts(result: BuildResult) -> None:
    """Create all artifacts of a build and its nested sets; of an unchanged version only the funnel."""
    name = result.manifest["name"]
    create_funnel_artifact(name, result.manifest["funnel"])
    if not result.is_new:
        return
    _show_change(name, result)
    _show_images(name, result)
    card = (result.path / "README.md").absolute().as_uri()
    about = f"The card of {name}/v{result.version}, with its counts: {result.path / 'README.md'}"
    call_server_if_available(
        lambda: artifacts.create_link_artifact(card, f"{name}/v{result.version}", artifact_key(name, "card"), about)
    )
    if result.page is not None:
        create_page_link(result.page, name, f"{name}/v{result.version}")
    for smaller in result.nested_results:
        create_build_artifacts(smaller)


def create_funnel_artifact(name: str, funnel: Sequence[manifest.FunnelStage]) -> None:
    """Create the table of the funnel, a row per stage."""
    rows = [dict(zip(manifest.FUNNEL_COLUMNS, row, strict=True)) for row in manifest.tabulate_funnel(funnel)]
    about = "What entered, what was kept, and why the rest was not."
    call_server_if_available(lambda: artifacts.create_table_artifact(rows, artifact_key(name, "funnel"), about))


def create_page_link(page: Path, artifact_name: str, about: str) -> None:
    """Create a link to a page; it opens on the machine that wrote the page."""
    link, description = page.absolute().as_uri(), f"The page of {about}, one file on the machine that ran this: {page}"
    call_server_if_available(
        lambda: artifacts.create_link_artifact(link, about, artifact_key(artifact_name, "page"), description)
    )


def _show_change(name: str, result: BuildResult) -> None:
    parent = result.manifest["parent"]
    if parent is None:
        return
    before = set_files.read_set(result.path.parent / f"v{parent['version']}").tables
    changes = version_difference.compare_versions(before, set_files.read_set(result.path).tables)
    note = render_change_note(changes, f"{name}/v{parent['version']}", f"{name}/v{result.version}")
    call_server_if_available(
        lambda: artifacts.create_markdown_artifact(note, artifact_key(name, "change"), "Since the last version.")
    )


def _show_images(name: str, result: BuildResult) -> None:
    """Create the contact sheet of images sampled by their ids: the same set shows the same images."""
    stored = set_files.read_set(result.path, ("images",))
    images = stored.tables.images.dropna(subset=["path"])
    sampled_ids = sorted(images["image_id"], key=lambda image_id: stable_hash("contact sheet", str(image_id)))[:_SHOWN]
    squashed_sizes = benchmark_set.list_squashed_sizes(images, stored.manifest)
    jobs = [
        ThumbnailJob(location, _SIDE, squashed_sizes.get(image_id))
        for image_id, location in locate_set_images(stored, sampled_ids).items()
    ]
    small = [data for data in map_in_workers(run_thumbnail_job, jobs, _LIMITS) if isinstance(data, bytes)]
    if not small:
        return
    sheet = base64.b64encode(make_contact_sheet(small, _SIDE)).decode("ascii")
    about = f"{len(small)} of {len(images):,} images of {name}/v{result.version}"
    url = f"data:image/jpeg;base64,{sheet}"
    call_server_if_available(lambda: artifacts.create_image_artifact(url, artifact_key(name, "images"), about))


def render_change_note(changes: version_difference.VersionDifference, before: str, after: str) -> str:
    """Count of added, removed and changed rows, the first queries of each, and whether figures are comparable."""
    listed = [one.name for one in fields(changes) if one.name != "judgments_with_them"]
    counts: dict[str, list[Any]] = {name.replace("_", " "): getattr(changes, name) for name in listed}
    lines = [f"# {_escape_markdown(before)} → {_escape_markdown(after)}", ""]
    lines += [f"{changes.comparability.capitalize()}.", "", "| what | rows |", "|---|---:|"]
    lines += [f"| {what} | {len(rows):,} |" for what, rows in counts.items() if rows]
    for what in ("queries added", "queries removed"):
        if rows := counts[what]:
            lines += ["", f"## {what.capitalize()}", "", *_listed(rows)]
    return "\n".join(lines)


def _listed(rows: list[Any]) -> list[str]:
    shown = [f"- {_escape_markdown(str(row['text']))}" for row in rows[:_LISTED]]
    return shown + ([f"- … and {len(rows) - _LISTED:,} more"] if len(rows) > _LISTED else [])


def _escape_markdown(text: str) -> str:
    """Return the text of a query on one line, cut to a cell's length, without any mark-up."""
    text = " ".join(text.split())
    text = text[:_LONGEST] + ("…" if len(text) > _LONGEST else "")
    return "".join(f"\\{c}" if c in _MARKS else c for c in text)
