"""Plug-ins: every module of a plug-in package is a plug-in with the module's name. There is no registry.

A plug-in with options has `load(options)`; the annotation of `options` is its typed model.
"""

import importlib
import inspect
import os
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from querytruth.backends.environment import make_environment_fault
from querytruth.errors import UserError, suggest_choice


class PluginOptions(BaseModel):
    """The options of one plug-in; unknown ones are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Everything that the answers of a model or a search depend on: parameters, but no address, key or device."""

    name: str
    revision: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        """Return the form that the manifest and the reply store contain."""
        return {"name": self.name, "revision": self.revision, "parameters": self.parameters}


@dataclass(frozen=True, slots=True)
class PluginPackage:
    """The plug-ins of one kind; errors use the `noun` for a plug-in and the `stage`. `elsewhere`: the modules, by name,
    of plug-ins in another room, which they depend on."""

    name: str
    noun: str
    stage: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def list_plugins(self) -> list[str]:
        """Return the sorted names of all plug-ins; imports none."""
        inside = pkgutil.iter_modules(importlib.import_module(self.name).__path__)
        return sorted([*(module.name for module in inside), *self.elsewhere])

    def import_plugin(self, plugin: str) -> Any:
        """Return the plug-in's module. Raises UserError for an unknown name or a library that is not installed."""
        if plugin not in self.list_plugins():
            raise self._unknown_name_error(plugin, f"unknown {self.noun}", plugin, self.list_plugins())
        try:
            return importlib.import_module(self.elsewhere.get(plugin, f"{self.name}.{plugin}"))
        except ImportError as error:
            raise self._missing_library_error(plugin, error) from None

    def options_class(self, plugin: str) -> type[BaseModel]:
        """Return the typed model of the plug-in's options."""
        signature = inspect.signature(self.import_plugin(plugin).load, eval_str=True)
        annotation: type[BaseModel] = signature.parameters["options"].annotation
        return annotation

    def parse_options(self, plugin: str, options: Mapping[str, Any]) -> BaseModel:
        """Return the options as the plug-in's typed model.

        Raises UserError, which names a wrong option but never its value, since that may be a key."""
        try:
            return self.options_class(plugin)(**options)
        except ValidationError as error:
            errors = error.errors(include_input=False, include_url=False)
            first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
            option = ".".join(str(part) for part in first["loc"]) or plugin
            item = f"{plugin}: {option}"
            if first["type"] == "extra_forbidden":
                known = sorted(self.options_class(plugin).model_fields)
                raise self._unknown_name_error(item, "unknown option", option, known) from None
            raise UserError(self.stage, item, first["msg"], "fix that option") from None

    def load_plugin(self, plugin: str, options: Mapping[str, Any]) -> Any:
        """Return the result of the plug-in's `load` with these options. Raises UserError, too, for a missing
        library."""
        parsed = self.parse_options(plugin, options)
        try:
            return self.import_plugin(plugin).load(parsed)
        except ImportError as error:
            raise self._missing_library_error(plugin, error) from None

    def _unknown_name_error(self, item: str, reason: str, unknown: str, known: list[str]) -> UserError:
        suggestion = suggest_choice(unknown, known)
        choices = "" if suggestion.startswith("choose") else f" (choose from {', '.join(known)})"
        return UserError(self.stage, item, reason, suggestion + choices)

    def _missing_library_error(self, plugin: str, error: ImportError) -> UserError:
        return missing_library_error(self.stage, plugin, error)


def missing_library_error(stage: str, item: str, error: ImportError) -> UserError:
    """Return the error of something that needs a library which is not installed, or cannot be imported."""
    if not isinstance(error, ModuleNotFoundError):
        return make_environment_fault(stage, item, error)
    library = str(error.name).partition(".")[0]
    return UserError(stage, item, f"needs {library}, which is not installed", f"pip install {library}")


def read_secret(variable: str, stage: str) -> str:
    """Return the value of an environment variable. Raises UserError without the value."""
    value = os.environ.get(variable, "").strip()
    if not value or not value.isascii() or not value.isprintable():
        reason = "contains characters that are not allowed in a header" if value else "is empty or not set"
        raise UserError(stage, f"environment variable {variable}", reason, "set it to the key of the service")
    return value
