"""The vocabulary of a text encoder that is trained from scratch."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LARGEST = 30_000
_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")


def build_vocabulary(texts: Iterable[str]) -> list[str]:
    """What a BERT tokenizer reads these texts by: every character, whole or as a piece of a word, and each word that
    occurs twice; the most frequent first, 30,000 at most."""
    word_counts = Counter(word for text in texts for word in _WORD.findall(_plain(text)))
    letters = sorted({letter for word in word_counts for letter in word})
    whole = sorted((-count, word) for word, count in word_counts.items() if count > 1 and len(word) > 1)
    pieces = [f"##{letter}" for letter in letters if letter.isascii() and letter.isalnum()]
    return [*SPECIAL_TOKENS, *letters, *pieces, *(word for _, word in whole)][:_LARGEST]


def _plain(text: str) -> str:
    """Returns the text as BERT's lower-casing tokenizer reads it: without accents."""
    apart = unicodedata.normalize("NFD", text.lower())
    return "".join(letter for letter in apart if unicodedata.category(letter) != "Mn")
