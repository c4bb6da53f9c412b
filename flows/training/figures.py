"""How well a model finds a part's pictures by their texts, and texts by their pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from evaluation.evaluated import DIRECTIONS, IMAGE_TO_TEXT, TEXT_TO_IMAGE
from evaluation.identifiers import table_of
from evaluation.ranking import rank
from evaluation.scoring import Scores, mean_of_directions, score, turned
from evaluation.search import Vectors, nearest, number_gallery
from evaluation.statistics import bootstrap
from evaluation.truth import number_truth
from flows.scoring.encoded_sets import encoded_by_model
from flows.scoring.judged_sets import clusters_of, judged_set
from flows.steps import current, step

METRICS = ("hit@1", "hit@5", "hit@10", "rr")
_DEEPEST = 1000  # results of a query: what comes later adds less than a thousandth to a reciprocal rank


@step("figures")
def figures_of_model(folder: Path, test_set: Path) -> dict[str, Scores]:
    """The figures of a checkpoint on a published set, as `querytruth evaluate --model` computes them."""
    judged = judged_set(test_set)
    encoded = encoded_by_model(str(folder), judged)
    at_hand = encoded.pictures.known
    ids = encoded.pictures.ids.filter(pa.array(at_hand))
    return both_ways(
        encoded.texts.vectors, encoded.texts.ids, encoded.pictures.vectors[at_hand], ids, judged.qrels, judged.queries
    )


def both_ways(
    texts: Vectors, query_ids: Any, pictures: Vectors, image_ids: Any, qrels: pd.DataFrame, queries: pd.DataFrame | None
) -> dict[str, Scores]:
    """By direction the figures of vectors (n, d), a row per id."""
    asked = {
        TEXT_TO_IMAGE: (texts, query_ids, pictures, image_ids, qrels, clusters_of(queries)),
        IMAGE_TO_TEXT: (pictures, image_ids, texts, query_ids, turned(qrels), None),
    }
    return {direction: _one_way(*asked[direction]) for direction in DIRECTIONS}


def _one_way(asking: Vectors, ids: Any, held: Vectors, held_ids: Any, qrels: pd.DataFrame, clusters: Any) -> Scores:
    known = set(_listed(held_ids))
    truth = number_truth(qrels[qrels["image_id"].isin(known)], held_ids)
    judged = np.isin(np.array(_listed(ids), dtype=object), np.array(truth.query_ids.to_pylist(), dtype=object))
    gallery = number_gallery(held, _listed(held_ids))
    found = nearest(asking[judged], gallery, min(len(known), _DEEPEST), threads=current().workers)
    run = table_of([name for name, is_in in zip(_listed(ids), judged, strict=True) if is_in], held_ids, found.places,
                   found.scores)  # fmt: skip
    return score(rank(run, truth), METRICS, clusters=clusters)


def _listed(ids: Any) -> list[str]:
    return ids.to_pylist() if isinstance(ids, pa.Array) else list(ids)


def means(scores: dict[str, Scores]) -> dict[str, dict[str, float]]:
    """By direction, and for the mean of both, the figures."""
    ways = {direction: found.means() for direction, found in scores.items()}
    return {**ways, "mean": mean_of_directions(ways[TEXT_TO_IMAGE], ways[IMAGE_TO_TEXT])}


def with_intervals(scores: dict[str, Scores], queries: pd.DataFrame) -> dict[str, dict[str, list[float]]]:
    """By direction and metric the mean and the ends of its 95% interval; `mean` by drawing pictures with all their
    texts."""
    found: dict[str, dict[str, list[float]]] = {}
    for direction, one in scores.items():
        found[direction] = {
            str(metric): [float(one.per_query[str(metric)].mean()), float(low), float(high)]
            for metric, low, high in zip(one.metrics, one.interval.low, one.interval.high, strict=True)
        }
    found["mean"] = {}
    for metric in METRICS:
        values = per_picture(scores, metric, queries)
        interval = bootstrap(values.to_numpy())
        found["mean"][metric] = [float(values.mean()), float(interval.low[0]), float(interval.high[0])]
    return found


def per_picture(scores: dict[str, Scores], metric: str, queries: pd.DataFrame) -> pd.Series:
    """Per picture a number of which the mean is that of both directions: its own figure and those of its texts, so
    weighed that each picture and each text counts the same. A text that was written of none of them stands alone."""
    texts, own = (scores[direction].per_query[metric] for direction in (TEXT_TO_IMAGE, IMAGE_TO_TEXT))
    home = queries.set_index("query_id")["source_image_id"].reindex(texts.index).astype("object")
    home = home.where(home.isin(own.index), texts.index.to_series())
    summed = texts.groupby(home.to_numpy()).sum()
    units = own.index.union(summed.index)
    shares = [part.reindex(units, fill_value=0.0) * len(units) / count for part, count in
              ((own, len(own)), (summed, len(texts)))]  # fmt: skip
    values: pd.Series = (shares[0] + shares[1]) / 2
    return values
