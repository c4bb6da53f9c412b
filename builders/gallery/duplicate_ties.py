"""What ties two pictures to each other as the same: bytes, upright pixels, looks, or a pair that a model found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from builders.gallery.components import Components, Flags, Rows, same_values
from builders.gallery.picture_looks import ALL, FLIPS, ROTATIONS, Looks, join_alike
from builders.gallery.told_groups import UNTIED

WAYS = np.array([None, "bytes", "pixels", "hash", "embedding", "person"], dtype=object)  # ties: the strongest first
HASH, _EMBEDDING, PERSON = 3, 4, 5
_BITS = 64  # of a hash: farther apart than by all of them is nobody


@dataclass(frozen=True, slots=True)
class Ties:
    """Per row codes of the bytes, of the pixels, and of the component that it looks like (-1 where unknown); looks of
    some rows, and each row's place among these (-1 for none); pairs of rows (n, 2)."""

    bytes: Rows
    pixels: Rows
    alike: Rows
    looks: Looks
    place: Rows
    pairs: Rows

    def groups(self) -> Rows:
        """Per row the first row of its connected component."""
        sets = Components(len(self.bytes))
        for codes in (self.bytes, self.pixels, self.alike):
            sets.join(*same_values(codes))
        sets.join(self.pairs[:, 0], self.pairs[:, 1])
        return sets.names()

    def strongest(self, rows: Rows, stands: Rows) -> tuple[Rows, Flags]:
        """In what way (a place in WAYS) each row is tied to the row that stands for it or, where only others lie
        between, to one of these; and whether others lie between. `rows` are members of groups; the way of one that
        stands for itself is 0."""
        paired = np.isin(self._keys(rows, stands), self._keys(self.pairs[:, 0], self.pairs[:, 1]))
        codes = (self.bytes, self.pixels, self.alike)
        direct = [_same(self.bytes, rows, stands), _same(self.pixels, rows, stands), self._look_alike(rows, stands)]
        stand_in = rows != stands
        through = stand_in & ~np.logical_or.reduce([*direct, paired])
        to_others = [_shared(some)[rows] for some in codes]
        way = np.where(through, _first_of(to_others), _first_of([*direct, paired]))
        return np.where(stand_in, way, 0), through

    def bits(self, rows: Rows, others: Rows) -> Rows:
        """How many bits each row is apart from the other one, -1 where one of them has no hash."""
        ones, others = self.place[rows], self.place[others]
        known = (ones >= 0) & (others >= 0)
        bits = np.full(len(rows), -1, dtype=np.int64)
        bits[known] = self.looks.apart(ones[known], others[known])
        return bits

    def apart(self, rows: Rows, others: Rows) -> Rows:
        """How far each row is from the other one: 0 for the same bytes, 1 for the same pixels, then by bits; from
        UNTIED on where nothing ties the two to each other."""
        bits = self.bits(rows, others)
        far = np.where(bits >= 0, bits, _BITS) + 2
        paired = np.isin(self._keys(rows, others), self._keys(self.pairs[:, 0], self.pairs[:, 1]))
        far = np.where(self._look_alike(rows, others) | paired, far, far + UNTIED)
        same_pixels = _same(self.pixels, rows, others)
        return np.where(_same(self.bytes, rows, others) | (rows == others), 0, np.where(same_pixels, 1, far))

    def _look_alike(self, rows: Rows, others: Rows) -> Flags:
        bits = self.bits(rows, others)
        alike = (bits >= 0) & (bits <= self.looks.distance)
        alike[alike] = self.looks.agree(self.place[rows[alike]], self.place[others[alike]])
        return alike

    def _keys(self, ones: Rows, others: Rows) -> Rows:
        return np.minimum(ones, others) * len(self.bytes) + np.maximum(ones, others)


def _first_of(ways: list[Flags]) -> Rows:
    """Per row the place in WAYS of the first of these that holds; embedding where none does."""
    return np.select(ways, range(1, len(ways) + 1), default=_EMBEDDING)


def _same(codes: Rows, ones: Rows, others: Rows) -> Flags:
    same: Flags = (codes[ones] == codes[others]) & (codes[ones] >= 0)
    return same


def _shared(codes: Rows) -> Flags:
    """Which rows have the code of another row."""
    shared: Flags = (np.bincount(codes + 1)[codes + 1] > 1) & (codes >= 0)
    return shared


def read_ties(frame: pd.DataFrame, distance: int | None, flips: bool, rotations: bool, pairs: Rows | None) -> Ties:
    """The frame's columns as ties; the order of the rows is the frame's."""
    known = frame["phash"].notna().to_numpy() if distance is not None else np.zeros(len(frame), dtype=bool)
    turns = {(False, False): (0,), (True, False): FLIPS, (False, True): ROTATIONS, (True, True): ALL}[flips, rotations]
    hashes, outlines = np.zeros((0, len(turns)), dtype=np.uint64), np.zeros((0, 64), dtype=np.int8)
    if known.any():
        hashes = _hashes(frame["phash"])[known][:, None]
        if len(turns) > 1:
            turned = np.array(frame["turned"][known].tolist(), dtype=np.uint64)
            hashes = np.concatenate([hashes, turned], axis=1)[:, turns]
        outlines = np.frombuffer(b"".join(frame["outline"][known]), dtype=np.int8).reshape(-1, 64)
    looks = Looks(hashes, outlines, turns, distance or 0)
    alike = np.full(len(frame), -1, dtype=np.int64)
    alike[known] = join_alike(looks)
    return Ties(
        pd.factorize(frame["sha256"])[0],
        pd.factorize(frame["pixels"])[0],
        alike,
        looks,
        np.where(known, np.cumsum(known) - 1, -1),
        np.zeros((0, 2), dtype=np.int64) if pairs is None else pairs,
    )


def _hashes(column: pd.Series) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Whole hashes. A plain frame keeps a column with gaps as floats, which lose a hash's lowest bits."""
    if column.dtype.kind == "f":
        raise ValueError("phash came as floats, which hold 53 of its 64 bits: read it as UInt64")
    hashes: np.ndarray[Any, np.dtype[np.uint64]] = column.to_numpy(dtype=np.uint64, na_value=0)
    return hashes
