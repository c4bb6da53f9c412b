"""Texts as vectors of hashed character n-grams: no model, no network, and the same bits on every machine.

It compares spelling, not meaning: "sofa" and "couch" are unrelated, 红狗 and 蓝狗 near. Weights do not depend on the
corpus (as inverse document frequencies would), so a text's vector does not depend on other texts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querytruth.array_types import Hashes, Vectors
from querytruth.backends.models.embedders import encode_in_batches
from querytruth.backends.plugins import PluginOptions
from querytruth.records import mix_bits

_MAX_NGRAM = 3  # characters of an n-gram
_BATCH_SIZE = 4096  # texts
_WEIGHT_SCALE = 64  # square roots of counts become integers, whose sums are the same in any order
_PUNCTUATION = re.compile(r"[\W_]+")
# Chinese has no spaces: one that replaces a comma is no boundary of words.
_CHINESE_BOUNDARY = re.compile("(?<=[\u3400-\u9fff]) | (?=[\u3400-\u9fff])")


class CharNgramOptions(PluginOptions):
    """More dimensions mean fewer hash collisions: at 512, the cosine of unrelated texts is about 0.04."""

    dimensions: int = 512


def load(options: CharNgramOptions) -> CharNgramEmbedder:
    """Return the embedder; it needs no model."""
    return CharNgramEmbedder(options.dimensions)


class CharNgramEmbedder:
    """N-grams of one to three characters, hashed into `dimensions` places, each with a sign from its hash.

    A text of punctuation only is a row of zeros.
    """

    name = "char_ngrams"
    compares_spelling = True

    def __init__(self, dimensions: int = 512) -> None:
        self.dimensions = dimensions
        self.revision = f"1:{_MAX_NGRAM}:{dimensions}"
        self.fingerprint = f"{self.name}@{self.revision}"

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """Return (n, dimensions); ignores case, full and half width, punctuation and spaces."""
        return encode_in_batches(texts, _BATCH_SIZE, self._encode_batch, self.dimensions)

    def check_language(self, texts: Iterable[str]) -> None:
        """Accept every language."""

    def _encode_batch(self, texts: list[str]) -> Vectors:
        normalized = [_normalize_text(text) for text in texts]
        rows = np.repeat(np.arange(len(normalized)), [len(one) for one in normalized])
        letters = np.frombuffer("".join(normalized).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
        sums = np.zeros(len(normalized) * self.dimensions, dtype=np.int64)
        for row, gram, length in _ngrams(rows, letters):
            # An n-gram weighs the square root of its count.
            pairs, counts = np.unique(np.stack([row.astype(np.uint64), gram]), axis=1, return_counts=True)
            weights = np.rint(np.sqrt(counts) * _WEIGHT_SCALE * length).astype(np.int64)
            signs = np.where(pairs[1] >> np.uint64(63), 1, -1)
            places = pairs[0] * np.uint64(self.dimensions) + (pairs[1] % np.uint64(self.dimensions))
            np.add.at(sums, places.astype(np.int64), weights * signs)
        table = sums.reshape(len(normalized), self.dimensions)
        lengths = np.sqrt((table * table).sum(axis=1).astype(np.float64))
        vectors: Vectors = (table / np.maximum(lengths, 1)[:, None]).astype(np.float32)
        return vectors


def _normalize_text(text: str) -> str:
    """Return the text in one case and compatibility form, words between single spaces, without punctuation."""
    spaced = _PUNCTUATION.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    return f" {_CHINESE_BOUNDARY.sub('', spaced)} " if spaced else ""


def _ngrams(rows: NDArray[Any], letters: Hashes) -> Iterator[tuple[NDArray[Any], Hashes, int]]:
    """Yield rows, hashes and length of all n-grams inside one text, length by length; a single space does not count."""
    for length in range(1, _MAX_NGRAM + 1):
        count = max(len(letters) - length + 1, 0)
        last = rows[length - 1 :]
        inside = rows[:count] == last
        hashed = np.full(count, length, dtype=np.uint64)
        for offset in range(length):
            hashed = mix_bits((hashed ^ letters[offset : offset + count]) + np.uint64(0x9E3779B97F4A7C15))
        if length == 1:
            inside &= letters[:count] != ord(" ")
        yield rows[:count][inside], hashed[inside], length
