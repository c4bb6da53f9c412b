"""Probes of a judge: the same question in another form, or one whose answer is known. Each asks about pairs that people
graded."""

from collections.abc import Mapping, Sequence

ASKED_TWICE, GRADES_REVERSED, MIRRORED = "asked_twice", "grades_reversed", "mirrored"
PARAPHRASED, LONGER_TEXT, NEAR_MISS, BLANK = "paraphrased", "longer_text", "near_miss", "blank"
UNCHANGED_PROBES = (ASKED_TWICE, GRADES_REVERSED, MIRRORED, PARAPHRASED, LONGER_TEXT)  # the grade should stay
IRRELEVANT_PROBES = (NEAR_MISS, BLANK)  # the grade should be 0
PROBES = (*UNCHANGED_PROBES, *IRRELEVANT_PROBES)
_PHRASES = {
    "en": {
        PARAPHRASED: "a picture that shows this: {query}",
        LONGER_TEXT: "I have been looking through my photos of the last years and cannot find the one I mean: {query}. "
        "Thanks a lot for any help!",
    },
    "zh": {
        PARAPHRASED: "一张内容是这样的图片：{query}",
        LONGER_TEXT: "我翻了这几年的照片，一直没找到我想要的那一张：{query}。非常感谢帮忙！",
    },
}


def rephrase_query(query: str, probe: str, language: str) -> str:
    """Returns the query in the words of a probe that changes the text."""
    return _PHRASES[language][probe].replace("{query}", query)


def choose_near_misses(
    queries: Sequence[str],
    labels: Mapping[str, Sequence[str]],
    relevant: Mapping[str, set[str]],
    known: set[tuple[str, str]],
) -> dict[str, str]:
    """Returns by query an image that is relevant to another query with a label in common, or, where there is none, to
    any other query, and that nobody calls relevant to this one. `known`: relevant pairs."""
    found = {}
    others = sorted(relevant)
    for query in queries:
        own = set(labels.get(query, ()))
        near = [other for other in others if other != query and own & set(labels.get(other, ()))]
        for other in [*near, *others]:
            free = sorted(image for image in relevant[other] if (query, image) not in known)
            if other != query and free:
                found[query] = free[len(query) % len(free)]
                break
    return found
