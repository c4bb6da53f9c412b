"""datasets/<name>/captions.jsonl: what people wrote of a gallery's pictures, on disk before they are told so."""

from __future__ import annotations

from pathlib import Path

from backends.sets.decision_log import add_lines, lines_of
from builders.hand_captions import HandCaption

NAME = "captions.jsonl"


def read_on(folder: Path, start: int = 0) -> tuple[list[HandCaption], int]:
    """The captions after the first `start` bytes of the log, and where they end."""
    return lines_of(folder / NAME, HandCaption.of_json, "read captions", start)


def append(folder: Path, captions: list[HandCaption]) -> None:
    """Add captions, all or none, and wait until they are on disk."""
    add_lines(folder / NAME, [caption.as_json() for caption in captions], "save captions")
