"""Pairs in two collections: the same bytes or pixels, near hashes, equal or contained texts.

Hashes of views are found exactly: the 64 bits are divided into four bands of 16, and two that differ in at most 6 bits
 differ in at most one bit in one band at least, so that each hash of the smaller side is filed under all keys
within one bit of its own.

Texts come as a stream, and memory depends on the set alone: equal after normalisation, with 13 tokens in a row in
common, or, shorter ones, as a part of a longer text. A token is a word, or one Chinese, Japanese or Korean character.
(13-grams: Brown et al., "Language Models are Few-Shot Learners", 2020, appendix C.)
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from querytruth.array_types import Hashes, RowIndices
from querytruth.backends.images.image_views import have_views
from querytruth.backends.images.same_images import ComparableImages, accept, measure_pairs, nearest_turns

HASH_DISTANCE = 6  # bits between views
_TURNS = (0, 4)  # as it is, and mirrored left-right
_WIDTH, _BANDS = 16, range(4)
_FLIPS = np.array([0, *(1 << bit for bit in range(_WIDTH))], dtype=np.int64)  # one bit at most: HASH_DISTANCE // 4
_AT_ONCE = 1 << 14  # hashes of the larger side
PAIR_COLUMNS = ["set_item", "other_item", "evidence", "distance"]
# Strongest first; a pair has the strongest that it shows.
_EVIDENCE = ["bytes", "pixels", "views", "mirrored views"]
_EQUAL = {"bytes": "sha256", "pixels": "pixels"}
_SAME_SHAPE = 1.02  # longer / shorter side: a square cut out of more, or padded to one, has another hash (measured)
NGRAM_LENGTH = 13
LEAST_CONTAINED = 8  # tokens of a text that is searched for inside others
MAX_PAIRS = 20  # per query and evidence: the others are counted
Tokens = tuple[str, ...]
_TOKEN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\\W_\u3040-\u9fff]+")


class NearHashIndex:
    """The hashes (n) of the smaller side; `find_near` yields pairs with the other side's."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        self._filed = [_file_rows(_keys(hashes, band)) for band in _BANDS]

    def find_near(self, others: Hashes) -> Iterator[tuple[RowIndices, RowIndices, RowIndices]]:
        """Yield pairs with `others` (m) in blocks: rows of the index, rows of `others`, distances in bits; each
        pair once."""
        for start in range(0, len(others), _AT_ONCE):
            block = others[start : start + _AT_ONCE]
            pairs = np.unique(np.concatenate([self._compare(block, band) for band in _BANDS], axis=1), axis=1)
            yield pairs[0], pairs[1] + start, self._distances(block, pairs[0], pairs[1])

    def _compare(self, block: Hashes, band: int) -> RowIndices:
        rows, ends = self._filed[band]
        keys = _keys(block, band)
        counts = ends[keys + 1] - ends[keys]
        firsts = np.repeat(ends[keys] - (np.cumsum(counts) - counts), counts)
        ones = rows[firsts + np.arange(counts.sum())]
        others = np.repeat(np.arange(len(block)), counts)
        close = self._distances(block, ones, others) <= HASH_DISTANCE
        near: RowIndices = np.stack([ones[close], others[close]])
        return near

    def _distances(self, block: Hashes, ones: RowIndices, others: RowIndices) -> RowIndices:
        distances: RowIndices = np.bitwise_count(self._hashes[ones] ^ block[others]).astype(np.int64)
        return distances


def _keys(hashes: Hashes, band: int) -> RowIndices:
    return ((hashes >> np.uint64(band * _WIDTH)) & np.uint64((1 << _WIDTH) - 1)).astype(np.int64)


def _file_rows(keys: RowIndices) -> tuple[RowIndices, RowIndices]:
    """Return the rows ordered by key, and per key where its rows start (and, one further, end)."""
    filed = (keys[:, None] ^ _FLIPS).ravel()
    order = np.argsort(filed, kind="stable")
    ends = np.zeros((1 << _WIDTH) + 1, dtype=np.int64)
    ends[1:] = np.cumsum(np.bincount(filed, minlength=1 << _WIDTH))
    return order // len(_FLIPS), ends


class ImageOverlap:
    """The images of a set; `find_pairs` compares them with tables of other images.

    Tables of images have item, sha256, pixels, views, thumbnail and details; any column may be missing, and an item may
    have several rows, such as a rendered image and its original. `count` counts the images with pixels."""

    def __init__(self, images: pd.DataFrame) -> None:
        self.count = int(images["pixels"].notna().sum())
        self._equal = [_EqualImages(images, column, name) for name, column in _EQUAL.items()]
        self._near = _NearImages(images)

    def find_pairs(self, others: Iterable[pd.DataFrame]) -> pd.DataFrame:
        """Return PAIR_COLUMNS, a row per pair, sorted. `distance`: bits."""
        found = [pairs for table in others for pairs in self._find(table)]
        pairs = pd.concat([_table([], [], "", np.zeros(0, dtype=np.int64)), *found], ignore_index=True)
        pairs["order"] = pairs["evidence"].map({name: order for order, name in enumerate(_EVIDENCE)})
        pairs = pairs.sort_values(["set_item", "other_item", "order", "distance"])
        return pairs.drop_duplicates(["set_item", "other_item"])[PAIR_COLUMNS].reset_index(drop=True)

    def _find(self, others: pd.DataFrame) -> list[pd.DataFrame]:
        found = [equal.find(others) for equal in self._equal]
        found.append(self._near.find(others))
        return [pairs for pairs in found if len(pairs)]


class _EqualImages:
    """Pairs by a digest."""

    def __init__(self, images: pd.DataFrame, column: str, evidence: str) -> None:
        self._images, self._column, self._evidence = images[["item", column]].dropna(), column, evidence
        self._digests = pa.array(self._images[column], pa.string())

    def find(self, others: pd.DataFrame) -> pd.DataFrame:
        known = pc.is_in(pa.array(others[self._column], pa.string()), self._digests).to_numpy(zero_copy_only=False)
        pairs = self._images.merge(others.loc[known, ["item", self._column]], on=self._column)
        return _table(pairs["item_x"], pairs["item_y"], self._evidence, np.zeros(len(pairs), dtype=np.int64))


class _NearImages:
    """Pairs that are the same by the rule that duplicates are found by (`same_images`), also mirrored."""

    def __init__(self, images: pd.DataFrame) -> None:
        self._images = images[images["views"].notna()].reset_index(drop=True)
        self._own = ComparableImages(self._images, HASH_DISTANCE, _TURNS)
        hashes, self._rows = self._own.list_hashes()
        self._index = NearHashIndex(hashes)

    def find(self, others: pd.DataFrame) -> pd.DataFrame:
        seen = others[others["views"].notna()].reset_index(drop=True)
        theirs = ComparableImages(seen, HASH_DISTANCE)
        hashes, places = theirs.list_hashes()
        near = [(self._rows[rows], places[found]) for rows, found, _ in self._index.find_near(hashes)]
        pairs = np.unique(np.concatenate([np.zeros((2, 0), np.int64), *near], axis=1), axis=1)
        same = accept(measure_pairs(self._own, pairs[0], theirs, pairs[1]))
        bits, turns = nearest_turns(self._own, pairs[0][same], theirs, pairs[1][same])
        items = self._images["item"].to_numpy()[pairs[0][same]], seen["item"].to_numpy()[pairs[1][same]]
        return _table(*items, "views", bits).assign(evidence=np.where(turns > 0, "mirrored views", "views"))


def _table(ones: object, others: object, evidence: str, distances: RowIndices) -> pd.DataFrame:
    names = {"set_item": pd.Series(ones, dtype="object"), "other_item": pd.Series(others, dtype="object")}
    return pd.DataFrame({name: column.to_numpy() for name, column in names.items()}).assign(
        evidence=evidence, distance=distances
    )


def find_bytes_alone(images: pd.DataFrame, hashed: pd.DataFrame, mode: str | None) -> pd.Series:
    """Return, for each image that is compared by its bytes alone, the reason: `not_read`, `little_structure`, or that
    `render.mode` cut or framed it. `images`: image_id, width and height of the original; `hashed`: item, pixels and
    views of the set's copies, and the digests of the originals; `mode`: of the rendering, None without one."""
    known = hashed.drop_duplicates("item").set_index("item")  # the copy of an image comes before its original
    found = images[images["image_id"].isin(known.index)]
    copies = known.loc[found["image_id"]]
    sides = found[["width", "height"]]
    reason = pd.Series(pd.NA, index=copies.index, dtype="string")
    if mode in ("crop", "fit"):
        reason[(sides.max(axis=1) > _SAME_SHAPE * sides.min(axis=1)).to_numpy()] = f"render_mode_{mode}"
    reason[~have_views(copies["views"])] = "little_structure"
    reason[copies["pixels"].isna()] = "not_read"
    return reason.dropna()


def describe_bytes_alone(counts: dict[str, Any]) -> str:
    """Return the counts of `find_bytes_alone` as text; "" where all are zero."""
    return ", ".join(f"{count:,} {_WORDS[name]}" for name, count in counts.items())


_WORDS = {
    "not_read": "whose file in the set could not be read",
    "little_structure": "with too little structure for a hash",
    "render_mode_crop": "that render.mode crop cut",
    "render_mode_fit": "that render.mode fit framed",
}


def split_tokens(text: str) -> list[str]:
    """Return the words and CJK characters of a text, without case, punctuation and compatibility forms."""
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
        """Yield (id, other item, `text`, `13-gram` or `contained`, 0) for texts that come as (item, text)."""
        for item, text in others:
            for name, evidence in self._find_evidence(text):
                self.counts[name, evidence] += 1
                if self.counts[name, evidence] <= MAX_PAIRS:
                    yield name, item, evidence, 0

    def _find_evidence(self, text: str) -> list[tuple[str, str]]:
        """Return (id, evidence) for each text of the set that a text has whole or in part."""
        tokens = tuple(split_tokens(text))
        equal = self._whole.get(tokens, [])
        parts = {name for part in _ngrams(tokens, NGRAM_LENGTH) for name in self._parts.get(part, ())}
        found = [(name, "text") for name in equal]
        found += [(name, "13-gram") for name in sorted(parts - set(equal))]
        return found + [(name, "contained") for name in sorted(self._find_contained(tokens))]

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
