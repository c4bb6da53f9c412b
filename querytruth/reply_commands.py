"""`querytruth replies`: the stored replies of chat models."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.options import DefinitionOutOption, JsonOption, OverridesOption, list_overrides

app = typer.Typer(help="The stored replies of chat models.", no_args_is_help=True)


@app.callback()
def _replies() -> None:
    """Take the options of the command itself."""


@app.command()
def refresh(
    definition: Annotated[Path, typer.Argument(help="The definition, a YAML file.", metavar="DEFINITION.yaml")],
    model: Annotated[str, typer.Option(help="The model's name, as in the manifest.")],
    before: Annotated[
        datetime | None, typer.Option(help="Only replies from before this day, UTC.", formats=["%Y-%m-%d"])
    ] = None,
    set_: OverridesOption = [],  # noqa: B006 - Typer's way to say "none given"
    out: DefinitionOutOption = None,
    json: JsonOption = False,
) -> None:
    """Have the next build ask a model again, one that changed behind its name; older versions keep their replies for
    rebuild.

    Example: querytruth replies refresh recall.yaml --model qwen-vl-max --before 2026-06-01
    """
    from flows.reply_refresh import refresh_replies
    from querytruth.api import set_builds

    checked = set_builds.read_definition(definition, list_overrides(set_, out))
    count = refresh_replies(checked, model, None if before is None else before.date())
    if json:
        terminal.print_json({"model": model, "refreshed": count})
        return
    terminal.out.print(f"{count:,} replies of {model} are set aside", markup=False)
    build, stage = f"querytruth build {checked.kind} {definition}", f"querytruth topics {definition} --retry-failures"
    again = stage if checked.kind == "generated" else build
    terminal.out.print(f"Next: {again}, which asks again", markup=False, soft_wrap=True)
