"""`querytruth doctor`: compares the libraries with the tested ones, and checks a definition before a build."""

from pathlib import Path
from typing import Annotated

import typer

from querytruth import terminal
from querytruth.options import DefinitionOutOption, JsonOption, OverridesOption, list_overrides


def doctor(
    definition: Annotated[
        Path | None, typer.Argument(help="The definition, a YAML file. Without one: the libraries alone.")
    ] = None,
    set_: OverridesOption = [],  # noqa: B006 - typer needs a list
    out: DefinitionOutOption = None,
    json: JsonOption = False,
) -> None:
    """Check libraries, folders, keys, models, endpoints and disk before a build; builds and downloads nothing. Exit 1
    where a build would fail.

    Example: querytruth doctor recall.yaml
    """
    if definition is None:
        _show_libraries(json)
        return
    from flows.definition_checks import check_definition
    from querytruth.api import set_builds

    with terminal.reported_run():
        checks = check_definition(set_builds.read_definition(definition, list_overrides(set_, out)))
    if json:
        fields = [
            {"check": one.name, "found": one.found, "problem": one.problem and str(one.problem)} for one in checks
        ]
        terminal.print_json(fields)
    else:
        for check in checks:
            state = "ok" if check.problem is None else "problem"
            line = f"{state:8}{check.name}: {check.problem or check.found}"
            terminal.out.print(line, markup=False, soft_wrap=True)
    if any(check.problem is not None for check in checks):
        raise typer.Exit(1)


def _show_libraries(is_json: bool) -> None:
    from backends.library_versions import describe_newer, read_library_versions

    versions = read_library_versions()
    if is_json:
        terminal.print_json([one._asdict() | {"state": one.state} for one in versions])
        return
    rows: list[list[object]] = [
        [one.name, one.installed or "-", one.tested, "" if one.state == "tested" else one.state] for one in versions
    ]
    terminal.print_table("Libraries", ["library", "installed", "tested", "state"], rows)
    terminal.out.print(describe_newer(versions), markup=False, soft_wrap=True)
