"""Relative paths in options and definitions; the type of an option marks it as a path.

Paths below a folder that cannot lead out of it: a received set may hold any name and any link.

Every read and write below a set, an export or a review folder gets its path here.

Files from outside are opened only where they are regular: a pipe would block a reader, a device never ends.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any, BinaryIO, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from querytruth.backends.plugins import PluginPackage
from querytruth.errors import UserError

MAX_DOCUMENT_BYTES = 1 << 30  # of a file that is read whole: JSON, CSV, captions
# The folder that a path is relative to; None for a value from the command line.
BaseFolder = Path | None


def contained_path(folder: Path, name: str, stage: str) -> Path:
    """Returns the path of `name` below the folder; the file may be missing. Raises UserError where the name leads out
    of the folder, or where it or a folder on its way is a link."""
    if not is_contained_name(name):
        raise UserError(stage, f"{folder}: {name!r}", "leads out of the set", _NEXT_STEP)
    path = folder
    for part in PurePosixPath(name).parts:
        path = path / part
        if _mode(path) is not None and stat.S_ISLNK(_mode(path) or 0):
            raise UserError(stage, path, "is a link, not a folder or regular file of the set", _NEXT_STEP)
    return path


def contained_file(folder: Path, name: str, stage: str) -> Path:
    """Returns the path of an existing regular file. Raises UserError as `contained_path`, and for a missing file, a
    pipe or a device, which could block its reader."""
    path = contained_path(folder, name, stage)
    mode = _mode(path)
    if mode is None or not stat.S_ISREG(mode):
        reason = "is missing" if mode is None else "is no regular file"
        raise UserError(stage, path, reason, "run verify on the set, restore the file")
    return path


def is_contained_name(name: str) -> bool:
    """Whether a name is relative and has no part that leads upwards."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and not set(name) & _FORBIDDEN


def _mode(path: Path) -> int | None:
    """Returns the type and permissions of what is at the path, links not followed; None where nothing is."""
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):  # a name too long, or with a lone surrogate
        return None


_FORBIDDEN = {"\x00", "\\"}
_NEXT_STEP = "replace it by what it stands for, or ask for the set again"


def open_regular(path: Path) -> BinaryIO:
    """Opens a regular file, or a link to one, for reading. Raises OSError, also for a pipe, a device or a folder."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(handle)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_regular(handle: int) -> None:
    """Raises OSError where an open file is not regular."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file")


def read_regular(path: Path, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Returns the bytes of a regular file. Raises OSError, also where it has more than `limit` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit or len(data := file.read(limit + 1)) > limit:
            raise OSError(errno.EFBIG, f"has more than {limit >> 20} MB")
    return data


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
    """Returns the absolute path; a URL stays as it is."""
    return text if "://" in text else str((folder or Path.cwd()) / Path(text).expanduser())


def resolve_if_exists(text: str, folder: BaseFolder) -> str:
    """Returns the absolute path where it exists; else the text is a name and stays as it is."""
    return str(folder / text) if folder is not None and (folder / text).exists() else text


PathOrUrl = Annotated[str, PathRule(resolve_path)]
PathOrName = Annotated[str, PathRule(resolve_if_exists)]


def resolve_paths(
    model: type[BaseModel],
    data: Mapping[str, Any],
    folder_of: Callable[[tuple[str, ...]], BaseFolder],
    parents: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Returns a model's data, before validation, with absolute paths; `folder_of` gives the base folder of a key."""
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
    """Returns the model class of a field, or None."""
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
    """Yields a field's type and marks, and those inside unions, lists and Annotated."""
    waiting = [field.annotation, *field.metadata]
    while waiting:
        part = waiting.pop(0)
        yield part
        waiting += get_args(part)


def _apply_rule(rule: PathRule, value: Any, folder: BaseFolder) -> Any:
    if isinstance(value, list):
        return [_apply_rule(rule, entry, folder) for entry in value]
    if isinstance(value, dict):
        return {name: _apply_rule(rule, entry, folder) for name, entry in value.items()}
    return rule.resolve(str(value), folder) if isinstance(value, str | PurePath) else value
