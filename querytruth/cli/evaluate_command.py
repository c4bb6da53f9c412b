"""`querytruth evaluate`: measures how well systems find the images of a set."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from querytruth import terminal
from querytruth.cli.options import (
    CPU_CORES,
    DEFAULT_DATASETS_FOLDER,
    FamilyOption,
    ImageRootsOption,
    JsonOption,
    LanguageOption,
    LevelOption,
    MetricsOption,
    OutOption,
    QrelsOption,
    TopicOption,
    WorkersOption,
    complete_sets,
)
from querytruth.cli.trust_tables import show_corrections

if TYPE_CHECKING:
    from querytruth.audit.corrections import AuditCorrections
    from querytruth.evaluation.judged_sets import JudgedSet
    from querytruth.evaluation.steps import StoredResult

_DIRECTIONS = ("text_to_image", "image_to_text")
_NAME_SEPARATOR = re.compile(r"[,\s]+")
OptionalSetArgument = Annotated[
    str | None,
    typer.Argument(help="name, name/v3 or a path; none with --qrels", metavar="SET", autocompletion=complete_sets),
]
ShownSlicesOption = Annotated[
    list[str] | None,
    typer.Option("--slice", help="Show these slices, such as overlap or language=zh.", metavar="ASPECT[=VALUE]"),
]
SearchDepthOption = Annotated[
    int | None, typer.Option(help="Results that a search gives (default: what the metrics look at).", min=1)
]
DirectionOption = Annotated[str, typer.Option(help="Who searches whom.", metavar="text_to_image|image_to_text|both")]
ReportFolderOption = Annotated[
    Path | None, typer.Option(help="The folder for results (default: beside the set).", metavar="DIR")
]
NameOption = Annotated[
    str | None, typer.Option(help="The name of the system, and of its result's folder (default: that of the file).")
]
MaxUnknownOption = Annotated[
    float | None, typer.Option(help="Share of a run that the set need not know (0.1).", min=0, max=1)
]
ScoresOption = Annotated[
    Literal["likeness", "distance"] | None,
    typer.Option(help="What the scores of run files and of a matrix are; distance: the lowest is the best."),
]
TextsFileOption = Annotated[Path | None, typer.Option(help="Words about the pictures (CSV), for the lexical baseline.")]
IdsOption = Annotated[
    str,
    typer.Option(help="What run files name pictures by.", metavar="image_id|file_name|path|source_url|source_id"),
]
CorrectedOption = Annotated[
    bool, typer.Option("--corrected", help="Also show what the figures would be by the audits of the set.")
]
TargetPrecisionOption = Annotated[
    list[float] | None, typer.Option(help="Find the lowest score with it (0.9).", min=0, max=1)
]


def evaluate(
    set_: OptionalSetArgument = None,
    model: Annotated[list[str] | None, typer.Option(help="A model's name on the hub, or its folder.")] = None,
    run: Annotated[
        list[Path] | None, typer.Option(help="TREC, JSON, Parquet, CSV, a result's folder, or a folder of runs.")
    ] = None,
    ids: IdsOption = "image_id",
    scores: ScoresOption = None,
    baseline: Annotated[list[str] | None, typer.Option(metavar="random|oracle|lexical")] = None,
    system: Annotated[list[Path] | None, typer.Option(help="A search service, described in YAML.")] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Use recorded answers of services only; connect to nothing.")
    ] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask services again, also what is recorded.")] = False,
    vectors: Annotated[list[Path] | None, typer.Option(help="A folder with images/ and queries/*.parquet.")] = None,
    similarities: Annotated[Path | None, typer.Option(help="A matrix (.npy), texts by pictures or turned.")] = None,
    rows: Annotated[Path | None, typer.Option(help="The ids of the matrix's rows, one a line.")] = None,
    columns: Annotated[Path | None, typer.Option(help="The ids of its columns, one a line.")] = None,
    qrels: QrelsOption = None,
    metrics: MetricsOption = "",
    slice_: ShownSlicesOption = None,
    k: SearchDepthOption = None,
    direction: DirectionOption = "text_to_image",
    language: LanguageOption = None,
    level: LevelOption = None,
    topic: TopicOption = None,
    family: FamilyOption = None,
    index: Annotated[str, typer.Option(help="How vectors are searched.", metavar="exact|ivf|hnsw")] = "exact",
    precision: TargetPrecisionOption = None,
    texts: TextsFileOption = None,
    images: ImageRootsOption = [],  # noqa: B006 - typer needs a list
    seed: Annotated[int, typer.Option(help="Of the random baseline.")] = 0,
    name: NameOption = None,
    max_unknown: MaxUnknownOption = None,
    report: ReportFolderOption = None,
    corrected: CorrectedOption = False,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html into the result's folder.")] = True,
    workers: WorkersOption = CPU_CORES,
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Measure how well systems find a set's pictures: figures with intervals, warnings and failures. Options that name
    a system may be given several times.

    Example: querytruth evaluate family-album --model openai/clip-vit-base-patch32 --baseline lexical"""
    parts = sum(part is not None for part in (similarities, rows, columns))
    _check_systems_named(parts, sum(len(given or []) for given in (model, run, baseline, vectors, system)), name)
    search_directions = parse_directions(direction, single_direction_reason="a run answers one way" if run else "")
    _check_truth_named(set_, qrels, max_unknown, corrected_direction=direction if corrected else None)
    terminal.err.print(f"querytruth: reading {set_ or qrels}", markup=False)
    from flows.evaluation import SystemSources, evaluate_sources
    from querytruth.api.evaluations import load_judgments
    from querytruth.evaluation.live_systems import AskOptions
    from querytruth.evaluation.steps import EvaluationOptions
    from querytruth.sets.published_files import image_roots

    part = chosen_part(language=language, level=level, topic=topic, family=family)
    if part and search_directions != _DIRECTIONS[:1]:
        raise typer.BadParameter("a part of the queries searches text to image", param_hint="--direction")
    matrix = (similarities, rows, columns) if similarities and rows and columns else None
    asked = AskOptions(offline, refresh)
    sources = SystemSources(
        run or [],
        baseline or [],
        vectors or [],
        model or [],
        matrix,
        index,
        seed,
        texts,
        system or [],
        asked,
        ids,
        scores,
    )
    options = EvaluationOptions(parse_metrics(metrics, k), k, precision or [0.9], report, page, max_unknown)
    with image_roots(images), terminal.reported_run(workers=workers, offline=offline):
        judged = load_judgments(set_, qrels, out, part)
        _check_slices(judged, slice_ or [], search_directions)
        results = evaluate_sources(judged, sources, options, search_directions, name)
    corrections = _find_corrections(str(set_), out, results) if corrected else None
    shown = [_select_slices(result, slice_) for result in results] if slice_ else results
    terminal.print_json(_results_to_json(shown, corrections)) if json else _show(shown, corrections, bool(slice_))


def _check_slices(judged: JudgedSet, slices: list[str], directions: tuple[str, ...]) -> None:
    """Raise an error for a slice that the set does not have, before hours of encoding."""
    from querytruth.evaluation.judged_sets import check_slices

    if slices and directions != _DIRECTIONS[:1]:
        raise typer.BadParameter("slices are of texts that search images", param_hint="--slice")
    check_slices(judged, slices, "evaluate")


def _select_slices(result: StoredResult, slices: list[str]) -> StoredResult:
    """Return the result with the named slices alone."""
    from querytruth.evaluation.judged_sets import select_slices

    evaluated = result.scored.result
    chosen = replace(evaluated, slices=select_slices(evaluated.slices, slices))
    return replace(result, scored=replace(result.scored, result=chosen))


def _find_corrections(set_: str, out: Path, results: list[StoredResult]) -> AuditCorrections:
    """Return what audits say of these results. Raises UserError where there are none."""
    from querytruth.audit.corrections import find_corrections
    from querytruth.sets.set_files import find_set

    return find_corrections(find_set(set_, out), [result.scored.run for result in results])


def _check_truth_named(
    set_: str | None, qrels: Path | None, max_unknown: float | None, corrected_direction: str | None
) -> None:
    """Raise typer.BadParameter for a call without one source of truth, or with an option that goes with the other."""
    if (set_ is None) == (qrels is None):
        raise typer.BadParameter("name a SET, or give --qrels FILE in its place")
    if max_unknown is not None and qrels is not None:
        raise typer.BadParameter("--max-unknown goes with a SET: every query of a run must be in a bare qrels file")
    if corrected_direction is not None and (set_ is None or corrected_direction != _DIRECTIONS[0]):
        raise typer.BadParameter("audits are of a SET, text to image", param_hint="--corrected")


def _check_systems_named(parts: int, others: int, name: str | None) -> None:
    """Raise typer.BadParameter for a call without a system, without all three files of a matrix, or with one name for
    several systems."""
    if parts not in (0, 3):
        raise typer.BadParameter("--similarities FILE.npy, --rows FILE and --columns FILE go together")
    if not parts and not others:
        raise typer.BadParameter("name a system: --model, --run, --baseline, --system, --vectors or --similarities")
    if name is not None and others + bool(parts) > 1:
        raise typer.BadParameter("--name is the name of one system: evaluate them one by one")


def _results_to_json(results: list[StoredResult], corrections: AuditCorrections | None) -> dict[str, Any]:
    """Return every result as JSON values, the mean of systems that were evaluated in both directions, and, where they
    are wanted, the audited figures."""
    from querytruth.evaluation.result_files import average_results, result_to_json

    plain = [
        {"folder": result.folder and str(result.folder), **result_to_json(result.scored.result)} for result in results
    ]
    means = average_results([result.scored.result for result in results])
    corrected = {} if corrections is None else {"corrected": corrections.figures, "truth": corrections.truth}
    return {"results": plain, "mean_of_directions": means} | corrected


def _show(results: list[StoredResult], corrections: AuditCorrections | None, has_slices: bool) -> None:
    from querytruth.cli.result_tables import show_direction_means, show_results, show_slices
    from querytruth.evaluation.result_files import average_results

    results_by_system = [result.scored.result for result in results]
    show_results(results_by_system)
    if has_slices:
        show_slices(results_by_system)
    show_direction_means(average_results(results_by_system))
    if corrections is not None:
        show_corrections(corrections.figures, corrections.truth)
    for result in results:
        if result.folder is not None:
            terminal.out.print(f"written: {result.page or result.folder}", markup=False, soft_wrap=True)


def chosen_part(**values: str | int | None) -> dict[str, str | int]:
    """Return the values that were given, by column of the queries."""
    return {column: value for column, value in values.items() if value is not None}


def parse_directions(direction: str, single_direction_reason: str) -> tuple[str, ...]:
    """Return the directions of an option. Raises typer.BadParameter for an unknown one, and for both where
    `single_direction_reason` says why not."""
    if direction not in (*_DIRECTIONS, "both"):
        raise typer.BadParameter(f"--direction is text_to_image, image_to_text or both, not {direction!r}")
    if direction == "both" and single_direction_reason:
        raise typer.BadParameter(f"{single_direction_reason}: say --direction text_to_image or image_to_text")
    return _DIRECTIONS if direction == "both" else (direction,)


def parse_metrics(metrics: str, k: int | None = None) -> list[str]:
    """Return the metrics of an option, or the usual ones that k results are enough for. Raises UserError for an unknown
    name."""
    from querytruth.evaluation.run_evaluation import choose_metrics

    return choose_metrics(filter(None, _NAME_SEPARATOR.split(metrics.strip())), k)
