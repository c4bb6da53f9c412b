"""The options of a judge's chat model on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer


def parse_judge_options(options: Sequence[str]) -> dict[str, Any]:
    """Return the options of KEY=VALUE texts; a value is read as in a definition. Raises typer.BadParameter."""
    return dict(_split_option(option) for option in options)


def _split_option(option: str) -> tuple[str, Any]:
    """Return key and value of KEY=VALUE; a value is read as in a definition. Raises typer.BadParameter."""
    import yaml

    key, separator, value = option.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"--judge-option is KEY=VALUE, not {option!r}")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError:
        return key, value
