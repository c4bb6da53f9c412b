"""The change from one version to the next, as Markdown."""

from __future__ import annotations

from typing import Any

from builders.difference import Difference

_LISTED = 10
_LONGEST = 120  # characters of a cell
_MARKS = "\\`*_{}[]()#+!|~<>"


def change_note(found: Difference, before: str, after: str) -> str:
    """Counts of what came, went and changed, the first of each, and whether figures on both can be compared."""
    counts: dict[str, list[Any]] = {
        "queries added": found.queries_added,
        "queries removed": found.queries_removed,
        "queries changed": found.queries_changed,
        "pictures added": found.images_added,
        "pictures removed": found.images_removed,
        "pictures changed": found.images_changed,
        "judgments added": found.judgments_added,
        "judgments removed": found.judgments_removed,
        "judgments changed": found.judgments_changed,
    }
    lines = [f"# {_plain(before)} → {_plain(after)}", "", f"{found.comparable.capitalize()}.", ""]
    lines += ["| what | rows |", "|---|---:|"]
    lines += [f"| {what} | {len(rows):,} |" for what, rows in counts.items() if rows]
    for what in ("queries added", "queries removed"):
        if rows := counts[what]:
            lines += ["", f"## {what.capitalize()}", "", *_listed(rows)]
    return "\n".join(lines)


def _listed(rows: list[Any]) -> list[str]:
    shown = [f"- {_plain(str(row['text']))}" for row in rows[:_LISTED]]
    return shown + ([f"- … and {len(rows) - _LISTED:,} more"] if len(rows) > _LISTED else [])


def _plain(text: str) -> str:
    """A query's words stay words: no mark-up, no line of their own, no page's code."""
    text = " ".join(text.split())
    text = text[:_LONGEST] + ("…" if len(text) > _LONGEST else "")
    return "".join(f"\\{c}" if c in _MARKS else c for c in text)
