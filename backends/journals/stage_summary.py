"""The summary of a stage as JSON beside its journal, for the stages that build on it."""

import json
from pathlib import Path
from typing import Any

from backends.durable_files import write_atomically
from backends.file_errors import translate_write_errors
from builders.errors import UserError
from builders.strict_json import parse_json


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Writes a summary atomically: UTF-8 with sorted keys. Raises UserError where it cannot be written."""
    with translate_write_errors("write summary", path):
        write_atomically(path, (json.dumps(summary, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode())


def read_summary(path: Path, next_step: str) -> dict[str, Any]:
    """Returns a summary. Raises UserError with `next_step` where it is missing or not valid."""
    try:
        summary = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError("read summary", path, "is not there yet", next_step) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError("read summary", path, f"cannot be read ({error})", next_step) from None
    if not isinstance(summary, dict):
        raise UserError("read summary", path, "is no summary", next_step)
    return summary
