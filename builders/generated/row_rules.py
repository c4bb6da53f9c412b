"""Rules for rows of a reply that can be topics or objects: language, length, characters, no words of the prompt."""

import re
import unicodedata
from dataclasses import dataclass

from builders.generated.reply_grammar import TEMPLATE_WORDS
from querytruth.backends.files.text_formats import letters_and_digits
from querytruth.backends.models.reply_markup import is_in_language
from querytruth.sets.query_texts import is_broken, is_empty_value, join_spellings

MAX_LENGTH = {"zh": 10, "en": 5}  # characters in Chinese (the seed article's), words in English
MAX_CHARACTERS = 60
ROW_REJECTION_REASONS = {
    "bad_characters": "punctuation, symbols, control characters, a broken encoding, or no value at all",
    "wrong_language": "mostly in another language than requested",
    "too_long": "longer than a search for one thing",
    "too_short": "shorter than the prompt asks for",
    "word_of_prompt": "repeats a word of the prompt",
    "refusal": "the model declined",
    "talk": "addresses the user, or reasons about the task",
    "cut_off": "cut off by the token limit",
    "no_topic": "the answer names no usable topic",
    "in_prompt": "repeats an example from the prompt",
    "known": "already in a pool",
    "repeated": "already in the same reply, or in another reply of the same round",
    "too_similar": "too close to an object that is in a pool",
}
_INSIDE = {"zh": " ·・", "en": " -'’"}
_BETWEEN_CHINESE = re.compile(r"[\u3400-\u9fff] | [\u3400-\u9fff]")
_WORD = re.compile(r"[^\W_]+")


def normalize_text(text: str) -> str:
    """Return the form of a text that ignores full and half width, case, spaces and characters of no width."""
    return join_spellings(unicodedata.normalize("NFKC", text).casefold())


def measure_length(text: str, language: str) -> int:
    """Return the number of characters in Chinese, of words in English."""
    return len(text) if language == "zh" else len(text.split())


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules of one language. `max_length`: characters (zh) or words (en); `template`: the prompt and the form of
    its samples, nothing filled in; `refusal`: how models decline; `talk`: how they speak to the person who asks or
    think about the task (None: not looked for); `min_characters`: of an object, in both languages."""

    language: str
    max_length: int
    template: str
    refusal: re.Pattern[str]
    talk: re.Pattern[str] | None = None
    min_characters: int = 1

    def find_rejection_reason(self, text: str) -> str:
        """Return why this is not an object, as a key of REASONS; '' if nothing is wrong with it."""
        if 0 < len(text) < self.min_characters:
            return self._unfit(text) or "too_short"
        is_of_prompt = normalize_text(text) in TEMPLATE_WORDS[self.language] or self._is_of_template(text)
        return self._unfit(text) or ("word_of_prompt" if is_of_prompt else "")

    def find_topic_rejection_reason(self, text: str) -> str:
        """Return the same for a topic: the prompt may propose topics, but none of the words that its form is made
        of."""
        return self._unfit(text) or ("word_of_prompt" if normalize_text(text) in TEMPLATE_WORDS[self.language] else "")

    def _unfit(self, text: str) -> str:
        if not text or len(text) > MAX_CHARACTERS * 4 or not all(self._is_allowed(char) for char in text):
            return "bad_characters"
        if is_broken(text) or is_empty_value(text):
            return "bad_characters"
        if self.language == "zh" and _BETWEEN_CHINESE.search(text):
            return "bad_characters"
        if not is_in_language(text, self.language):
            return "wrong_language"
        if measure_length(text, self.language) > self.max_length or len(text) > MAX_CHARACTERS:
            return "too_long"
        plain = text.replace("’", "'")
        if self.refusal.search(plain):
            return "refusal"
        return "talk" if self.talk and self.talk.search(plain) else ""

    def _is_allowed(self, char: str) -> bool:
        return char in _INSIDE[self.language] or unicodedata.category(char)[0] in "LMN"

    def _is_of_template(self, text: str) -> bool:
        if self.language == "zh":
            return len(text) > 1 and letters_and_digits(text) in letters_and_digits(self.template)
        padded = [f" {' '.join(_WORD.findall(side.casefold()))} " for side in (text, self.template)]
        return padded[0] in padded[1]
