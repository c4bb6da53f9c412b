"""Nearest neighbours among vectors, searched in blocks: memory grows with the vectors, not with their pairs.

Products in single precision propose pairs; cosines in double precision, pair by pair, decide. So neither the size of a
block nor the number of threads influences a pair at the threshold.

Above `EXACT_UP_TO` vectors, `find_pairs_above` searches cells of FAISS and loses some pairs. With 32 of 1,265 cells
(100,000 vectors of 512 dimensions, four spectra) it kept 99.3% of the pairs with a cosine of 0.95 where a few
directions hold most of the spread, else 99.98%; of those with 0.97, 99.96%.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from querytruth.array_types import FloatArray, RowIndices, Vectors
from querytruth.errors import UserError

RowPairs = tuple[RowIndices, RowIndices]  # two arrays of one length: left and right row of each pair

EXACT_UP_TO = 100_000  # vectors; twice as many take four times as long
MAX_PAIRS = 20_000_000  # 320 MB of them
COSINE_DECIMALS = 6
_PRODUCTS_PER_BLOCK = 1 << 24  # 64 MiB
_PAIRS_PER_BLOCK = 1 << 13
_QUERIES_PER_BLOCK = 512  # below 256 FAISS 1.15 takes ten times as long
_PROBED_CELLS = 32
_SLACK = 2e-5  # products of float32 differ by 1e-7 with their neighbours
_MARGIN = 1e-4  # more than single precision takes from a cosine


def pair_products(left_vectors: Vectors, right_vectors: Vectors, left: RowIndices, right: RowIndices) -> FloatArray:
    """Return the product (n,) of each pair of rows in double precision; it does not depend on the other pairs."""
    products = np.empty(len(left))
    for start in range(0, len(left), _PAIRS_PER_BLOCK):
        pairs = slice(start, start + _PAIRS_PER_BLOCK)
        ones, others = left_vectors[left[pairs]], right_vectors[right[pairs]]
        products[pairs] = np.einsum("ij,ij->i", ones.astype(np.float64), others.astype(np.float64))
    return products


def pair_cosines(left_vectors: Vectors, right_vectors: Vectors, left: RowIndices, right: RowIndices) -> FloatArray:
    """Return the cosine (n,) of each pair of vectors of length one, rounded to six decimals."""
    return pair_products(left_vectors, right_vectors, left, right).round(COSINE_DECIMALS)


def find_near_pairs(vectors: Vectors, others: Vectors, thresholds: FloatArray, max_per_vector: int) -> RowPairs:
    """Return pairs of a row of `vectors` (n, d) and a row of `others` (m, d) with a product of at least the row's
    threshold (n,). For each row of `vectors` these are the `max_per_vector` highest, of equal ones the first. A few
    pairs just below the threshold may be among them."""
    step = max(_PRODUCTS_PER_BLOCK // max(len(others), 1), 1)
    pairs = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for start in range(0, len(vectors), step):
        block = slice(start, start + step)
        left, right = _near_in_block(vectors[block] @ others.T, thresholds[block], max_per_vector)
        pairs.append((left + start, right))
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _near_in_block(products: Vectors, thresholds: FloatArray, max_per_vector: int) -> RowPairs:
    is_near = products >= (thresholds - _SLACK)[:, None].astype(np.float32)
    if max_per_vector < products.shape[1]:
        for row in np.flatnonzero(is_near.sum(axis=1) > max_per_vector):
            hits = np.flatnonzero(is_near[row])
            order = np.argsort(-np.rint(products[row, hits].astype(np.float64) * 1e5), kind="stable")
            is_near[row, hits[order[max_per_vector:]]] = False
    return np.divmod(np.flatnonzero(is_near), products.shape[1])


def find_pairs_above(
    vectors: Vectors, cosine: float, *, threads: int, exact_up_to: int = EXACT_UP_TO, block: int = _QUERIES_PER_BLOCK
) -> tuple[RowIndices, FloatArray]:
    """Return the pairs of rows (n, 2) with a cosine of at least this, sorted, the smaller row first; and their cosines
    (n,), rounded to six decimals. `vectors` (n, d) have length one. Of several rows with one vector each is paired
    with the next alone, and the first with other vectors. Above `exact_up_to` different vectors some pairs may be
    missing. Raises UserError for more than MAX_PAIRS pairs."""
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in vectors]
    firsts, repeated = _find_repeated(digests)
    different = vectors if len(firsts) == len(vectors) else vectors[firsts]
    centres = choose_cell_centres([digests[row] for row in firsts.tolist()]) if len(firsts) > exact_up_to else None
    proposed, total = [repeated], len(repeated)
    with use_faiss_threads(threads):
        for pairs in _propose_pairs(different, cosine - _MARGIN, centres, block):
            is_above = pair_cosines(different, different, *pairs.T) >= round(cosine, COSINE_DECIMALS)
            proposed.append(firsts[pairs[is_above]])
            total += len(proposed[-1])
            if total > MAX_PAIRS:
                reason = f"with a cosine of {cosine}, {len(vectors):,} images form more than {MAX_PAIRS:,} pairs"
                raise UserError("find duplicates", "embeddings", reason, "raise near_duplicates.cosine")
    pairs = np.unique(np.concatenate(proposed), axis=0)
    return pairs, pair_cosines(vectors, vectors, *pairs.T)


class NearestRows:
    """Find the rows of `others` (m, d) nearest to vectors. Above EXACT_UP_TO rows the search is approximate and uses
    16-bit numbers, which halve the memory."""

    def __init__(self, others: Vectors) -> None:
        self._others, self._cells = np.ascontiguousarray(others, dtype=np.float32), None
        if len(others) > EXACT_UP_TO:
            digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in self._others]
            self._cells = build_cell_index(self._others[choose_cell_centres(digests)], in_halves=True)
            self._cells.add(self._others)

    def find(self, vectors: Vectors, count: int, threads: int) -> RowPairs:
        """Return for each row of `vectors` (n, d) the `count` rows with the highest product, as pairs sorted by the
        row."""
        import faiss

        nearest = np.empty((len(vectors), min(count, len(self._others))), dtype=np.int64)
        with use_faiss_threads(threads):
            for start in range(0, len(vectors) if nearest.size else 0, _QUERIES_PER_BLOCK):
                block = np.ascontiguousarray(vectors[start : start + _QUERIES_PER_BLOCK], dtype=np.float32)
                if self._cells is None:
                    found = faiss.knn(block, self._others, nearest.shape[1], metric=faiss.METRIC_INNER_PRODUCT)[1]
                else:
                    found = self._cells.search(block, nearest.shape[1])[1]
                nearest[start : start + len(block)] = found
        left, place = np.nonzero(nearest >= 0)  # -1: the cells that were searched hold fewer rows
        return left.astype(np.int64), nearest[left, place]


def _find_repeated(digests: list[bytes]) -> tuple[RowIndices, RowIndices]:
    """Return the first row of each different vector, sorted; and pairs of each row and the next with its vector."""
    _, first, back = np.unique(np.array(digests, dtype="V16"), return_index=True, return_inverse=True)
    order = np.argsort(back, kind="stable")
    follows = np.flatnonzero(back[order][1:] == back[order][:-1])
    return np.sort(first), np.stack([order[follows], order[follows + 1]], axis=1)


def _propose_pairs(vectors: Vectors, cosine: float, centres: RowIndices | None, block: int) -> Iterator[RowIndices]:
    """Yield pairs of different rows, the smaller first, by block; with cells a pair may occur twice."""
    import faiss

    index: Any = faiss.IndexFlatIP(vectors.shape[1])
    if centres is not None:
        index = build_cell_index(vectors[centres])
        index.add(vectors)
    for start in range(0, len(vectors), block):
        some = vectors[start : start + block]
        if centres is None:
            index.add(some)  # of the rows so far: each pair is found once, from its later row
        ends, _, others = index.range_search(some, cosine)
        ones = start + np.repeat(np.arange(len(some)), np.diff(ends).astype(np.int64))
        keep = others < ones if centres is None else others != ones
        yield np.sort(np.stack([ones[keep], others[keep]], axis=1), axis=1)


def choose_cell_centres(hashes: Sequence[int] | Sequence[bytes]) -> RowIndices:
    """Return the rows that become cell centres, chosen by the hashes of their vectors or ids: trained centres would
    depend on threads and on the order of rows."""
    chosen = sorted(range(len(hashes)), key=hashes.__getitem__)[: int(4 * len(hashes) ** 0.5)]
    return np.array(chosen, dtype=np.int64)


def build_cell_index(centres: Vectors, *, in_halves: bool = False) -> Any:
    """Return an empty FAISS index for inner products with a cell per centre (n, d); a search visits 32 cells.
    `in_halves`: with numbers of 16 bits."""
    import faiss

    dimensions, kind = centres.shape[1], faiss.METRIC_INNER_PRODUCT
    cells = faiss.IndexFlatIP(dimensions)
    cells.add(centres)
    index: Any
    if in_halves:
        halves = faiss.ScalarQuantizer.QT_fp16
        index = faiss.IndexIVFScalarQuantizer(cells, dimensions, len(centres), halves, kind, False)
    else:
        index = faiss.IndexIVFFlat(cells, dimensions, len(centres), kind)
    index.is_trained, index.nprobe = True, min(_PROBED_CELLS, len(centres))
    return index


@contextmanager
def use_faiss_threads(count: int) -> Iterator[None]:
    """Set the number of FAISS threads of the whole process, and restore it at the end."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
