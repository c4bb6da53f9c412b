"""What ties two pictures to each other as the same: bytes, upright pixels, looks, or a pair that a model found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from builders.gallery.components import Components, Flags, Rows, same_values
from builders.gallery.picture_looks import ALL, FLIPS, ROTATIONS, Looks, join_alike

WAYS = np.array([None, "bytes", "pixels", "hash", "embedding"], dtype=object)  # from the strongest to the weakest
_BYTES, _PIXELS, _HASH, _EMBEDDING = range(1, 5)
_TILE = 1 << 20  # comparisons at a time


@dataclass(frozen=True, slots=True)
class Ties:
    """Codes of bytes and pixels per row (-1 where unknown); looks of some rows, and each row's place among these
    (-1 for none); pairs of rows (n, 2)."""

    bytes: Rows
    pixels: Rows
    looks: Looks
    place: Rows
    pairs: Rows

    def groups(self) -> Rows:
        """Per row the first row of its connected component."""
        sets = Components(len(self.bytes))
        sets.join(*same_values(self.bytes))
        sets.join(*same_values(self.pixels))
        looked_at = np.flatnonzero(self.place >= 0)
        sets.join(looked_at, looked_at[join_alike(self.looks)])
        sets.join(self.pairs[:, 0], self.pairs[:, 1])
        return sets.names()

    def strongest(self, rows: Rows, stands: Rows) -> tuple[Rows, Rows, Flags]:
        """In what way (a place in WAYS) each row is tied to the row that stands for it or, where only others lie
        between, to the nearest of these; by how many bits where by looks (else -1); and whether others lie between.
        `rows` are all members of groups; the way of one that stands for itself is 0."""
        way, bits = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), -1, dtype=np.int64)
        looks = self._bits(rows, stands)
        paired = np.isin(self._keys(rows, stands), self._keys(self.pairs[:, 0], self.pairs[:, 1]))
        loose = rows != stands
        tied = [_same(self.bytes, rows, stands), _same(self.pixels, rows, stands), looks >= 0, paired]
        for number, these in enumerate(tied, 1):
            way[loose & these] = number
            loose &= ~these
        bits[way == _HASH] = looks[way == _HASH]
        way[loose], bits[loose] = self._nearest(rows, stands, loose)
        return way, bits, loose

    def farthest(self, rows: Rows, others: Rows) -> Rows:
        """How many bits each row is apart from the other one, -1 where one of them has no hash."""
        ones, others = self.place[rows], self.place[others]
        known = (ones >= 0) & (others >= 0)
        bits = np.full(len(rows), -1, dtype=np.int64)
        bits[known] = self.looks.apart(ones[known], others[known])
        return bits

    def _bits(self, rows: Rows, others: Rows) -> Rows:
        """As `farthest`, and -1 for those that don't look alike."""
        bits = self.farthest(rows, others)
        bits[bits > self.looks.distance] = -1
        near = np.flatnonzero(bits >= 0)
        bits[near[~self.looks.agree(self.place[rows[near]], self.place[others[near]])]] = -1
        return bits

    def _keys(self, ones: Rows, others: Rows) -> Rows:
        return np.minimum(ones, others) * len(self.bytes) + np.maximum(ones, others)

    def _nearest(self, rows: Rows, stands: Rows, loose: Flags) -> tuple[Rows, Rows]:
        """Way and bits of the loose ones of these rows."""
        way = np.full(int(loose.sum()), _EMBEDDING, dtype=np.int64)
        bits = np.full(len(way), -1, dtype=np.int64)
        bits[:] = self._nearest_looks(rows, stands, loose)
        way[bits >= 0] = _HASH
        for codes, number in ((self.pixels, _PIXELS), (self.bytes, _BYTES)):
            shared = np.bincount(codes + 1)[codes[rows[loose]] + 1] > 1
            way[shared & (codes[rows[loose]] >= 0)] = number
        bits[way != _HASH] = -1
        return way, bits

    def _nearest_looks(self, rows: Rows, stands: Rows, loose: Flags) -> Rows:
        """Bits between each loose row and the nearest of its group that looks like it, -1 for none."""
        bits = np.full(len(rows), -1, dtype=np.int64)
        order = np.argsort(stands, kind="stable")
        starts = np.flatnonzero(np.diff(stands[order], prepend=-1))
        has_loose = np.add.reduceat(loose[order], starts, dtype=np.int64) > 0 if len(order) else starts
        for start, stop in zip(starts[has_loose], np.append(starts, len(order))[1:][has_loose], strict=True):
            members = order[start:stop]
            members = members[self.place[rows[members]] >= 0]
            far, others = members[loose[members]], self.place[rows[members]]
            for some in np.array_split(far, -(-len(far) * len(others) // _TILE) or 1):
                bits[some] = self.looks.nearest(self.place[rows[some]], others)
        return bits[loose]


def _same(codes: Rows, ones: Rows, others: Rows) -> Flags:
    same: Flags = (codes[ones] == codes[others]) & (codes[ones] >= 0)
    return same


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
        # As one buffer: a million outlines as Python's bytes would take twice the room.
        column = pa.concat_arrays(pa.chunked_array(pa.array(frame["outline"][known], pa.binary(64))).chunks)
        outlines = np.frombuffer(column.buffers()[1], dtype=np.int8)[column.offset * 64 :].reshape(-1, 64)[
            : len(column)
        ]
    return Ties(
        pd.factorize(frame["sha256"])[0],
        pd.factorize(frame["pixels"])[0],
        Looks(hashes, outlines, turns, distance or 0),
        np.where(known, np.cumsum(known) - 1, -1),
        np.zeros((0, 2), dtype=np.int64) if pairs is None else pairs,
    )


def _hashes(column: pd.Series) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Whole hashes. A plain frame keeps a column with gaps as floats, which lose a hash's lowest bits."""
    if column.dtype.kind == "f":
        raise ValueError("phash came as floats, which hold 53 of its 64 bits: read it as UInt64")
    hashes: np.ndarray[Any, np.dtype[np.uint64]] = column.to_numpy(dtype=np.uint64, na_value=0)
    return hashes
