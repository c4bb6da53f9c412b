"""`querytruth list`: the published sets."""

import typer

from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption


def list_(out: OutOption = DEFAULT_DATASETS_FOLDER, json: JsonOption = False) -> None:
    """List the sets below a folder with their newest version.

    Example: querytruth list --out datasets
    """
    from backends.sets.manifest_reading import read_manifest
    from backends.sets.set_files import find_set
    from backends.sets.version_numbers import newest_version
    from builders.errors import UserError

    if not out.is_dir():
        raise UserError("list sets", out, "is no folder", "give --out the folder of the sets")
    names = sorted(folder.name for folder in out.iterdir() if folder.is_dir() and newest_version(folder))
    sets = []
    for name in names:
        manifest = read_manifest(find_set(name, out))
        counts = {key: manifest["counts"][key] for key in ("queries", "images", "judgments")}
        sets.append({"name": name, "kind": manifest["kind"], "version": manifest["version"], **counts})
    if json:
        terminal.print_json(sets)
    elif sets:
        columns = ["name", "kind", "version", "queries", "pictures", "judgments"]
        terminal.print_table(f"Sets in {out}", columns, [list(one.values()) for one in sets])
    else:
        terminal.out.print(f"{out}: no published set", soft_wrap=True)


def print_version(is_wanted: bool) -> None:
    """Print the version of the package and end, where the option is given."""
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"querytruth {version('querytruth')}")
        raise typer.Exit
