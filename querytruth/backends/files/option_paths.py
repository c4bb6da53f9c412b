"""Relative paths in options and definitions; the type of an option marks it as a path.

YAML files that name a plug-in and its options; relative paths start at the file's folder.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from querytruth.backends.files import safe_paths, text_formats
from querytruth.backends.plugins import PluginPackage
from querytruth.errors import UserError, translate_read_errors

# The folder that a path is relative to; None for a value from the command line.
BaseFolder = Path | None


@dataclass(frozen=True)
class PathRule:
    """Marks an option with the function that makes its value an absolute path."""

    resolve: Callable[[str, BaseFolder], str]


@dataclass(frozen=True)
class OptionsOf:
    """Marks a dict as the options of the plug-in that the field `name_field` names."""

    package: PluginPackage
    name_field: str


def resolve_path(text: str, folder: BaseFolder) -> str:
    """Return the absolute path; a URL stays as it is."""
    return text if "://" in text else str((folder or Path.cwd()) / Path(text).expanduser())


def resolve_if_exists(text: str, folder: BaseFolder) -> str:
    """Return the absolute path where it exists; else the text is a name and stays as it is."""
    return str(folder / text) if folder is not None and (folder / text).exists() else text


PathOrUrl = Annotated[str, PathRule(resolve_path)]
PathOrName = Annotated[str, PathRule(resolve_if_exists)]


def resolve_paths(
    model: type[BaseModel],
    data: Mapping[str, Any],
    folder_of: Callable[[tuple[str, ...]], BaseFolder],
    parents: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return a model's data, before validation, with absolute paths; `folder_of` gives the base folder of a key."""
    resolved = dict(data)
    for key in data.keys() & model.model_fields.keys():
        value, where, field = data[key], (*parents, key), model.model_fields[key]
        inner = submodel_of(field) or _options_class(model, field, data)
        if rule := _path_rule(field):
            resolved[key] = _apply_rule(rule, value, folder_of(where))
        elif inner is not None and isinstance(value, dict):
            resolved[key] = resolve_paths(inner, value, folder_of, where)
    return resolved


def submodel_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model class of a field, or None."""
    return next((part for part in _type_parts(field) if isinstance(part, type) and issubclass(part, BaseModel)), None)


def _options_class(model: type[BaseModel], field: FieldInfo, data: Mapping[str, Any]) -> type[BaseModel] | None:
    marker = next((part for part in _type_parts(field) if isinstance(part, OptionsOf)), None)
    if marker is None:
        return None
    plugin = data.get(marker.name_field, model.model_fields[marker.name_field].default)
    return marker.package.options_class(plugin) if plugin in marker.package.list_plugins() else None


def _path_rule(field: FieldInfo) -> PathRule | None:
    parts = list(_type_parts(field))
    rule = next((part for part in parts if isinstance(part, PathRule)), None)
    return PathRule(resolve_path) if rule is None and Path in parts else rule


def _type_parts(field: FieldInfo) -> Iterator[Any]:
    """Yield a field's type and marks, and those inside unions, lists and Annotated."""
    waiting = [field.annotation, *field.metadata]
    while waiting:
        part = waiting.pop(0)
        yield part
        waiting += get_args(part)


def _apply_rule(rule: PathRule, value: object, folder: BaseFolder) -> Any:
    if isinstance(value, list):
        return [_apply_rule(rule, entry, folder) for entry in value]
    if isinstance(value, dict):
        return {name: _apply_rule(rule, entry, folder) for name, entry in value.items()}
    return rule.resolve(str(value), folder) if isinstance(value, str | PurePath) else value


def read_plugin_file(package: PluginPackage, key: str, path: Path) -> tuple[str, dict[str, Any]]:
    """Return the plug-in that a YAML file names under a key, and all other keys as options; relative paths are below
    the file's folder. Raises UserError."""
    with translate_read_errors(package.stage, path, "fix the file", also=(yaml.YAMLError,)):
        data = text_formats.load_yaml(safe_paths.read_regular(path, text_formats.MAX_YAML_BYTES).decode("utf-8"))
    plugins = package.list_plugins()
    if not isinstance(data, dict) or not isinstance(plugin := data.get(key), str):
        next_step = f"add {key}: with one of {', '.join(plugins)}"
        raise UserError(package.stage, path, f"the {package.noun} is missing", next_step)
    options = {str(name): value for name, value in data.items() if name != key}
    if plugin in plugins:
        options = resolve_paths(package.options_class(plugin), options, lambda _: path.parent.absolute())
    return plugin, options
