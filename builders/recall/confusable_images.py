"""Find the images that a query may fit besides its own, with the probability and an explanation.

An image is proposed if its captions say all of the query, or if its captions or vectors are nearest. The score is the
probability by the fitted line; if captions say all of the query, it is at least that of such pairs. Without a line it
is 1 if captions say all, else 0.

Similarity proposes, the words decide: an image is never merged into the relevant images of a query (`is_mergeable`) if
its captions state only another kind, sex, age, number, colour, place or time, or lack a number, colour, time or "not"
of the query. By vectors of real images alone two of two merges were false: "blue dust pan and broom next to white
commode" was accepted for a toilet without a dust pan.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from builders.recall.caption_index import AnswerIndex, CaptionIndex, build_answer_index
from builders.recall.fit_probability import MIN_CAPTIONS, FittedLine, PairFeatures, choose_line
from querytruth.array_types import BoolArray, FloatArray, RowIndices, Vectors

CONFUSABLE_COLUMNS = ["query_id", "image_id", "confusable_query_id", "score", "is_mergeable", "evidence"]
NEAREST = 40  # images that are proposed for a query by captions, and by vectors of images
_QUERIES_AT_ONCE = 2048
_MOST_WORDS = 6  # missing words in the evidence


@dataclass(frozen=True, slots=True)
class ConfusableRules:
    """A query is ambiguous from `min_score` on. `max_listed` images are listed per query; candidates for reviewers are
    those of them of at least `candidate_score`, and the `candidate_count` first of each query. `compares_spelling`:
    whether the embedder of texts does."""

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

    `table`: for each query the first `max_listed` images of at least `min_score`, the most likely first (columns:
    CONFUSABLE_COLUMNS). Its image_id is the first of a duplicate group; confusable_query_id is the caption that lacks
    the fewest words of the query (null if that is a description). `ambiguous_query_ids`: queries with an image of at
    least `min_score`; `crowded_query_ids`: those with more such images than are listed. `candidates`: the rows that
    people should judge. `lines`: per language the fitted line, or why there is none.
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
    """Return the unjudged confusable images of every query with an own image, independent of the order of rows.

    `vectors`, `image_vectors`: of length one, a row for each query and each image. Captions are compared with captions
    of their own language. `descriptions` (image_id, text) describe images without being queries and lead to more
    confusable images. Raises ValueError for vectors that do not fit the frames.
    """
    for rows, given in ((queries, vectors), (images, image_vectors)):
        if given is not None and (len(given) != len(rows) or not np.isfinite(given).all()):
            raise ValueError(f"expected {len(rows)} finite vectors, got {len(given)} vectors or infinite values")
    languages, parts, lines = queries["language"].to_numpy(dtype=object), [], {}
    for language in sorted(set(languages)) or [""]:
        rows = np.flatnonzero(languages == language)
        is_some = qrels["query_id"].isin(queries["query_id"].iloc[rows])
        answers = build_answer_index(queries.iloc[rows], qrels[is_some], images, duplicates)
        first_rows = answers.image_rows[answers.representative_images()]
        of_images = None if image_vectors is None else image_vectors[first_rows]
        captions = CaptionIndex(answers, descriptions)
        features = PairFeatures(answers, captions, vectors[rows[answers.query_rows]], of_images)
        lines[language] = _choose_line(answers, captions, rules, language)
        parts += list(_Search(answers, captions, features, rules, lines[language]).find_tables())
    return _cut_to_listed(pd.concat(parts, ignore_index=True), rules, lines)


def _choose_line(
    answers: AnswerIndex, captions: CaptionIndex, rules: ConfusableRules, language: str
) -> FittedLine | str:
    """Return the line of the language, or why there is none."""
    line = choose_line(rules.lines, language, compares_spelling=rules.compares_spelling)
    if line is None:
        return f"no line was fitted to people's judgments of captions in {language}"
    if answers.captions.nnz < MIN_CAPTIONS:
        return f"fewer than {MIN_CAPTIONS} captions"
    return line.explain_misfit(captions) or line


@dataclass(frozen=True, slots=True)
class _Search:
    """The search in one language. `line`: the fitted line, or why there is none."""

    answers: AnswerIndex
    captions: CaptionIndex
    features: PairFeatures
    rules: ConfusableRules
    line: FittedLine | str

    def find_tables(self) -> Iterator[pd.DataFrame]:
        """Yield the confusable images of some queries at a time, with their `rank` for the query, from 0: one more than
        is listed, which shows that there are too many."""
        answers, rules = self.answers, self.rules
        for start in range(0, max(len(answers.query_ids), 1), _QUERIES_AT_ONCE):
            queries = np.arange(start, min(start + _QUERIES_AT_ONCE, len(answers.query_ids)))
            queries = queries[answers.own_answer[queries] >= 0]
            keys, is_covered = self._propose(queries)
            query, answer = answers.pairs_of_keys(keys)
            score = self._score(query, answer, is_covered)
            order = np.lexsort((answer, -score, query))  # answers are numbered in the order of their first images
            rank = np.arange(len(order)) - query.searchsorted(query)  # rows in `order` are sorted by the query, too
            is_kept = (score[order] >= min(rules.candidate_score, rules.min_score)) & (rank <= rules.max_listed)
            is_kept |= rank < rules.candidate_count
            kept = order[is_kept]
            yield self._describe(query[kept], answer[kept], is_covered[kept], score[kept]).assign(rank=rank[is_kept])

    def _propose(self, queries: RowIndices) -> tuple[RowIndices, BoolArray]:
        """Return sorted keys of unjudged pairs of query and answer, and whether the texts of the answer say all."""
        answers, rules = self.answers, self.rules
        count = max(NEAREST, 2 * rules.candidate_count) + 1
        covered = self.captions.find_covering(queries, count)
        proposed = [covered]
        for space in self.features.spaces if isinstance(self.line, FittedLine) or rules.candidate_count else ():
            place, answer = space.find_nearest(answers.own_answer[queries], count, rules.threads)
            proposed.append(answers.pair_keys(queries[place], answer))
        keys = np.setdiff1d(np.concatenate(proposed), answers.judged_keys)
        return keys, np.isin(keys, covered)

    def _score(self, query: RowIndices, answer: RowIndices, is_covered: BoolArray) -> FloatArray:
        if isinstance(self.line, str):
            return is_covered.astype(np.float64)
        probability = self.line.compute_probabilities(self.features, query, answer)
        probability[self.answers.caption_counts[answer] == 0] = 0
        return np.where(is_covered, np.maximum(probability, self.line.covered), probability)

    def _describe(
        self, query: RowIndices, answer: RowIndices, is_covered: BoolArray, score: FloatArray
    ) -> pd.DataFrame:
        """Return a row per pair with CONFUSABLE_COLUMNS. The evidence names no number: the digest of a set does not
        rest on the last digits of a model's vectors."""
        answers, captions = self.answers, self.captions
        is_likely = score >= self.rules.min_score
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
    """Return of each query the first `max_listed` images, and the candidates."""
    table = table.sort_values(["query_id", "rank"], ignore_index=True)
    is_sure, is_listed = table["score"] >= rules.min_score, table["rank"] < rules.max_listed
    is_candidate = table["rank"] < max(rules.max_listed, rules.candidate_count)
    ambiguous, crowded = (frozenset(table.loc[rows, "query_id"]) for rows in (is_sure, is_sure & ~is_listed))
    listed, candidates = (
        table.loc[rows, CONFUSABLE_COLUMNS].reset_index(drop=True) for rows in (is_sure & is_listed, is_candidate)
    )
    return ConfusableImages(listed, ambiguous, crowded, rules.min_score, candidates, lines)
