"""Renders the difference between two versions as Markdown."""

from typing import Any

from builders.version_difference import VersionDifference

_LISTED = 10
_LONGEST = 120  # characters of a cell
_MARKS = "\\`*_{}[]()#+!|~<>"


def render_change_note(changes: VersionDifference, before: str, after: str) -> str:
    """Counts of added, removed and changed rows, the first queries of each, and whether figures are comparable."""
    counts: dict[str, list[Any]] = {
        "queries added": changes.queries_added,
        "queries removed": changes.queries_removed,
        "queries changed": changes.queries_changed,
        "pictures added": changes.images_added,
        "pictures removed": changes.images_removed,
        "pictures changed": changes.images_changed,
        "judgments added": changes.judgments_added,
        "judgments removed": changes.judgments_removed,
        "judgments changed": changes.judgments_changed,
    }
    lines = [f"# {_escape_markdown(before)} → {_escape_markdown(after)}", ""]
    lines += [f"{changes.comparability.capitalize()}.", "", "| what | rows |", "|---|---:|"]
    lines += [f"| {what} | {len(rows):,} |" for what, rows in counts.items() if rows]
    for what in ("queries added", "queries removed"):
        if rows := counts[what]:
            lines += ["", f"## {what.capitalize()}", "", *_listed(rows)]
    return "\n".join(lines)


def _listed(rows: list[Any]) -> list[str]:
    shown = [f"- {_escape_markdown(str(row['text']))}" for row in rows[:_LISTED]]
    return shown + ([f"- … and {len(rows) - _LISTED:,} more"] if len(rows) > _LISTED else [])


def _escape_markdown(text: str) -> str:
    """The text of a query on one line, cut to a cell's length, without any mark-up."""
    text = " ".join(text.split())
    text = text[:_LONGEST] + ("…" if len(text) > _LONGEST else "")
    return "".join(f"\\{c}" if c in _MARKS else c for c in text)
