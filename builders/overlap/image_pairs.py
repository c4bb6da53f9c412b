"""Pairs of the same image in two collections: same bytes, same pixels, or near hashes with outlines that agree."""

import numpy as np
import pandas as pd

from builders.array_types import RowIndices
from builders.gallery.hash_similarity import HashedImages
from builders.overlap.near_images import HASH_DISTANCE, NearHashIndex

PAIR_COLUMNS = ["set_item", "other_item", "evidence", "distance"]
_EVIDENCE = [
    "bytes",
    "pixels",
    "hash",
    "mirrored hash",
    "cropped hash",
]  # strongest first; a pair has the strongest that it shows
_MIRRORED = 4  # the transform, in the order of `perceptual_hash`


def find_image_pairs(ours: pd.DataFrame, others: pd.DataFrame, crops: pd.DataFrame) -> pd.DataFrame:
    """Returns PAIR_COLUMNS, a row per pair, sorted. Both tables have item, sha256, pixels, phash, mirrored and outline,
    of which any may be missing; `mirrored` is the hash of the image mirrored left-right, used of `ours` alone. `crops`:
    item, phash and outline of our images with edges cut off, several of each."""
    found = [_equal(ours, others, column, name) for column, name in (("sha256", "bytes"), ("pixels", "pixels"))]
    found += [_near(ours, others, column, name) for column, name in (("phash", "hash"), ("mirrored", "mirrored hash"))]
    found.append(_near(crops, others, "phash", "cropped hash"))
    pairs = pd.concat(found, ignore_index=True)
    pairs["order"] = pairs["evidence"].map(_EVIDENCE.index)
    pairs = pairs.sort_values(["set_item", "other_item", "order", "distance"]).drop_duplicates(
        ["set_item", "other_item"]
    )
    return pairs[PAIR_COLUMNS].reset_index(drop=True)


def _equal(ours: pd.DataFrame, others: pd.DataFrame, column: str, evidence: str) -> pd.DataFrame:
    one, other = (table[["item", column]].dropna() for table in (ours, others))
    pairs = one.merge(other, on=column, suffixes=("_set", "_other"))
    return _table(pairs["item_set"], pairs["item_other"], evidence, np.zeros(len(pairs), dtype=np.int64))


def _near(ours: pd.DataFrame, others: pd.DataFrame, column: str, evidence: str) -> pd.DataFrame:
    one, other = ours[ours[column].notna()], others[others["phash"].notna()]
    index = NearHashIndex(one[column].to_numpy(np.uint64))
    found = list(index.find_near(other["phash"].to_numpy(np.uint64)))
    if not found:
        return _table([], [], evidence, np.zeros(0, dtype=np.int64))
    rows, places, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    agrees = _agree(one["outline"].iloc[rows], other["outline"].iloc[places], 0 if column == "phash" else _MIRRORED)
    items = one["item"].to_numpy()[rows[agrees]], other["item"].to_numpy()[places[agrees]]
    return _table(*items, evidence, distances[agrees])


def _agree(ones: pd.Series, others: pd.Series, transform: int) -> RowIndices:
    """Returns the places of the pairs whose outlines agree after a transform; a pair without an outline does."""
    both = (ones.notna().to_numpy()) & (others.notna().to_numpy())
    outlines = np.frombuffer(b"".join([*ones[both], *others[both]]), dtype=np.int8).reshape(-1, 64)
    hashed = HashedImages(np.zeros((len(outlines), 1), dtype=np.uint64), outlines, (transform,), HASH_DISTANCE)
    count = int(both.sum())
    agrees = ~both
    agrees[both] = hashed.has_matching_outlines(np.arange(count), np.arange(count, 2 * count))
    return np.flatnonzero(agrees)


def _table(ones: object, others: object, evidence: str, distances: RowIndices) -> pd.DataFrame:
    names = {"set_item": pd.Series(ones, dtype="object"), "other_item": pd.Series(others, dtype="object")}
    return pd.DataFrame({name: column.to_numpy() for name, column in names.items()}).assign(
        evidence=evidence, distance=distances
    )
