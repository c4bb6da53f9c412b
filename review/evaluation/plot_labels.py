"""Texts inside plots: what Vega can measure, as long as there is room."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np

_UNPRINTABLE = re.compile("[^\t\n\r\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def replace_unprintable(value: Any) -> Any:
    """The same without characters that no XML may hold: vl-convert measures labels as XML, and one such character would
    end the whole process."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {key: replace_unprintable(inner) for key, inner in value.items()}
    return [replace_unprintable(inner) for inner in value] if isinstance(value, list) else value


def shorten_labels(names: Iterable[str], max_width: int) -> dict[str, str]:
    """By name a label of so many places, each label once. Vega's own cut would part the halves of an emoji, and then
    fail to measure them."""
    label_by_name: dict[str, str] = {}
    for name in names:
        label, number = _cut(replace_unprintable(name), max_width), 2
        while label in label_by_name.values():
            label, number = f"{_cut(replace_unprintable(name), max_width - 4)} ({number})", number + 1
        label_by_name[name] = label
    return label_by_name


def _cut(text: str, room: int) -> str:
    places = np.cumsum([2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text])
    if not text or places[-1] <= room:
        return text
    return text[: int(np.searchsorted(places, room - 1, side="right"))] + "…"
