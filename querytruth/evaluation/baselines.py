"""Three systems without a model. Each returns a run: query_id, image_id, score."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from querytruth.array_types import FloatArray
from querytruth.records import categorical_from_codes, stable_hash

_LONGEST = 3  # characters of an n-gram
_BITS = 21  # of a character
_DECIMALS = 6
_CELLS = 1 << 24  # of the product of queries and texts held at a time
_NO_WORD = re.compile(r"[\W_]+")


def build_random_run(query_ids: Sequence[str], image_ids: Sequence[str], k: int, seed: int) -> pd.DataFrame:
    """Return k random images per query, by its id and the seed; all where there are fewer."""
    images = sorted(image_ids)
    k = min(k, len(images))
    drawn = [
        np.random.default_rng(stable_hash(str(seed), "random", name)).choice(len(images), k, replace=False)
        for name in query_ids
    ]
    places = np.concatenate([np.empty(0, np.int64), *drawn])
    rows = np.repeat(np.arange(len(query_ids)), k)
    return _run(query_ids, rows, images, places, np.tile(np.arange(k, 0, -1.0), len(query_ids)))


def build_oracle_run(qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the relevant images, higher grades first."""
    relevant = qrels.loc[qrels["relevance"] > 0, ["query_id", "image_id", "relevance"]]
    relevant = relevant.astype({"query_id": "str", "image_id": "str"})
    ordered = relevant.sort_values(["query_id", "relevance", "image_id"], ascending=[True, False, False])
    return ordered.rename(columns={"relevance": "score"}).astype({"score": float}).reset_index(drop=True)


class LexicalIndex:
    """An index of images by the n-grams of one to three characters of their texts (image_id, text; those of one image
    are joined), weighted by tf-idf. The inverse document frequency is ln((1 + n) / (1 + df)) + 1."""

    def __init__(self, texts: pd.DataFrame) -> None:
        ordered = texts.astype({"image_id": "str"}).sort_values(["image_id", "text"], ascending=[False, True])
        joined = ordered.groupby("image_id", sort=False)["text"].agg("\n".join)  # the highest id first: ties go to it
        self.image_ids: list[str] = joined.index.tolist()
        (row, gram), count = _ngrams(joined.tolist()), len(joined)
        self._known, column = np.unique(gram, return_inverse=True)
        counts = sparse.coo_matrix((np.ones(len(row)), (row, column)), (count, len(self._known))).tocsr()
        self._rarity = np.log((1 + count) / (1 + np.bincount(counts.indices, minlength=len(self._known)))) + 1
        self._documents = _weigh_rows(counts, self._rarity).T.tocsr()

    def search(self, texts: Sequence[str], k: int) -> list[tuple[NDArray[np.int64], FloatArray]]:
        """Return, per text, the places in `image_ids` and the cosines of the k most similar images, the best first.
        Images with no n-gram in common are not returned."""
        found = []
        step = max(1, _CELLS // max(len(self.image_ids), 1))
        for start in range(0, len(texts), step):
            block = self._weigh(texts[start : start + step]) @ self._documents
            for line in block.toarray().round(_DECIMALS):
                best = _highest(line, k)
                found.append((best, line[best]))
        return found

    def _weigh(self, texts: Sequence[str]) -> Any:
        """Return rows of length one; n-grams that no image has are ignored."""
        row, gram = _ngrams(list(texts))
        known = self._known
        place = np.minimum(np.searchsorted(known, gram), max(len(known) - 1, 0))
        inside = known[place] == gram if len(known) else np.zeros(len(place), dtype=bool)
        shape = (len(texts), len(known))
        counts = sparse.coo_matrix((np.ones(inside.sum()), (row[inside], place[inside])), shape).tocsr()
        return _weigh_rows(counts, self._rarity)


def build_lexical_run(queries: pd.DataFrame, texts: pd.DataFrame, k: int) -> pd.DataFrame:
    """Return the k images whose texts (image_id, text) are most similar to the query (query_id, text), by a
    LexicalIndex."""
    index = LexicalIndex(texts)
    found = index.search(queries["text"].tolist(), k)
    rows = np.repeat(np.arange(len(found)), [len(places) for places, _ in found])
    whole = [np.concatenate([np.empty(0, kind), *(hits[n] for hits in found)]) for n, kind in enumerate((int, float))]
    return _run(queries["query_id"].tolist(), rows, index.image_ids, *whole)


def _run(
    query_ids: Sequence[str], rows: object, image_ids: Sequence[str], places: object, scores: object
) -> pd.DataFrame:
    columns = {
        "query_id": categorical_from_codes(query_ids, rows),
        "image_id": categorical_from_codes(image_ids, places),
    }
    return pd.DataFrame(columns | {"score": scores})


def _highest(line: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    candidates = np.flatnonzero(line > 0)
    if len(candidates) > k:
        candidates = candidates[line[candidates] >= np.partition(line[candidates], -k)[-k]]
    return candidates[np.argsort(-line[candidates], kind="stable")][:k]


def _weigh_rows(counts: sparse.csr_matrix, rarity: FloatArray) -> sparse.csr_matrix:
    """Weigh the columns of a CSR table in place, and scale its rows to length one."""
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    counts.data *= rarity[counts.indices]
    counts.data /= np.sqrt(np.bincount(rows, counts.data**2, minlength=counts.shape[0]))[rows]
    return counts


def _ngrams(texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row and code of every n-gram; the code holds the numbers of its characters and is unique."""
    cleaned_texts = [_NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip() for text in texts]
    row = np.repeat(np.arange(len(cleaned_texts)), [len(cleaned_text) for cleaned_text in cleaned_texts])
    letter = np.frombuffer("".join(cleaned_texts).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    rows, grams, code = [], [], np.zeros(len(letter), dtype=np.int64)
    for length in range(1, _LONGEST + 1):
        count = max(len(letter) - length + 1, 0)
        code = (code[:count] << _BITS) | letter[length - 1 :]
        inside = row[:count] == row[length - 1 :]
        rows.append(row[:count][inside])
        grams.append(code[inside])
    return np.concatenate(rows), np.concatenate(grams)
