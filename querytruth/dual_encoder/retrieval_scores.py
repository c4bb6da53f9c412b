"""Scores how well a model finds a part's images by their texts, and texts by their images."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from querytruth.array_types import AnyArray, Vectors
from querytruth.backends.steps import current_run, step
from querytruth.evaluation import encoded_sets, metrics, ranking, run_evaluation, statistics, vector_search
from querytruth.evaluation.evaluation_result import DIRECTIONS, IMAGE_TO_TEXT, TEXT_TO_IMAGE
from querytruth.evaluation.ground_truth import build_run, index_qrels
from querytruth.evaluation.judged_sets import cluster_queries, load_judged_set
from querytruth.evaluation.metric_scores import MetricScores, average_directions, score_run, transpose_qrels

METRICS = ("hit@1", "hit@5", "hit@10", "rr")
_DEEPEST = 1000  # results of a query: what comes later adds less than a thousandth to a reciprocal rank


@step("figures")
def score_model(folder: Path, test_set: Path) -> dict[str, MetricScores]:
    """Score a checkpoint on a published set, as `querytruth evaluate --model` does."""
    judged = load_judged_set(test_set)
    encoded = encoded_sets.encode_set(str(folder), judged)
    at_hand = encoded.images.is_known
    image_ids, query_ids = encoded.images.ids.filter(pa.array(at_hand)).to_pylist(), encoded.texts.ids.to_pylist()
    vectors = encoded.texts.vectors, encoded.images.vectors[at_hand]
    return score_both_directions(vectors[0], query_ids, vectors[1], image_ids, judged.qrels, judged.queries)


def score_both_directions(
    texts: Vectors,
    query_ids: list[str],
    images: Vectors,
    image_ids: list[str],
    qrels: pd.DataFrame,
    queries: pd.DataFrame | None,
) -> dict[str, MetricScores]:
    """Score vectors (n, d), a row per id, in both directions."""
    arguments = {
        TEXT_TO_IMAGE: (texts, query_ids, images, image_ids, qrels, cluster_queries(queries)),
        IMAGE_TO_TEXT: (images, image_ids, texts, query_ids, transpose_qrels(qrels), None),
    }
    return {direction: _score_direction(*arguments[direction]) for direction in DIRECTIONS}


def _score_direction(
    query_vectors: Vectors,
    ids: list[str],
    gallery_vectors: Vectors,
    gallery_ids: list[str],
    qrels: pd.DataFrame,
    clusters: AnyArray | None,
) -> MetricScores:
    truth = index_qrels(qrels[qrels["image_id"].isin(gallery_ids)], gallery_ids)
    judged = np.isin(np.array(ids, dtype=object), np.array(truth.query_ids.to_pylist(), dtype=object))
    gallery = vector_search.build_vector_gallery(gallery_vectors, gallery_ids)
    depth = min(len(gallery_ids), _DEEPEST)
    nearest_images = vector_search.search_exact(query_vectors[judged], gallery, depth, threads=current_run().workers)
    judged_ids = [name for name, is_judged in zip(ids, judged, strict=True) if is_judged]
    run = build_run(judged_ids, gallery_ids, nearest_images.places, nearest_images.scores)
    return score_run(ranking.rank_run(run, truth), METRICS, clusters=clusters)


def mean_scores(scores: dict[str, MetricScores]) -> dict[str, dict[str, float]]:
    """Return the figures by direction, and for the mean of both."""
    by_direction = {direction: scores_of_direction.means() for direction, scores_of_direction in scores.items()}
    return {**by_direction, "mean": average_directions(by_direction[TEXT_TO_IMAGE], by_direction[IMAGE_TO_TEXT])}


def chance_scores(test_set: Path) -> dict[str, float]:
    """Return by metric what a random order of the set's images, or texts, gets on average: the mean of both
    directions."""
    judged = load_judged_set(test_set)
    assert judged.stored is not None and judged.queries is not None
    truths = (
        index_qrels(judged.qrels, judged.stored.tables.images["image_id"]),
        index_qrels(transpose_qrels(judged.qrels), judged.queries["query_id"]),
    )
    to_images, to_texts = (
        run_evaluation.compute_chance_scores([metrics.parse_metric(name) for name in METRICS], truth)
        for truth in truths
    )
    return average_directions(to_images, to_texts)


def scores_with_intervals(scores: dict[str, MetricScores], queries: pd.DataFrame) -> dict[str, dict[str, list[float]]]:
    """Return by direction and metric the mean and the ends of its 95% interval; that of `mean` is over images
    with all their texts."""
    by_direction: dict[str, dict[str, list[float]]] = {}
    for direction, direction_scores in scores.items():
        by_direction[direction] = {
            str(metric): [float(direction_scores.per_query[str(metric)].mean()), float(low), float(high)]
            for metric, low, high in zip(
                direction_scores.metrics, direction_scores.interval.low, direction_scores.interval.high, strict=True
            )
        }
    by_direction["mean"] = {}
    for metric in METRICS:
        values = _score_per_image(scores, metric, queries)
        interval = statistics.estimate_interval(values.to_numpy(), ends=(0.0, float(values.max())))
        by_direction["mean"][metric] = [float(values.mean()), float(interval.low[0]), float(interval.high[0])]
    return by_direction


def _score_per_image(scores: dict[str, MetricScores], metric: str, queries: pd.DataFrame) -> pd.Series:
    """Return a number per image whose mean is the mean of both directions: its own score and those of its texts,
    weighted so that each image and each text counts the same. A text without an image among these counts alone."""
    texts, image_scores = (scores[direction].per_query[metric] for direction in (TEXT_TO_IMAGE, IMAGE_TO_TEXT))
    image_of_text = queries.set_index("query_id")["source_image_id"].reindex(texts.index).astype("object")
    image_of_text = image_of_text.where(image_of_text.isin(image_scores.index), texts.index.to_series())
    summed = texts.groupby(image_of_text.to_numpy()).sum()
    units = image_scores.index.union(summed.index)
    shares = [part.reindex(units, fill_value=0.0) * len(units) / count for part, count in
              ((image_scores, len(image_scores)), (summed, len(texts)))]  # fmt: skip
    values: pd.Series = (shares[0] + shares[1]) / 2
    return values
