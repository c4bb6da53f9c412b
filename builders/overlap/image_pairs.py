"""Pairs of the same image in two collections: same bytes, same pixels, or near hashes."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from builders.array_types import AnyArray, FloatArray, Hashes, RowIndices
from builders.gallery.hash_similarity import HashedImages
from builders.overlap.near_images import HASH_DISTANCE, NearHashIndex
from builders.overlap.near_vectors import NearVectors, read_vectors
from builders.overlap.pdq_hash import PDQ_DISTANCE

PAIR_COLUMNS = ["set_item", "other_item", "evidence", "distance"]
_MIRRORED = 4  # the transform, in the order of `perceptual_hash`
# Strongest first; a pair has the strongest that it shows.
_EVIDENCE = ["bytes", "pixels", "hash", "mirrored hash", "PDQ", "mirrored PDQ", "cropped hash", "vectors"]
_EQUAL = {"bytes": "sha256", "pixels": "pixels"}
_PDQ = {"PDQ": "pdq", "mirrored PDQ": "pdq_mirrored"}


class ImageOverlap:
    """The images of a set; `find_pairs` compares them with tables of other images.

    Tables of images have item, sha256, pixels, phash, mirrored and outline, of which any may be missing, and several
    rows of an item, as of a rendered image and its original; `count` is that of the images with pixels. `mirrored` is
    the hash of the image mirrored left-right, used of the set's images alone. They may have pdq, and pdq_mirrored
    likewise (32 bytes), and vector (float32 as bytes), which is compared with `vectors`. `crops`: item, phash and
    outline of the set's images with edges cut off, several of each."""

    def __init__(self, images: pd.DataFrame, crops: pd.DataFrame, vectors: NearVectors | None = None) -> None:
        self.count, self._vectors = int(images["pixels"].notna().sum()), vectors
        self._equal = [_EqualImages(images, column, name) for name, column in _EQUAL.items()]
        self._near = [
            _NearImages(images, "phash", "hash", 0),
            _NearImages(images, "mirrored", "mirrored hash", _MIRRORED),
            _NearImages(crops, "phash", "cropped hash", 0),
        ]
        self._pdq = [_NearPdq(images, column, name) for name, column in _PDQ.items() if column in images]

    def find_pairs(self, others: Iterable[pd.DataFrame]) -> pd.DataFrame:
        """Returns PAIR_COLUMNS, a row per pair, sorted. `distance`: bits, or of `vectors` the cosine."""
        found = [pairs for table in others for pairs in self._find(table)]
        pairs = pd.concat([_table([], [], "", np.zeros(0, dtype=np.int64)), *found], ignore_index=True)
        pairs["order"] = pairs["evidence"].map({name: order for order, name in enumerate(_EVIDENCE)})
        pairs = pairs.sort_values(["set_item", "other_item", "order", "distance"])
        return pairs.drop_duplicates(["set_item", "other_item"])[PAIR_COLUMNS].reset_index(drop=True)

    def _find(self, others: pd.DataFrame) -> list[pd.DataFrame]:
        found = [equal.find(others) for equal in self._equal]
        hashed = others[others["phash"].notna()]
        found += [near.find(hashed) for near in self._near]
        if self._pdq and "pdq" in others:
            hashed = others[others["pdq"].notna()]
            found += [near.find(hashed) for near in self._pdq]
        if self._vectors is not None and "vector" in others:
            encoded = others[others["vector"].notna()]
            rows, places, cosines = self._vectors.find(read_vectors(encoded["vector"]))
            items = np.array(self._vectors.items, dtype=object)[rows], encoded["item"].to_numpy()[places]
            found.append(_table(*items, "vectors", cosines))
        return [pairs for pairs in found if len(pairs)]


def format_distance(distance: float) -> str:
    """Returns the bits, or a cosine with four digits, as people read it."""
    return f"{distance:.4g}"


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
    """Pairs by 64-bit hashes and outlines. `transform`: of the set's images, in the order of `perceptual_hash`."""

    def __init__(self, images: pd.DataFrame, column: str, evidence: str, transform: int) -> None:
        hashed = images[images[column].notna()]
        self._items, self._outlines = hashed["item"].to_numpy(), hashed["outline"].to_numpy()
        self._evidence, self._transform = evidence, transform
        self._index = NearHashIndex(hashed[column].to_numpy(np.uint64)[:, None])

    def find(self, others: pd.DataFrame) -> pd.DataFrame:
        rows, places, distances = _find_near(self._index, others["phash"].to_numpy(np.uint64)[:, None])
        agrees = _agree(self._outlines[rows], others["outline"].to_numpy()[places], self._transform)
        items = self._items[rows[agrees]], others["item"].to_numpy()[places[agrees]]
        return _table(*items, self._evidence, distances[agrees])


class _NearPdq:
    """Pairs by PDQ hashes."""

    def __init__(self, images: pd.DataFrame, column: str, evidence: str) -> None:
        hashed = images[images[column].notna()]
        self._items, self._evidence = hashed["item"].to_numpy(), evidence
        self._index = NearHashIndex(_read_pdq(hashed[column]), PDQ_DISTANCE)

    def find(self, others: pd.DataFrame) -> pd.DataFrame:
        rows, places, distances = _find_near(self._index, _read_pdq(others["pdq"]))
        return _table(self._items[rows], others["item"].to_numpy()[places], self._evidence, distances)


def _find_near(index: NearHashIndex, others: Hashes) -> tuple[RowIndices, RowIndices, RowIndices]:
    """Returns rows of the index, rows of `others`, and distances in bits."""
    none = np.zeros(0, dtype=np.int64)
    rows, places, distances = zip((none, none, none), *index.find_near(others), strict=True)
    return np.concatenate(rows), np.concatenate(places), np.concatenate(distances)


def _read_pdq(hashes: pd.Series) -> Hashes:
    return np.frombuffer(b"".join(hashes), dtype=">u8").reshape(-1, 4).astype(np.uint64)


def _agree(ones: AnyArray, others: AnyArray, transform: int) -> RowIndices:
    """Returns the places of the pairs whose outlines agree after a transform; a pair without an outline does."""
    both = pd.notna(ones) & pd.notna(others)
    outlines = np.frombuffer(b"".join([*ones[both], *others[both]]), dtype=np.int8).reshape(-1, 64)
    hashed = HashedImages(np.zeros((len(outlines), 1), dtype=np.uint64), outlines, (transform,), HASH_DISTANCE)
    count = int(both.sum())
    agrees = ~both
    agrees[both] = hashed.has_matching_outlines(np.arange(count), np.arange(count, 2 * count))
    return np.flatnonzero(agrees)


def _table(ones: object, others: object, evidence: str, distances: RowIndices | FloatArray) -> pd.DataFrame:
    names = {"set_item": pd.Series(ones, dtype="object"), "other_item": pd.Series(others, dtype="object")}
    return pd.DataFrame({name: column.to_numpy() for name, column in names.items()}).assign(
        evidence=evidence, distance=distances
    )
