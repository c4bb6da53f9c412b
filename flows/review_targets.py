"""What can be reviewed: a version of a set, or a table of topics or objects. Imports no page: a set is read while the
libraries of the page load."""

from contextlib import suppress
from pathlib import Path

import yaml

from querytruth.backends.files import safe_paths, text_formats
from querytruth.errors import UserError
from querytruth.sets import published_files, set_files
from querytruth.sets.review_tables import compute_table_digest

_NEXT_COMMANDS = {"topics": "querytruth objects DEFINITION", "objects": "querytruth collect DEFINITION"}
_OF_FACTS = "image,kind,value,"  # how a table of facts begins


def is_pool_table(target: str) -> bool:
    """Return whether the target is a table, not a set."""
    return target.endswith(".csv")


def resolve_review_target(target: str, out: Path) -> Path:
    """Return the version's folder, or the table. Raises UserError for anything else; for a definition the error lists
    the parts that can be reviewed."""
    if is_pool_table(target):
        return find_pool_table(target)
    try:
        return set_files.find_set(target, out, remote="whole")
    except UserError:
        path = Path(target)
        if path.suffix not in (".yaml", ".yml") or not path.is_file():
            raise
    raise UserError("review", target, "is a definition, not a set", _suggest_reviewable(path, out))


def find_pool_table(path: str) -> Path:
    """Return the path of a readable table of topics, objects or facts. Raises UserError if there is none."""
    table = Path(path)
    if table.stem not in _NEXT_COMMANDS and not is_fact_table(table):
        reason = "is not a table of topics, objects or facts"
        raise UserError("review", table, reason, "give the file after “awaiting review”, or a set's name")
    compute_table_digest(table)
    return table


def is_fact_table(table: Path) -> bool:
    """Return whether a file can be read and is a table of facts, as `labels facts` writes it."""
    with suppress(OSError), safe_paths.open_regular(table) as file:
        return file.read(64).decode("utf-8-sig", "replace").startswith(_OF_FACTS)
    return False


def _suggest_reviewable(definition: Path, out: Path) -> str:
    """Name the published set of a definition, and the tables that its stages exported."""
    try:
        definition_data = text_formats.load_yaml(
            safe_paths.read_regular(definition, text_formats.MAX_YAML_BYTES).decode("utf-8")
        )
    except (OSError, ValueError, yaml.YAMLError):
        definition_data = None
    if not isinstance(definition_data, dict) or not isinstance(definition_data.get("name"), str):
        return "give a set's name, or the file after “awaiting review”"
    folder = Path(str(definition_data.get("out", out))) / definition_data["name"]
    reviewable_paths = [folder] if published_files.newest_version(folder) is not None else []
    reviewable_paths += [
        table for stage in ("objects", "topics") if (table := folder / "review" / f"{stage}.csv").is_file()
    ]
    if not reviewable_paths:
        return f"build {definition_data['name']} first"
    return " or ".join(f"querytruth review {path}" for path in reviewable_paths)


def suggest_next_command(target: str, views: list[str]) -> str:
    """Return the command that goes on from a review page with these views."""
    if is_pool_table(target):
        return _NEXT_COMMANDS.get(Path(target).stem, "querytruth build precision DEFINITION")
    if "Queries" in views:
        return f"querytruth apply {target}"
    recall = "querytruth build recall DEFINITION"
    if views == ["Captions", "Decisions"]:
        return recall
    return f"{recall}; after decisions about images: querytruth build gallery DEFINITION"
