"""Definitions: the YAML that says what to build, read and checked key by key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from backends.annotations.label_tables import list_shipped_tables
from builders.errors import UserError, suggest_choice
from flows.definitions.common import SetDefinition
from flows.definitions.gallery import URL_CREDENTIALS, GalleryDefinition
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
# Keys that hold paths, and keys that hold a path where there is one, else a name.
_PATHS = (
    *("annotations", "images", "replies", "captions.options.path", "captions.options.replies"),
    *("descriptions.options.path", "descriptions.options.replies", "topics.samples", "topics.options.replies"),
    *("collect.options.index", "collect.options.images"),
)
_NAMES_OR_PATHS = (
    *("labels", "compatible", "gallery", "captions.options.name", "descriptions.options.name"),
    *("near_duplicates.embedder", "ambiguity.text_embedder", "ambiguity.image_embedder", "objects.embedder"),
    "topics.options.name",
    *("set", "images.name", "texts.name"),
)


def load_definition(path: Path | None, overrides: list[str], kind: str) -> SetDefinition:
    """Read and check a definition; paths in the file are relative to its folder, those of `a.b=c` to the working
    directory. Without a file the overrides are all of it."""
    data = _read_file(path) if path else {}
    for override in overrides:
        _override(data, override)
    return parse_definition(data, kind, str(path or "--set"))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(
            STAGE,
            path,
            f"cannot be read ({error.strerror})",
            "check the path, or write one with querytruth init",
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path} line {mark.line + 1}" if mark else path
        raise UserError(
            STAGE, where, f"is no YAML ({getattr(error, 'problem', None) or 'not UTF-8'})", "mend the line"
        ) from None
    if not isinstance(data, dict):
        raise UserError(STAGE, path, "is no list of keys and values", "start from querytruth init")
    folder = path.parent.absolute()
    for key in _PATHS:
        _replace_key(data, key, lambda value: _resolve_path(value, folder))
    for key in _NAMES_OR_PATHS:
        _replace_key(data, key, lambda value: _resolve_if_path(value, folder))
    return data


def _replace_key(data: dict[str, Any], key: str, change: Callable[[Any], Any]) -> None:
    """Put another value in the place of a key, written a.b.c, if it is there."""
    *parents, last = key.split(".")
    here: Any = data
    for part in parents:
        here = here.get(part) if isinstance(here, dict) else None
    if isinstance(here, dict) and last in here:
        here[last] = change(here[last])


def _resolve_if_path(value: Any, folder: Path) -> Any:
    is_place = isinstance(value, str) and value not in list_shipped_tables() and (folder / value).exists()
    return str(folder / value) if is_place else value


def parse_definition(data: dict[str, Any], kind: str, source: str) -> SetDefinition:
    """The definition as its kind's model; the first fault is one line that names the key."""
    if data.get("kind", kind) != kind:
        raise UserError(STAGE, source, f"is of kind {data['kind']!r}", f"run querytruth build {data['kind']}")
    try:
        return DEFINITION_CLASSES[kind].model_validate({"kind": kind, **data})
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            known = _keys_beside(DEFINITION_CLASSES[kind], problem["loc"])
            raise UserError(
                STAGE, source, f"key {key!r} is unknown", suggest_choice(str(problem["loc"][-1]), known)
            ) from None
        if problem["type"] == "missing":
            raise UserError(STAGE, source, f"key {key!r} is missing", f"add it, or say --set {key}=…") from None
        given = f", given {problem['input']!r}" if not isinstance(problem["input"], dict) else ""
        given = URL_CREDENTIALS.sub("://…@", given)
        message = problem["msg"].removeprefix("Value error, ")
        reason = f"key {key!r}: {message}{given}" if key else message
        raise UserError(STAGE, source, reason, "mend the value" if key else "mend the definition") from None


def _resolve_path(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_resolve_path(entry, folder) for entry in value]
    if not isinstance(value, str) or "://" in value:
        return value
    path = Path(value).expanduser()
    return str(path if path.is_absolute() else folder / path)


def _override(data: dict[str, Any], override: str) -> None:
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
    here[last] = _resolve_path(value, Path.cwd()) if key.strip() in _PATHS else value


def _keys_beside(model: type[BaseModel], where: tuple[Any, ...]) -> list[str]:
    """The keys that are known where an unknown one stands."""
    for part in where[:-1]:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        candidates = [inner, *getattr(inner, "__args__", ())]
        submodels = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not submodels:
            return []
        model = submodels[0]
    return list(model.model_fields)
