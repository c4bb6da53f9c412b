"""What no caption has: markup, coordinates, a word to the person who asks, or a thought about the task.

A list of refusals knows the models that it was made of. These rules are for the kind of text: a caption speaks of the
image, to nobody. What is written in the image may speak to somebody ("a sign that says thank you for your visit"), so
quoted text and what follows a verb of writing is left out of account.
"""

import re

from builders.recall.caption_rules import CaptionCleaningRules

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


def mask_written_text(text: str, rules: CaptionCleaningRules) -> str:
    """Returns the text without what is written in the image."""
    return rules.written.sub(" ", _QUOTED.sub(" ", text.replace("’", "'")))


def is_talk(text: str, rules: CaptionCleaningRules) -> bool:
    """Returns whether the text thinks about the task, says that no image came, or reports an error of a service."""
    return bool(rules.talk.search(mask_written_text(text, rules)))


def is_address(text: str, rules: CaptionCleaningRules) -> bool:
    """Returns whether the text speaks to a person, or of the writer."""
    return bool(rules.address.search(mask_written_text(text, rules)))


def asks_for_question(prompt_template: str) -> bool:
    """Returns whether a prompt asks for a question, as people put it to a search engine: such a query may say "you"."""
    return bool(_QUESTION.search(prompt_template))


def has_markup(text: str, rules: CaptionCleaningRules) -> bool:
    """Returns whether the text has tags, special tokens, JSON, code or coordinates."""
    masked = mask_written_text(text, rules)
    return bool(_MARKUP.search(text) or _NUMBERS.search(masked) or _LABELLED_NUMBERS.search(masked))
