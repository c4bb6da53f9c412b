"""Extract captions from the replies of a chat model, with the stripped openings or the reason for a rejection.

A list of refusals covers only the models it was made from. These rules match kinds of text: a caption describes the
image, addresses nobody, and has no markup, no coordinates and no reasoning about the task. Text in the image may
address somebody ("a sign that says thank you for your visit"), so quoted text and what follows a verb of writing is
ignored.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from builders.recall.caption_rules import CaptionCleaningRules, LanguageCleaningRules
from querytruth.backends.files.text_formats import has_words, letters_and_digits
from querytruth.backends.models import reply_markup
from querytruth.backends.models.reply_envelope import read_answer, read_labelled_answer, strip_regions
from querytruth.sets.query_texts import is_broken, is_empty_value

_QUOTED = re.compile(
    r"“[^”]{1,300}”|「[^」]{1,300}」|『[^』]{1,300}』|《[^》]{1,300}》|‘[^’]{1,300}’|\"[^\"\n]{1,300}\"|＂[^＂]{1,300}＂"
    r"|(?<!\w)'[^'\n]{1,200}'(?!\w)"
)
_MARKUP = re.compile(
    r"<[/!]?[A-Za-z][^<>]{0,200}>|<\||\|>|<｜|｜>|[◁▷]|\[/[A-Za-z]|[{}]|\"[\w ]{1,40}\"\s{0,3}:|`{3}|\]\([^)]{0,300}\)"
    r"|\\(?:boxed|text\w*|n|u[0-9a-f]{4}|\(|\[)|&(?:lt|gt|amp|quot|nbsp|#\d{1,6});"
)
_LABELLED_NUMBERS = re.compile(
    r"(?:bbox\w*|bounding box(?:es)?|coordinates?|坐标|边界框)\W{0,12}\d|\b[xy][12]?\s{0,2}[=:]\s{0,2}\d", re.IGNORECASE
)
_NUMBERS = re.compile(
    r"(?<![\w.])\d{1,5}(?:\.\d{1,6})?(?:(?:\s{0,3}[,，;；]\s{0,3}|\s{1,3})\d{1,5}(?:\.\d{1,6})?){3,}(?![\w.])"
)
_QUESTION = re.compile(r"question|\bask\b|问")
CAPTION_REJECTION_REASONS = {
    "empty": "no words",
    "refusal": "the model declined to describe the image, or states what it cannot tell",
    "only_reasoning": "the reply contains reasoning, but no answer",
    "talk": "addresses the user, reasons about the task, or reports that no image came",
    "markup": "contains tags, special tokens, JSON, code or coordinates",
    "broken_text": "decoded with the wrong encoding, or with characters lost",
    "echo": "repeats the prompt",
    "repetition": "repeats the same words",
    "too_long": "longer than a caption can be",
    "too_short": "too few letters",
    "wrong_language": "mostly in another language than requested",
    "cut_off": "the token limit cut the reply, with too little text before the cut",
}
# Of a caption that becomes a query, characters or words: what 48 tokens hold, and somewhat more.
MAX_QUERY_LENGTH = {"zh": 80, "en": 50}
_MOST_LOST = 2  # characters: a limit may cut one
MAX_CAPTION_CHARS = 4000  # characters; a detailed description has some hundreds
_NEAR_TEXTS, _COMPARED_TEXTS = 0.8, 64
_ENDED = re.compile(r"[。！？!?.…][”’」』）)\"']*$")
_LEADING = "，,、：:；;。.!！ -—–"


def mask_written_text(text: str, rules: CaptionCleaningRules) -> str:
    """Return the text without what is written in the image."""
    return rules.written.sub(" ", _QUOTED.sub(" ", text.replace("’", "'")))


def has_markup(text: str, rules: CaptionCleaningRules) -> bool:
    """Return whether the text has tags, special tokens, JSON, code or coordinates."""
    masked = mask_written_text(text, rules)
    return bool(_MARKUP.search(text) or _NUMBERS.search(masked) or _LABELLED_NUMBERS.search(masked))


@dataclass(frozen=True, slots=True)
class CleanedCaption:
    """A caption, or '' and a reason (a key of CAPTION_REJECTION_REASONS); `openings`: phrases stripped from the
    front."""

    text: str
    reason: str = ""
    openings: tuple[str, ...] = ()


def clean_caption(
    raw: str,
    finish_reason: str,
    language: str,
    rules: CaptionCleaningRules,
    prompt_template: str = "",
    max_length: int | None = None,
    *,
    may_address: bool = False,
) -> CleanedCaption:
    """Return the caption in a reply: text of the reply, in the same order; of a numbered list, its first item.

    `finish_reason` stop: the end is trusted, unless it is incomplete ("… 放在", "a man and a"), as after a cut. length:
    the caption ends with its last complete clause. Any other: a last sentence without an end is removed if an earlier
    one has an end. `prompt_template`: the unfilled template, because a reply may repeat a caption from the prompt.
    `max_length`: characters in Chinese, words in English; a longer caption ends with its last complete clause within
    them. A caption no longer than a query that states what the model cannot tell is a refusal, and one that addresses a
    person is talk, unless it `may_address` a person: what people type into a search, or the answer to a prompt for a
    question.
    """
    answer = _read_answer(raw)
    if answer is None:
        return CleanedCaption("", "only_reasoning")
    item, is_list = reply_markup.first_list_item(answer)
    cleaned = _clean_text(item, "stop" if is_list else finish_reason, language, rules, prompt_template)
    if max_length is not None and measure_length(cleaned.text, language) > max_length:
        text = _last_complete_clause(
            cleaned.text, rules.languages[language], _find_end(cleaned.text, max_length, language)
        )
        text, _ = _strip_openings_and_endings(text, rules)
        is_caption = len(letters_and_digits(text)) >= rules.languages[language].min_letters_after_cut
        cleaned = CleanedCaption(text if is_caption else "", "" if is_caption else "too_long", cleaned.openings)
    is_short = measure_length(cleaned.text, language) <= MAX_QUERY_LENGTH[language]
    if is_short and rules.disclaimer.search(cleaned.text.replace("’", "'")):
        return CleanedCaption("", "refusal", cleaned.openings)
    may_address = may_address or bool(_QUESTION.search(prompt_template))
    if is_short and not may_address and rules.address.search(mask_written_text(cleaned.text, rules)):
        return CleanedCaption("", "talk", cleaned.openings)
    return cleaned


def group_near_texts(texts: Sequence[str]) -> list[list[int]]:
    """Return the positions of texts that are nearly the same: of the pairs of characters in both, four in five are in
    each. A text is compared with the first of 64 groups; if there are more, they are not the few replies of a cache."""
    groups: dict[str, list[int]] = {}
    firsts: list[tuple[frozenset[str], list[int]]] = []
    for place, text in enumerate(texts):
        letters = letters_and_digits(text)
        if letters not in groups:
            pairs = frozenset(letters[at : at + 2] for at in range(len(letters)))
            near = (group for other, group in firsts if len(pairs & other) >= _NEAR_TEXTS * len(pairs | other))
            groups[letters] = next(near, [])
            if not groups[letters] and len(firsts) < _COMPARED_TEXTS:
                firsts.append((pairs, groups[letters]))
        groups[letters].append(place)
    return list({id(group): group for group in groups.values()}.values())


def _read_answer(raw: str) -> str | None:
    """Return the answer in a reply, without reasoning, further turns and regions; None where it is reasoning alone."""
    marked = read_answer(raw)
    labelled = read_labelled_answer(reply_markup.unwrap_object(marked.text)[: 5 * MAX_CAPTION_CHARS])
    if marked.is_only_reasoning or labelled.is_only_reasoning:
        return None
    return strip_regions(reply_markup.unwrap_object(labelled.text))


def measure_length(text: str, language: str) -> int:
    """Return the number of characters in Chinese, of words in English."""
    return len(text) if language == "zh" else len(text.split())


def _find_end(text: str, length: int, language: str) -> int:
    """Return the position after so many characters in Chinese, words in English."""
    if language == "zh":
        return length
    words = list(re.finditer(r"\S+", text))
    return words[length - 1].end() if length <= len(words) else len(text)


def clean_description(
    raw: str, finish_reason: str, language: str, rules: CaptionCleaningRules, prompt_template: str = ""
) -> CleanedCaption:
    """Return the same for a text that is not a query: of any length, with all list items and incomplete ends."""
    answer = _read_answer(raw)
    if answer is None:
        return CleanedCaption("", "only_reasoning")
    return _clean_text(answer, finish_reason, language, rules, prompt_template)


def _clean_text(
    answer: str, finish_reason: str, language: str, rules: CaptionCleaningRules, prompt_template: str
) -> CleanedCaption:
    if len(answer) > MAX_CAPTION_CHARS:  # the patterns below are for texts of a bounded length
        too_long = "too_long" if has_words(answer) else "empty"
        return CleanedCaption("", "repetition" if reply_markup.has_repetition(answer) else too_long)
    if has_words(answer) and (reason := _not_a_caption(reply_markup.strip_markup(answer), prompt_template, rules)):
        return CleanedCaption("", reason)
    text, openings = _strip_openings_and_endings(answer, rules)
    if rules.talk.search(mask_written_text(text, rules)):
        return CleanedCaption("", "talk", openings)
    own = rules.languages[language]
    trimmed = _trim_broken_end(text, finish_reason, own)
    if trimmed != text:
        trimmed, _ = _strip_openings_and_endings(trimmed, rules)
    reason = (
        _too_little(text, trimmed, finish_reason, own)
        or _not_a_caption(trimmed, prompt_template, rules)
        or ("too_short" if len(letters_and_digits(trimmed)) < own.fewest else "")
        or ("" if reply_markup.is_in_language(trimmed, language) else "wrong_language")
        or ("empty" if is_empty_value(trimmed) else "")
        or ("broken_text" if is_broken(trimmed) or answer.count("\ufffd") >= _MOST_LOST else "")
        or ("markup" if has_markup(trimmed, rules) else "")
    )
    return CleanedCaption("" if reason else trimmed, reason, openings)


def _strip_openings_and_endings(text: str, rules: CaptionCleaningRules) -> tuple[str, tuple[str, ...]]:
    """Apply all rules until the text no longer changes, since one rule may expose text for another."""
    openings: list[str] = []
    before = None
    while text != before:
        before = text
        text = reply_markup.strip_quotes(reply_markup.strip_markup(_read_answer(text) or ""))
        if opening := _opening(text, rules):
            openings.append(opening)
            text = text[len(opening) :].lstrip(_LEADING)
        text = rules.ending.sub("", text)
    return text, tuple(openings)


def _opening(text: str, rules: CaptionCleaningRules) -> str:
    """Return the longest opening whose removal leaves a complete sentence, or ''."""
    longest = ""
    for pattern in rules.openings:
        match = pattern.match(text)
        if not match or match.end() <= len(longest):
            continue
        if not rules.broken_start.match(text[match.end() :].lstrip(_LEADING)):
            longest = match.group()
    return longest


def _trim_broken_end(text: str, finish_reason: str, rules: LanguageCleaningRules) -> str:
    """Return the text up to its last complete clause if its end is broken; '' where no clause is complete."""
    if _ENDED.search(text):
        return text
    is_dangling = bool(rules.dangling.search(text))  # whatever the server says
    if finish_reason == "stop" and not is_dangling:
        return text
    if finish_reason == "length" or is_dangling:
        return _last_complete_clause(text, rules, len(text))
    sentences = {match.end() for match in rules.sentence_end.finditer(text)}
    return text[: max(sentences)] if sentences else text


def _last_complete_clause(text: str, rules: LanguageCleaningRules, limit: int) -> str:
    """Return the text up to the last clause that is complete at a position; '' where none is."""
    sentences = {match.end() for match in rules.sentence_end.finditer(text) if match.end() <= limit}
    clauses = [match.start() for match in rules.clause_end.finditer(text) if match.start() <= limit]
    ends = sorted([0, *sentences, *clauses])
    complete, whole = 0, False
    for begin, end in pairwise(ends):
        clause = text[begin:end].strip(_LEADING)
        if end in sentences:
            complete, whole = end, True
        elif not rules.unfinished.fullmatch(clause) and not rules.dangling.search(clause):
            whole = whole or not rules.not_alone.fullmatch(clause)
            complete = end if whole else 0
    return text[:complete]


def _too_little(text: str, trimmed: str, finish_reason: str, rules: LanguageCleaningRules) -> str:
    """Return the reason where the text has no words, or too few letters remain before the cut; else ''."""
    if not has_words(text):
        return "cut_off" if finish_reason == "length" else "empty"
    return "cut_off" if trimmed != text and len(letters_and_digits(trimmed)) < rules.min_letters_after_cut else ""


def _not_a_caption(text: str, prompt_template: str, rules: CaptionCleaningRules) -> str:
    """Return the reason why the text is not a caption, or ''. Applies before and after the cleaning."""
    if reply_markup.has_repetition(text):
        return "repetition"
    if reply_markup.has_prompt_echo(text, prompt_template):
        return "echo"
    return "refusal" if rules.refusal.search(text.replace("’", "'")) else ""
