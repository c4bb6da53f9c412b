"""Cards of a gallery's images, for captions written by hand."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pandas as pd

from builders.decisions.records import CAPTION_LANGUAGES, HumanCaption
from review.actions import ActionError, clean_text
from review.page_parts import text_or_empty


class CaptionCards:
    """A gallery's images, sorted by day and name, with their captions."""

    def __init__(self, images: pd.DataFrame, reviewer: str) -> None:
        rows = images.sort_values(["taken_at", "file_name", "image_id"], na_position="last")
        self.reviewer = reviewer
        self._images = {
            str(row.image_id): {
                "name": text_or_empty(row.file_name) or row.image_id,
                "taken_at": text_or_empty(row.taken_at),
            }
            for row in rows.itertuples()
        }
        self._log: list[HumanCaption] = []
        self._texts: dict[tuple[str, str], str] = {}

    def apply_entries(self, captions: Iterable[HumanCaption]) -> None:
        """Apply the next entries of the log."""
        captions = list(captions)
        self._log += captions
        self._texts |= {caption.target: caption.text for caption in captions}

    def has_image(self, image_id: str) -> bool:
        """Return whether the gallery has the image."""
        return image_id in self._images

    def is_decided(self, image_id: str) -> bool:
        """Return whether anybody wrote a caption of the image."""
        return any(self._texts.get((image_id, language)) for language in CAPTION_LANGUAGES)

    def list_keys(self, state: str, search: str) -> list[str]:
        """Return the images whose name or captions contain the search: all, or those with (decided) or without (open) a
        caption."""
        search_text = search.strip().casefold()
        keys = []
        for image_id, image in self._images.items():
            texts = [image["name"], *self._of(image_id).values()]
            matches_state = state == "all" or (state == "decided") == self.is_decided(image_id)
            if matches_state and any(search_text in text.casefold() for text in texts):
                keys.append(image_id)
        return keys

    def build_card(self, image_id: str) -> dict[str, Any]:
        """Return an image and its captions by language; the page groups cards by `query_id`."""
        texts = self._of(image_id)
        own = texts if self.is_decided(image_id) else None
        ids = {"key": image_id, "query_id": image_id, "image_id": image_id}
        return {**ids, "texts": texts, "own": own, **self._images[image_id]}

    def build_cards(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """Return the cards of these images; ids that the gallery does not have are skipped."""
        return [self.build_card(image_id) for image_id in keys if self.has_image(image_id)]

    def find_card(self, caption: HumanCaption) -> dict[str, Any]:
        """Return the card of a caption's image."""
        return self.build_card(caption.image_id)

    def _of(self, image_id: str) -> dict[str, str]:
        return {language: self._texts.get((image_id, language), "") for language in CAPTION_LANGUAGES}

    def create_entry(self, image_id: str, language: str, text: str, at: str) -> HumanCaption:
        """Return a caption for the log. Raises ActionError where the image, the language or the text is invalid."""
        if not self.has_image(image_id) or language not in CAPTION_LANGUAGES:
            languages = ", ".join(CAPTION_LANGUAGES)
            raise ActionError(f"this picture is not in the gallery, or the language is none of {languages}")
        lines = clean_text(text, "the text").split("\n")
        text = "\n".join(line.strip() for line in lines if line.strip())
        return HumanCaption(image_id, language, text, self.reviewer, at)

    def create_undo(self, at: str) -> HumanCaption:
        """Return the entry that restores the text before the reviewer's last caption. Raises ActionError without
        one."""
        undone: Counter[tuple[str, str]] = Counter()
        own = [place for place, caption in enumerate(self._log) if caption.reviewer == self.reviewer]
        for place in reversed(own):
            caption = self._log[place]
            if not caption.undo and not undone[caption.target]:
                earlier = (one.text for one in reversed(self._log[:place]) if one.target == caption.target)
                return HumanCaption(*caption.target, next(earlier, ""), self.reviewer, at, undo=True)
            undone[caption.target] += 1 if caption.undo else -1
        raise ActionError("there is nothing to take back")
