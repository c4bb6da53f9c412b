"""What `querytruth review` was given: a set, or a table of topics or objects."""

from __future__ import annotations

from pathlib import Path

from builders.errors import UserError
from querytruth.pool_table_review import find_pool_table, is_pool_table


def resolve_review_target(set_: str, out: Path) -> Path:
    """The version's folder or the table; for a definition the line says what of it there is to open."""
    from backends.sets import set_files

    if is_pool_table(set_):
        return find_pool_table(set_)
    try:
        return set_files.find_set(set_, out)
    except UserError:
        path = Path(set_)
        if path.suffix not in (".yaml", ".yml") or not path.is_file():
            raise
    raise UserError("review", set_, "is a definition, not a set", _suggest_reviewable(path, out))


def _suggest_reviewable(definition: Path, out: Path) -> str:
    """What people have made of it so far: the published set, and the tables that they were handed out."""
    import yaml

    from backends.sets import set_files

    try:
        definition_data = yaml.safe_load(definition.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        definition_data = None
    if not isinstance(definition_data, dict) or not isinstance(definition_data.get("name"), str):
        return "give a set's name, or the file after “awaiting review”"
    folder = Path(str(definition_data.get("out", out))) / definition_data["name"]
    reviewable_paths = [folder] if set_files.newest_version(folder) is not None else []
    reviewable_paths += [
        table for stage in ("objects", "topics") if (table := folder / "review" / f"{stage}.csv").is_file()
    ]
    if not reviewable_paths:
        return f"build {definition_data['name']} first"
    return " or ".join(f"querytruth review {path}" for path in reviewable_paths)


def next_step_for_gallery(views: list[str]) -> str:
    """What goes on from a gallery's page: captions and words on pictures each have a build that follows them."""
    captioned = "querytruth build recall DEFINITION"
    if views == ["Captions"]:
        return captioned
    return f"{captioned}; after decisions about pictures: querytruth build gallery DEFINITION"
