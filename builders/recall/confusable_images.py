"""Finds the images that a query may fit besides its own, says how probable it is, and explains it.

Images are proposed whose captions say all of the query, and those of the nearest captions and images by vectors. The
score is the probability of the fitted line; where captions say all of the query, at least that of such pairs. Without
a line it is 1 where captions say all, else 0.

Likeness proposes, the words decide: an image may be merged into the truth of a query (`is_mergeable`) never where its
captions state another kind, sex, age, number, colour, place or time alone, or lack a number, colour, time or "not" of
the query. By vectors of real images alone two of two merges were false: "blue dust pan and broom next to white
commode" became true of a toilet without a dust pan.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from builders.recall.caption_index import AnswerIndex, CaptionIndex, MemberIndex, build_answer_index
from builders.recall.fit_probability import MIN_CAPTIONS, FittedLine, PairFeatures, choose_line
from querytruth.array_types import BoolArray, FloatArray, RowIndices, Vectors
from querytruth.backends.models.nearest_neighbours import NearestRows

CONFUSABLE_COLUMNS = ["query_id", "image_id", "confusable_query_id", "score", "is_mergeable", "evidence"]
NEAREST = 40  # captions, and images, that are proposed for a query
_QUERIES_AT_ONCE = 2048
_MOST_WORDS = 6  # missing words in the evidence


@dataclass(frozen=True, slots=True)
class ConfusableRules:
    """A query is ambiguous from `min_score` on. `max_listed` images are listed per query; candidates for reviewers are
    images of at least `candidate_score`, and the `candidate_count` first of each query. `compares_spelling`: whether
    the embedder of texts does."""

    max_listed: int = 5
    min_score: float = 0.5
    candidate_score: float = 1.0
    candidate_count: int = 0
    lines: tuple[FittedLine, ...] = ()
    compares_spelling: bool = False
    threads: int = 1


@dataclass(frozen=True, slots=True)
class ConfusableImages:
    """The confusable images of all queries.

    `table` has of each query the first `max_listed` images of at least `min_score`, the most likely first (columns:
    CONFUSABLE_COLUMNS). Its image_id is the first of a duplicate group; confusable_query_id is the caption that lacks
    fewest words of the query (null where that is a description). `ambiguous_query_ids` are queries with an image of at
    least `min_score`; `crowded_query_ids` are those with more such images than are listed. `candidates` are the rows
    that people should judge. `lines`: per language the fitted line, or why there is none.
    """

    table: pd.DataFrame
    ambiguous_query_ids: frozenset[str]
    crowded_query_ids: frozenset[str]
    min_score: float
    candidates: pd.DataFrame
    lines: dict[str, FittedLine | str] = field(default_factory=dict)
    judged_by: str = "caption"  # of the pairs that are merged


def find_confusable_images(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    images: pd.DataFrame,
    rules: ConfusableRules,
    vectors: Vectors,
    image_vectors: Vectors | None = None,
    *,
    descriptions: pd.DataFrame | None = None,
    duplicates: pd.DataFrame | None = None,
) -> ConfusableImages:
    """Returns the unjudged confusable images of every query with an own image, independent of the order of rows.

    `vectors`, `image_vectors`: of length one, a row for each query and each image. Captions are compared with captions
    of their own language. `descriptions` (image_id, text) describe images without being queries and lead to more
    confusable images. Raises ValueError for vectors that do not fit the frames.
    """
    for rows, given in ((queries, vectors), (images, image_vectors)):
        if given is not None and (len(given) != len(rows) or not np.isfinite(given).all()):
            raise ValueError(f"{len(given)} vectors for {len(rows)} rows, or values that are not finite")
    languages, parts, lines = queries["language"].to_numpy(dtype=object), [], {}
    for language in sorted(set(languages)) or [""]:
        rows = np.flatnonzero(languages == language)
        is_some = qrels["query_id"].isin(queries["query_id"].iloc[rows])
        answers = build_answer_index(queries.iloc[rows], qrels[is_some], images, duplicates)
        own = _take(vectors, rows[answers.query_rows])
        of_images = None if image_vectors is None else _take(image_vectors, answers.image_rows)
        search = _Search(answers, CaptionIndex(answers, descriptions), own, of_images, rules, language)
        lines[language] = search.line or search.reason
        parts += list(search.find_tables())
    return _cut_to_listed(pd.concat(parts, ignore_index=True), rules, lines)


def _take(vectors: Vectors, rows: RowIndices) -> Vectors:
    return vectors if np.array_equal(rows, np.arange(len(vectors))) else vectors[rows]  # a copy doubles the memory


class _Search:
    """The search in one language. `line`: the fitted line, None for the `reason`."""

    def __init__(
        self,
        answers: AnswerIndex,
        captions: CaptionIndex,
        vectors: Vectors,
        image_vectors: Vectors | None,
        rules: ConfusableRules,
        language: str,
    ) -> None:
        self._answers, self._captions, self._rules = answers, captions, rules
        self._vectors, self._image_vectors = vectors, image_vectors
        self._caption, self._answer = answers.caption_answer_pairs()
        self._near_captions = NearestRows(vectors)
        self._near_images = None if image_vectors is None else NearestRows(image_vectors)
        self.line = choose_line(rules.lines, language, compares_spelling=rules.compares_spelling)
        self.reason = f"nobody's judgments of captions in {language} were fitted to"
        if self.line is not None and len(self._caption) < MIN_CAPTIONS:
            self.line, self.reason = None, f"fewer than {MIN_CAPTIONS} captions"
        if self.line is not None:
            self._features = PairFeatures(answers, captions, vectors, image_vectors)
            if reason := self.line.explain_misfit(self._features):
                self.line, self.reason = None, reason

    def find_tables(self) -> Iterator[pd.DataFrame]:
        """Yields the confusable images of some queries at a time, with their `rank` for the query, from 0."""
        answers, rules = self._answers, self._rules
        for start in range(0, max(len(answers.query_ids), 1), _QUERIES_AT_ONCE):
            end = min(start + _QUERIES_AT_ONCE, len(answers.query_ids))
            proposed = np.unique(np.concatenate([answers.pair_keys(*pairs) for pairs in self._propose(start, end)]))
            new = np.setdiff1d(proposed, answers.judged_keys, assume_unique=True)
            query, answer = answers.pairs_of_keys(new[answers.own_answer[new // max(answers.count, 1)] >= 0])
            is_covered = self._captions.are_covered(query, answer)
            score = self._score(query, answer, is_covered)
            order = np.lexsort((answer, -score, query))  # answers are numbered in the order of their first images
            rank = np.arange(len(order)) - query.searchsorted(query)  # rows in `order` are sorted by the query, too
            is_kept = (score[order] >= min(rules.candidate_score, rules.min_score)) | (rank < rules.candidate_count)
            kept = order[is_kept]
            yield self._describe(query[kept], answer[kept], is_covered[kept], score[kept]).assign(rank=rank[is_kept])

    def _propose(self, start: int, end: int) -> Iterator[tuple[RowIndices, RowIndices]]:
        """Yields pairs of the queries from `start` to `end` and an answer."""
        count, threads = max(NEAREST, 2 * self._rules.candidate_count) + 1, self._rules.threads
        yield self._captions.find_covering(start, end, self._rules.max_listed + 1)
        if self.line is None and not self._rules.candidate_count:
            return
        query, row = self._near_captions.find(self._vectors[start:end], count, threads)
        place, pair = MemberIndex(self._caption, len(self._vectors)).members_of(row)
        yield start + query[place], self._answer[pair]
        if self._near_images is not None and self._image_vectors is not None:
            is_wanted = (start <= self._answers.relevant_query) & (self._answers.relevant_query < end)
            own = self._image_vectors[self._answers.relevant_image[is_wanted]]
            place, image = self._near_images.find(own, count, threads)
            yield self._answers.relevant_query[is_wanted][place], self._answers.answer[image]

    def _score(self, query: RowIndices, answer: RowIndices, is_covered: BoolArray) -> FloatArray:
        if self.line is None:
            return is_covered.astype(np.float64)
        score = np.where(is_covered, self.line.covered, 0.0)
        rows = np.flatnonzero(self._answers.captions_by_answer.sizes[answer])
        measured = self._features.measure(query[rows], answer[rows])
        score[rows] = np.maximum(score[rows], self.line.compute_probabilities(self._features, measured))
        return score

    def _describe(
        self, query: RowIndices, answer: RowIndices, is_covered: BoolArray, score: FloatArray
    ) -> pd.DataFrame:
        """Returns a row per pair with CONFUSABLE_COLUMNS. The evidence names no number: the digest of a set does not
        rest on the last digits of a model's vectors."""
        answers, captions = self._answers, self._captions
        is_likely = score >= self._rules.min_score
        evidence, closest = [], []
        for place, pair in enumerate(zip(query.tolist(), answer.tolist(), strict=True)):
            text, row, missing = captions.find_closest_text(*pair)
            words = " ".join(missing[:_MOST_WORDS]) + (" …" if len(missing) > _MOST_WORDS else "")
            if is_covered[place]:
                found = "its captions say all of it"
            elif is_likely[place] and missing:
                found = f"people say that such captions fit, not said: {words}"
            elif is_likely[place]:
                found = "people say that such captions fit"
            else:
                found = f"not said: {words}" if missing else ""
            evidence.append(": ".join(part for part in (found, text) if part))
            closest.append(None if row < 0 else answers.query_ids[row])
        return pd.DataFrame(
            {
                "query_id": answers.query_ids[query],
                "image_id": answers.image_ids[answers.representative_images()[answer]],
                "confusable_query_id": pd.array(closest, dtype="str"),
                "score": score,
                "is_mergeable": is_likely & ~captions.refute(query, answer),
                "evidence": pd.array(evidence, dtype="str"),
            }
        )


def _cut_to_listed(table: pd.DataFrame, rules: ConfusableRules, lines: dict[str, FittedLine | str]) -> ConfusableImages:
    """Returns of each query the first `max_listed` images, and the candidates."""
    table = table.sort_values(["query_id", "rank"], ignore_index=True)
    rank, table = table["rank"], table[CONFUSABLE_COLUMNS]
    sure = table["score"] >= rules.min_score
    counts = table.loc[sure, "query_id"].value_counts()
    is_listed = rank < rules.max_listed
    is_candidate = (sure & is_listed) | ((table["score"] >= rules.candidate_score) & ~sure)
    candidates = table[is_candidate | (rank < rules.candidate_count)].reset_index(drop=True)
    crowded = frozenset(counts.index[counts > rules.max_listed])
    listed = table[sure & is_listed].reset_index(drop=True)
    return ConfusableImages(listed, frozenset(counts.index), crowded, rules.min_score, candidates, lines)
