"""`querytruth train`: trains a dual encoder on a set, as a reference for what such images allow."""

from pathlib import Path
from typing import Annotated, Any

import typer

from builders.errors import UserError
from querytruth import terminal
from querytruth.options import (
    CPU_CORES,
    DefinitionArgument,
    JsonOption,
    OverridesOption,
    list_overrides,
)

AblateOption = Annotated[
    bool, typer.Option("--ablate", help="Also train without each part of it, one at a time, and compare.")
]
TrainingOutOption = Annotated[
    Path | None, typer.Option("--out", help="Where trained models lie (default: the definition's key out).")
]
TrainingWorkersOption = Annotated[int, typer.Option(help="Threads, and processes that read pictures.", min=1, max=256)]


def train(
    definition: DefinitionArgument,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    out: TrainingOutOption = None,
    ablate: AblateOption = False,
    workers: TrainingWorkersOption = CPU_CORES,
    json: JsonOption = False,
) -> None:
    """Train a dual encoder on a set's own pictures and queries; the same command resumes a stopped training.

    Example: querytruth train training.yaml --set steps.epochs=10
    """
    terminal.err.print(f"querytruth: reading {definition}", markup=False)
    from flows.definitions import load_definition
    from flows.dual_encoder_training import train_dual_encoder

    checked: Any = load_definition(definition, list_overrides(set_, out), "training")
    try:
        with terminal.reported_run(workers=workers):
            if ablate:
                _ablate(checked, json)
            else:
                result = train_dual_encoder(checked)
                terminal.print_json(_summary(result)) if json else _show(result)
    except OSError as error:
        place = error.filename or checked.out
        reason = f"cannot be written ({error.strerror})"
        raise UserError("train", place, reason, "fix that, then run the same command: it goes on") from None


def _ablate(definition: Any, json: bool) -> None:
    from flows.training.ablation import format_ablation_table, run_ablation

    rows = run_ablation(definition)
    if json:
        figures = [{"title": row.title, "mean": row.mean, "less": row.difference} for row in rows]
        terminal.print_json([figure | _summary(row.trained) for figure, row in zip(figures, rows, strict=True)])
    else:
        terminal.out.print("\n".join(format_ablation_table(rows)), soft_wrap=True, markup=False)


def _summary(result: Any) -> dict[str, Any]:
    return {
        "path": str(result.folder),
        "test_set": str(result.test_set),
        "is_new": result.is_new,
        "epochs": len(result.history),
        "figures": result.figures,
        "chance": result.chance,
    }


def _show(result: Any) -> None:
    from flows.training.training_report import CHANCE, COLUMNS, list_score_rows, warn_of_chance

    rows: list[list[object]] = [[*row] for row in list_score_rows(result.figures, result.chance)]
    status = "trained" if result.is_new else "was trained before"
    terminal.out.print(f"[bold]{result.folder}[/] {status}, {len(result.history)} epochs", soft_wrap=True)
    terminal.print_table(
        "On the pictures kept back (95% intervals)", ["", *(title for title, _ in COLUMNS), CHANCE], rows
    )
    if warning := warn_of_chance(result.chance):
        terminal.out.print(f"warning: {warning}", markup=False, soft_wrap=True)
    next_ = f"Next: querytruth evaluate {result.test_set} --model {result.folder}"
    terminal.out.print(next_, markup=False, soft_wrap=True)
