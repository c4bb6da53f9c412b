"""What a finished build leaves on Prefect's page: funnel, contact sheet, change against the last version, links."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)

from backends.pictures.contact_sheet import contact_sheet
from backends.pictures.isolated import Limits, each_isolated
from backends.pictures.rendering import ThumbnailJob, thumbnail_job
from backends.sets import set_files
from builders.difference import difference
from builders.ledger import plural
from builders.records import stable_hash
from flows.prefect_runs.change_notes import change_note
from flows.prefect_runs.pages import show_set_page
from flows.prefect_runs.telling import if_it_answers, slug
from flows.publish import BuildResult

_SHOWN, _SIDE = 40, 120
_LIMITS = Limits(seconds=30)


def show_build(result: BuildResult) -> None:
    """All artifacts of a build; an unchanged one has but its funnel."""
    name = result.manifest["name"]
    show_funnel(name, result.manifest["funnel"])
    if not result.is_new:
        return
    _show_change(name, result)
    _show_pictures(name, result)
    card = (result.path / "README.md").absolute().as_uri()
    about = f"The card of {name}/v{result.version}, with its counts: {result.path / 'README.md'}"
    if_it_answers(lambda: create_link_artifact(card, f"{name}/v{result.version}", slug(name, "card"), about))
    show_set_page(result)
    for smaller in result.smaller:
        show_build(smaller)


def show_funnel(name: str, funnel: Sequence[dict[str, Any]]) -> None:
    """Every stage as a table: what came in, what went on, and why the rest did not."""
    rows = []
    for stage in funnel:
        away = {**stage["rejected"], **stage["quarantined"], **stage["pending"]}
        why = ", ".join(f"{number:,} {reason}" for reason, number in sorted(away.items(), key=lambda one: -one[1]))
        came = f"{stage['entered']:,} {plural(stage['kind'])}"
        rows.append({"stage": stage["stage"], "came in": came, "went on": stage["accepted"], "the rest": why})
    about = "What came in, what went on, and why the rest did not."
    if_it_answers(lambda: create_table_artifact(rows, slug(name, "funnel"), about))


def _show_change(name: str, result: BuildResult) -> None:
    parent = result.manifest["parent"]
    if parent is None:
        return
    before = set_files.read(result.path.parent / f"v{parent['version']}").tables
    found = difference(before, set_files.read(result.path).tables)
    note = change_note(found, f"{name}/v{parent['version']}", f"{name}/v{result.version}")
    if_it_answers(lambda: create_markdown_artifact(note, slug(name, "change"), "Against the last version."))


def _show_pictures(name: str, result: BuildResult) -> None:
    """Some pictures of the set, drawn by their ids: the same ones whenever the same set is shown."""
    images = set_files.read(result.path, ("images",)).tables.images.dropna(subset=["path"])
    drawn = sorted(images["image_id"], key=lambda image_id: stable_hash("contact sheet", str(image_id)))[:_SHOWN]
    places = dict(zip(images["image_id"], images["path"], strict=True))
    jobs = [ThumbnailJob(str(result.path / places[image_id]), _SIDE) for image_id in drawn]
    small = [data for data in each_isolated(thumbnail_job, jobs, _LIMITS) if isinstance(data, bytes)]
    if not small:
        return
    sheet = base64.b64encode(contact_sheet(small, _SIDE)).decode("ascii")
    about = f"{len(small)} of {len(images):,} pictures of {name}/v{result.version}"
    url = f"data:image/jpeg;base64,{sheet}"
    if_it_answers(lambda: create_image_artifact(url, slug(name, "pictures"), about))
