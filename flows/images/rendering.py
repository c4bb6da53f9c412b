"""Renders the images of a set once, beside its versions, and links them into each version."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from backends.images import rendering
from backends.workers import worker_processes
from builders.errors import UserError
from builders.ledger import Rejection, rejection_table
from builders.rendered_sizes import RENDERED_SIZE_COLUMNS, is_square_mode
from flows.definitions import RenderOptions
from flows.steps import Advance, map_parts, step

IMAGES_A_PART = 1000
MIN_PARTS = 16  # a small album, too, keeps all cores busy


@step("render pictures")
def render_images(
    images: pd.DataFrame, locations: Sequence[str], render: RenderOptions, folder: Path
) -> tuple[pd.DataFrame, pd.DataFrame, Path]:
    """Renders the images that are not rendered yet below the set's `folder`. Returns the images (image_id, file_name)
    with `path` as in the set and their rendered sizes, without those that failed; the ledger's rows of these; and the
    folder of the rendered files."""
    set_paths, rendered_folder = locate_rendered(images["image_id"], render, folder)
    size = max(1, min(IMAGES_A_PART, len(set_paths) // MIN_PARTS))
    jobs = [(source, str(rendered_folder / name)) for source, name in zip(locations, set_paths, strict=True)]
    parts = [jobs[start : start + size] for start in range(0, len(jobs), size)]
    done = map_parts("render pictures", partial(_render_part, render.size, render.mode), parts, len(jobs), "pictures")
    failures = [fault for part in done for fault in part]
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
        sizes = [rendering.read_rendered_size(folder / path) for path in set_paths]
    columns = zip(RENDERED_SIZE_COLUMNS, zip(*sizes, strict=True) if sizes else [(), ()], strict=True)
    return {name: pd.Series(values, set_paths.index, dtype="Int32") for name, values in columns}


def render_every_image(images: pd.DataFrame, render: RenderOptions, folder: Path) -> tuple[pd.DataFrame, Path]:
    """The images table with every image of `path` rendered, and the folder of the rendered files.

    Raises UserError if one cannot be rendered: all of these images are judged, so none may be left out.
    """
    rendered, failures, rendered_folder = render_images(images, list(images["path"]), render, folder)
    if len(failures):
        first = failures.iloc[0]
        reason = f"{first['reason']} ({first['detail']}), one of {len(failures)}"
        raise UserError("render images", first["item"], reason, "fix or remove the file, then run again")
    return rendered, rendered_folder


def locate_rendered(image_ids: pd.Series, render: RenderOptions, folder: Path) -> tuple[list[str], Path]:
    """Returns the paths of the images within a set, and the folder below the set's own that stores them."""
    rendered_folder = folder.absolute() / ".rendered" / f"{render.size}-{render.mode}"
    return [f"images/{image_id[4:6]}/{image_id}.jpg" for image_id in image_ids], rendered_folder


def _render_part(size: int, mode: str, jobs: list[tuple[str, str]], advance: Advance) -> list[tuple[str, str] | None]:
    """Returns per image None, or why it could not be rendered. Files that exist are only checked."""
    unrendered = [number for number, (_, target) in enumerate(jobs) if not Path(target).exists()]
    advance(len(jobs) - len(unrendered))
    failures: list[tuple[str, str] | None] = [None] * len(jobs)
    wanted = [rendering.RenderJob(*jobs[number], size, mode) for number in unrendered]
    try:
        folder = Path(jobs[0][1]).parents[2]
        folder.mkdir(parents=True, exist_ok=True)
        results = worker_processes.map_in_workers(rendering.run_render_job, wanted, writable=folder)
        for number, failure in zip(unrendered, results, strict=True):
            failures[number] = failure
            advance(1)
    except OSError as error:
        place = error.filename or Path(jobs[0][1]).parents[2]
        next_step = "fix that, then run the same command: what was rendered is kept"
        raise UserError("render pictures", place, error.strerror or str(error), next_step) from None
    return failures
