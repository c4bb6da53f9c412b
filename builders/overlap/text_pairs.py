"""Texts of a set in a stream of other texts: equal after normalisation, with 13 tokens in a row in common, or, shorter
ones, as a part of a longer text.

A token is a word, or one Chinese, Japanese or Korean character. (13-grams: Brown et al., "Language Models are Few-Shot
Learners", 2020, appendix C.) The memory depends on the set alone, not on the stream.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

NGRAM_LENGTH = 13
LEAST_CONTAINED = 8  # tokens of a text that is searched for inside others
MAX_PAIRS = 20  # per query and evidence: the others are counted
Tokens = tuple[str, ...]
_TOKEN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\\W_\u3040-\u9fff]+")


def split_tokens(text: str) -> list[str]:
    """Returns the words and CJK characters of a text, without case, punctuation and compatibility forms."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


class TextOverlap:
    """The texts of a set by id. `find_pairs` yields the pairs with other texts; `counts` has all of them by (id,
    evidence)."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._whole: defaultdict[Tokens, list[str]] = defaultdict(list)
        self._parts: defaultdict[Tokens, list[str]] = defaultdict(list)
        self._starts: defaultdict[Tokens, set[Tokens]] = defaultdict(set)
        for name, text in texts.items():
            tokens = tuple(split_tokens(text))
            if tokens:
                self._whole[tokens].append(name)
            for part in dict.fromkeys(_ngrams(tokens, NGRAM_LENGTH)):
                self._parts[part].append(name)
            if LEAST_CONTAINED <= len(tokens) < NGRAM_LENGTH:
                self._starts[tokens[:LEAST_CONTAINED]].add(tokens)

    def find_pairs(self, others: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str, int]]:
        """Yields (id, other item, `text`, `13-gram` or `contained`, 0) for texts that come as (item, text)."""
        for item, text in others:
            for name, evidence in self.find_evidence(text):
                if self.is_listed(name, evidence):
                    yield name, item, evidence, 0

    def find_evidence(self, text: str) -> list[tuple[str, str]]:
        """Returns (id, evidence) for each text of the set that a text has whole or in part."""
        tokens = tuple(split_tokens(text))
        equal = self._whole.get(tokens, [])
        parts = {name for part in _ngrams(tokens, NGRAM_LENGTH) for name in self._parts.get(part, ())}
        found = [(name, "text") for name in equal]
        found += [(name, "13-gram") for name in sorted(parts - set(equal))]
        return found + [(name, "contained") for name in sorted(self._find_contained(tokens))]

    def is_listed(self, name: str, evidence: str) -> bool:
        """Counts a pair, and returns whether it is among the first MAX_PAIRS of its id and evidence."""
        self.counts[name, evidence] += 1
        return self.counts[name, evidence] <= MAX_PAIRS

    def _find_contained(self, tokens: Tokens) -> set[str]:
        found = {
            whole
            for start, part in enumerate(_ngrams(tokens, LEAST_CONTAINED))
            for whole in self._starts.get(part, ())
            if len(whole) < len(tokens) and tokens[start : start + len(whole)] == whole
        }
        return {name for whole in found for name in self._whole[whole]}


def _ngrams(tokens: Tokens, length: int) -> Iterator[Tokens]:
    for start in range(len(tokens) - length + 1):
        yield tokens[start : start + length]
