"""The history of evaluations: a line for each, beside the results, over all versions of a set."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from backends import append_log
from backends.contained_paths import contained_path
from backends.file_errors import translate_write_errors
from backends.journals.line_journal import read_lines
from backends.run_files.result_schema import HistoryEntry
from builders.errors import UserError, first_line, suggest_choice
from builders.strict_json import parse_bounded_json
from evaluation.evaluation_result import TEXT_TO_IMAGE, EvaluationResult

HISTORY_FILE = "history.jsonl"


def read_history(results_folder: Path, system: str | None = None) -> list[dict[str, Any]]:
    """Returns the evaluations on all versions of a set in the order of time, of one system where it is named. Raises
    UserError for a set without evaluations, and for a system without one."""
    file = _locate(results_folder)
    lines = read_lines(file) if file.is_file() else []
    entries = [_parse_entry(line, f"{file} line {number}") for number, line in enumerate(lines, start=1)]
    names = sorted({entry["system"] for entry in entries})
    if system is not None and system not in names:
        next_step = suggest_choice(system, names) if names else f"querytruth evaluate {results_folder.parent.name}"
        raise UserError("history", system, "has no recorded evaluation", next_step)
    if not entries:
        raise UserError("history", results_folder.parent.name, "has no recorded evaluation", "evaluate a system on it")
    return [entry for entry in entries if system in (None, entry["system"])]


def _parse_entry(line: str, item: str) -> dict[str, Any]:
    try:
        entry: dict[str, Any] = parse_bounded_json(line)
        msgspec.convert(entry, HistoryEntry)
        datetime.fromisoformat(entry["at"])
    except ValueError as error:  # msgspec's, too
        reason = f"is no evaluation ({first_line(error)[:300]})"
        raise UserError("history", item, reason, "delete the line, or the file: results are not lost with it") from None
    return entry


def _locate(results_folder: Path) -> Path:
    """The file, which may have come with a stranger's set: a link is refused."""
    return contained_path(results_folder.parent, f"{results_folder.name}/{HISTORY_FILE}", "history")


def record_history(results_folder: Path, name: str, result: EvaluationResult) -> None:
    """Appends a result to the history beside the set. Raises UserError."""
    if result.direction != TEXT_TO_IMAGE:
        return
    file = _locate(results_folder)
    figures: Sequence[Any] = list(result.figures.itertuples())
    entry = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": name,
        "version": result.set["version"],
        "content_digest": result.set["content_digest"],
        "queries": len(result.per_query),
        "figures": {row.metric: [round(float(one), 12) for one in (row.value, row.low, row.high)] for row in figures},
        "latency_ms": result.counts.get("latency_ms"),
    }
    with (
        translate_write_errors("record history", file, "or evaluate with --report"),
        append_log.open_log(file, wait=True) as handle,
    ):
        append_log.append_lines(handle, [json.dumps(entry, ensure_ascii=True)])
