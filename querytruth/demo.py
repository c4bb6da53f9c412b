"""`querytruth demo`: the sample album, built, checked and shown."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builders.errors import UserError
from querytruth import terminal

if TYPE_CHECKING:
    from builders.sample_album import AlbumPicture


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the album, the set and the page.")] = Path("demo"),
    prefect: Annotated[bool, typer.Option("--prefect/--in-process", help="Run the build as a Prefect flow.")] = True,
) -> None:
    """Draw the sample album, build its gallery, its recall set, its precision set and its generated set, evaluate the
    baselines on them, and write pages to look at. No network, no model.

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
    sound &= _generated(out, drawn, prefect)
    reports = _figures(out)
    pages = ", ".join(str(out / f"{name}.html") for name in ("gallery", "captions", "index", "queries"))
    terminal.out.print(f"[bold]Look at {pages}[/] ({time.monotonic() - start:.0f} s in all)", soft_wrap=True)
    terminal.out.print(f"and at how a search did: {', '.join(map(str, reports))}", soft_wrap=True, markup=False)
    newest = out / "datasets" / "sample-objects"
    steps = f"querytruth review {newest}; querytruth lint {newest}; querytruth export {newest} mteb {out / 'mteb'}"
    terminal.out.print(f"Next: {steps}", markup=False, soft_wrap=True)
    if not sound:
        raise typer.Exit(1)


def _show_truth(out: Path) -> None:
    """What the recall set says of ambiguous captions, beside what is true of the album."""
    from backends.sets.set_files import find
    from flows.sample import check_sample_captions

    check = check_sample_captions(find(str(out / "datasets" / "sample-captions")), out / "album")
    truth = f"{check.as_true} of {check.queries} queries have just the pictures that their caption fits"
    terminal.out.print(f"in truth {check.ambiguous} captions are ambiguous; after merge {truth}\n", soft_wrap=True)


def _generated(out: Path, drawn: list[AlbumPicture], prefect: bool) -> bool:
    """The generated set by its stages: a transcript stands in for the model, answers written beforehand for the
    person, and the album's descriptions for the web."""
    from backends.sets.set_files import find
    from flows.definitions import load_definition
    from flows.generation.collect_stage import collect_stage
    from flows.sample import DEFINITIONS
    from flows.sample_queries import check_sample_queries, fill_in_answers
    from flows.steps import Run, running
    from flows.topics_and_objects import objects_stage, topics_stage
    from querytruth.health import write_page

    places = [
        f"topics.options.replies={DEFINITIONS / 'transcript.jsonl'}",
        f"topics.samples={DEFINITIONS / 'topics.yaml'}",
        f"collect.options.index={out / 'album' / 'descriptions.csv'}",
        f"collect.options.images={out / 'album' / 'pictures'}",
    ]
    definition: Any = load_definition(DEFINITIONS / "generated.yaml", [*places, f"out={out / 'datasets'}"], "generated")
    with running(Run()):
        for run in (topics_stage, objects_stage):
            result = run(definition, "generated.yaml")
            terminal.out.print(f"{result.stage} from a transcript: {result.health.line}", markup=False, soft_wrap=True)
            terminal.out.print(f"  how it went: {write_page(definition, result.stage)}", markup=False, soft_wrap=True)
            answered = fill_in_answers(result.file, result.stage)
            told = f"  {answered} rows of {result.file} answered as a person might, the rest kept"
            terminal.out.print(told, markup=False, soft_wrap=True)
        collect_stage(definition, "generated.yaml")
    sound = _build("generated", places, out, out / "queries.html", prefect)
    check = check_sample_queries(find(str(out / "datasets" / "sample-queries")), drawn)
    truth = f"in truth {check.true} of {check.judged} judgments show what their query names"
    terminal.out.print(f"{truth}; {check.holes} other pictures do, too, and are unjudged\n", soft_wrap=True)
    return sound


def _figures(out: Path) -> list[Path]:
    """What chance, a search in words, and one that knows the truth reach on the sets: a table, and a report of each."""
    from backends.sets.set_files import find
    from querytruth.sample_figures import show_baselines

    words = {"sample-captions": out / "album" / "descriptions.csv", "sample-objects": None, "sample-queries": None}
    return show_baselines({find(str(out / "datasets" / name)): texts for name, texts in words.items()})


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
