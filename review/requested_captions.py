"""Whose caption a reject is: what a build asked for, told from the set's pictures and its definition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from builders.recall.caption_ids import caption_query_id, language_of_ledger_item, query_ids_by_item

_CONFUSABLE = re.compile(r" — fits (img_[0-9a-z_]+): ")  # as builders/recall/ambiguity.py writes it


@dataclass(frozen=True, slots=True)
class RequestedCaption:
    """A caption that was asked for: its query_id, the picture that it is of, its language, what was written; where the
    ledger names a picture that it fits, too, that one and what tells so (else "")."""

    query_id: str
    image_id: str
    language: str
    text: str
    confusable_image_id: str = ""
    evidence: str = ""


class RequestedCaptions:
    """`asked`: the captions' part of the manifest's configuration; empty for a set that asks for none."""

    def __init__(self, images: pd.DataFrame, configuration: Mapping[str, Any]) -> None:
        self._images = images[["image_id", "file_name"]]
        self._prompts = [str(name) for name in configuration.get("prompt") or []]
        self._per_image = int(configuration.get("per_image") or 0)

    def find(self, item: str, detail: str) -> RequestedCaption | None:
        """The caption that the ledger calls so, by its name or its id; None where nobody can tell."""
        query_id = self._ids.get(item, item)
        if query_id not in self._requested:
            return None
        image_id, language = self._requested[query_id]
        if match := _CONFUSABLE.search(detail):
            text, evidence = detail[: match.start()], detail[match.end() :]
            return RequestedCaption(query_id, image_id, language, text.strip(), match[1], evidence)
        return RequestedCaption(query_id, image_id, language, detail.strip())

    @cached_property
    def _ids(self) -> dict[str, str]:
        return query_ids_by_item(self._images, self._prompts, self._per_image)

    @cached_property
    def _requested(self) -> dict[str, tuple[str, str]]:
        """Picture and language by query_id."""
        return {
            caption_query_id(str(image_id), prompt, number): (str(image_id), language_of_ledger_item(prompt))
            for image_id in self._images["image_id"]
            for prompt in self._prompts
            for number in range(self._per_image)
        }
