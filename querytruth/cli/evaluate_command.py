"""`querytruth evaluate`: measures how well systems find the images of a set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from querytruth import terminal
from querytruth.cli.command_line import command, option
from querytruth.cli.options import CPU_CORES, JsonOption, WorkersOption
from querytruth.errors import UsageError
from querytruth.evaluation.evaluation_result import TEXT_TO_IMAGE
from querytruth.evaluation.requests import EvaluationRequest

if TYPE_CHECKING:
    from querytruth.audit.pool import JsonRecord
    from querytruth.evaluation.steps import StoredResult

ShownSlicesOption = Annotated[
    list[str] | None,
    option("--slice", help="Slices to show, such as overlap or language=zh.", metavar="ASPECT[=VALUE]"),
]
CorrectedOption = Annotated[
    bool, option("--corrected", help="Also show the metrics corrected by the audits of the set.")
]
PerturbOption = Annotated[
    bool, option("--perturb", help="Also send each query in other spellings (case, spaces …), and show the loss.")
]


@command
def evaluate(
    slice_: ShownSlicesOption = None,
    corrected: CorrectedOption = False,
    perturb: PerturbOption = False,
    workers: WorkersOption = CPU_CORES,
    json: JsonOption = False,
    *,
    request: EvaluationRequest,
) -> None:
    """Measure how well systems find the images of a set: figures with intervals, warnings and failures. Options that
    name a system can be repeated.

    Example: querytruth evaluate family-album --model openai/clip-vit-base-patch32 --baseline lexical"""
    if slice_ and request.directions != (TEXT_TO_IMAGE,):
        raise UsageError("--slice", "works for text-to-image only", "remove --direction")
    if corrected and (request.of is None or request.direction != TEXT_TO_IMAGE):
        raise UsageError("--corrected", "needs a SET and text-to-image", "remove it")
    terminal.report(f"querytruth: reading {request.label}")
    from flows.evaluation import check_typing, evaluate_request, load_judgments, measure_typing
    from querytruth.evaluation.judged_sets import check_slices
    from querytruth.sets.published_files import image_roots

    with image_roots(request.images), terminal.reported_run(workers=workers, offline=request.offline):
        judged = load_judgments(request)
        check_slices(judged, slice_ or [], "evaluate")  # before hours of encoding
        if perturb:
            check_typing(request)
        results = evaluate_request(request, judged)
        typing = measure_typing(request, judged, results) if perturb else []
    corrections: dict[str, list[JsonRecord]] = {}
    if corrected:
        from querytruth.audit.corrections import find_corrections
        from querytruth.sets.set_files import find_set

        runs = [result.scored.run for result in results]
        corrections = find_corrections(find_set(request.label, request.out), runs)
    shown = [_select_slices(result, slice_) for result in results] if slice_ else results
    if json:
        typed = {"typing": [table.to_dict("records") for table in typing]} if perturb else {}
        terminal.print_json(_results_to_json(shown) | corrections | typed)
        return
    _show(shown, corrections, bool(slice_))
    for result, table in zip(results, typing, strict=False):
        from querytruth.cli.trust_tables import show_typing

        show_typing(str(result.system.description["name"]), table.to_dict("records"))


def _select_slices(result: StoredResult, slices: list[str]) -> StoredResult:
    """Return the result with the named slices alone."""
    from querytruth.evaluation.judged_sets import select_slices

    evaluated = result.scored.result
    chosen = replace(evaluated, slices=select_slices(evaluated.slices, slices))
    return replace(result, scored=replace(result.scored, result=chosen))


def _results_to_json(results: list[StoredResult]) -> dict[str, Any]:
    """Return every result as JSON values, and the mean of systems that were evaluated in both directions."""
    from querytruth.evaluation.result_files import average_results, result_to_json

    plain = [
        {"folder": result.folder and str(result.folder), **result_to_json(result.scored.result)} for result in results
    ]
    means = average_results([result.scored.result for result in results])
    return {"results": plain, "mean_of_directions": means}


def _show(results: list[StoredResult], corrections: dict[str, list[JsonRecord]], has_slices: bool) -> None:
    from querytruth.cli.result_tables import show_direction_means, show_results, show_slices
    from querytruth.evaluation.result_files import average_results

    results_by_system = [result.scored.result for result in results]
    show_results(results_by_system)
    if has_slices:
        show_slices(results_by_system)
    show_direction_means(average_results(results_by_system))
    if corrections:
        from querytruth.cli.trust_tables import show_corrections

        show_corrections(corrections["corrected"], corrections["truth"])
    for result in results:
        if result.folder is not None:
            terminal.say(f"written: {result.page or result.folder}")
