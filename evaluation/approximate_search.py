"""Search by an index that does not look at every picture, and what it loses by that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from builders.errors import UserError
from builders.errors import nearest as nearest_word
from builders.records import stable_hash
from evaluation.search import Gallery, Nearest, Vectors, checked, decoded, faiss_threads, margin, nearest, rescored

INDEXES = ("exact", "ivf", "hnsw")
_PROBED = 32  # cells, of about 4 x the root of the gallery
_LINKS = 32
_SAMPLE = 1000  # queries that the loss is measured on
_AT_ONCE = 1 << 16  # pictures


@dataclass(frozen=True, slots=True)
class Loss:
    """`missed`: the share of the exact k nearest pictures that the index did not find, over so many queries."""

    queries: int
    missed: float


def search(
    index: str,
    queries: Vectors,
    query_ids: Sequence[str],
    gallery: Gallery,
    k: int,
    *,
    threads: int,
    advance: Callable[[int], None] = lambda _queries: None,
) -> tuple[Nearest, Loss]:
    """The k nearest pictures by one of INDEXES, scored as the exact search does, and the loss against that, measured on
    a sample of 1,000 queries, drawn by hash. `ivf` looks into 32 cells, `hnsw` follows a graph of the pictures."""
    if index not in INDEXES:
        raise UserError("search", index, "is no index", nearest_word(index, list(INDEXES)))
    if index == "exact":
        return nearest(queries, gallery, k, threads=threads, advance=advance), Loss(len(queries), 0.0)
    queries, k = checked(queries, gallery), min(k, len(gallery.vectors))
    build = _ivf if index == "ivf" else _hnsw
    found = build(gallery, k, threads)
    with faiss_threads(threads):
        _, rows = found.search(queries, min(k + margin(k), len(gallery.vectors)))
    places = np.where(rows < 0, -1, gallery.by_height[rows])
    advance(len(queries))
    result = decoded(np.sort(rescored(queries, gallery, places), axis=1)[:, :k], gallery)
    drawn = sorted(range(len(queries)), key=lambda row: stable_hash("loss", query_ids[row]))[:_SAMPLE]
    exact = nearest(queries[drawn], gallery, k, threads=threads)
    row = np.arange(len(drawn))[:, None] * (len(gallery.vectors) + 1) + 1  # a pair of query and picture as one number
    both = np.isin(exact.places + row, result.places[drawn] + row)
    return result, Loss(len(drawn), float(1 - both.mean()) if both.size else 0.0)


def _ivf(gallery: Gallery, _k: int, threads: int) -> Any:
    """Cells around pictures drawn by hash: trained ones would depend on threads and on the order of the pictures."""
    import faiss

    count, dimensions = gallery.vectors.shape
    hashes = [stable_hash("cell", name) for name in gallery.image_ids.to_pylist()]
    drawn = sorted(range(count), key=hashes.__getitem__)[: min(count, int(4 * count**0.5))]
    cells = faiss.IndexFlatIP(dimensions)
    cells.add(gallery.vectors[drawn])
    index = faiss.IndexIVFFlat(cells, dimensions, len(drawn), faiss.METRIC_INNER_PRODUCT)
    index.is_trained, index.nprobe = True, min(_PROBED, len(drawn))
    return _filled(index, gallery, threads)


def _hnsw(gallery: Gallery, k: int, _threads: int) -> Any:
    """Built on one thread: with more the graph depends on which is faster."""
    import faiss

    index = faiss.IndexHNSWFlat(gallery.vectors.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = max(64, 2 * (k + margin(k)))
    return _filled(index, gallery, 1)


def _filled(index: Any, gallery: Gallery, threads: int) -> Any:
    """With the pictures in the order of their ids, whatever that of the rows is."""
    with faiss_threads(threads):
        for start in range(0, len(gallery.vectors), _AT_ONCE):
            index.add(gallery.vectors[gallery.by_height[start : start + _AT_ONCE]])
    return index
