"""Finds the images that a query may fit besides its own: `candidate_pairs` proposes them, `confusable_scores` scores
them, and what is ambiguous or waits for people is put in order and explained.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from builders.recall import confusable_scores
from builders.recall.calibration import CalibrationChoice, choose_calibration
from builders.recall.candidate_pairs import CandidatePairs
from builders.recall.caption_index import AnswerIndex, CaptionIndex, build_answer_index
from builders.recall.pair_features import PairFeatures, centre_vectors
from querytruth.array_types import BoolArray, FloatArray, RowIndices, Vectors


@dataclass(frozen=True, slots=True)
class ConfusableImages:
    """The confusable images of all queries.

    `table` has of each query the first `max_listed` images of at least `min_score`, the most likely first (columns:
    CONFUSABLE_COLUMNS). Its image_id is the first of a duplicate group; confusable_query_id is the caption that
    supports it most (null where only a description or the images do). `ambiguous_query_ids` are queries with an image
    of at least `min_score`; `crowded_query_ids` are those with more such images than are listed. `candidates` are the
    rows that people should judge: of at least `min_score` or of the rules' second threshold, and the first ones of each
    query. `calibrations` are those of each language.
    """

    table: pd.DataFrame
    ambiguous_query_ids: frozenset[str]
    crowded_query_ids: frozenset[str]
    min_score: float
    candidates: pd.DataFrame
    calibrations: tuple[CalibrationChoice, ...] = ()
    judged_by: str = "caption"  # of the pairs that are merged


def find_confusable_images(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    images: pd.DataFrame,
    rules: confusable_scores.ConfusableRules,
    vectors: confusable_scores.QueryImageVectors,
    *,
    descriptions: pd.DataFrame | None = None,
    duplicates: pd.DataFrame | None = None,
) -> ConfusableImages:
    """Returns the unjudged confusable images of every query, independent of the order of rows.

    Captions are compared with captions of their own language. `descriptions` (image_id, text) describe images without
    being queries and lead to more confusable images. Raises ValueError for vectors that do not fit the frames.
    """
    answers = build_answer_index(queries, qrels, images, duplicates)
    ordered, parts, choices = _in_order(vectors, answers), [], []
    languages = queries["language"].to_numpy(dtype=object)[answers.query_rows]
    for language in sorted(set(languages)) or [""]:
        index, own, rows = answers, ordered, np.flatnonzero(languages == language)
        if len(rows) < len(languages):
            some = queries.iloc[answers.query_rows[rows]]
            of_some = qrels[qrels["query_id"].astype("str").isin(pd.Index(some["query_id"]))]
            index, own = build_answer_index(some, of_some, images, duplicates), ordered.of_queries(rows)
        table, choice = _find_in_language(index, own, str(language), rules, descriptions)
        parts.append(table)
        choices += [choice] if choice is not None else []
    return _cut_to_listed(pd.concat(parts, ignore_index=True), rules, tuple(choices))


def _find_in_language(
    answers: AnswerIndex,
    vectors: confusable_scores.QueryImageVectors,
    language: str,
    rules: confusable_scores.ConfusableRules,
    descriptions: pd.DataFrame | None,
) -> tuple[pd.DataFrame, CalibrationChoice | None]:
    centred, choice, features = None, None, PairFeatures(answers)
    if rules.calibrations:
        ways: list[tuple[tuple[str, ...], PairFeatures]] = [((), features)]
        if vectors.captions is not None:
            centred = centre_vectors(vectors.captions)
            ways.insert(0, (rules.embedder, features.with_vectors(centred, vectors.encode_words)))
        choice, chosen_features = choose_calibration(rules.calibrations, language, ways, rules.image_embedder)
        features = chosen_features or features
    calibration = None if choice is None else choice.calibration
    caption_index = CaptionIndex(answers, descriptions)
    pairs = CandidatePairs(answers, vectors, centred, caption_index, rules, is_calibrated=calibration is not None)
    described = np.unique(answers.caption_answer_pairs()[1])
    tables = []
    for query, answer in pairs:
        cosines = confusable_scores.CandidateCosines(answers, vectors, query, answer)
        probabilities, rank_values = np.zeros(len(query)), np.full(len(query), -np.inf)
        if calibration is not None:
            rows = np.flatnonzero(np.isin(answer, described))
            measured = features.measure(query[rows], answer[rows])
            measured |= {name: column[rows] for name, column in cosines.image_features().items()}
            probabilities[rows] = calibration.probabilities(measured)
            rank_values[rows] = calibration.rank_values(measured)
        score = confusable_scores.score_candidates(
            caption_index, cosines, rules, calibration, None if calibration is None else probabilities
        )
        rank_values = score if calibration is None else rank_values
        # Only what is ambiguous or waits for people is put in order and explained: of twenty candidates, one.
        is_kept = _may_be_shown(query, score, rank_values, rules)
        cosines, score, probabilities = cosines.pick(is_kept), score[is_kept], probabilities[is_kept]
        rank = _rank_candidates(cosines, rules, score, rank_values[is_kept])
        is_kept = (score >= min(rules.candidate_score, rules.min_score)) | (rank < rules.candidate_count)
        table = confusable_scores.describe_candidates(
            features, caption_index, cosines.pick(is_kept), rules, score[is_kept], probabilities[is_kept]
        )
        tables.append(table.assign(rank=rank[is_kept]))
    return pd.concat(tables, ignore_index=True), choice


def _may_be_shown(
    query: RowIndices, score: FloatArray, rank_values: FloatArray, rules: confusable_scores.ConfusableRules
) -> BoolArray:
    """Returns whether (n,) each candidate is likely, or by its `rank_values` may be among the first `candidate_count`
    of its query. `query`: ascending."""
    is_shown: BoolArray = score >= min(rules.candidate_score, rules.min_score)
    if rules.candidate_count:
        for start, end in pairwise(np.flatnonzero(np.diff(query, prepend=-1, append=-1)).tolist()):
            last = max(start - end, -rules.candidate_count)
            is_shown[start:end] |= rank_values[start:end] >= np.partition(rank_values[start:end], last)[last]
    return is_shown


def _rank_candidates(
    candidates: confusable_scores.CandidateCosines,
    rules: confusable_scores.ConfusableRules,
    score: FloatArray,
    rank_values: FloatArray,
) -> RowIndices:
    """Returns the rank of each candidate of its query, from 0. Images of at least `min_score` come first, by their
    scores; then those of at least `candidate_score` and then the others, both by `rank_values`."""
    is_likely = score >= min(rules.candidate_score, rules.min_score)
    likely = np.where(score >= rules.min_score, score, np.where(is_likely, 0.0, -1.0))
    keys = (-score, -rank_values, -likely, candidates.query)
    order = np.lexsort((candidates.answer, *keys))  # answers are numbered in the order of their first images
    is_tied = np.zeros(len(order), dtype=bool)
    same = np.logical_and.reduce([key[order[1:]] == key[order[:-1]] for key in keys])
    is_tied[order[1:][same]] = is_tied[order[:-1][same]] = True
    if is_tied.any():  # few are, and only of these the captions need be compared
        cosine = np.zeros(len(order))
        cosine[is_tied] = candidates.pick(is_tied).caption_cosine
        order = np.lexsort((candidates.answer, -cosine, *keys))
    _, first, sizes = np.unique(candidates.query[order], return_index=True, return_counts=True)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(first, sizes)
    return rank


def _in_order(
    query_image_vectors: confusable_scores.QueryImageVectors, answers: AnswerIndex
) -> confusable_scores.QueryImageVectors:
    ordered = []
    rows_by_name = {"captions": answers.query_rows, "queries": answers.query_rows, "images": answers.image_rows}
    for name, rows in rows_by_name.items():
        vectors: Vectors | None = getattr(query_image_vectors, name)
        if vectors is not None and (len(vectors) != len(rows) or not np.isfinite(vectors).all()):
            raise ValueError(f"{name}: {len(vectors)} vectors for {len(rows)} rows, or some that are no numbers")
        same = vectors is None or bool((rows == np.arange(len(rows))).all())  # avoids a copy
        ordered.append(vectors if vectors is None or same else vectors[rows])
    if ordered[1] is not None and ordered[2] is None:
        raise ValueError("queries: vectors of queries without those of images")
    captions, by_image, images = ordered
    return confusable_scores.QueryImageVectors(captions, by_image, images, query_image_vectors.encode_words)


def _cut_to_listed(
    table: pd.DataFrame, rules: confusable_scores.ConfusableRules, choices: tuple[CalibrationChoice, ...]
) -> ConfusableImages:
    """Returns of each query the first `max_listed` images, and the candidates."""
    table = table.sort_values(["query_id", "rank"], ignore_index=True)
    rank, table = table["rank"], table[confusable_scores.CONFUSABLE_COLUMNS]
    sure = table["score"] >= rules.min_score
    counts = table.loc[sure, "query_id"].value_counts()
    is_listed = rank < rules.max_listed
    is_candidate = (sure & is_listed) | ((table["score"] >= rules.candidate_score) & ~sure)
    candidates = table[is_candidate | (rank < rules.candidate_count)].reset_index(drop=True)
    crowded = frozenset(counts.index[counts > rules.max_listed])
    listed = table[sure & is_listed].reset_index(drop=True)
    return ConfusableImages(listed, frozenset(counts.index), crowded, rules.min_score, candidates, choices)
