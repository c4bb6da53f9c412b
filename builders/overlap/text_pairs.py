"""Texts of a set in a stream of other texts: equal after normalisation, or with 13 tokens in a row in common.

A token is a word, or one Chinese, Japanese or Korean character. (13-grams: Brown et al., "Language Models are Few-Shot
Learners", 2020, appendix C.) The memory depends on the set alone, not on the stream.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

NGRAM_LENGTH = 13
MAX_PAIRS = 20  # per query and evidence: the others are counted
_TOKEN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\\W_\u3040-\u9fff]+")


def split_tokens(text: str) -> list[str]:
    """Returns the words and CJK characters of a text, without case, punctuation and compatibility forms."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


class TextOverlap:
    """The texts of a set by id. `find_pairs` yields the pairs with other texts; `counts` has all of them by (id,
    evidence)."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._whole: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        self._parts: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, text in texts.items():
            tokens = tuple(split_tokens(text))
            if tokens:
                self._whole[tokens].append(name)
            for part in dict.fromkeys(_ngrams(tokens)):
                self._parts[part].append(name)

    def find_pairs(self, others: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str, int]]:
        """Yields (id, other item, `text` or `13-gram`, 0) for texts that come as (item, text)."""
        for item, text in others:
            tokens = tuple(split_tokens(text))
            equal = self._whole.get(tokens, [])
            parts = {name for part in _ngrams(tokens) for name in self._parts.get(part, ())} if self._parts else set()
            found = [(name, "text") for name in equal] + [(name, "13-gram") for name in sorted(parts - set(equal))]
            for name, evidence in found:
                self.counts[name, evidence] += 1
                if self.counts[name, evidence] <= MAX_PAIRS:
                    yield name, item, evidence, 0


def _ngrams(tokens: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for start in range(len(tokens) - NGRAM_LENGTH + 1):
        yield tokens[start : start + NGRAM_LENGTH]
