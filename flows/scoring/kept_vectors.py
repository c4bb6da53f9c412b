"""Vectors of what a set holds, encoded once: kept by the digest of the content and the weights that encoded it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backends.vectors.vector_store import Vectors, VectorStore
from flows.steps import Advance, current

_KEPT = 1024  # between two writes
Encode = Callable[[list[str], Advance], tuple[list[int], Vectors]]


def encoded_once(
    keys: Sequence[str], dimensions: int, encode: Encode, folder: Path, fingerprint: str, title: str, unit: str
) -> tuple[Vectors, NDArray[np.bool_]]:
    """(n, dimensions) of different keys, and which of them are known. `encode` gets keys that are new and answers with
    the places of those that it could encode, and their vectors. Where nothing can be written, that is said once."""
    store = VectorStore(folder.absolute(), fingerprint)
    vectors, known = store.read(keys, dimensions)
    missing = np.flatnonzero(~known)
    writable = True
    with current().reporter.bar(title, len(missing), unit) as advance:
        for start in range(0, len(missing), _KEPT):
            part = missing[start : start + _KEPT]
            found, encoded = encode([keys[place] for place in part.tolist()], advance)
            vectors[part[found]], known[part[found]] = encoded, True
            writable = writable and _kept(store, [keys[place] for place in part[found].tolist()], encoded)
    return vectors, known


def _kept(store: VectorStore, keys: list[str], vectors: Vectors) -> bool:
    try:
        if keys:
            store.keep(keys, vectors)
    except OSError as error:
        current().reporter.say(f"vectors are not kept for the next time ({error.strerror})")
        return False
    return True
