"""Ways to have a chat model think of queries, as the seed article tried them one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from builders.generated.phrase_grammar import read_phrases
from builders.generated.reply_grammar import Listed, read_objects


@dataclass(frozen=True, slots=True)
class Strategy:
    """`finds_topics`: the model proposes topics first, else people's samples name them; `by_thought`: it is given no
    topic, and thinks of what is to be seen before each phrase; `prompt`: the second stage's, without its language."""

    finds_topics: bool
    by_thought: bool
    prompt: str
    read: Callable[[str, bool], Listed]


STRATEGIES = {
    "self_instruct": Strategy(True, False, "objects", read_objects),
    "by_topic": Strategy(False, False, "by_topic", read_objects),
    "visual_elements": Strategy(False, True, "visual_elements", read_phrases),
}
ONE_POOL = {"zh": "视觉元素", "en": "visual elements"}  # the topic of all queries where none is given
