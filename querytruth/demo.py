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
    """Draw the sample album, build its precision set, and write a page to look at. No network, no model.

    Example: querytruth demo --out demo
    """
    start = time.monotonic()
    terminal.err.print("querytruth demo: drawing the sample album")
    from backends.set_files import verify
    from flows.definitions import PrecisionDefinition, load_definition
    from flows.sample import DEFINITION, draw_sample_album
    from flows.steps import Run, running
    from querytruth.build import run_precision, show_result
    from querytruth.pages import write_set_page

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
    places = [
        f"annotations={out / 'album' / 'annotations.json'}",
        f"images={out / 'album' / 'pictures'}",
        f"out={out / 'datasets'}",
    ]
    definition = load_definition(DEFINITION, places, "precision")
    assert isinstance(definition, PrecisionDefinition)
    result = run_precision(definition, os.cpu_count() or 1, prefect)
    show_result(result)
    problems = list(verify(result.path))
    write_set_page(result.path, out / "index.html")
    terminal.out.print(f"verified: {'intact' if not problems else problems[0]}", markup=False)
    terminal.out.print(
        f"[bold]Look at {out / 'index.html'}[/] ({time.monotonic() - start:.0f} s in all)", soft_wrap=True
    )
    terminal.out.print(
        f"Next: querytruth lint {result.path}; querytruth review export-csv {result.path}",
        markup=False,
        soft_wrap=True,
    )
    if problems:
        raise typer.Exit(1)
