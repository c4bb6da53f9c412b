"""What `querytruth review` was given: a set, or a table of topics or objects."""

from __future__ import annotations

from pathlib import Path

from builders.errors import UserError
from querytruth.pool_page import is_table, table_at


def reviewed(set_: str, out: Path) -> Path:
    """The version's folder or the table; for a definition the line says what of it there is to open."""
    from backends.sets import set_files

    if is_table(set_):
        return table_at(set_)
    try:
        return set_files.find(set_, out)
    except UserError:
        path = Path(set_)
        if path.suffix not in (".yaml", ".yml") or not path.is_file():
            raise
    raise UserError("review", set_, "is a definition, not a set", _instead(path, out))


def _instead(definition: Path, out: Path) -> str:
    """What people have made of it so far: the published set, and the tables that they were handed out."""
    import yaml

    from backends.sets import set_files

    try:
        told = yaml.safe_load(definition.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("name"), str):
        return "give a set's name, or the file after “awaiting review”"
    folder = Path(str(told.get("out", out))) / told["name"]
    there = [folder] if set_files.newest_version(folder) is not None else []
    there += [table for stage in ("objects", "topics") if (table := folder / "review" / f"{stage}.csv").is_file()]
    if not there:
        return f"build {told['name']} first"
    return " or ".join(f"querytruth review {path}" for path in there)


def next_for_gallery(views: list[str]) -> str:
    """What goes on from a gallery's page: captions and words on pictures each have a build that follows them."""
    captioned = "querytruth build recall DEFINITION"
    if views == ["Captions"]:
        return captioned
    return f"{captioned}; after decisions about pictures: querytruth build gallery DEFINITION"
