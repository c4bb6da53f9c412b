"""`querytruth train`: a dual encoder trained on a set, as a reference for what pictures like these allow."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from builders.errors import UserError
from querytruth import terminal
from querytruth.build import CORES, Definition, Json, Set

Ablate = Annotated[
    bool, typer.Option("--ablate", help="Also train without each part of it, one at a time, and compare.")
]
Workers = Annotated[int, typer.Option(help="Threads, and processes that read pictures.", min=1, max=256)]


def train(
    definition: Definition,
    set_: Set = [],  # noqa: B006 - Typer's way to say "none given"
    ablate: Ablate = False,
    workers: Workers = CORES,
    json: Json = False,
) -> None:
    """Train a dual encoder on a set's own pictures and queries; stopped, the same command goes on.

    Example: querytruth train training.yaml --set steps.epochs=10
    """
    terminal.err.print(f"querytruth: reading {definition}", markup=False)
    from flows.definitions import load_definition
    from flows.steps import Run, running

    checked: Any = load_definition(definition, set_, "training")
    try:
        with running(Run(terminal.Terminal(), workers)):
            (_ablate if ablate else _train)(checked, json)
    except OSError as error:
        place = error.filename or checked.out
        reason = f"cannot be written ({error.strerror})"
        raise UserError("train", place, reason, "mend that, then run the same command: it goes on") from None


def _train(definition: Any, json: bool) -> None:
    from flows.dual_encoder_training import train as run

    trained = run(definition)
    terminal.as_json(_summary(trained)) if json else _show(trained)


def _ablate(definition: Any, json: bool) -> None:
    from flows.training.ablation import ablate, table_of_ablation

    rows = ablate(definition)
    if json:
        terminal.as_json(
            [{"title": row.title, "mean": row.mean, "less": row.loss, **_summary(row.trained)} for row in rows]
        )
        return
    terminal.out.print("\n".join(table_of_ablation(rows)), soft_wrap=True, markup=False)


def _summary(trained: Any) -> dict[str, Any]:
    return {
        "path": str(trained.folder),
        "test_set": str(trained.test_set),
        "is_new": trained.is_new,
        "epochs": len(trained.history),
        "figures": trained.figures,
    }


def _show(trained: Any) -> None:
    from flows.training.report import COLUMNS, ROWS, with_interval

    rows: list[list[object]] = [
        [title, *(with_interval(trained.figures[column][metric]) for _, column in COLUMNS)] for title, metric in ROWS
    ]
    said = "trained" if trained.is_new else "was trained before"
    terminal.out.print(f"[bold]{trained.folder}[/] {said}, {len(trained.history)} epochs", soft_wrap=True)
    terminal.table("On the pictures kept back (95% intervals)", ["", *(title for title, _ in COLUMNS)], rows)
    terminal.out.print(
        f"Next: querytruth evaluate {trained.test_set} --model {trained.folder}", markup=False, soft_wrap=True
    )
