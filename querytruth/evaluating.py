"""`querytruth evaluate`: how well systems find a set's pictures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querytruth import terminal
from querytruth.build import CORES, Workers
from querytruth.sets import DATASETS, Json, Out

if TYPE_CHECKING:
    from flows.scoring.judged_sets import Judged
    from flows.scoring.systems import System
    from querytruth.results import Kept

_WAYS = ("text_to_image", "image_to_text")
_NAMES = re.compile(r"[,\s]+")
MaybeSet = Annotated[str | None, typer.Argument(help="name, name/v3 or a path; none with --qrels", metavar="SET")]
Metrics = Annotated[str, typer.Option(help="Such as ndcg@10,ap@50(norm=min),p@r (default: the usual ones).")]
K = Annotated[int | None, typer.Option(help="Results that a search gives (default: what the metrics look at).", min=1)]
Way = Annotated[str, typer.Option(help="Who searches whom.", metavar="text_to_image|image_to_text|both")]
Report = Annotated[Path | None, typer.Option(help="The folder for results (default: beside the set).", metavar="DIR")]
Qrels = Annotated[Path | None, typer.Option(help="Judgments in TREC's form, in place of a set.", metavar="FILE")]
Texts = Annotated[Path | None, typer.Option(help="Words about the pictures (CSV), for the lexical baseline.")]
Precision = Annotated[list[float] | None, typer.Option(help="Find the lowest score with it (0.9).", min=0, max=1)]


def evaluate(
    set_: MaybeSet = None,
    model: Annotated[list[str] | None, typer.Option(help="A model's name on the hub, or its folder.")] = None,
    run: Annotated[list[Path] | None, typer.Option(help="TREC, JSON, Parquet, CSV, or a result's folder.")] = None,
    baseline: Annotated[list[str] | None, typer.Option(metavar="random|oracle|lexical")] = None,
    vectors: Annotated[list[Path] | None, typer.Option(help="A folder with images/ and queries/*.parquet.")] = None,
    similarities: Annotated[Path | None, typer.Option(help="A matrix (.npy), texts by pictures or turned.")] = None,
    rows: Annotated[Path | None, typer.Option(help="The ids of the matrix's rows, one a line.")] = None,
    columns: Annotated[Path | None, typer.Option(help="The ids of its columns, one a line.")] = None,
    qrels: Qrels = None,
    metrics: Metrics = "",
    k: K = None,
    direction: Way = "text_to_image",
    index: Annotated[str, typer.Option(help="How vectors are searched.", metavar="exact|ivf|hnsw")] = "exact",
    precision: Precision = None,
    texts: Texts = None,
    seed: Annotated[int, typer.Option(help="Of the random baseline.")] = 0,
    report: Report = None,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html into the result's folder.")] = True,
    workers: Workers = CORES,
    out: Out = DATASETS,
    json: Json = False,
) -> None:
    """How well systems find a set's pictures: figures, how far these can be trusted, and what went wrong. Options that
    name a system may be given several times.

    Example: querytruth evaluate family-album --model openai/clip-vit-base-patch32 --baseline lexical
    """
    matrix = [part for part in (similarities, rows, columns) if part is not None]
    _check_named(len(matrix), bool(model or run or baseline or vectors))
    ways = ways_of(direction, one_way="a run answers one way" if run else "")
    terminal.err.print(f"querytruth: reading {_named(set_, qrels)}", markup=False)
    from flows.scoring import systems
    from flows.scoring.encoded_sets import encoded_by_model, encoded_elsewhere
    from flows.steps import Run, running
    from querytruth.results import How, evaluated_systems, told

    how = How(listed(metrics), k, precision or [0.9], report, page)
    systems.check_index(index)
    with running(Run(terminal.Terminal(), workers)):
        judged = judged_of(set_, qrels, out)
        asked: list[System] = [systems.run_file(path) for path in run or []]
        asked += [systems.baseline(name, seed, texts) for name in baseline or []]
        asked += [systems.similarity_file(*matrix)] if matrix else []
        asked += [systems.encoded(encoded_elsewhere(folder, judged), index) for folder in vectors or []]
        asked += [systems.encoded(encoded_by_model(name, judged), index) for name in model or []]
        results = evaluated_systems(judged, asked, ways, how)
    terminal.as_json(told(results)) if json else _show(results)


def _check_named(parts: int, others: bool) -> None:
    """Whether a system is named, and of a matrix all three files."""
    if parts not in (0, 3):
        raise typer.BadParameter("--similarities FILE.npy, --rows FILE and --columns FILE go together")
    if not parts and not others:
        raise typer.BadParameter("name a system: --model, --run, --baseline, --vectors or --similarities")


def _show(results: list[Kept]) -> None:
    from querytruth.results import means
    from querytruth.scoreboards import show_means, show_results

    found = [result.scored.evaluated for result in results]
    show_results(found)
    show_means(means(found))
    for result in results:
        if result.folder is not None:
            terminal.out.print(f"written: {result.page or result.folder}", markup=False, soft_wrap=True)


def ways_of(direction: str, one_way: str) -> tuple[str, ...]:
    """The directions that an option names; `one_way` says why both cannot be, where they cannot."""
    if direction not in (*_WAYS, "both"):
        raise typer.BadParameter(f"--direction is text_to_image, image_to_text or both, not {direction!r}")
    if direction == "both" and one_way:
        raise typer.BadParameter(f"{one_way}: say --direction text_to_image or image_to_text")
    return _WAYS if direction == "both" else (direction,)


def _named(set_: str | None, qrels: Path | None) -> str | Path:
    if set_ is not None and qrels is None:
        return set_
    if set_ is None and qrels is not None:
        return qrels
    raise typer.BadParameter("name a SET, or give --qrels FILE in its place")


def judged_of(set_: str | None, qrels: Path | None, out: Path) -> Judged:
    """The set, or the judgments in its place."""
    from backends.sets.set_files import find
    from flows.scoring.judged_sets import judged_file, judged_set

    if qrels is not None:
        return judged_file(qrels)
    return judged_set(find(str(set_), out))


def listed(metrics: str) -> list[str]:
    """The metrics of an option, or the usual ones; a wrong name is refused before any work is done."""
    from evaluation.metric_names import parse
    from evaluation.scoring import DEFAULT

    return [str(parse(name)) for name in _NAMES.split(metrics.strip()) if name] or list(DEFAULT)
