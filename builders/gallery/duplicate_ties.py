"""Ties between images that count as the same: bytes, upright pixels, similarity, or a pair that a model found."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from builders.array_types import BoolArray, Hashes, RowIndices
from builders.gallery.components import Components, equal_code_pairs
from builders.gallery.duplicate_overrides import UNTIED_DISTANCE
from builders.gallery.hash_similarity import (
    ALL_TRANSFORMS,
    FLIP_TRANSFORMS,
    ROTATION_TRANSFORMS,
    HashedImages,
    similar_image_components,
)

# The strongest first; None: the image is a representative.
TIE_KINDS = np.array([None, "bytes", "pixels", "hash", "embedding", "person"], dtype=object)
TIE_BY_HASH, _TIE_BY_EMBEDDING, TIE_BY_PERSON = 3, 4, 5
_BITS = 64  # of a hash: the largest distance


@dataclass(frozen=True, slots=True)
class DuplicateTies:
    """Per row (n,) codes of its bytes, its pixels and its component of similar images (-1 where unknown); the hashed
    images, and each row's position among them (-1 for none); pairs of rows (p, 2) that a model found."""

    bytes: RowIndices
    pixels: RowIndices
    similar: RowIndices
    hashed: HashedImages
    hash_row: RowIndices
    pairs: RowIndices

    def groups(self) -> RowIndices:
        """Returns per row the first row of its connected component."""
        sets = Components(len(self.bytes))
        for codes in (self.bytes, self.pixels, self.similar):
            sets.join(*equal_code_pairs(codes))
        sets.join(self.pairs[:, 0], self.pairs[:, 1])
        return sets.names()

    def strongest_tie_kinds(self, rows: RowIndices, representatives: RowIndices) -> tuple[RowIndices, BoolArray]:
        """Returns the strongest tie (an index of TIE_KINDS) of each row to its representative, or to another row where
        these two have none; and whether they have none. `rows` are members of groups; a representative has 0."""
        paired = np.isin(self._keys(rows, representatives), self._keys(self.pairs[:, 0], self.pairs[:, 1]))
        codes = (self.bytes, self.pixels, self.similar)
        same = [_same(some, rows, representatives) for some in (self.bytes, self.pixels)]
        direct = [*same, self._is_similar(rows, representatives)]
        stand_in = rows != representatives
        through = stand_in & ~np.logical_or.reduce([*direct, paired])
        to_others = [_shared(some)[rows] for some in codes]
        way = np.where(through, _first_of(to_others), _first_of([*direct, paired]))
        return np.where(stand_in, way, 0), through

    def hamming_distances(self, rows: RowIndices, others: RowIndices) -> RowIndices:
        """Returns the Hamming distance of each pair (n,) in bits, -1 where a row has no hash."""
        ones, others = self.hash_row[rows], self.hash_row[others]
        known = (ones >= 0) & (others >= 0)
        bits = np.full(len(rows), -1, dtype=np.int64)
        bits[known] = self.hashed.hamming_distances(ones[known], others[known])
        return bits

    def tie_distances(self, rows: RowIndices, others: RowIndices) -> RowIndices:
        """Returns the distance of each pair (n,): 0 for the same bytes, 1 for the same pixels, then by bits;
        UNTIED_DISTANCE or more without a tie."""
        bits = self.hamming_distances(rows, others)
        far = np.where(bits >= 0, bits, _BITS) + 2
        paired = np.isin(self._keys(rows, others), self._keys(self.pairs[:, 0], self.pairs[:, 1]))
        far = np.where(self._is_similar(rows, others) | paired, far, far + UNTIED_DISTANCE)
        same_pixels = _same(self.pixels, rows, others)
        return np.where(_same(self.bytes, rows, others) | (rows == others), 0, np.where(same_pixels, 1, far))

    def _is_similar(self, rows: RowIndices, others: RowIndices) -> BoolArray:
        bits = self.hamming_distances(rows, others)
        alike = (bits >= 0) & (bits <= self.hashed.distance)
        alike[alike] = self.hashed.has_matching_outlines(self.hash_row[rows[alike]], self.hash_row[others[alike]])
        return alike

    def _keys(self, ones: RowIndices, others: RowIndices) -> RowIndices:
        return np.minimum(ones, others) * len(self.bytes) + np.maximum(ones, others)


def _first_of(ways: list[BoolArray]) -> RowIndices:
    """Returns per row the index in TIE_KINDS of the first tie that holds, embedding where none does."""
    return np.select(ways, range(1, len(ways) + 1), default=_TIE_BY_EMBEDDING)


def _same(codes: RowIndices, ones: RowIndices, others: RowIndices) -> BoolArray:
    same: BoolArray = (codes[ones] == codes[others]) & (codes[ones] >= 0)
    return same


def _shared(codes: RowIndices) -> BoolArray:
    """Returns per row whether another row has its code."""
    shared: BoolArray = (np.bincount(codes + 1)[codes + 1] > 1) & (codes >= 0)
    return shared


def read_ties(
    frame: pd.DataFrame, distance: int | None, flips: bool, rotations: bool, pairs: RowIndices | None
) -> DuplicateTies:
    """Returns the ties of the frame's rows. Raises ValueError where hashes were read as floats."""
    known = frame["phash"].notna().to_numpy() if distance is not None else np.zeros(len(frame), dtype=bool)
    turns = {
        (False, False): (0,),
        (True, False): FLIP_TRANSFORMS,
        (False, True): ROTATION_TRANSFORMS,
        (True, True): ALL_TRANSFORMS,
    }[flips, rotations]
    hashes, outlines = np.zeros((0, len(turns)), dtype=np.uint64), np.zeros((0, 64), dtype=np.int8)
    if known.any():
        hashes = _hashes(frame["phash"])[known][:, None]
        if len(turns) > 1:
            turned = np.array(frame["turned"][known].tolist(), dtype=np.uint64)
            hashes = np.concatenate([hashes, turned], axis=1)[:, turns]
        outlines = np.frombuffer(b"".join(frame["outline"][known]), dtype=np.int8).reshape(-1, 64)
    hashed = HashedImages(hashes, outlines, turns, distance or 0)
    similar = np.full(len(frame), -1, dtype=np.int64)
    similar[known] = similar_image_components(hashed)
    return DuplicateTies(
        pd.factorize(frame["sha256"])[0],
        pd.factorize(frame["pixels"])[0],
        similar,
        hashed,
        np.where(known, np.cumsum(known) - 1, -1),
        np.zeros((0, 2), dtype=np.int64) if pairs is None else pairs,
    )


def _hashes(column: pd.Series) -> Hashes:
    """Returns the hashes. A column with nulls becomes floats by default, which lose the lowest bits."""
    if column.dtype.kind == "f":
        raise ValueError("phash came as floats, which hold 53 of its 64 bits: read it as UInt64")
    hashes: Hashes = column.to_numpy(dtype=np.uint64, na_value=0)
    return hashes
