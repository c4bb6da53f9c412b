"""Reads definitions, the YAML files that describe builds, as models, and checks them key by key."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from builders.gallery.definition import GalleryDefinition
from builders.generated.definition import GeneratedDefinition
from builders.imported_set import ImportDefinition
from builders.precision.definition import PrecisionDefinition
from builders.queries.definition import QueriesDefinition
from builders.recall.definition import RecallDefinition
from querytruth.audit.definition import AuditDefinition
from querytruth.backends.files.option_paths import BaseFolder, resolve_paths
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import MAX_YAML_BYTES, describe_yaml_error, load_yaml
from querytruth.definitions import READ_STAGE, Definition, SetDefinition, describe_definition_error
from querytruth.dual_encoder.definition import TrainingDefinition
from querytruth.errors import UserError, suggest_choice

DEFINITION_CLASSES: dict[str, type[SetDefinition]] = {
    "gallery": GalleryDefinition,
    "precision": PrecisionDefinition,
    "recall": RecallDefinition,
    "queries": QueriesDefinition,
    "generated": GeneratedDefinition,
    "imported": ImportDefinition,
    "training": TrainingDefinition,
}


def load_definition(
    given: Path | Mapping[str, Any] | None, overrides: Sequence[str], kind: str | None = None
) -> SetDefinition:
    """Read and check a definition, of a file or of its keys; without `kind`, of the kind that it names. Paths in a file
    are relative to its folder, other ones and those of the overrides (`a.b=c`) to the working directory. Without a
    definition the overrides are it. Raises UserError for a wrong one."""
    path = given if isinstance(given, Path) else None
    data = _read_file(given) if isinstance(given, Path) else dict(given or {})
    source = str(path or ("--set" if given is None else "definition"))
    kind = _check_kind(data.get("kind"), source) if kind is None else kind
    definition = parse_definition(_override_all(DEFINITION_CLASSES[kind], data, path, overrides), kind, source)
    _check_output_folder(definition)
    return definition


def read_kind(path: Path) -> str:
    """Return the kind of set that a definition names. Raises UserError for a file that cannot be read, or names
    none."""
    return _check_kind(_read_file(path).get("kind"), str(path))


def load_audit_definition(path: Path, overrides: Sequence[str]) -> AuditDefinition:
    """Read and check the definition of an audit, as `load_definition` those of sets."""
    data = _read_file(path)
    if (kind := data.get("kind", "audit")) != "audit":
        raise UserError(
            READ_STAGE, path, f"has kind {kind!r}, not 'audit'", "give a definition made with querytruth init audit"
        )
    try:
        return AuditDefinition.model_validate(_override_all(AuditDefinition, data, path, overrides))
    except ValidationError as error:
        raise describe_definition_error(AuditDefinition, error, str(path)) from None


def _override_all(
    model: type[Definition], data: dict[str, Any], path: Path | None, overrides: Sequence[str]
) -> dict[str, Any]:
    """Return the keys of a file, or of none, with the overrides and absolute paths."""
    overridden = {_override(data, override) for override in overrides}

    def folder_of(key: tuple[str, ...]) -> BaseFolder:
        is_overridden = any(key[:length] in overridden for length in range(1, len(key) + 1))
        return None if path is None or is_overridden else path.parent.absolute()

    return resolve_paths(model, data, folder_of)


def _check_kind(kind: object, source: str) -> str:
    if kind is None:
        raise UserError(READ_STAGE, source, "key 'kind' is missing", f"add it: {', '.join(DEFINITION_CLASSES)}")
    if kind not in DEFINITION_CLASSES:
        next_step = suggest_choice(str(kind), list(DEFINITION_CLASSES))
        raise UserError(READ_STAGE, source, f"unknown kind {kind!r}", next_step)
    return str(kind)


def _check_output_folder(definition: SetDefinition) -> None:
    folder = definition.out / definition.name
    if (file := next((place for place in (folder, *folder.parents) if place.is_file()), None)) is not None:
        raise UserError(READ_STAGE, file, "is a file, but the sets need a folder here", "set `out` to another folder")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = load_yaml(read_regular(path, MAX_YAML_BYTES).decode("utf-8"))
    except OSError as error:
        next_step = "check the path, or create a definition with querytruth init"
        raise UserError(READ_STAGE, path, f"cannot be read ({error.strerror})", next_step) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise describe_yaml_error(READ_STAGE, path, error) from None
    if not isinstance(data, dict):
        raise UserError(READ_STAGE, path, "is not a mapping of keys to values", "start from querytruth init")
    return data


def parse_definition(data: dict[str, Any], kind: str, source: str) -> SetDefinition:
    """Return the definition as its kind's model. Raises UserError for the first defect, with its key."""
    if data.get("kind", kind) != kind:
        raise UserError(READ_STAGE, source, f"has kind {data['kind']!r}", f"run querytruth build {data['kind']}")
    try:
        return DEFINITION_CLASSES[kind].model_validate({"kind": kind, **data})
    except ValidationError as error:
        raise describe_definition_error(DEFINITION_CLASSES[kind], error, source) from None


def _override(data: dict[str, Any], override: str) -> tuple[str, ...]:
    """Put the value of `a.b=c` into the data, and return the parts of the key. Raises UserError for another form."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(
            READ_STAGE, f"--set {override}", "must have the form key=value", "write e.g. --set mixes.levels=2"
        )
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
