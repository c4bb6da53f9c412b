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
by the rule above where they give more. A calibration that `querytruth calibrate` fitted with the image embedder of the
definition contains what the images show.
"""

from collections.abc import Iterator
from dataclasses import dataclass
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


def own_image_cosines(answers: AnswerIndex, query_vectors: Vectors, image_vectors: Vectors) -> FloatArray:
    """Returns each query's cosine with the nearest of its own images (2.0 where it has none)."""
    own = np.full(len(query_vectors), -np.inf)
    cosines = pair_cosines(query_vectors, image_vectors, answers.relevant_query, answers.relevant_image)
    np.maximum.at(own, answers.relevant_query, cosines)
    return np.where(np.isinf(own), 2.0, own)


class CandidateCosines:
    """The cosines of every candidate pair, NaN where vectors are missing, and the compared captions."""

    def __init__(self, answers: AnswerIndex, vectors: QueryImageVectors, query: RowIndices, answer: RowIndices) -> None:
        self.query, self.answer = query, answer
        caption_query, of_answer = answers.caption_answer_pairs()
        self.place, pair = MemberIndex(of_answer, answers.count).members_of(answer)
        self.caption = caption_query[pair]  # the query of each compared caption; `place`: its candidate
        self.compared_cosine = np.full(len(self.caption), np.nan)
        if vectors.captions is not None:
            self.compared_cosine = pair_cosines(vectors.captions, vectors.captions, query[self.place], self.caption)
        self.has_captions = np.bincount(self.place, minlength=len(query)) > 0
        self.caption_cosine = _most(self.compared_cosine, self.place, len(query))
        self.image_cosine = self.query_image_cosine = np.full(len(query), np.nan)
        if vectors.images is not None:
            self._measure_images(answers, vectors, vectors.images)

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


def score_confusable_images(
    answers: AnswerIndex,
    caption_index: CaptionIndex,
    candidates: CandidateCosines,
    rules: ConfusableRules,
    calibration: Calibration | None = None,
    probabilities: FloatArray | None = None,
) -> pd.DataFrame:
    """Returns a row per candidate pair with the columns CONFUSABLE_COLUMNS. `probabilities` (n,): by `calibration`."""
    missing = [
        find_missing_units(caption_index.query_phrases[query], caption_index.answer_phrases[answer])
        if caption_index.query_phrases[query]
        else ["?"]
        for query, answer in zip(candidates.query.tolist(), candidates.answer.tolist(), strict=True)
    ]
    distinguishing = [distinguishing_units(units) for units in missing]
    is_covered = np.array([not units for units in missing], dtype=bool)
    by_people = np.zeros(len(missing))
    if calibration is None or probabilities is None:
        score = _score(is_covered, np.array([bool(units) for units in distinguishing], dtype=bool), candidates, rules)
    else:
        score = np.maximum(probabilities, np.where(is_covered, calibration.covered, 0))
        by_images = _image_score(_ramp(candidates.image_cosine, rules.min_image_cosine), candidates, rules)
        is_calibrated = bool(calibration.image_embedder) & candidates.has_captions
        score = np.maximum(score, np.where(is_calibrated, 0, by_images))
        by_people = probabilities
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
    is_supported = is_covered | (by_people >= rules.min_score)
    is_lacking = [
        bool(units) or len(lacked) >= _count_units(caption_index.query_phrases[query])
        for units, lacked, query in zip(distinguishing, missing, candidates.query.tolist(), strict=True)
    ]
    mergeable = (score >= rules.min_score) & is_supported & ~np.array(is_lacking, dtype=bool)
    mergeable[mergeable] = ~_is_contradicted(answers, candidates.query[mergeable], candidates.answer[mergeable])
    table["is_mergeable"] = mergeable
    texts = list(_quoted(answers, caption_index, candidates, is_covered.tolist(), best_caption))
    words = _missing_words(answers, caption_index, candidates, missing)
    evidence = _evidence(table, words, texts, rules, (by_people >= rules.min_score).tolist())
    table["evidence"] = pd.array(evidence, dtype="str")
    return table[CONFUSABLE_COLUMNS]


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
    best: list[tuple[int, float, int]] = [(1 << 30, 0.0, -1)] * len(candidates.query)
    phrases = caption_index.query_phrases
    columns = (candidates.place, candidates.caption, np.nan_to_num(candidates.compared_cosine))
    for place, caption, cosine in zip(*(column.tolist() for column in columns), strict=True):
        missing = find_missing_units(phrases[candidates.query[place]], phrases[caption])
        best[place] = min(best[place], (len(missing), -cosine, caption))
    return [caption for _, _, caption in best]


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


def _is_contradicted(answers: AnswerIndex, query: RowIndices, answer: RowIndices) -> NDArray[np.bool_]:
    """Returns whether the captions of each image state another count, colour, place, sex or age than the query."""
    if not len(query):
        return np.zeros(0, dtype=bool)
    measured = PairFeatures(answers).measure_contradictions(query, answer)
    contradicted: NDArray[np.bool_] = np.max(list(measured.values()), axis=0) >= _CONTRADICTED
    return contradicted


def _evidence(
    table: pd.DataFrame, missing: list[list[str]], texts: list[str], rules: ConfusableRules, by_people: list[bool]
) -> list[str]:
    """Returns the evidence of each candidate as text, for reviewers and for the qrels: what is alike from the cuts of
    the rules on, and the words that the image's captions lack. It names no cosine: the digest of a set does not rest
    on the last digits of a model's vectors."""
    lines = []
    rows = zip(table.itertuples(index=False), missing, texts, by_people, strict=True)
    for row, words, text, is_expected in rows:
        parts = ["all of it is said of this picture"] if row.is_covered else []
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
