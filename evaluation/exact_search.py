"""The nearest pictures of every query by the product of their vectors, exactly.

FAISS proposes in single precision; what it proposes is computed again in double precision and rounded, so that neither
the size of a batch, the number of threads nor the order of the gallery decides between two pictures. Ties go to the
highest id, as in ranking.py. Where FAISS may have left out a picture that ties at the cut, the query is compared with
the whole gallery in blocks. Nothing is copied: a million vectors of 512 dimensions take the 2 GB that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from builders.array_types import RowIndices, Vectors
from builders.errors import UserError
from builders.nearest_neighbours import use_faiss_threads
from evaluation.identifiers import argsort_ids_descending, to_id_array

DECIMALS = 6
_QUERIES = 4096  # at a time
_FEW = 64  # queries of which the proposals are computed again at a time
_WHOLE = 256  # queries compared with the whole gallery at a time
_BLOCK = 8192  # pictures of it at a time
_STAGE = "search"


@dataclass(frozen=True, slots=True)
class NearestImages:
    """Per query its k nearest pictures, best first: places in the gallery (-1: no more were found) and scores, to six
    decimals."""

    places: RowIndices
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VectorGallery:
    """Vectors, their ids, and the order of these. `id_ranks`: per picture how many ids are higher; `by_id_rank` the
    inverse; `max_norm`: the length of the longest vector, or a little more."""

    image_ids: pa.Array
    vectors: Vectors
    id_ranks: RowIndices
    by_id_rank: RowIndices
    max_norm: float


def build_vector_gallery(vectors: Vectors, image_ids: Sequence[str]) -> VectorGallery:
    """Vectors (n, d), one per id, made ready to be searched; one that is no finite number is refused by its id."""
    if len(vectors) != len(image_ids):
        raise ValueError(f"{len(vectors)} vectors for {len(image_ids)} ids")
    if not len(vectors):
        raise UserError(_STAGE, "gallery", "holds no vectors", "give pictures to search among")
    lengths = _norms(vectors)
    if (bad := ~np.isfinite(lengths)).any():
        raise UserError(
            _STAGE, image_ids[int(np.flatnonzero(bad)[0])], "has a vector that is not finite", "encode it again"
        )
    by_height = argsort_ids_descending(image_ids, _STAGE)
    heights = np.empty(len(by_height), dtype=np.int64)
    heights[by_height] = np.arange(len(by_height))
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    return VectorGallery(to_id_array(image_ids), vectors, heights, by_height, float(lengths.max(initial=0)))


def search_exact(
    queries: Vectors,
    gallery: VectorGallery,
    k: int,
    *,
    threads: int,
    advance: Callable[[int], None] = lambda _queries: None,
) -> NearestImages:
    """The k nearest pictures of each query (n, d), all of them where the gallery has no more. `advance` is told how
    many queries are done."""
    queries = check_query_vectors(queries, gallery)
    k = min(k, len(gallery.vectors))
    keys = np.empty((len(queries), k), dtype=np.int64)
    with use_faiss_threads(threads):
        for start in range(0, len(queries), _QUERIES):
            some = queries[start : start + _QUERIES]
            keys[start : start + _QUERIES] = _nearest_keys(some, gallery, k)
            advance(len(some))
    return decode_keys(keys, gallery)


def check_query_vectors(queries: Vectors, gallery: VectorGallery) -> Vectors:
    """The queries as FAISS wants them; one that is no finite number, or of another model, is refused."""
    if queries.shape[1] != gallery.vectors.shape[1]:
        reason = f"have {queries.shape[1]} dimensions, those of the pictures {gallery.vectors.shape[1]}"
        raise UserError(_STAGE, "vectors of the queries", reason, "encode both with one model")
    if (bad := ~np.isfinite(_norms(queries))).any():
        row = int(np.flatnonzero(bad)[0])
        raise UserError(_STAGE, f"query in row {row + 1}", "has a vector that is not finite", "encode it again")
    return np.ascontiguousarray(queries, dtype=np.float32)


def count_extra_candidates(k: int) -> int:
    """How many more pictures are proposed than wanted."""
    return max(12, k // 8)


def _nearest_keys(queries: Vectors, gallery: VectorGallery, k: int) -> RowIndices:
    import faiss

    wanted = min(k + count_extra_candidates(k), len(gallery.vectors))
    scores, places = faiss.knn(queries, gallery.vectors, wanted, metric=faiss.METRIC_INNER_PRODUCT)
    keys = np.sort(rescore_candidates(queries, gallery, places), axis=1)[:, :k]
    if wanted == len(gallery.vectors):
        return keys
    # A sum of d products in single precision is off by less than this (Higham 2002, 3.1), and half a unit is rounding.
    off = queries.shape[1] * 2.0**-24 * _norms(queries) * gallery.max_norm + 10.0**-DECIMALS
    worst = -(keys[:, -1] // len(gallery.vectors)) * 10.0**-DECIMALS
    unsure = np.flatnonzero(scores[:, -1] + off >= worst)
    for start in range(0, len(unsure), _WHOLE):
        some = unsure[start : start + _WHOLE]
        keys[some] = _search_whole_gallery(queries[some], gallery, k)
    return keys


def rescore_candidates(queries: Vectors, gallery: VectorGallery, places: RowIndices) -> RowIndices:
    """Per proposed picture a number that orders by score, highest first, and then by id; no two are the same. Of places
    below 0 it is the highest of all."""
    keys = np.empty(places.shape, dtype=np.int64)
    for start in range(0, len(queries), _FEW):
        rows = slice(start, start + _FEW)
        candidates = places[rows]
        products = gallery.vectors[candidates].astype(np.float64) @ queries[rows].astype(np.float64)[:, :, None]
        keys[rows] = np.where(
            candidates < 0, np.iinfo(np.int64).max, _keys(products[:, :, 0], gallery.id_ranks[candidates], gallery)
        )
    return keys


def _search_whole_gallery(queries: Vectors, gallery: VectorGallery, k: int) -> RowIndices:
    """The same numbers of the k nearest among all pictures, in order."""
    transposed = queries.astype(np.float64).T
    best = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(gallery.vectors), _BLOCK):
        products = (gallery.vectors[start : start + _BLOCK].astype(np.float64) @ transposed).T
        both = np.hstack([best, _keys(products, gallery.id_ranks[start : start + _BLOCK], gallery)])
        best = np.partition(both, k - 1, axis=1)[:, :k] if both.shape[1] > k else both
    return np.sort(best, axis=1)


def _keys(products: NDArray[np.float64], heights: RowIndices, gallery: VectorGallery) -> RowIndices:
    rounded = np.rint(products * 10.0**DECIMALS)
    if np.abs(rounded).max(initial=0) * len(gallery.vectors) >= 2.0**62:
        raise UserError(_STAGE, "vectors", "are too long to be compared", "give vectors of length one")
    keys: RowIndices = heights - rounded.astype(np.int64) * len(gallery.vectors)
    return keys


def decode_keys(keys: RowIndices, gallery: VectorGallery) -> NearestImages:
    """The pictures and scores of such numbers."""
    count = len(gallery.vectors)
    none = keys == np.iinfo(np.int64).max
    places = np.where(none, -1, gallery.by_id_rank[np.where(none, 0, keys % count)])
    return NearestImages(places, np.where(none, 0.0, -(keys // count) / 10.0**DECIMALS))


def _norms(vectors: Vectors) -> NDArray[np.float64]:
    """A little too long, if anything; not finite where a coordinate is not."""
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", vectors, vectors), dtype=np.float64) * 1.001
    return lengths
