"""Runs by a search of vectors: the nearest images by the inner product, exact or by an index, or by a matrix.

FAISS proposes candidates in single precision; their scores are computed again in double precision and rounded, so that
the order does not depend on batch size, threads or the order of the gallery. Ties go to the highest id, as in
ranking.py. Where FAISS may have omitted an image that ties at the cut, the query is compared with the whole gallery in
blocks. Nothing is copied: a million vectors of 512 dimensions take 2 GB. What an index loses against the exact search
is measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from querytruth.array_types import RowIndices, Vectors
from querytruth.backends.models.nearest_neighbours import build_cell_index, choose_cell_centres, use_faiss_threads
from querytruth.errors import UserError, suggest_choice
from querytruth.evaluation.ground_truth import argsort_ids_descending, build_run, to_id_array
from querytruth.records import stable_hash

DECIMALS = 6
_QUERIES = 4096  # at a time
_FEW = 64  # queries whose candidates are scored again at a time
_WHOLE = 256  # queries compared with the whole gallery at a time
_BLOCK = 8192  # images of it at a time
_STAGE = "search"
_READ_STAGE = "read similarities"
_AT_ONCE = 1 << 24  # numbers of the matrix
INDEXES = ("exact", "ivf", "hnsw")
_HNSW_LINKS = 32
_SAMPLE = 1000  # queries on which the loss is measured
_ADDED = 1 << 16  # images of an index at a time


@dataclass(frozen=True, slots=True)
class NearestImages:
    """The k nearest images per query, best first: `places` in the gallery (queries, k), -1 where no more were found,
    and `scores` (queries, k), to six decimals."""

    places: RowIndices
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VectorGallery:
    """Vectors (n, d), their ids, and the order of the ids. `id_ranks` (n,): how many ids are higher; `by_id_rank` (n,)
    is its inverse; `max_norm`: an upper bound of the vectors' lengths."""

    image_ids: pa.Array
    vectors: Vectors
    id_ranks: RowIndices
    by_id_rank: RowIndices
    max_norm: float


def build_vector_gallery(vectors: Vectors, image_ids: Sequence[str]) -> VectorGallery:
    """Prepare vectors (n, d) with one id each for search. Raises UserError where there are none, or one is not
    finite; ValueError where the numbers of vectors and ids differ."""
    if len(vectors) != len(image_ids):
        raise ValueError(f"{len(vectors)} vectors for {len(image_ids)} ids")
    if not len(vectors):
        raise UserError(_STAGE, "gallery", "contains no vectors", "give images to search among")
    lengths = _norms(vectors)
    if (bad := ~np.isfinite(lengths)).any():
        name = image_ids[int(np.flatnonzero(bad)[0])]
        raise UserError(_STAGE, name, "has a vector that is not finite", "encode it again")
    by_id_rank = argsort_ids_descending(image_ids, _STAGE)
    id_ranks = np.empty(len(by_id_rank), dtype=np.int64)
    id_ranks[by_id_rank] = np.arange(len(by_id_rank))
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    return VectorGallery(to_id_array(image_ids), vectors, id_ranks, by_id_rank, float(lengths.max(initial=0)))


def search_exact(
    queries: Vectors,
    gallery: VectorGallery,
    k: int,
    *,
    threads: int,
    advance: Callable[[int], None] = lambda _queries: None,
) -> NearestImages:
    """Return the k nearest images of each query (n, d), or all where the gallery has fewer. `advance` is called with
    the number of queries done. Raises UserError as `check_query_vectors` does, and for vectors that are too long."""
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
    """Return the queries (n, d) as FAISS takes them. Raises UserError where one is not finite or has another d."""
    if queries.shape[1] != gallery.vectors.shape[1]:
        reason = f"have {queries.shape[1]} dimensions, but the vectors of the images have {gallery.vectors.shape[1]}"
        raise UserError(_STAGE, "vectors of the queries", reason, "encode both with one model")
    if (bad := ~np.isfinite(_norms(queries))).any():
        row = int(np.flatnonzero(bad)[0])
        raise UserError(_STAGE, f"query in row {row + 1}", "has a vector that is not finite", "encode it again")
    return np.ascontiguousarray(queries, dtype=np.float32)


def count_extra_candidates(k: int) -> int:
    """Return how many candidates are proposed beyond k."""
    return max(12, k // 8)


def _nearest_keys(queries: Vectors, gallery: VectorGallery, k: int) -> RowIndices:
    import faiss

    wanted = min(k + count_extra_candidates(k), len(gallery.vectors))
    scores, places = faiss.knn(queries, gallery.vectors, wanted, metric=faiss.METRIC_INNER_PRODUCT)
    keys = np.sort(rescore_candidates(queries, gallery, places), axis=1)[:, :k]
    if wanted == len(gallery.vectors):
        return keys
    # Error bound of a sum of d products in single precision (Higham 2002, 3.1), and half a unit for rounding.
    error = queries.shape[1] * 2.0**-24 * _norms(queries) * gallery.max_norm + 10.0**-DECIMALS
    worst = -(keys[:, -1] // len(gallery.vectors)) * 10.0**-DECIMALS
    unsure = np.flatnonzero(scores[:, -1] + error >= worst)
    for start in range(0, len(unsure), _WHOLE):
        some = unsure[start : start + _WHOLE]
        keys[some] = _search_whole_gallery(queries[some], gallery, k)
    return keys


def rescore_candidates(queries: Vectors, gallery: VectorGallery, places: RowIndices) -> RowIndices:
    """Return a distinct key per candidate (queries, candidates) that orders by score, highest first, then by id; the
    highest key of all for places below 0."""
    keys = np.empty(places.shape, dtype=np.int64)
    for start in range(0, len(queries), _FEW):
        rows = slice(start, start + _FEW)
        candidates = places[rows]
        products = gallery.vectors[candidates].astype(np.float64) @ queries[rows].astype(np.float64)[:, :, None]
        candidate_keys = _keys(products[:, :, 0], gallery.id_ranks[candidates], gallery)
        keys[rows] = np.where(candidates < 0, np.iinfo(np.int64).max, candidate_keys)
    return keys


def _search_whole_gallery(queries: Vectors, gallery: VectorGallery, k: int) -> RowIndices:
    """Return the keys of the k nearest among all images, in order."""
    transposed = queries.astype(np.float64).T
    best = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(gallery.vectors), _BLOCK):
        products = (gallery.vectors[start : start + _BLOCK].astype(np.float64) @ transposed).T
        both = np.hstack([best, _keys(products, gallery.id_ranks[start : start + _BLOCK], gallery)])
        best = np.partition(both, k - 1, axis=1)[:, :k] if both.shape[1] > k else both
    return np.sort(best, axis=1)


def _keys(products: NDArray[np.float64], id_ranks: RowIndices, gallery: VectorGallery) -> RowIndices:
    rounded = np.rint(products * 10.0**DECIMALS)
    if np.abs(rounded).max(initial=0) * len(gallery.vectors) >= 2.0**62:
        raise UserError(_STAGE, "vectors", "are too long to be compared", "give vectors of length one")
    return id_ranks - rounded.astype(np.int64) * len(gallery.vectors)


def decode_keys(keys: RowIndices, gallery: VectorGallery) -> NearestImages:
    """Return the images and scores of keys (queries, k)."""
    count = len(gallery.vectors)
    none = keys == np.iinfo(np.int64).max
    places = np.where(none, -1, gallery.by_id_rank[np.where(none, 0, keys % count)])
    return NearestImages(places, np.where(none, 0.0, -(keys // count) / 10.0**DECIMALS))


def _norms(vectors: Vectors) -> NDArray[np.float64]:
    """Return upper bounds of the lengths; not finite where a coordinate is not."""
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", vectors, vectors), dtype=np.float64) * 1.001
    return lengths


def run_from_similarities(
    similarity: Any, query_ids: Sequence[str], image_ids: Sequence[str], k: int, *, is_distance: bool = False
) -> pd.DataFrame:
    """Return the k highest of each row of a matrix (queries, images) as a run (query_id, image_id, score); of
    distances the k lowest, with minus the distance as the score. It is read in blocks and may be a mapped file. Ties at
    the cut go to the highest id. Raises UserError for a wrong shape, a repeated id or a number that is not finite."""
    if similarity.shape != (len(query_ids), len(image_ids)):
        reason = f"has the shape {similarity.shape}, but there are {len(query_ids)} and {len(image_ids)} ids"
        raise UserError(_READ_STAGE, "matrix", reason, "give one id per row and per column")
    argsort_ids_descending(query_ids, _READ_STAGE)
    columns = argsort_ids_descending(image_ids, _READ_STAGE)
    k = min(k, len(columns))
    places = np.empty((len(query_ids), k), dtype=np.int64)
    scores = np.empty((len(query_ids), k))
    step = max(1, _AT_ONCE // max(len(columns), 1))
    for start in range(0, len(query_ids), step):
        block = np.asarray(similarity[start : start + step])[:, columns]
        block = -block if is_distance else block
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0]
            reason = f"has the similarity {block[row, column]} with {image_ids[columns[column]]}"
            raise UserError(_READ_STAGE, query_ids[start + int(row)], reason, "give finite numbers")
        best = _first_highest(block, k)
        places[start : start + step] = columns[best]
        scores[start : start + step] = np.take_along_axis(block, best, axis=1)
    return build_run(query_ids, image_ids, places, scores)


def _first_highest(block: Any, k: int) -> Any:
    """Return the columns (rows, k) of each row's k highest numbers, ascending; of those equal at the cut the first."""
    last = np.partition(block, block.shape[1] - k, axis=1)[:, [block.shape[1] - k]]
    higher, equal = block > last, block == last
    left = k - higher.sum(axis=1, keepdims=True)
    taken = higher | (equal & (np.cumsum(equal, axis=1) <= left))
    return np.nonzero(taken)[1].reshape(len(block), k)


@dataclass(frozen=True, slots=True)
class IndexLoss:
    """`missed_share`: the share of the exact k nearest images that the index missed, over `query_count` queries."""

    query_count: int
    missed_share: float


def search_with_index(
    index: str,
    queries: Vectors,
    query_ids: Sequence[str],
    gallery: VectorGallery,
    k: int,
    *,
    threads: int,
    advance: Callable[[int], None] = lambda _queries: None,
) -> tuple[NearestImages, IndexLoss]:
    """Return the k nearest images by one of INDEXES, with exact scores, and the loss on a sample of 1,000 queries,
    chosen by hash. `ivf` searches 32 cells, `hnsw` follows a graph of the images. Raises UserError for another index
    and as `search_exact` does."""
    if index not in INDEXES:
        raise UserError("search", index, "is not a known index", suggest_choice(index, list(INDEXES)))
    if index == "exact":
        return search_exact(queries, gallery, k, threads=threads, advance=advance), IndexLoss(len(queries), 0.0)
    queries, k = check_query_vectors(queries, gallery), min(k, len(gallery.vectors))
    faiss_index = _ivf(gallery, threads) if index == "ivf" else _hnsw(gallery, k)
    with use_faiss_threads(threads):
        _, rows = faiss_index.search(queries, min(k + count_extra_candidates(k), len(gallery.vectors)))
    places = np.where(rows < 0, -1, gallery.by_id_rank[rows])
    advance(len(queries))
    result = decode_keys(np.sort(rescore_candidates(queries, gallery, places), axis=1)[:, :k], gallery)
    sampled_rows = sorted(range(len(queries)), key=lambda row: stable_hash("loss", query_ids[row]))[:_SAMPLE]
    exact_result = search_exact(queries[sampled_rows], gallery, k, threads=threads)
    # Query and image as one number.
    offsets = np.arange(len(sampled_rows))[:, None] * (len(gallery.vectors) + 1) + 1
    is_in_both = np.isin(exact_result.places + offsets, result.places[sampled_rows] + offsets)
    return result, IndexLoss(len(sampled_rows), float(1 - is_in_both.mean()) if is_in_both.size else 0.0)


def _ivf(gallery: VectorGallery, threads: int) -> Any:
    """Return cells around images chosen by the hash of their ids."""
    centres = choose_cell_centres([stable_hash("cell", name) for name in gallery.image_ids.to_pylist()])
    return _add_vectors(build_cell_index(gallery.vectors[centres]), gallery, threads)


def _hnsw(gallery: VectorGallery, k: int) -> Any:
    """Return a graph, built on one thread: with more it depends on their timing."""
    import faiss

    index = faiss.IndexHNSWFlat(gallery.vectors.shape[1], _HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = max(64, 2 * (k + count_extra_candidates(k)))
    return _add_vectors(index, gallery, 1)


def _add_vectors(index: Any, gallery: VectorGallery, threads: int) -> Any:
    """Add the images in the order of their ids, so that the order of the rows has no effect."""
    with use_faiss_threads(threads):
        for start in range(0, len(gallery.vectors), _ADDED):
            index.add(gallery.vectors[gallery.by_id_rank[start : start + _ADDED]])
    return index
