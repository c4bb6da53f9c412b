"""Finds the images that a query may fit besides its own: by its phrases, words, caption vectors and image vectors.

Each measure proposes the nearest images of each query, so that the number of pairs grows with the number of queries.
`confusable_scores` scores them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from builders.recall import confusable_scores
from builders.recall.calibration import CalibrationChoice, choose_calibration
from builders.recall.caption_index import AnswerIndex, CaptionIndex, MemberIndex, build_answer_index
from builders.recall.pair_features import PairFeatures, centre_vectors
from builders.recall.phrases import split_words
from querytruth.array_types import BoolArray, FloatArray, RowIndices, Vectors
from querytruth.backends.models.nearest_neighbours import find_near_pairs, find_nearest_rows

NEAREST_IMAGES = 40  # that each measure proposes for a query
_CAPTIONS_PER_IMAGE = 2  # captions that are searched for each image that is wanted: several may be of one image
_QUERIES_PER_BLOCK = 512
_PAIRS_PER_BLOCK = 1 << 20
_MAX_IMAGES_OF_WORD = 5000  # a word of more images proposes none


def propose_by_vectors(answers: AnswerIndex, vectors: Vectors, count: int, threads: int) -> list[RowIndices]:
    """Returns keys of pairs (`pair_keys`): of each query the answers of its nearest captions, and those whose captions
    are nearest on average. `vectors`: centred vectors of the queries."""
    caption, of_answer = answers.caption_answer_pairs()
    left, right = find_nearest_rows(vectors, vectors, count * _CAPTIONS_PER_IMAGE + 1, threads=threads)
    place, pair = MemberIndex(caption, len(answers.query_ids)).members_of(right)
    keys = [answers.pair_keys(left[place], of_answer[pair])]
    members = MemberIndex(of_answer, answers.count)
    described = np.flatnonzero(members.sizes)
    if len(described) < len(caption):
        order, starts = caption[members.members], members.starts[described]
        means = np.add.reduceat(vectors[order], starts, axis=0)
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        left, right = find_nearest_rows(vectors, means.astype(np.float32), count, threads=threads)
        keys.append(answers.pair_keys(left, described[right]))
    return keys


def propose_by_words(answers: AnswerIndex, count: int) -> RowIndices:
    """Returns keys of pairs: of each query the answers whose captions share its rarest words."""
    lists = [split_words(text) for text in answers.texts]
    place = {word: number for number, word in enumerate(sorted({word for words in lists for word in words}))}
    rows = np.repeat(np.arange(len(lists)), [len(words) for words in lists])
    columns = np.array([place[word] for words in lists for word in words], dtype=np.int64)
    queries = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(lists), len(place)))
    caption, of_answer = answers.caption_answer_pairs()
    membership = csr_matrix((np.ones(len(caption)), (of_answer, caption)), shape=(answers.count, len(lists)))
    images = (membership @ queries).astype(bool).astype(np.float64)
    counts = np.asarray(images.sum(axis=0)).ravel()
    rarity = np.log((answers.count + 1) / (counts + 0.5)).clip(0)
    lengths = np.sqrt(np.asarray(images.multiply(rarity).sum(axis=1)).ravel())
    weighted = images.multiply(np.where(counts > _MAX_IMAGES_OF_WORD, 0, rarity)).tocsr().T.tocsc()
    keys = [np.empty(0, np.int64)]
    for start in range(0, len(lists), _QUERIES_PER_BLOCK):
        scores = (queries[start : start + _QUERIES_PER_BLOCK] @ weighted).tocsr()
        scores.data /= np.maximum(lengths[scores.indices], 1e-9)
        keys.append(_highest(scores, count, start, answers))
    return np.concatenate(keys)


def _highest(scores: Any, count: int, start: int, answers: AnswerIndex) -> RowIndices:
    values, likely = scores.data.round(6), [np.empty(0, np.int64)]
    for first, end in pairwise(scores.indptr.tolist()):
        row = values[first:end]  # of a common word thousands of images: only the first ones are put in order
        least = np.partition(row, -count)[-count] if len(row) > count else -np.inf
        likely.append(first + np.flatnonzero(row >= least))
    kept, sizes = np.concatenate(likely), [len(one) for one in likely[1:]]
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((scores.indices[kept], -values[kept], query))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = order[rank < count]
    return answers.pair_keys(start + query[chosen], scores.indices[kept[chosen]].astype(np.int64))


def propose_by_near_captions(answers: AnswerIndex, vectors: Vectors, min_cosine: float, count: int) -> RowIndices:
    """Returns keys of pairs: of each query the answers of captions of at least this cosine, the nearest `count`."""
    caption, of_answer = answers.caption_answer_pairs()
    most = count * int(np.bincount(of_answer, minlength=1).max())
    left, right = find_near_pairs(vectors, vectors, np.full(len(vectors), min_cosine), most)
    place, pair = MemberIndex(caption, len(answers.query_ids)).members_of(right)
    return answers.pair_keys(left[place], of_answer[pair])


def propose_by_images(answers: AnswerIndex, images: Vectors, min_cosine: float, count: int) -> RowIndices:
    """Returns keys of pairs: of each query the answers whose images are near its own, the nearest `count`."""
    most = count * int(np.bincount(answers.answer, minlength=1).max())
    left, right = find_near_pairs(images, images, np.full(len(images), min_cosine), most)
    place, pair = MemberIndex(answers.relevant_image, len(answers.image_ids)).members_of(left)
    return answers.pair_keys(answers.relevant_query[pair], answers.answer[right[place]])


def propose_by_queries(
    answers: AnswerIndex, queries: Vectors, images: Vectors, min_cosines: FloatArray, count: int
) -> RowIndices:
    """Returns keys of pairs: of each query the answers whose images have at least its cosine (n,) with the query."""
    most = count * int(np.bincount(answers.answer, minlength=1).max())
    left, right = find_near_pairs(queries, images, min_cosines, most)
    return answers.pair_keys(left, answers.answer[right])


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
    parts, choices = [], []
    for language, some, some_vectors in _split_by_language(queries, answers, _in_order(vectors, answers)):
        names = pd.Index(some["query_id"])
        index = build_answer_index(some, qrels[qrels["query_id"].astype("str").isin(names)], images, duplicates)
        ordered = _in_order(some_vectors, index)
        table, choice = _find_in_language(index, ordered, language, rules, descriptions)
        parts.append(table)
        choices += [choice] if choice is not None else []
    return _cut_to_listed(pd.concat(parts, ignore_index=True), rules, tuple(choices))


def _split_by_language(
    queries: pd.DataFrame, answers: AnswerIndex, vectors: confusable_scores.QueryImageVectors
) -> Iterator[tuple[str, pd.DataFrame, confusable_scores.QueryImageVectors]]:
    """Yields each language with its queries, sorted by id, and the vectors of these queries and of all images."""
    ordered = queries.iloc[answers.query_rows]
    for language in sorted(ordered["language"].unique()) or [""]:
        rows = np.flatnonzero((ordered["language"] == language).to_numpy())
        captions = None if vectors.captions is None else vectors.captions[rows]
        by_image = None if vectors.queries is None else vectors.queries[rows]
        images = None if vectors.images is None else vectors.images[np.argsort(answers.image_rows)]
        yield (
            str(language),
            ordered.iloc[rows],
            confusable_scores.QueryImageVectors(captions, by_image, images, vectors.encode_words),
        )


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
            ways.insert(0, (rules.embedder, PairFeatures(answers, centred, vectors.encode_words)))
        choice, chosen_features = choose_calibration(rules.calibrations, language, ways, rules.image_embedder)
        features = chosen_features or features
    calibration = None if choice is None else choice.calibration
    caption_index = CaptionIndex(answers, descriptions)
    query, answer = _candidates(answers, vectors, centred, caption_index, rules, is_calibrated=calibration is not None)
    cosines = confusable_scores.CandidateCosines(answers, vectors, query, answer)
    probabilities, rank_values = np.zeros(len(query)), np.full(len(query), -np.inf)
    if calibration is not None:
        for rows in _split_pairs(np.flatnonzero(np.isin(answer, answers.caption_answer_pairs()[1]))):
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
    return table.assign(rank=rank[is_kept]), choice


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


def _split_pairs(rows: RowIndices) -> list[RowIndices]:
    """Returns the rows in parts that bound the memory that their features take."""
    return np.array_split(rows, max(1, -(-len(rows) // _PAIRS_PER_BLOCK)))


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


def _candidates(
    answers: AnswerIndex,
    vectors: confusable_scores.QueryImageVectors,
    centred: Vectors | None,
    caption_index: CaptionIndex,
    rules: confusable_scores.ConfusableRules,
    *,
    is_calibrated: bool,
) -> tuple[RowIndices, RowIndices]:
    """Returns the distinct unjudged pairs (query, answer) that any measure proposes, in order. `centred`: centred
    vectors of the queries; a calibration takes all near captions, whatever their cosine, and so does whoever asks for
    the nearest images."""
    # Leaves more than `max_listed` per query after the judged ones are removed, where there are more.
    wanted = rules.max_listed + 1 + answers.max_judged_per_query()
    nearest = max(NEAREST_IMAGES, rules.candidate_count) + answers.max_judged_per_query()
    keys = [answers.pair_keys(*caption_index.find_covered_pairs(answers.judged_keys, wanted))]
    takes_all = is_calibrated or rules.candidate_count > 0
    if takes_all:
        keys.append(propose_by_words(answers, nearest))
    if centred is not None and takes_all:
        keys += propose_by_vectors(answers, centred, nearest, rules.threads)
    elif vectors.captions is not None:
        keys.append(propose_by_near_captions(answers, vectors.captions, rules.min_caption_cosine, wanted))
    if vectors.images is not None:
        keys.append(propose_by_images(answers, vectors.images, rules.min_image_cosine, wanted))
        if vectors.queries is not None:
            least = confusable_scores.own_image_cosines(answers, vectors.queries, vectors.images) - rules.margin
            keys.append(propose_by_queries(answers, vectors.queries, vectors.images, least, wanted))
    proposed = np.sort(np.concatenate(keys))  # several times as fast as np.unique, which hashes
    distinct = proposed[np.diff(proposed, prepend=-1) > 0]
    return answers.pairs_of_keys(distinct[np.isin(distinct, answers.judged_keys, assume_unique=True, invert=True)])


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
