"""Systems that a Python program gives: a table of results, a search function, or arrays of vectors."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from querytruth.array_types import Vectors
from querytruth.backends.steps import current_run, step
from querytruth.errors import UserError
from querytruth.evaluation.encoded_sets import EncodedItems, EncodedSet
from querytruth.evaluation.ground_truth import find_positions, to_id_array
from querytruth.evaluation.judged_sets import EvaluationView, JudgedSet
from querytruth.evaluation.open_set import find_reversed_scores
from querytruth.evaluation.result_types import SystemDescription
from querytruth.evaluation.run_files import RUN_COLUMNS, check_run_table
from querytruth.evaluation.systems import EvaluatedSystem, SystemRun
from querytruth.sets.ledger import Ledger

# Takes a text and the number of results wanted; return the best first: ids, (id, score) pairs, or scores by id.
SearchFunction: TypeAlias = Callable[[str, int], Iterable[str] | Iterable[tuple[str, float]] | Mapping[str, float]]
RunTable: TypeAlias = pd.DataFrame | Mapping[str, Mapping[str, float]]  # or scores by image id, by query id


def make_table_system(run: RunTable, name: str) -> EvaluatedSystem:
    """Return a system of known results. Raises UserError for a table that is not a run."""
    if isinstance(run, Mapping):
        rows = [(query, image, score) for query, images in run.items() for image, score in images.items()]
        run = pd.DataFrame(rows, columns=list(RUN_COLUMNS))
    table = _check_table(run, name)
    described: SystemDescription = {"kind": "run", "name": name, "sha256": _digest(table)}
    return EvaluatedSystem(
        described, lambda _view, _k: SystemRun(table, find_reversal=find_reversed_scores), is_renamed=True
    )


def make_search_system(search: SearchFunction, name: str) -> EvaluatedSystem:
    """Return a system that asks the function about every query; it finds images by texts only."""
    described: SystemDescription = {"kind": "search", "name": name}
    return EvaluatedSystem(described, lambda view, k: _ask(search, name, view, k), is_renamed=True)


def encode_by_arrays(name: str, arrays: tuple[Any, ...], all_ids: tuple[Any, Any], judged: JudgedSet) -> EncodedSet:
    """Return the vectors of the judged set from two arrays (n, d), with a row per query and per image of `all_ids`,
    the ids of the whole set. Raises UserError for arrays of other shapes."""
    if len(arrays) != 2:
        raise UserError("read vectors", name, f"contains {len(arrays)} arrays", "give two: for queries and for images")
    if judged.queries is None or judged.images is None:
        raise UserError("evaluate", name, "needs a set: a file of judgments lacks ids", "give the set")
    queries, images = (_check_array(*parts) for parts in zip(("queries", "images"), arrays, all_ids, strict=True))
    if queries.shape[1] != images.shape[1]:
        reason = f"have {queries.shape[1]} dimensions, but the vectors of the images have {images.shape[1]}"
        raise UserError("read vectors", "vectors of the queries", reason, "encode both with one model")
    texts = _select(queries, all_ids[0], to_id_array(judged.queries["query_id"]))
    gallery = _select(images, all_ids[1], to_id_array(judged.images["image_id"]))
    described: SystemDescription = {"kind": "vectors", "name": name, "dimensions": int(queries.shape[1])}
    return EncodedSet(texts, gallery, described, Ledger())


def _select(vectors: Vectors, all_ids: object, ids: pa.Array) -> EncodedItems:
    """Return the rows of these ids."""
    return EncodedItems(ids, vectors[find_positions(to_id_array(all_ids), ids)], np.ones(len(ids), dtype=bool))


def _check_array(what: str, array: Any, ids: Any) -> Vectors:
    vectors: Vectors = np.asarray(array, dtype=np.float32)
    item = f"vectors of the {what}"
    if vectors.ndim != 2 or len(vectors) != len(ids) or not vectors.shape[1]:
        reason = f"have the shape {vectors.shape}, but there are {len(ids):,} {what}"
        raise UserError("read vectors", item, reason, f"give one row per item of the set's {what}, in the same order")
    return vectors


@step("search")
def _ask(search: SearchFunction, name: str, view: EvaluationView, k: int) -> SystemRun:
    queries = view.judged_set.queries
    if queries is None or view.is_image_to_text:
        raise UserError("evaluate", name, "searches by texts", "give a set and the direction text_to_image")
    asked = queries[queries["query_id"].isin(view.asked_ids.to_pylist())]
    rows: list[tuple[str, str, float]] = []
    with current_run().reporter.bar("search", len(asked), "queries") as advance:
        for query_id, text in zip(asked["query_id"], asked["text"], strict=True):
            found = search(text, k)
            pairs = list(found.items() if isinstance(found, Mapping) else found)
            rows += [(query_id, *_scored(entry, rank, name)) for rank, entry in enumerate(pairs, start=1)]
            advance(1)
    table = _check_table(pd.DataFrame(rows, columns=list(RUN_COLUMNS)), name)
    return SystemRun(table, find_reversal=find_reversed_scores)


def _scored(entry: object, rank: int, name: str) -> tuple[str, float]:
    """Return the image and its score; a bare id scores less than all before it."""
    if isinstance(entry, str):
        return entry, -float(rank)
    if isinstance(entry, tuple | list) and len(entry) == 2:
        return str(entry[0]), float(entry[1])
    raise UserError("search", name, f"returned {entry!r:.80}", "return image ids, or pairs of an image id and a score")


def _digest(table: pd.DataFrame) -> str:
    """Return the digest of the rows."""
    rows = pd.util.hash_pandas_object(table, index=False, categorize=False)
    return hashlib.sha256(rows.to_numpy().tobytes()).hexdigest()


def _check_table(table: pd.DataFrame, name: str) -> pd.DataFrame:
    if missing := [column for column in RUN_COLUMNS if column not in table]:
        has = ", ".join(map(str, table)) or "none"
        raise UserError("read run", name, f"has no column {missing[0]} (it has {has})", f"name the column {missing[0]}")
    if not len(table):
        raise UserError("read run", name, "contains no rows", "give a run with results")
    return check_run_table(name, pa.Table.from_pandas(table[list(RUN_COLUMNS)], preserve_index=False))
