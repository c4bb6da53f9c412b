"""Captions that people want all the same, where the reply is none, or fits other pictures, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pandas as pd

from builders.decisions.outcome import DecisionOutcome
from builders.decisions.records import Override
from builders.recall.reply_checks import has_words

_CAPTION_MISSING = "no caption goes by that any more: its picture is gone, or is not asked about with that prompt"
_TEXT_HAS_NO_WORDS = "what was written in its place holds no words"
_REPEATED = "another caption of its picture, which a person wrote, too, reads the same"
_NO_CAPTION = "there is no caption of it, and none was written in its place"


@dataclass(frozen=True, slots=True)
class CaptionOverrides:
    """The overrides of captions that count. `texts`: by query_id the caption that a person wrote, whatever the model
    says; `effective_ids`: the query_ids that no rule on rivals turns away; `stale`: why the others change nothing."""

    overrides: Mapping[str, Override] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective_ids(self) -> frozenset[str]:
        """The query_ids whose overrides count."""
        return frozenset(self.overrides.keys() - self.stale.keys())

    def reason(self, query_id: str) -> str | None:
        """Why a person wrote that caption; None where nobody did."""
        return self.overrides[query_id].note if query_id in self.texts else None

    def decision_outcome(self, published: Collection[str]) -> DecisionOutcome:
        """What became of the overrides, now that the set's queries are known."""
        unpublished = dict.fromkeys(self.effective_ids.difference(published), _NO_CAPTION)
        stale = dict(sorted({**self.stale, **unpublished}.items()))
        followed = [override for item, override in self.overrides.items() if item not in stale]
        return DecisionOutcome(followed, [(self.overrides[item], why) for item, why in stale.items()])


def select_caption_overrides(rows: pd.DataFrame, overrides: Mapping[str, Override]) -> CaptionOverrides:
    """Those of the rescues that are about captions. `rows` are all that are asked for: query_id, image_id, language,
    style. Of two that a person wrote alike for one picture the one with the smaller id counts."""
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
