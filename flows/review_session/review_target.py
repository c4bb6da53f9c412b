"""Resolves the argument of `querytruth review`, a set or a table of topics or objects, and the command that follows."""

import hashlib
from pathlib import Path

import yaml

from backends.bounded_yaml import MAX_YAML_BYTES, load_yaml
from backends.regular_files import read_regular
from backends.sets import set_files
from backends.sets.version_numbers import newest_version
from builders.errors import UserError

REVIEW_STAGE = "review"
_NEXT_COMMANDS = {"topics": "querytruth objects DEFINITION", "objects": "querytruth collect DEFINITION"}


def is_pool_table(target: str) -> bool:
    """Whether the target is a table, not a set."""
    return target.endswith(".csv")


def resolve_review_target(target: str, out: Path) -> Path:
    """Return the version's folder, or the table. Raises UserError for anything else; for a definition the error lists
    what of it can be reviewed."""
    if is_pool_table(target):
        return find_pool_table(target)
    try:
        return set_files.find_set(target, out, remote="whole")
    except UserError:
        path = Path(target)
        if path.suffix not in (".yaml", ".yml") or not path.is_file():
            raise
    raise UserError(REVIEW_STAGE, target, "is a definition, not a set", _suggest_reviewable(path, out))


def find_pool_table(path: str) -> Path:
    """Return the path of a readable table of topics or objects. Raises UserError where there is none."""
    table = Path(path)
    if table.stem not in _NEXT_COMMANDS:
        reason = "is no table of topics or objects"
        raise UserError(REVIEW_STAGE, table, reason, "give the file after “awaiting review”, or a set's name")
    compute_table_digest(table)
    return table


def compute_table_digest(path: Path) -> str:
    """Return the sha256 of a table's bytes. Raises UserError where there is no such file."""
    try:
        return hashlib.sha256(read_regular(path)).hexdigest()
    except FileNotFoundError:
        raise UserError(REVIEW_STAGE, path, "is not there", "run the stage that hands it out again") from None
    except OSError as error:
        raise UserError(REVIEW_STAGE, path, f"cannot be read ({error.strerror})", "check the path") from None


def _suggest_reviewable(definition: Path, out: Path) -> str:
    """Names the published set of a definition, and the tables that its stages exported."""
    try:
        definition_data = load_yaml(read_regular(definition, MAX_YAML_BYTES).decode("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        definition_data = None
    if not isinstance(definition_data, dict) or not isinstance(definition_data.get("name"), str):
        return "give a set's name, or the file after “awaiting review”"
    folder = Path(str(definition_data.get("out", out))) / definition_data["name"]
    reviewable_paths = [folder] if newest_version(folder) is not None else []
    reviewable_paths += [
        table for stage in ("objects", "topics") if (table := folder / "review" / f"{stage}.csv").is_file()
    ]
    if not reviewable_paths:
        return f"build {definition_data['name']} first"
    return " or ".join(f"querytruth review {path}" for path in reviewable_paths)


def suggest_next_command(target: str, views: list[str]) -> str:
    """Return the command that goes on from a review page with these views."""
    if is_pool_table(target):
        return _NEXT_COMMANDS[Path(target).stem]
    if "Queries" in views:
        return f"querytruth apply {target}"
    recall = "querytruth build recall DEFINITION"
    if views == ["Captions", "Decisions"]:
        return recall
    return f"{recall}; after decisions about pictures: querytruth build gallery DEFINITION"
