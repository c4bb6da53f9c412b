"""`querytruth demo`: the sample album, built, checked and shown."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from builders.errors import UserError
from querytruth import terminal


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the album, the set and the page.")] = Path("demo"),
    prefect: Annotated[bool, typer.Option("--prefect/--in-process", help="Run the build as a Prefect flow.")] = True,
) -> None:
    """Draw the sample album, build its gallery, its recall set and its precision set, and write a page for each to
    look at. No network, no model.

    Example: querytruth demo --out demo
    """
    start = time.monotonic()
    terminal.err.print("querytruth demo: drawing the sample album")
    from flows.sample import draw_sample_album
    from flows.steps import Run, running

    # The demo leaves the user's own Prefect alone: state, settings and server are below the demo's folder.
    os.environ.setdefault("PREFECT_HOME", str((out / ".prefect").absolute()))
    try:
        with running(Run(terminal.Terminal())):
            drawn = draw_sample_album(out / "album")
    except OSError as error:
        raise UserError(
            "draw album", out, f"cannot be written ({error.strerror})", "give --out another folder"
        ) from None
    terminal.out.print(f"{len(drawn)} pictures in {out / 'album' / 'pictures'}", soft_wrap=True)
    pictures = f"images={out / 'album' / 'pictures'}"
    sound = _build("gallery", [pictures], out, out / "gallery.html", prefect)
    tables = [f"{part}.options.path={out / 'album' / part}.csv" for part in ("captions", "descriptions")]
    sound &= _build("recall", tables, out, out / "captions.html", prefect)
    _show_truth(out)
    boxes = f"annotations={out / 'album' / 'annotations.json'}"
    sound &= _build("precision", [pictures, boxes], out, out / "index.html", prefect)
    terminal.out.print(
        f"[bold]Look at {out / 'gallery.html'}, {out / 'captions.html'} and {out / 'index.html'}[/] "
        f"({time.monotonic() - start:.0f} s in all)",
        soft_wrap=True,
    )
    newest = out / "datasets" / "sample-objects"
    terminal.out.print(
        f"Next: querytruth lint {newest}; querytruth review export-csv {newest}", markup=False, soft_wrap=True
    )
    if not sound:
        raise typer.Exit(1)


def _show_truth(out: Path) -> None:
    """What the recall set says of ambiguous captions, beside what is true of the album."""
    from backends.sets.set_files import find
    from flows.sample import check_sample_captions

    check = check_sample_captions(find(str(out / "datasets" / "sample-captions")), out / "album")
    truth = f"{check.as_true} of {check.queries} queries have just the pictures that their caption fits"
    terminal.out.print(f"in truth {check.ambiguous} captions are ambiguous; after merge {truth}\n", soft_wrap=True)


def _build(kind: str, overrides: list[str], out: Path, page: Path, prefect: bool) -> bool:
    """Build one of the album's sets, verify it and write its page; whether it is intact."""
    from backends.sets.set_files import verify
    from flows.definitions import load_definition
    from flows.sample import DEFINITIONS
    from querytruth.build import How, run_build, show_result
    from querytruth.pages import write_set_page

    places = [*overrides, f"out={out / 'datasets'}"]
    result = run_build(load_definition(DEFINITIONS / f"{kind}.yaml", places, kind), How(prefect=prefect))
    show_result(result)
    write_set_page(result.path, page)
    problems = list(verify(result.path))
    terminal.out.print(f"verified: {'intact' if not problems else problems[0]}\n", markup=False)
    return not problems
