"""Clean captions out of a model's replies, each with what was stripped, or why it is none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from builders.recall.caption_rules import CaptionCleaningRules, LanguageCleaningRules
from builders.recall.reply_checks import has_prompt_echo, has_repetition, has_words, is_in_language, letters_and_digits
from builders.recall.reply_markup import strip_markup, strip_quotes, strip_reasoning

CAPTION_REJECTION_REASONS = {
    "empty": "no words",
    "refusal": "the model declined to describe the picture",
    "echo": "the prompt repeated",
    "repetition": "the same words again and again",
    "too_long": "far longer than any caption",
    "too_short": "hardly a word",
    "wrong_language": "mostly in another language than asked for",
    "cut_off": "cut by the limit on tokens, with too little before the cut",
}
MAX_CAPTION_CHARS = 4000  # characters; a detailed description has some hundreds
_ENDED = re.compile(r"[。！？!?.…][”’」』）)\"']*$")
_LEADING = "，,、：:；;。.!！ -—–"


@dataclass(frozen=True, slots=True)
class CleanedCaption:
    """A caption, or the reason (a key of REASONS) why there is none; `openings`: what was stripped from the front."""

    text: str
    reason: str = ""
    openings: tuple[str, ...] = ()


def clean_caption(
    raw: str, finish_reason: str, language: str, rules: CaptionCleaningRules, prompt_template: str = ""
) -> CleanedCaption:
    """The caption that a reply holds; nothing in it was not in the reply, in the same order.

    `finish_reason` stop: the end is trusted. length: cut back to the last complete clause. Any other: the last
    sentence goes if it has no end while another before it has. `prompt_template`: the prompt's template, not the filled
    text, for a caption shown in the prompt may well come back.
    """
    answer = strip_reasoning(raw)
    if len(answer) > MAX_CAPTION_CHARS:  # the patterns below are for texts of a bounded length
        return CleanedCaption(
            "", "repetition" if has_repetition(answer) else "too_long" if has_words(answer) else "empty"
        )
    if has_words(answer) and (reason := _not_a_caption(strip_markup(answer), prompt_template, rules)):
        return CleanedCaption("", reason)
    text, openings = _strip_openings_and_endings(answer, rules)
    own = rules.languages[language]
    trimmed = _trim_broken_end(text, finish_reason, own)
    if trimmed != text:
        trimmed, _ = _strip_openings_and_endings(trimmed, rules)
    reason = (
        _too_little(text, trimmed, finish_reason, own)
        or _not_a_caption(trimmed, prompt_template, rules)
        or ("too_short" if len(letters_and_digits(trimmed)) < own.fewest else "")
        or ("" if is_in_language(trimmed, language) else "wrong_language")
    )
    return CleanedCaption("" if reason else trimmed, reason, openings)


def _strip_openings_and_endings(text: str, rules: CaptionCleaningRules) -> tuple[str, tuple[str, ...]]:
    """Cleaned until nothing more comes off: what one rule leaves may be another's business."""
    openings: list[str] = []
    before = None
    while text != before:
        before = text
        text = strip_quotes(strip_markup(text))
        if opening := _opening(text, rules):
            openings.append(opening)
            text = text[len(opening) :].lstrip(_LEADING)
        text = rules.ending.sub("", text)
    return text, tuple(openings)


def _opening(text: str, rules: CaptionCleaningRules) -> str:
    """The longest useless opening that leaves a sound sentence, or ''."""
    longest = ""
    for pattern in rules.openings:
        match = pattern.match(text)
        if match and match.end() > len(longest):
            rest = text[match.end() :].lstrip(_LEADING)
            if not rules.broken_start.match(rest):
                longest = match.group()
    return longest


def _trim_broken_end(text: str, finish_reason: str, rules: LanguageCleaningRules) -> str:
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


def _too_little(text: str, trimmed: str, finish_reason: str, rules: LanguageCleaningRules) -> str:
    """Whether nothing was said at all, or hardly anything before the cut."""
    if not has_words(text):
        return "cut_off" if finish_reason == "length" else "empty"
    return "cut_off" if trimmed != text and len(letters_and_digits(trimmed)) < rules.min_letters_after_cut else ""


def _not_a_caption(text: str, prompt_template: str, rules: CaptionCleaningRules) -> str:
    """Asked before the cleaning, which may take the telling words away, and after it, which may lay them bare."""
    if has_repetition(text):
        return "repetition"
    if has_prompt_echo(text, prompt_template):
        return "echo"
    return "refusal" if rules.refusal.search(text.replace("’", "'")) else ""


@dataclass(frozen=True, slots=True)
class OpeningCount:
    """How often captions begin like this, as a count and a share of those asked about."""

    text: str
    count: int
    share: float
    example: str


def frequent_openings(
    captions: Iterable[CleanedCaption], language: str, length: int = 0, most: int = 20
) -> list[OpeningCount]:
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
    return [OpeningCount(start, count, count / len(untouched), examples[start]) for start, count in ranked]
