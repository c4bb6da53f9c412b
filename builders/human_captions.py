"""Captions that a person wrote on the review page: a log in which the last line on a picture and language counts."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict, dataclass

CAPTION_LANGUAGES = ("zh", "en")
_LONGEST = 4000  # characters


@dataclass(frozen=True, slots=True)
class HumanCaption:
    """What a person says of a picture in one language: a caption a line; no text takes back what was said. `undo`:
    the text is the one before, put back."""

    image_id: str
    language: str
    text: str
    reviewer: str = ""
    at: str = ""  # ISO 8601, UTC
    undo: bool = False

    @property
    def lines(self) -> list[str]:
        """The captions, one by one."""
        return [line.strip() for line in self.text.split("\n") if line.strip()]

    def as_json(self) -> str:
        """One line of the log."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @staticmethod
    def from_json(line: str) -> HumanCaption:
        """Read a line of the log; ValueError for anything else."""
        fields = json.loads(line)
        kinds = {"image_id": str, "language": str, "text": str, "reviewer": str, "at": str, "undo": bool}
        if not isinstance(fields, dict) or not {"image_id", "language", "text"} <= fields.keys():
            raise ValueError("is no caption")
        for name, value in fields.items():
            if type(value) is not kinds.get(name):
                raise ValueError(f"{name} cannot be {value!r}")
        return HumanCaption(**fields)


def effective_human_captions(log: Iterable[HumanCaption]) -> dict[tuple[str, str], HumanCaption]:
    """By picture and language what was said last, without what was taken back."""
    last = {(caption.image_id, caption.language): caption for caption in log}
    return {target: caption for target, caption in sorted(last.items()) if caption.lines}


def find_text_problem(text: str) -> str:
    """Why a text cannot be captions; nothing when it can."""
    if len(text) > _LONGEST:
        return f"the text is longer than {_LONGEST:,} characters"
    strange = any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c != "\n" for c in text)
    return "the text holds a character that cannot be kept" if strange or "\ufffd" in text else ""
