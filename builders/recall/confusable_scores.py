"""Scores how likely a query fits another image than its own.

With a calibration (`calibration`) the score is the probability that people say so. Without one, the score of a query
and a confusable image, 0 to 1, is the first of these that can be computed:

- **coverage**: the captions of the image contain all phrases of the query (`phrases`): 1.
- **similarity**: the cosine of the two captions or, with image vectors, of the two images, whichever gives more: 0.5
  at its threshold, 1 at the cosine 1, linear between. The captions count 0 where a distinguishing unit differs (red,
  blue).
- With query and image vectors in one space: the square root of similarity times **query-image score**, which compares
  the query's cosine with the confusable image and with its own: 1 where the former is larger, 0.5 at `margin` below,
  0 at twice that. Both must agree: dropping queries by one embedder alone would leave the queries that are easy for
  it.

Likeness proposes, the words decide. A confusable image may be merged into the truth of a query (`is_mergeable`) only
where its captions say all of the query, or where by a calibration people say that the query fits; never where the
captions contradict the query in a count, a colour, a place, a sex or an age, or lack a word that distinguishes (red,
two, not), nor where they have none of its words. With a real encoder of images two of two merges by likeness were
false: "blue dust pan and broom next to white commode" became true of a toilet without a dust pan.

The shipped calibrations know captions alone: nobody judged pairs by image vectors. With one of these the images count
by the rule above where they give more. A calibration that was fitted with the definition's embedder of images contains
what the images show.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isnan

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from builders.recall.calibration import Calibration
from builders.recall.caption_index import AnswerIndex, CaptionIndex, MemberIndex
from builders.recall.pair_features import IMAGE_FEATURES, EncodeWords, PairFeatures
from builders.recall.phrases import Phrases, distinguishing_units, find_missing_units, restore_words
from querytruth.array_types import FloatArray, RowIndices, Vectors
from querytruth.backends.models.nearest_neighbours import pair_cosines

CONFUSABLE_COLUMNS = [
    "query_id",
    "image_id",
    "confusable_query_id",
    "score",
    "is_covered",
    "caption_cosine",
    "image_cosine",
    "query_image_cosine",
    "is_mergeable",
    "evidence",
]
_CONTRADICTED = 0.1  # share of the image's captions that state another value, from which the words contradict
_MOST_WORDS = 6  # missing words in the evidence


@dataclass(frozen=True, slots=True)
class ConfusableRules:
    """When a query counts as ambiguous.

    `max_listed` images are listed per query. Two captions (images) are candidates from `min_caption_cosine`
    (`min_image_cosine`) on; both depend on the embedder. `margin` is a difference of cosines. A query is ambiguous
    from `min_score` on. Candidates for reviewers are images of at least `candidate_score`, and the `candidate_count`
    first of each query. `calibrations` are chosen by language and by `embedder` and `image_embedder`, the names of the
    embedders of texts and of images.
    """

    max_listed: int = 5
    min_caption_cosine: float = 0.9
    min_image_cosine: float = 0.9
    margin: float = 0.02
    min_score: float = 0.5
    candidate_score: float = 1.0
    candidate_count: int = 0
    calibrations: tuple[Calibration, ...] = ()
    embedder: tuple[str, ...] = ()
    image_embedder: tuple[str, ...] = ()
    threads: int = 1


@dataclass(frozen=True, slots=True)
class QueryImageVectors:
    """Unit vectors (rows of the frame, dimensions), None where not given: `captions` of the queries in a text space;
    `queries` and `images` in a space that both share. `encode_words` encodes single words in the text space, where it
    compares meaning."""

    captions: Vectors | None = None
    queries: Vectors | None = None
    images: Vectors | None = None
    encode_words: EncodeWords | None = None

    def of_queries(self, rows: RowIndices) -> "QueryImageVectors":
        """Returns the vectors of these queries, and of all images."""
        captions, queries = (None if one is None else one[rows] for one in (self.captions, self.queries))
        return QueryImageVectors(captions, queries, self.images, self.encode_words)


def own_image_cosines(answers: AnswerIndex, query_vectors: Vectors, image_vectors: Vectors) -> FloatArray:
    """Returns each query's cosine with the nearest of its own images (2.0 where it has none)."""
    own = np.full(len(query_vectors), -np.inf)
    cosines = pair_cosines(query_vectors, image_vectors, answers.relevant_query, answers.relevant_image)
    np.maximum.at(own, answers.relevant_query, cosines)
    return np.where(np.isinf(own), 2.0, own)


class CandidateCosines:
    """The cosines of every candidate pair, NaN where vectors are missing, and the compared captions. Captions are
    compared when their cosines are first asked for: by a calibration, one pair in ten needs them."""

    def __init__(self, answers: AnswerIndex, vectors: QueryImageVectors, query: RowIndices, answer: RowIndices) -> None:
        self.query, self.answer = query, answer
        self._caption_query, of_answer = answers.caption_answer_pairs()
        self._members, self._captions = MemberIndex(of_answer, answers.count), vectors.captions
        self.has_captions = self._members.sizes[answer] > 0
        self.image_cosine = self.query_image_cosine = np.full(len(query), np.nan)
        if vectors.images is not None:
            self._measure_images(answers, vectors, vectors.images)

    def pick(self, chosen: NDArray[np.bool_]) -> "CandidateCosines":
        """Returns those of the chosen pairs (n,)."""
        picked = copy(self)
        for name in ("compared", "caption_cosine"):
            picked.__dict__.pop(name, None)
        for name in ("query", "answer", "has_captions", "image_cosine", "query_image_cosine"):
            setattr(picked, name, getattr(self, name)[chosen])
        return picked

    @cached_property
    def compared(self) -> tuple[RowIndices, RowIndices, FloatArray]:
        """The candidate of each compared caption, the query that the caption is, and the cosine of the two."""
        place, pair = self._members.members_of(self.answer)
        caption = self._caption_query[pair]
        if self._captions is None:
            return place, caption, np.full(len(caption), np.nan)
        return place, caption, pair_cosines(self._captions, self._captions, self.query[place], caption)

    @cached_property
    def caption_cosine(self) -> FloatArray:
        """The cosine of each query with the nearest caption of the image."""
        place, _, cosines = self.compared
        return _most(cosines, place, len(self.query))

    def image_features(self) -> dict[str, FloatArray]:
        """Returns IMAGE_FEATURES (n,) of each pair, NaN where vectors are missing."""
        return dict(zip(IMAGE_FEATURES, (self.image_cosine.round(6), self.query_image_cosine), strict=True))

    def _measure_images(self, answers: AnswerIndex, vectors: QueryImageVectors, image_vectors: Vectors) -> None:
        place, image = answers.images_by_answer.members_of(self.answer)
        if vectors.queries is not None:
            own = own_image_cosines(answers, vectors.queries, image_vectors)[self.query]
            near = pair_cosines(vectors.queries, image_vectors, self.query[place], image)
            self.query_image_cosine = (_most(near, place, len(self.query)) - own).round(6)
        pair, relevant = MemberIndex(answers.relevant_query, len(answers.query_ids)).members_of(self.query[place])
        near = pair_cosines(image_vectors, image_vectors, answers.relevant_image[relevant], image[pair])
        self.image_cosine = _most(near, place[pair], len(self.query))


def _most(values: FloatArray, place: RowIndices, count: int) -> FloatArray:
    out = np.full(count, -np.inf)
    np.fmax.at(out, place, values)
    return np.where(np.isinf(out), np.nan, out)


def score_candidates(
    caption_index: CaptionIndex,
    candidates: CandidateCosines,
    rules: ConfusableRules,
    calibration: Calibration | None = None,
    probabilities: FloatArray | None = None,
) -> FloatArray:
    """Returns how likely (n,) each candidate fits its query, 0 to 1. `probabilities` (n,): by `calibration`."""
    is_covered = caption_index.are_covered(candidates.query, candidates.answer)
    if calibration is None or probabilities is None:
        missing = _missing_units(caption_index, candidates)
        has_distinguishing = np.array([bool(distinguishing_units(units)) for units in missing], dtype=bool)
        return _score(is_covered, has_distinguishing, candidates, rules)
    by_images = _image_score(_ramp(candidates.image_cosine, rules.min_image_cosine), candidates, rules)
    is_calibrated = bool(calibration.image_embedder) & candidates.has_captions
    score: FloatArray = np.maximum(probabilities, np.where(is_covered, calibration.covered, 0))
    return np.maximum(score, np.where(is_calibrated, 0, by_images))


def describe_candidates(
    features: PairFeatures,
    caption_index: CaptionIndex,
    candidates: CandidateCosines,
    rules: ConfusableRules,
    score: FloatArray,
    probabilities: FloatArray,
) -> pd.DataFrame:
    """Returns a row per candidate with the columns CONFUSABLE_COLUMNS. `probabilities` (n,): 0 where no calibration
    says what people would."""
    answers = features.answers
    is_covered = caption_index.are_covered(candidates.query, candidates.answer)
    missing = _missing_units(caption_index, candidates)
    best_caption = _best_captions(caption_index, candidates)
    best_ids = [None if row < 0 else answers.query_ids[row] for row in best_caption]
    table = pd.DataFrame(
        {
            "query_id": answers.query_ids[candidates.query],
            "image_id": answers.image_ids[answers.representative_images()[candidates.answer]],
            "confusable_query_id": pd.array(best_ids, dtype="str"),
            "score": score,
            "is_covered": is_covered,
            "caption_cosine": candidates.caption_cosine,
            "image_cosine": candidates.image_cosine,
            "query_image_cosine": candidates.query_image_cosine,
        }
    )
    is_expected = probabilities >= rules.min_score
    is_lacking = [
        bool(distinguishing_units(lacked)) or len(lacked) >= _count_units(caption_index.query_phrases[query])
        for lacked, query in zip(missing, candidates.query.tolist(), strict=True)
    ]
    mergeable = (score >= rules.min_score) & (is_covered | is_expected) & ~np.array(is_lacking, dtype=bool)
    measured = features.measure_contradictions(candidates.query[mergeable], candidates.answer[mergeable])
    mergeable[mergeable] = np.max(list(measured.values()), axis=0) < _CONTRADICTED
    table["is_mergeable"] = mergeable
    texts = list(_quoted(answers, caption_index, candidates, is_covered.tolist(), best_caption))
    words = _missing_words(answers, caption_index, candidates, missing)
    table["evidence"] = pd.array(_evidence(table, words, texts, rules, is_expected.tolist()), dtype="str")
    return table[CONFUSABLE_COLUMNS]


def _missing_units(caption_index: CaptionIndex, candidates: CandidateCosines) -> list[list[str]]:
    """Returns per candidate the units of the query that the texts of the image lack."""
    wanted, known = caption_index.query_phrases, caption_index.answer_phrases
    pairs = zip(candidates.query.tolist(), candidates.answer.tolist(), strict=True)
    return [find_missing_units(wanted[query], known[answer]) if wanted[query] else ["?"] for query, answer in pairs]


def _quoted(
    answers: AnswerIndex,
    caption_index: CaptionIndex,
    candidates: CandidateCosines,
    is_covered: list[bool],
    best_captions: list[int],
) -> Iterator[str]:
    """Yields per candidate the text that supports it: a caption, or a description where only that covers the query."""
    pairs = zip(candidates.query.tolist(), candidates.answer.tolist(), strict=True)
    phrases = caption_index.query_phrases
    for (query, answer), whole, row in zip(pairs, is_covered, best_captions, strict=True):
        caption = "" if row < 0 else str(answers.texts[row])
        is_caption_enough = not whole or (row >= 0 and not find_missing_units(phrases[query], phrases[row]))
        yield caption if is_caption_enough else caption_index.best_description(phrases[query], answer) or caption


def _score(
    is_covered: NDArray[np.bool_],
    has_distinguishing: NDArray[np.bool_],
    candidates: CandidateCosines,
    rules: ConfusableRules,
) -> FloatArray:
    captions = np.where(has_distinguishing, 0.0, _ramp(candidates.caption_cosine, rules.min_caption_cosine))
    similarity = np.maximum(captions, _ramp(candidates.image_cosine, rules.min_image_cosine))
    score: FloatArray = np.where(is_covered, 1.0, _image_score(similarity, candidates, rules))
    return score


def _image_score(similarity: FloatArray, candidates: CandidateCosines, rules: ConfusableRules) -> FloatArray:
    """Returns the similarity, or its mean with the query-image score where there is one."""
    excess = candidates.query_image_cosine
    query_image_score = np.clip(1 + excess / (2 * rules.margin), 0, 1) if rules.margin else excess >= 0
    score: FloatArray = np.where(np.isnan(excess), similarity, np.sqrt(similarity * query_image_score)).round(4)
    return score


def _ramp(cosine: FloatArray, threshold: float) -> FloatArray:
    """Returns 0.5 at the threshold, 1 at the cosine 1, and 0 for NaN."""
    return np.nan_to_num(np.clip(0.5 + 0.5 * (cosine - threshold) / max(1 - threshold, 1e-6), 0, 1))


def _best_captions(caption_index: CaptionIndex, candidates: CandidateCosines) -> list[int]:
    """Returns per candidate the caption of the image that covers most of the query; -1 where it has none."""
    phrases, best = caption_index.query_phrases, []
    place, compared, cosines = candidates.compared
    cosines = np.nan_to_num(cosines)
    bounds = place.searchsorted(np.arange(len(candidates.query) + 1)).tolist()
    pairs = zip(candidates.query.tolist(), candidates.answer.tolist(), pairwise(bounds), strict=True)
    for query, answer, (start, end) in pairs:
        # What no text of the image is about is missing from each of its captions.
        heads = {phrase[-1] for phrase in caption_index.answer_phrases[answer]}
        about = frozenset(phrase for phrase in phrases[query] if phrase[-1] in heads)
        lacking = {unit for phrase in phrases[query] - about for unit in phrase}
        captions = compared[start:end].tolist()
        missing = [len(lacking.union(find_missing_units(about, phrases[one]))) if about else 0 for one in captions]
        best.append(min(zip(missing, (-cosines[start:end]).tolist(), captions, strict=True), default=(0, 0, -1))[2])
    return best


def _missing_words(
    answers: AnswerIndex, caption_index: CaptionIndex, candidates: CandidateCosines, missing: list[list[str]]
) -> list[list[str]]:
    """Returns per candidate the words of the query that no caption of the image has, and the distinguishing ones that
    it does not have of the same thing."""
    known_units = {
        answer: {unit for phrase in caption_index.answer_phrases[answer] for unit in phrase}
        for answer in set(candidates.answer.tolist())
    }
    rows = zip(candidates.query.tolist(), candidates.answer.tolist(), missing, strict=True)
    return [
        restore_words(answers.texts[query], {*distinguishing_units(units), *(set(units) - known_units[answer])})
        for query, answer, units in rows
    ]


def _count_units(phrases: Phrases) -> int:
    return len({unit for phrase in phrases for unit in phrase})


def _evidence(
    table: pd.DataFrame, missing: list[list[str]], texts: list[str], rules: ConfusableRules, by_people: list[bool]
) -> list[str]:
    """Returns the evidence of each candidate as text, for reviewers and for the qrels: what is alike from the cuts of
    the rules on, and the words that the image's captions lack. It names no cosine: the digest of a set does not rest
    on the last digits of a model's vectors."""
    lines = []
    rows = zip(table.itertuples(index=False), missing, texts, by_people, strict=True)
    for row, words, text, is_expected in rows:
        parts = ["its captions say all of it"] if row.is_covered else []
        if not row.is_covered and _reaches(row.caption_cosine, rules.min_caption_cosine):
            parts.append("captions alike")
        elif not row.is_covered and is_expected:
            parts.append("people say that such captions fit")
        parts += ["images alike"] if _reaches(row.image_cosine, rules.min_image_cosine) else []
        more = " …" if len(words) > _MOST_WORDS else ""
        parts += ["not said: " + " ".join(words[:_MOST_WORDS]) + more] if words else []
        lines.append(": ".join(part for part in (", ".join(parts), text) if part))
    return lines


def _reaches(cosine: float, cut: float) -> bool:
    return not isnan(cosine) and round(cosine, 4) >= cut
