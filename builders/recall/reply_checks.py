"""Checks of the text of a reply: words, language, repetition, and an echo of the prompt."""

import re

_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_WORDS = re.compile(rf"{_CJK.pattern}|[A-Za-zÀ-ɏ'’]+|[^\W\d_]")
_LOOP = re.compile(r"(.{1,60}?)\1{3,}")
_INSTRUCTIONS = re.compile(r"\{[a-z_]+\}|[。！？!?\n]|[.](?=\s|$)")


def has_words(text: str) -> bool:
    """Returns whether a text contains a letter or a Chinese character."""
    return bool(_WORDS.search(text))


def letters_and_digits(text: str) -> str:
    """Returns the letters and digits of a text, casefolded."""
    return "".join(char for char in text if char.isalnum()).casefold()


def is_in_language(text: str, language: str) -> bool:
    """Returns whether at least half of the words are in the language; each Chinese character counts as a word."""
    words = _WORDS.findall(text)
    chinese = sum(bool(_CJK.match(word)) for word in words)
    latin = sum(word[0].isascii() or word[0] <= "ɏ" for word in words)
    return 2 * (chinese if language == "zh" else latin) >= len(words) > 0


def has_repetition(text: str) -> bool:
    """Returns whether most runs of three words occur again, or the end repeats one piece."""
    words = [word.casefold() for word in _WORDS.findall(text)]
    runs = list(zip(words, words[1:], words[2:], strict=False))
    if len(runs) >= 8 and 2 * len(set(runs)) < len(runs):
        return True
    loops = _LOOP.finditer(text[-600:])
    return any(len(loop.group()) >= 12 and any(char.isalpha() for char in loop.group(1)) for loop in loops)


def has_prompt_echo(text: str, prompt_template: str) -> bool:
    """Returns whether the reply contains a whole instruction of the prompt, or is a part of the prompt."""
    reply_letters = letters_and_digits(text)
    pieces = [letters_and_digits(piece) for piece in _INSTRUCTIONS.split(prompt_template)]
    return any(_is_long_enough(piece) and piece in reply_letters for piece in pieces) or (
        _is_long_enough(reply_letters) and reply_letters in letters_and_digits(prompt_template)
    )


def _is_long_enough(letters: str) -> bool:
    """Returns whether a match of these letters is no coincidence."""
    return len(letters) >= (6 if _CJK.search(letters) else 15)
