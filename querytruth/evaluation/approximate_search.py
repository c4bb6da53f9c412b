"""Approximate search by an index, and its loss against the exact search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from querytruth.array_types import Vectors
from querytruth.backends.models.nearest_neighbours import build_cell_index, choose_cell_centres, use_faiss_threads
from querytruth.errors import UserError, suggest_choice
from querytruth.evaluation import exact_search
from querytruth.records import stable_hash

INDEXES = ("exact", "ivf", "hnsw")
_HNSW_LINKS = 32
_SAMPLE = 1000  # queries on which the loss is measured
_AT_ONCE = 1 << 16  # images


@dataclass(frozen=True, slots=True)
class IndexLoss:
    """`missed_share`: the share of the exact k nearest images that the index missed, over `query_count` queries."""

    query_count: int
    missed_share: float


def search_with_index(
    index: str,
    queries: Vectors,
    query_ids: Sequence[str],
    gallery: exact_search.VectorGallery,
    k: int,
    *,
    threads: int,
    advance: Callable[[int], None] = lambda _queries: None,
) -> tuple[exact_search.NearestImages, IndexLoss]:
    """Returns the k nearest images by one of INDEXES, with exact scores, and the loss on a sample of 1,000 queries,
    chosen by hash. `ivf` searches 32 cells, `hnsw` follows a graph of the images. Raises UserError for another index
    and as `search_exact` does."""
    if index not in INDEXES:
        raise UserError("search", index, "is no index", suggest_choice(index, list(INDEXES)))
    if index == "exact":
        return exact_search.search_exact(queries, gallery, k, threads=threads, advance=advance), IndexLoss(
            len(queries), 0.0
        )
    queries, k = exact_search.check_query_vectors(queries, gallery), min(k, len(gallery.vectors))
    faiss_index = _ivf(gallery, threads) if index == "ivf" else _hnsw(gallery, k)
    with use_faiss_threads(threads):
        _, rows = faiss_index.search(queries, min(k + exact_search.count_extra_candidates(k), len(gallery.vectors)))
    places = np.where(rows < 0, -1, gallery.by_id_rank[rows])
    advance(len(queries))
    result = exact_search.decode_keys(
        np.sort(exact_search.rescore_candidates(queries, gallery, places), axis=1)[:, :k], gallery
    )
    sampled_rows = sorted(range(len(queries)), key=lambda row: stable_hash("loss", query_ids[row]))[:_SAMPLE]
    exact_result = exact_search.search_exact(queries[sampled_rows], gallery, k, threads=threads)
    # Query and image as one number.
    offsets = np.arange(len(sampled_rows))[:, None] * (len(gallery.vectors) + 1) + 1
    is_in_both = np.isin(exact_result.places + offsets, result.places[sampled_rows] + offsets)
    return result, IndexLoss(len(sampled_rows), float(1 - is_in_both.mean()) if is_in_both.size else 0.0)


def _ivf(gallery: exact_search.VectorGallery, threads: int) -> Any:
    """Returns cells around images chosen by the hash of their ids."""
    centres = choose_cell_centres([stable_hash("cell", name) for name in gallery.image_ids.to_pylist()])
    return _add_vectors(build_cell_index(gallery.vectors[centres]), gallery, threads)


def _hnsw(gallery: exact_search.VectorGallery, k: int) -> Any:
    """Returns a graph, built on one thread: with more it depends on their timing."""
    import faiss

    index = faiss.IndexHNSWFlat(gallery.vectors.shape[1], _HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = max(64, 2 * (k + exact_search.count_extra_candidates(k)))
    return _add_vectors(index, gallery, 1)


def _add_vectors(index: Any, gallery: exact_search.VectorGallery, threads: int) -> Any:
    """Adds the images in the order of their ids, so that the order of the rows has no effect."""
    with use_faiss_threads(threads):
        for start in range(0, len(gallery.vectors), _AT_ONCE):
            index.add(gallery.vectors[gallery.by_id_rank[start : start + _AT_ONCE]])
    return index
