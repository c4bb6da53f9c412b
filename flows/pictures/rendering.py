"""Pictures as a set holds them: rendered once, kept beside the set's versions, linked into each of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from backends.pictures import isolated, rendering
from builders.errors import UserError
from builders.ledger import turned_away
from flows.definitions import Render
from flows.steps import Advance, each_part, step

PICTURES_A_PART = 1000
LEAST_PARTS = 16  # a small album, too, keeps all cores busy


@step("render pictures")
def render_pictures(
    pictures: pd.DataFrame, locations: Sequence[str], render: Render, folder: Path
) -> tuple[pd.DataFrame, pd.DataFrame, Path]:
    """Render what is not rendered yet below the set's `folder`. The pictures (image_id, file_name) with `path` as in
    the set, without those that could not be rendered; the ledger's rows of these; and where the rendered ones lie."""
    inside, store = rendered_store(pictures["image_id"], render, folder)
    size = max(1, min(PICTURES_A_PART, len(inside) // LEAST_PARTS))
    jobs = [(source, str(store / name)) for source, name in zip(locations, inside, strict=True)]
    parts = [jobs[start : start + size] for start in range(0, len(jobs), size)]
    done = each_part("render pictures", partial(_render_part, render.size, render.mode), parts, len(jobs), "pictures")
    faults = [fault for part in done for fault in part]
    lost = [(name, *fault) for name, fault in zip(pictures["file_name"], faults, strict=True) if fault]
    failed = turned_away([r[0] for r in lost], "quarantined", [r[1] for r in lost], [r[2] for r in lost])
    whole = [fault is None for fault in faults]
    return pictures.assign(path=pd.array(inside, dtype="str"))[whole], failed, store


def rendered_store(image_ids: pd.Series, render: Render, folder: Path) -> tuple[list[str], Path]:
    """Where the pictures lie within a set, and the folder below the set's own that holds them as rendered so far."""
    store = folder.absolute() / ".rendered" / f"{render.size}-{render.mode}"
    return [f"images/{image_id[4:6]}/{image_id}.jpg" for image_id in image_ids], store


def _render_part(size: int, mode: str, jobs: list[tuple[str, str]], advance: Advance) -> list[tuple[str, str] | None]:
    """Per picture None, or why it could not be rendered. What is rendered already costs a look only."""
    todo = [number for number, (_, target) in enumerate(jobs) if not Path(target).exists()]
    advance(len(jobs) - len(todo))
    faults: list[tuple[str, str] | None] = [None] * len(jobs)
    wanted = [rendering.RenderJob(*jobs[number], size, mode) for number in todo]
    try:
        for number, fault in zip(todo, isolated.each_isolated(rendering.render_job, wanted), strict=True):
            faults[number] = (fault.reason, fault.detail) if isinstance(fault, isolated.Lost) else fault
            advance(1)
    except OSError as error:
        place = error.filename or Path(jobs[0][1]).parents[2]
        next_step = "mend that, then run the same command: what was rendered is kept"
        raise UserError("render pictures", place, error.strerror or str(error), next_step) from None
    return faults
