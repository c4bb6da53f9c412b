"""File names that contain a query: a system that reads file names would find the image without looking at it."""

import re
from collections.abc import Iterable, Iterator

_NO_LETTER = re.compile(r"[\W\d_]+")  # separates words in file names
_WIDE = "\u2e80"  # from here on scripts are written without spaces between words
_FEWEST = 3  # letters; shorter texts are ignored


def find_leaking_file_names(texts: Iterable[str], names: Iterable[str]) -> list[str]:
    """Returns the names that contain a text: as whole words, with or without a final "s", or at any place where the
    script has no spaces. Case, digits and punctuation are ignored. The time depends on the names alone, not on the
    number of texts."""
    normalized_texts = {_words(text) for text in texts} - {""}
    wide = {text for text in normalized_texts if max(text) >= _WIDE}
    spaced = {text for text in normalized_texts - wide if len(text) >= _FEWEST}
    most = max((text.count(" ") + 1 for text in spaced), default=0)
    lengths = sorted({len(text) for text in wide})
    return [
        name
        for name, words in ((name, _words(name)) for name in names)
        if not spaced.isdisjoint(_runs(words.split(" "), most)) or not wide.isdisjoint(_parts(words, lengths))
    ]


def _words(text: str) -> str:
    return _NO_LETTER.sub(" ", text.casefold()).strip()


def _runs(words: list[str], most: int) -> Iterator[str]:
    """Yields all runs of up to `most` words, each also without a final s."""
    for first in range(len(words)):
        for last in range(first + 1, min(first + most, len(words)) + 1):
            run = " ".join(words[first:last])
            yield run
            yield run.removesuffix("s")


def _parts(words: str, lengths: list[int]) -> Iterator[str]:
    """Yields all parts of these lengths if the name has a wide character."""
    if not words or max(words) < _WIDE:
        return
    for length in lengths:
        for first in range(len(words) - length + 1):
            yield words[first : first + length]
