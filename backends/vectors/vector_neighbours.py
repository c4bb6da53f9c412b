"""Pairs of vectors with a high cosine, found by FAISS: exactly, or among a great many by cells.

FAISS only proposes: every pair's cosine is computed again, the same way whatever block the pair was found in, so that
neither the size of a block nor the number of threads decides about a pair at the cut.

Cells lose some pairs. With 32 of 1,265 cells (100,000 vectors of 512 dimensions, four spectra) they kept 99.3% of the
pairs with a cosine of 0.95 where a few directions hold most of the spread, else 99.98%; of those with 0.97, 99.96%.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from builders.array_types import FloatArray, RowIndices, Vectors
from builders.errors import UserError

EXACT_UP_TO = 100_000  # vectors; twice as many take four times as long
MOST_PAIRS = 20_000_000  # 320 MB of them
_BLOCK = 512  # queries at a time; below 256 FAISS 1.15 takes ten times as long
_PROBED = 32  # cells
_MARGIN = 1e-4  # more than single precision takes from a cosine
_DECIMALS = 6
_PAIRS_PER_BLOCK = 1 << 12  # pairs whose cosines are computed at a time


def find_pairs_above(
    vectors: Vectors, cosine: float, *, threads: int, exact_up_to: int = EXACT_UP_TO, block: int = _BLOCK
) -> tuple[RowIndices, FloatArray]:
    """The pairs of rows (n, 2) with a cosine of at least this, the smaller row first, in order; and their cosines, to
    six decimals. `vectors` are of length one. Of rows that hold the same vector each is paired with the next alone,
    and the first with others. Above `exact_up_to` different vectors some pairs may be missing."""
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in vectors]
    firsts, repeated = _repeated(digests)
    different = vectors if len(firsts) == len(vectors) else vectors[firsts]
    cells = _cell_centres([digests[row] for row in firsts.tolist()]) if len(firsts) > exact_up_to else None
    proposed, total = [repeated], len(repeated)
    with _threads(threads):
        for pairs in _propose_pairs(different, cosine - _MARGIN, cells, block):
            proposed.append(firsts[pairs[_cosines(different, pairs) >= round(cosine, _DECIMALS)]])
            total += len(proposed[-1])
            if total > MOST_PAIRS:
                reason = f"a cosine of {cosine} makes pairs of more than {MOST_PAIRS:,} among {len(vectors):,} pictures"
                raise UserError("find duplicates", "embeddings", reason, "raise near_duplicates.cosine")
    pairs = np.unique(np.concatenate(proposed), axis=0)
    return pairs, _cosines(vectors, pairs)


def _repeated(digests: list[bytes]) -> tuple[RowIndices, RowIndices]:
    """The first row of each different vector, in order; and pairs of each row and the next of the same vector."""
    _, first, back = np.unique(np.array(digests, dtype="V16"), return_index=True, return_inverse=True)
    order = np.argsort(back, kind="stable")
    follows = np.flatnonzero(back[order][1:] == back[order][:-1])
    return np.sort(first), np.stack([order[follows], order[follows + 1]], axis=1)


def _cell_centres(digests: list[bytes]) -> RowIndices:
    """The rows that cells are built around, drawn by hash: training them would depend on threads and order."""
    sampled = sorted(range(len(digests)), key=digests.__getitem__)[: int(4 * len(digests) ** 0.5)]
    return np.array(sampled, dtype=np.int64)


def _propose_pairs(vectors: Vectors, cosine: float, cells: RowIndices | None, block: int) -> Iterator[RowIndices]:
    """Pairs of different rows, the smaller first, block by block; with cells a pair may come twice."""
    import faiss

    flat = faiss.IndexFlatIP(vectors.shape[1])
    index: Any = flat
    if cells is not None:
        flat.add(vectors[cells])
        index = faiss.IndexIVFFlat(flat, vectors.shape[1], len(cells), faiss.METRIC_INNER_PRODUCT)
        index.is_trained, index.nprobe = True, min(_PROBED, len(cells))
        index.add(vectors)
    for start in range(0, len(vectors), block):
        some = vectors[start : start + block]
        if cells is None:
            flat.add(some)  # the rows so far: a pair is found from its later row
        ends, _, others = index.range_search(some, cosine)
        ones = start + np.repeat(np.arange(len(some)), np.diff(ends).astype(np.int64))
        keep = others < ones if cells is None else others != ones
        yield np.sort(np.stack([ones[keep], others[keep]], axis=1), axis=1)


def _cosines(vectors: Vectors, pairs: RowIndices) -> FloatArray:
    scores = np.empty(len(pairs))
    for start in range(0, len(pairs), _PAIRS_PER_BLOCK):
        one, other = (vectors[rows].astype(np.float64) for rows in pairs[start : start + _PAIRS_PER_BLOCK].T)
        scores[start : start + _PAIRS_PER_BLOCK] = np.einsum("ij,ij->i", one, other)
    return scores.round(_DECIMALS)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """FAISS sets its threads for the whole process; they are put back."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
