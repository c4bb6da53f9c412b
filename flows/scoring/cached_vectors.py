"""Vectors of what a set holds, encoded once: kept by the digest of the content and the weights that encoded it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backends.vectors.vector_store import VectorStore
from builders.array_types import Vectors
from flows.steps import Advance, current_run

_WRITE_EVERY = 1024  # between two writes
Encode = Callable[[list[str], Advance], tuple[list[int], Vectors]]


def encode_with_cache(
    keys: Sequence[str], dimensions: int, encode: Encode, folder: Path, fingerprint: str, title: str, unit: str
) -> tuple[Vectors, NDArray[np.bool_]]:
    """(n, dimensions) of different keys, and which of them are known. `encode` gets keys that are new and answers with
    the places of those that it could encode, and their vectors. Where nothing can be written, that is said once."""
    store = VectorStore(folder.absolute(), fingerprint)
    vectors, is_known = store.read(keys, dimensions)
    missing = np.flatnonzero(~is_known)
    is_writable = True
    with current_run().reporter.bar(title, len(missing), unit) as advance:
        for start in range(0, len(missing), _WRITE_EVERY):
            part = missing[start : start + _WRITE_EVERY]
            encoded_rows, encoded = encode([keys[place] for place in part.tolist()], advance)
            vectors[part[encoded_rows]], is_known[part[encoded_rows]] = encoded, True
            is_writable = is_writable and _store_vectors(
                store, [keys[place] for place in part[encoded_rows].tolist()], encoded
            )
    return vectors, is_known


def _store_vectors(store: VectorStore, keys: list[str], vectors: Vectors) -> bool:
    try:
        if keys:
            store.add(keys, vectors)
    except OSError as error:
        current_run().reporter.log(f"vectors are not kept for the next time ({error.strerror})")
        return False
    return True
