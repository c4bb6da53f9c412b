"""Captions that people want all the same, where the reply is none, or fits other pictures, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pandas as pd

from builders.recall.reply_checks import has_words
from builders.rescues import Rescue
from builders.told import Told

_GONE = "no caption goes by that any more: its picture is gone, or is not asked about with that prompt"
_SAYS_NOTHING = "what was written in its place holds no words"
_REPEATED = "another caption of its picture, which a person wrote, too, reads the same"
_NOT_WRITTEN = "there is no caption of it, and none was written in its place"


@dataclass(frozen=True, slots=True)
class WantedCaptions:
    """What counts of people's words on captions. `texts`: by query_id the caption that a person wrote, whatever the
    model says; `kept`: the query_ids that no rule on rivals turns away; `stale`: the words that change nothing."""

    rescues: Mapping[str, Rescue] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)

    @property
    def kept(self) -> frozenset[str]:
        """Those of which some word counts."""
        return frozenset(self.rescues.keys() - self.stale.keys())

    def reason(self, query_id: str) -> str | None:
        """Why a person wrote that caption; None where nobody did."""
        return self.rescues[query_id].note if query_id in self.texts else None

    def told(self, published: Collection[str]) -> Told:
        """What became of the words, now that the set's queries are known."""
        late = dict.fromkeys(self.kept.difference(published), _NOT_WRITTEN)
        stale = dict(sorted({**self.stale, **late}.items()))
        followed = [word.decision_id for item, word in self.rescues.items() if item not in stale]
        return Told(followed, [(self.rescues[item], why) for item, why in stale.items()])


def wanted_captions(rows: pd.DataFrame, rescues: Mapping[str, Rescue]) -> WantedCaptions:
    """Those of the rescues that are about captions. `rows` are all that are asked for: query_id, image_id, language,
    style. Of two that a person wrote alike for one picture the one with the smaller id counts."""
    about = {item: rescues[item] for item in sorted(rescues) if item.startswith("q_")}
    if not about:
        return WantedCaptions()
    asked = rows[rows["query_id"].isin(list(about))].set_index("query_id")
    texts: dict[str, str] = {}
    stale: dict[str, str] = {}
    said: set[tuple[str, ...]] = set()
    for item, word in about.items():
        text = " ".join(word.caption.split())
        if item not in asked.index:
            stale[item] = _GONE
        elif text and not has_words(text):
            stale[item] = _SAYS_NOTHING
        elif text:
            key = (*asked.loc[item, ["image_id", "language", "style"]], text)
            if key in said:
                stale[item] = _REPEATED
            else:
                said.add(key)
                texts[item] = text
    return WantedCaptions(about, texts, stale)
