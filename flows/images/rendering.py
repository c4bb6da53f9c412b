"""Renders the images of a set once, beside its versions, and links them into each version."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from backends.contained_paths import contained_path
from backends.file_errors import translate_write_errors
from backends.images.rendered_digests import read_recorded_digests, record_digests
from backends.images.rendering import read_rendered_size
from backends.sets.manifest_reading import read_manifest
from backends.sets.set_files import read_image_digests
from builders.errors import UserError
from builders.ledger import Rejection, rejection_table
from builders.rendered_sizes import RENDERED_SIZE_COLUMNS, is_square_mode
from flows.definitions import RenderOptions
from flows.images.kept_rendering import render_in_bucket
from flows.images.render_parts import RenderPartJob, render_all
from flows.steps import current_run, step


@step("render pictures")
def render_images(
    images: pd.DataFrame,
    locations: Sequence[str],
    digests: Sequence[Any],
    render: RenderOptions,
    folder: Path,
) -> tuple[pd.DataFrame, pd.DataFrame, Path]:
    """Renders the images that are not rendered yet below the set's `folder`, and those whose file there is damaged.
    `digests`: the sha256 of each location as it was scanned; other bytes are not rendered. Returns the images
    (image_id, file_name) with `path` as in the set and their rendered sizes, without those that failed; the ledger's
    rows of these; and the folder of the rendered files."""
    set_paths, rendered_folder = locate_rendered(images["image_id"], render, folder)
    intact = find_intact_digests(folder, rendered_folder, set_paths)
    jobs = [
        RenderPartJob(
            location,
            sha256 if isinstance(sha256, str) else None,
            str(rendered_folder / path),
            frozenset(intact.get(path, ())),
        )
        for location, sha256, path in zip(locations, digests, set_paths, strict=True)
    ]
    work = current_run().work
    failures = render_all(jobs, render) if work is None else render_in_bucket(jobs, render, rendered_folder, work)
    failed_images = [(name, *fault) for name, fault in zip(images["file_name"], failures, strict=True) if fault]
    failure_rows = rejection_table(
        Rejection(name, "quarantined", reason, detail=detail) for name, reason, detail in failed_images
    )
    is_rendered = np.array([fault is None for fault in failures], dtype=bool)
    rendered = images.assign(path=pd.array(set_paths, dtype="str"))[is_rendered]
    return rendered.assign(**_rendered_sizes(rendered["path"], render, rendered_folder)), failure_rows, rendered_folder


def _rendered_sizes(set_paths: pd.Series, render: RenderOptions, folder: Path) -> dict[str, pd.Series]:
    """Returns the rendered columns of the images table: without values where `render` alone gives the size."""
    if is_square_mode(render.mode):
        sizes: list[tuple[int | None, int | None]] = [(None, None)] * len(set_paths)
    else:
        sizes = [read_rendered_size(folder / path) for path in set_paths]
    columns = zip(RENDERED_SIZE_COLUMNS, zip(*sizes, strict=True) if sizes else [(), ()], strict=True)
    return {name: pd.Series(values, set_paths.index, dtype="Int32") for name, values in columns}


def render_every_image(
    images: pd.DataFrame, digests: Sequence[Any], render: RenderOptions, folder: Path
) -> tuple[pd.DataFrame, Path]:
    """The images table with every image of `path` rendered, and the folder of the rendered files.

    Raises UserError if one cannot be rendered: all of these images are judged, so none may be left out.
    """
    rendered, failures, rendered_folder = render_images(images, list(images["path"]), digests, render, folder)
    if len(failures):
        first = failures.iloc[0]
        reason = f"{first['reason']} ({first['detail']}), one of {len(failures)}"
        raise UserError("render images", first["item"], reason, "fix or remove the file, then run again")
    return rendered, rendered_folder


def locate_rendered(image_ids: pd.Series, render: RenderOptions, folder: Path) -> tuple[list[str], Path]:
    """Returns the paths of the images within a set, and the folder below the set's own that stores them. Raises
    UserError where that is a link."""
    rendered_folder = contained_path(folder.absolute(), f".rendered/{render.size}-{render.mode}", "render pictures")
    return [f"images/{image_id[4:6]}/{image_id}.jpg" for image_id in image_ids], rendered_folder


def find_intact_digests(folder: Path, rendered_folder: Path, set_paths: Sequence[str]) -> dict[str, set[str]]:
    """By path in the set the digests that an intact rendered file may have: those in the record of the folder. Files of
    earlier releases, which kept none, get those that the versions of the set at `folder` list."""
    with translate_write_errors("render pictures", rendered_folder):
        known = read_recorded_digests(rendered_folder)
        unrecorded = {path for path in set_paths if path not in known and (rendered_folder / path).exists()}
        if not unrecorded:
            return known
        listed: list[tuple[str, str]] = []
        for manifest in sorted(folder.glob("v*/manifest.json")):
            with suppress(UserError):  # a damaged version
                listed += read_image_digests(manifest.parent, read_manifest(manifest.parent)).items()
        record_digests(rendered_folder, [(path, sha256) for path, sha256 in listed if path in unrecorded])
        return read_recorded_digests(rendered_folder)
