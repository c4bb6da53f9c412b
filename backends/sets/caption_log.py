"""datasets/<name>/captions.jsonl: what people wrote of a gallery's pictures, on disk before they are told so."""

from __future__ import annotations

from pathlib import Path

from backends.sets.decision_log import append_log_lines, read_log_lines
from builders.human_captions import HumanCaption

CAPTION_LOG_NAME = "captions.jsonl"


def read_captions_from(folder: Path, start: int = 0) -> tuple[list[HumanCaption], int]:
    """The captions after the first `start` bytes of the log, and where they end."""
    return read_log_lines(folder / CAPTION_LOG_NAME, HumanCaption.from_json, "read captions", start)


def append_captions(folder: Path, captions: list[HumanCaption]) -> None:
    """Add captions, all or none, and wait until they are on disk."""
    append_log_lines(folder / CAPTION_LOG_NAME, [caption.as_json() for caption in captions], "save captions")
