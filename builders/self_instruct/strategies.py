"""Ways to have a chat model think of queries, as the seed article tried them one after the other."""

from collections.abc import Callable
from dataclasses import dataclass

from builders.self_instruct.reply_grammar import ParsedAnswer, parse_objects, parse_phrase_reply


@dataclass(frozen=True, slots=True)
class GenerationStrategy:
    """`proposes_topics`: the model proposes topics first, else people's samples name them; `asks_for_thoughts`: it is
    given no topic, and thinks of what is to be seen before each phrase; `prompt_name`: the second stage's, without its
    language."""

    proposes_topics: bool
    asks_for_thoughts: bool
    prompt_name: str
    parse_reply: Callable[[str, bool], ParsedAnswer]


STRATEGIES = {
    "self_instruct": GenerationStrategy(True, False, "objects", parse_objects),
    "by_topic": GenerationStrategy(False, False, "by_topic", parse_objects),
    "visual_elements": GenerationStrategy(False, True, "visual_elements", parse_phrase_reply),
}
SINGLE_POOL_TOPIC = {"zh": "视觉元素", "en": "visual elements"}  # the topic of all queries where none is given
