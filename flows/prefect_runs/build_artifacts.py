"""The artifacts of a finished build in Prefect: funnel, contact sheet, change from the last version, links."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import artifacts

from backends.images.rendering import ThumbnailJob, run_thumbnail_job
from backends.images.thumbnails import make_contact_sheet
from backends.sets import set_files
from backends.sets.image_locations import locate_set_images
from backends.workers.worker_processes import WorkerLimits, map_in_workers
from builders.ledger import FUNNEL_COLUMNS, tabulate_funnel
from builders.records import stable_hash
from builders.rendered_sizes import list_squashed_sizes
from builders.version_difference import VersionDifference, compare_versions
from flows.prefect_runs.progress import artifact_key, call_server_if_available, retrying_once
from flows.set_publication import BuildResult

_SHOWN, _SIDE = 40, 120
_LISTED = 10  # queries of a change note
_LONGEST = 120  # characters of a cell in it
_MARKS = "\\`*_{}[]()#+!|~<>"
_LIMITS = WorkerLimits(seconds=30)


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


def create_funnel_artifact(name: str, funnel: Sequence[dict[str, Any]]) -> None:
    """Create the table of the funnel, a row per stage."""
    rows = [dict(zip(FUNNEL_COLUMNS, row, strict=True)) for row in tabulate_funnel(funnel)]
    about = "What came in, what went on, and why the rest did not."
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
    changes = compare_versions(before, set_files.read_set(result.path).tables)
    note = render_change_note(changes, f"{name}/v{parent['version']}", f"{name}/v{result.version}")
    call_server_if_available(
        lambda: artifacts.create_markdown_artifact(note, artifact_key(name, "change"), "Against the last version.")
    )


def _show_images(name: str, result: BuildResult) -> None:
    """Create the contact sheet of images sampled by their ids: the same set shows the same images."""
    stored = set_files.read_set(result.path, ("images",))
    images = stored.tables.images.dropna(subset=["path"])
    sampled_ids = sorted(images["image_id"], key=lambda image_id: stable_hash("contact sheet", str(image_id)))[:_SHOWN]
    squashed_sizes = list_squashed_sizes(images, stored.manifest)
    jobs = [
        ThumbnailJob(location, _SIDE, squashed_sizes.get(image_id))
        for image_id, location in locate_set_images(stored, sampled_ids).items()
    ]
    small = [data for data in map_in_workers(run_thumbnail_job, jobs, _LIMITS) if isinstance(data, bytes)]
    if not small:
        return
    sheet = base64.b64encode(make_contact_sheet(small, _SIDE)).decode("ascii")
    about = f"{len(small)} of {len(images):,} pictures of {name}/v{result.version}"
    url = f"data:image/jpeg;base64,{sheet}"
    call_server_if_available(lambda: artifacts.create_image_artifact(url, artifact_key(name, "pictures"), about))


def render_change_note(changes: VersionDifference, before: str, after: str) -> str:
    """Counts of added, removed and changed rows, the first queries of each, and whether figures are comparable."""
    counts: dict[str, list[Any]] = {
        "queries added": changes.queries_added,
        "queries removed": changes.queries_removed,
        "queries changed": changes.queries_changed,
        "pictures added": changes.images_added,
        "pictures removed": changes.images_removed,
        "pictures changed": changes.images_changed,
        "judgments added": changes.judgments_added,
        "judgments removed": changes.judgments_removed,
        "judgments changed": changes.judgments_changed,
    }
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
    """The text of a query on one line, cut to a cell's length, without any mark-up."""
    text = " ".join(text.split())
    text = text[:_LONGEST] + ("…" if len(text) > _LONGEST else "")
    return "".join(f"\\{c}" if c in _MARKS else c for c in text)
