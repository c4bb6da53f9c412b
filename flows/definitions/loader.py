"""Reads definitions from YAML, and checks them key by key."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from backends.bounded_yaml import MAX_YAML_BYTES, load_yaml
from backends.option_paths import BaseFolder, resolve_paths, submodel_of
from backends.regular_files import read_regular
from builders.definition_keys import RENAMED_KEYS
from builders.errors import UserError, suggest_choice
from flows.definitions.common import URL_CREDENTIALS, SetDefinition
from flows.definitions.gallery import GalleryDefinition
from flows.definitions.generated import GeneratedDefinition
from flows.definitions.imported import ImportDefinition
from flows.definitions.precision import PrecisionDefinition
from flows.definitions.recall import RecallDefinition
from flows.definitions.training import TrainingDefinition

STAGE = "read definition"
DEFINITION_CLASSES: dict[str, type[SetDefinition]] = {
    "gallery": GalleryDefinition,
    "precision": PrecisionDefinition,
    "recall": RecallDefinition,
    "generated": GeneratedDefinition,
    "imported": ImportDefinition,
    "training": TrainingDefinition,
}


def load_definition(path: Path | None, overrides: list[str], kind: str) -> SetDefinition:
    """Read and check a definition. Paths in the file are relative to its folder, those of the overrides (`a.b=c`) to
    the working directory. Without a file the overrides are the definition. Raises UserError for a wrong one."""
    data = _read_file(path) if path else {}
    overridden = {_override(data, override) for override in overrides}

    def folder_of(key: tuple[str, ...]) -> BaseFolder:
        is_overridden = any(key[:length] in overridden for length in range(1, len(key) + 1))
        return None if path is None or is_overridden else path.parent.absolute()

    data = resolve_paths(DEFINITION_CLASSES[kind], data, folder_of)
    definition = parse_definition(data, kind, str(path or "--set"))
    _check_output_folder(definition)
    return definition


def _check_output_folder(definition: SetDefinition) -> None:
    folder = definition.out / definition.name
    if (file := next((place for place in (folder, *folder.parents) if place.is_file()), None)) is not None:
        raise UserError(STAGE, file, "is a file, where sets need a folder", "give another folder as out")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = load_yaml(read_regular(path, MAX_YAML_BYTES).decode("utf-8"))
    except OSError as error:
        next_step = "check the path, or write one with querytruth init"
        raise UserError(STAGE, path, f"cannot be read ({error.strerror})", next_step) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path} line {mark.line + 1}" if mark else path
        problem = getattr(error, "problem", None) or ("not UTF-8" if isinstance(error, UnicodeDecodeError) else error)
        raise UserError(STAGE, where, f"is no YAML ({problem})", "fix the line") from None
    if not isinstance(data, dict):
        raise UserError(STAGE, path, "is no list of keys and values", "start from querytruth init")
    return data


def parse_definition(data: dict[str, Any], kind: str, source: str) -> SetDefinition:
    """The definition as its kind's model. Raises UserError for the first defect, with its key."""
    if data.get("kind", kind) != kind:
        raise UserError(STAGE, source, f"is of kind {data['kind']!r}", f"run querytruth build {data['kind']}")
    try:
        return DEFINITION_CLASSES[kind].model_validate({"kind": kind, **data})
    except ValidationError as error:
        reason, next_step = _describe_defect(DEFINITION_CLASSES[kind], error)
        raise UserError(STAGE, source, reason, next_step) from None


def _describe_defect(model: type[SetDefinition], error: ValidationError) -> tuple[str, str]:
    """Reason and next step of the first defect."""
    defect = error.errors()[0]
    key = ".".join(str(part) for part in defect["loc"])
    if defect["type"] == "extra_forbidden":
        if new_name := RENAMED_KEYS.get(tuple(key.split("."))):
            return f"key {key!r} is now called {new_name!r}", f"write {new_name!r}"
        return f"key {key!r} is unknown", suggest_choice(str(defect["loc"][-1]), _keys_beside(model, defect["loc"]))
    if defect["type"] == "missing":
        return f"key {key!r} is missing", f"add it, or say --set {key}=…"
    given = f", given {defect['input']!r}" if not isinstance(defect["input"], dict) else ""
    message = defect["msg"].removeprefix("Value error, ")
    if not key:
        return message, "fix the definition"
    return f"key {key!r}: {message}{URL_CREDENTIALS.sub('://…@', given)}", "fix the value"


def _override(data: dict[str, Any], override: str) -> tuple[str, ...]:
    """Put the value of `a.b=c` into the data, and return the parts of the key. Raises UserError for another form."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(STAGE, f"--set {override}", "is not of the form key=value", "write e.g. --set mixes.levels=2")
    *parents, last = key.strip().split(".")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    here = data
    for part in parents:
        if not isinstance(here.get(part), dict):
            here[part] = {}
        here = here[part]
    here[last] = value
    return (*parents, last)


def _keys_beside(model: type[BaseModel], where: tuple[Any, ...]) -> list[str]:
    """The known keys at the place of an unknown one."""
    for part in where[:-1]:
        inner = submodel_of(model.model_fields[part]) if part in model.model_fields else None
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)
