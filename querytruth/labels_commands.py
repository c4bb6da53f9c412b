"""`querytruth labels`: names of labels in another language, by a chat model and then by people."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.options import JsonOption, OfflineOption

app = typer.Typer(help="Translate the labels of annotations by a chat model, then by people.", no_args_is_help=True)
LabelsArgument = Annotated[
    str, typer.Argument(help="A label table (included name, folder, labels.csv), or a COCO file.", metavar="TABLE")
]


class LabelLanguage(StrEnum):
    """Languages of labels."""

    ZH = "zh"
    EN = "en"


@app.callback()
def labels() -> None:
    """Translate the labels of annotations by a chat model, then by people."""


@app.command()
def translate(
    table: LabelsArgument,
    language: Annotated[LabelLanguage, typer.Option(help="The language of the new names.")],
    model: Annotated[str, typer.Option(help="A chat model.")] = "openai_compatible",
    model_option: Annotated[
        list[str] | None, typer.Option("--model-option", help="An option of that model.", metavar="KEY=VALUE")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="The CSV to write (default: labels.LANGUAGE.csv).")] = None,
    offline: OfflineOption = False,
    json: JsonOption = False,
) -> None:
    """Have a chat model propose names, and write a CSV in which people accept, change or reject them.

    Example: querytruth labels translate annotations.json --language zh --model-option name=qwen3
    """
    from flows.label_translation import translate_labels
    from querytruth.model_options import parse_model_options

    options = parse_model_options(model_option or [], "--model-option")
    with terminal.reported_run(offline=offline):
        done = translate_labels(table, language, model, options, to or Path(f"labels.{language}.csv"))
    if json:
        found = {"file": str(done.file), "labels": done.labels, "flagged": done.flagged, "problems": done.problems}
        terminal.print_json(found | {"model_calls": done.calls})
        return
    flags = ", ".join(f"{count} {name}" for name, count in sorted(done.problems.items()))
    terminal.out.print(f"{done.labels} labels, {done.flagged} to look at{f' ({flags})' if flags else ''}", markup=False)
    terminal.out.print(
        f"{done.file}: write accept or reject into verdict, change proposals where they are wrong; "
        f"then querytruth labels accept {done.file} {table} --to my-labels",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def accept(
    reviewed: Annotated[Path, typer.Argument(help="The filled-in CSV.", metavar="FILE")],
    table: LabelsArgument,
    to: Annotated[Path, typer.Option(help="The folder of the new label table.")],
    json: JsonOption = False,
) -> None:
    """Write the label table with the names that people accepted.

    Example: querytruth labels accept labels.zh.csv annotations.json --to my-labels
    """
    from flows.label_translation import accept_label_translations

    with terminal.reported_run():
        file, accepted, undecided = accept_label_translations(reviewed, table, to)
    if json:
        terminal.print_json({"file": str(file), "accepted": accepted, "undecided": undecided})
        return
    left = f", {undecided} rows without a verdict" if undecided else ""
    terminal.out.print(f"{file}: {accepted} names accepted{left}", markup=False, soft_wrap=True)
