"""Clean captions out of a model's replies, each with what was stripped, or why it is none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from builders.recall.caption_rules import CaptionRules, LanguageRules
from builders.recall.reply_checks import echoes, has_words, is_in, letters, repeats
from builders.recall.reply_markup import plain_words, unquoted, without_thoughts

REASONS = {
    "empty": "no words",
    "refusal": "the model declined to describe the picture",
    "echo": "the prompt repeated",
    "repetition": "the same words again and again",
    "too_long": "far longer than any caption",
    "too_short": "hardly a word",
    "wrong_language": "mostly in another language than asked for",
    "cut_off": "cut by the limit on tokens, with too little before the cut",
}
LONGEST = 4000  # characters; a detailed description has some hundreds
_ENDED = re.compile(r"[。！？!?.…][”’」』）)\"']*$")
_LEADING = "，,、：:；;。.!！ -—–"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A caption, or the reason (a key of REASONS) why there is none; `openings`: what was stripped from the front."""

    text: str
    reason: str = ""
    openings: tuple[str, ...] = ()


def clean(raw: str, finish_reason: str, language: str, rules: CaptionRules, asked: str = "") -> Cleaned:
    """The caption that a reply holds; nothing in it was not in the reply, in the same order.

    `finish_reason` stop: the end is trusted. length: cut back to the last complete clause. Any other: the last
    sentence goes if it has no end while another before it has. `asked`: the prompt's template, not the filled
    text, for a caption shown in the prompt may well come back.
    """
    answer = without_thoughts(raw)
    if len(answer) > LONGEST:  # the patterns below are for texts of a bounded length
        return Cleaned("", "repetition" if repeats(answer) else "too_long" if has_words(answer) else "empty")
    if has_words(answer) and (reason := _not_a_caption(plain_words(answer), asked, rules)):
        return Cleaned("", reason)
    text, openings = _settled(answer, rules)
    own = rules.languages[language]
    mended = _mended(text, finish_reason, own)
    if mended != text:
        mended, _ = _settled(mended, rules)
    reason = (
        _too_little(text, mended, finish_reason, own)
        or _not_a_caption(mended, asked, rules)
        or ("too_short" if len(letters(mended)) < own.fewest else "")
        or ("" if is_in(mended, language) else "wrong_language")
    )
    return Cleaned("" if reason else mended, reason, openings)


def _settled(text: str, rules: CaptionRules) -> tuple[str, tuple[str, ...]]:
    """Cleaned until nothing more comes off: what one rule leaves may be another's business."""
    openings: list[str] = []
    before = None
    while text != before:
        before = text
        text = unquoted(plain_words(text))
        if opening := _opening(text, rules):
            openings.append(opening)
            text = text[len(opening) :].lstrip(_LEADING)
        text = rules.ending.sub("", text)
    return text, tuple(openings)


def _opening(text: str, rules: CaptionRules) -> str:
    """The longest useless opening that leaves a sound sentence, or ''."""
    found = ""
    for pattern in rules.openings:
        match = pattern.match(text)
        if match and match.end() > len(found):
            rest = text[match.end() :].lstrip(_LEADING)
            if not rules.broken_start.match(rest):
                found = match.group()
    return found


def _mended(text: str, finish_reason: str, rules: LanguageRules) -> str:
    """The text up to its last complete clause if its tail is broken; '' where none is complete."""
    if finish_reason == "stop" or _ENDED.search(text):
        return text
    sentences = {match.end() for match in rules.sentence_end.finditer(text)}
    if finish_reason != "length":
        return text[: max(sentences)] if sentences else text
    clauses = [match.start() for match in rules.clause_end.finditer(text)]
    ends = sorted([0, *sentences, *clauses])
    complete, whole = 0, False
    for begin, end in pairwise(ends):
        clause = text[begin:end].strip(_LEADING)
        if end in sentences:
            complete, whole = end, True
        elif not rules.unfinished.fullmatch(clause):
            whole = whole or not rules.not_alone.fullmatch(clause)
            complete = end if whole else 0
    return text[:complete]


def _too_little(text: str, mended: str, finish_reason: str, rules: LanguageRules) -> str:
    """Whether nothing was said at all, or hardly anything before the cut."""
    if not has_words(text):
        return "cut_off" if finish_reason == "length" else "empty"
    return "cut_off" if mended != text and len(letters(mended)) < rules.fewest_mended else ""


def _not_a_caption(text: str, asked: str, rules: CaptionRules) -> str:
    """Asked before the cleaning, which may take the telling words away, and after it, which may lay them bare."""
    if repeats(text):
        return "repetition"
    if echoes(text, asked):
        return "echo"
    return "refusal" if rules.refusal.search(text.replace("’", "'")) else ""


@dataclass(frozen=True, slots=True)
class Opening:
    """How often captions begin like this, as a count and a share of those asked about."""

    text: str
    count: int
    share: float
    example: str


def frequent_openings(captions: Iterable[Cleaned], language: str, length: int = 0, most: int = 20) -> list[Opening]:
    """The most frequent openings of the captions that no rule touched: the first `length` characters in Chinese (4),
    words in English (3), blind to case."""
    untouched = [caption.text for caption in captions if caption.text and not caption.openings]
    starts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for text in untouched:
        start = text[: length or 4] if language == "zh" else " ".join(text.casefold().split()[: length or 3])
        starts[start] += 1
        examples[start] = min(text, examples.get(start, text), key=lambda e: (len(e), e))
    ranked = sorted(starts.items(), key=lambda item: (-item[1], item[0]))[:most]
    return [Opening(start, count, count / len(untouched), examples[start]) for start, count in ranked]
