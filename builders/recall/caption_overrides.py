"""Overrides of captions: a person accepts a rejected caption, or writes one in place of the reply."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pandas as pd

from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import Override
from builders.recall.reply_checks import has_words

_CAPTION_MISSING = "no caption has that id any more: its picture is gone, or that prompt is no longer used for it"
_TEXT_HAS_NO_WORDS = "the caption that a person wrote contains no words"
_REPEATED = "another caption that a person wrote for the same picture has the same text"
_NO_CAPTION = "the reply contained no caption, and no person wrote one"


@dataclass(frozen=True, slots=True)
class CaptionOverrides:
    """The overrides of captions by query_id. `texts`: human captions, which replace the model's; `stale`: why an
    override has no effect."""

    overrides: Mapping[str, Override] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective_ids(self) -> frozenset[str]:
        """The query_ids of the overrides that are not stale: no ambiguity policy rejects these queries."""
        return frozenset(self.overrides.keys() - self.stale.keys())

    def reason(self, query_id: str) -> str | None:
        """Returns the note of a human caption; None where the caption is the model's."""
        return self.overrides[query_id].note if query_id in self.texts else None

    def decision_outcome(self, published: Collection[str]) -> DecisionOutcome:
        """Returns which overrides the set follows; `published`: the query_ids of the set."""
        unpublished = dict.fromkeys(self.effective_ids.difference(published), _NO_CAPTION)
        stale = dict(sorted({**self.stale, **unpublished}.items()))
        followed = [override for item, override in self.overrides.items() if item not in stale]
        return DecisionOutcome(followed, [(self.overrides[item], why) for item, why in stale.items()])


def select_caption_overrides(rows: pd.DataFrame, overrides: Mapping[str, Override]) -> CaptionOverrides:
    """Returns the overrides of captions. `rows`: all requested captions (query_id, image_id, language, style). Of two
    equal human captions of one image, the one with the smaller query_id is effective."""
    about = {item: overrides[item] for item in sorted(overrides) if item.startswith("q_")}
    if not about:
        return CaptionOverrides()
    requested = rows[rows["query_id"].isin(list(about))].set_index("query_id")
    texts: dict[str, str] = {}
    stale: dict[str, str] = {}
    used_texts: set[tuple[str, ...]] = set()
    for item, override in about.items():
        text = " ".join(override.caption.split())
        if item not in requested.index:
            stale[item] = _CAPTION_MISSING
        elif text and not has_words(text):
            stale[item] = _TEXT_HAS_NO_WORDS
        elif text:
            key = (*requested.loc[item, ["image_id", "language", "style"]], text)
            if key in used_texts:
                stale[item] = _REPEATED
            else:
                used_texts.add(key)
                texts[item] = text
    return CaptionOverrides(about, texts, stale)
