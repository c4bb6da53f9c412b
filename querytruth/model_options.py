"""The options of a chat model on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer


def parse_model_options(options: Sequence[str], name: str = "--judge-option") -> dict[str, Any]:
    """Return the options of KEY=VALUE texts of the option `name`; a value is read as in a definition. Raises
    typer.BadParameter."""
    return dict(_split_option(option, name) for option in options)


def _split_option(option: str, name: str) -> tuple[str, Any]:
    """Return key and value of KEY=VALUE; a value is read as in a definition. Raises typer.BadParameter."""
    import yaml

    key, separator, value = option.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"{name} is KEY=VALUE, not {option!r}")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        return key, value
