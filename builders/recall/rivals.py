"""A query's rivals: other pictures that it fits, too. How sure that is: `rival_scores`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from builders.recall.answers import Answers, number_answers
from builders.recall.neighbours import Members, Neighbours, Rows, Vectors, near_pairs
from builders.recall.rival_scores import Measured, RivalRules, Sight, own_cosines, score_rivals
from builders.recall.said import Spoken


@dataclass(frozen=True, slots=True)
class Rivals:
    """`table`: a row per query and rival, the surest first: image_id (of a duplicate group the first), rival_query_id
    (the caption that speaks most for it; null where only a description or the pictures do), score, said, captions,
    pictures, across (NaN where not measured), evidence. `ambiguous`: ids of queries with a rival of at least the cut;
    `crowded`: those of them with more such rivals than are listed."""

    table: pd.DataFrame
    ambiguous: frozenset[str]
    crowded: frozenset[str]
    at_least: float

    def certain(self) -> pd.DataFrame:
        """The rows that count."""
        return self.table[self.table["score"] >= self.at_least]


def find_rivals(
    queries: pd.DataFrame,
    qrels: pd.DataFrame,
    images: pd.DataFrame,
    rules: RivalRules,
    sight: Sight,
    *,
    descriptions: pd.DataFrame | None = None,
    duplicates: pd.DataFrame | None = None,
    neighbours: Neighbours = near_pairs,
) -> Rivals:
    """The rivals of every query, whatever the order of rows; pairs that are judged, right or wrong, are none.

    `descriptions` (image_id, text) are said of a picture, too, without being queries: the more is known of every
    picture, the more rivals are found. A ValueError for vectors that don't fit the frames.
    """
    answers = number_answers(queries, qrels, images, duplicates)
    sight = _in_order(sight, answers)
    spoken = Spoken(answers, descriptions)
    query, answer = _candidates(answers, sight, spoken, rules, neighbours)
    measured = Measured(answers, sight, query, answer)
    return _cut(score_rivals(answers, spoken, measured, rules), rules)


def _in_order(sight: Sight, answers: Answers) -> Sight:
    ordered = []
    for name, rows in (
        ("captions", answers.query_rows),
        ("across", answers.query_rows),
        ("pictures", answers.image_rows),
    ):
        vectors: Vectors | None = getattr(sight, name)
        if vectors is not None and (len(vectors) != len(rows) or not np.isfinite(vectors).all()):
            raise ValueError(f"{name}: {len(vectors)} vectors for {len(rows)} rows, or some that are no numbers")
        same = vectors is None or bool((rows == np.arange(len(rows))).all())  # no copy where nothing moves
        ordered.append(vectors if vectors is None or same else vectors[rows])
    if ordered[1] is not None and ordered[2] is None:
        raise ValueError("across: vectors of queries without those of pictures")
    return Sight(*ordered)


def _candidates(
    answers: Answers, sight: Sight, spoken: Spoken, rules: RivalRules, neighbours: Neighbours
) -> tuple[Rows, Rows]:
    """Queries and answers that some way of looking brings together; each once, in order, none of them judged."""
    wanted = rules.rivals + 1 + answers.most_judged()  # answers: then more than `rivals` remain if there are more
    query, answer = spoken.fitting(answers.judged, wanted)
    keys = [query * answers.count + answer]
    speaker, of_answer = answers.speakers()
    if sight.captions is not None:
        said_of = Members(speaker, len(answers.query_ids))
        most = wanted * int(np.bincount(of_answer, minlength=1).max())
        left, right = neighbours(sight.captions, sight.captions, np.full(len(sight.captions), rules.captions), most)
        place, pair = said_of.of(right)
        keys.append(left[place] * answers.count + of_answer[pair])
    if sight.pictures is not None:
        most = wanted * int(np.bincount(answers.answer, minlength=1).max())
        left, right = neighbours(sight.pictures, sight.pictures, np.full(len(sight.pictures), rules.pictures), most)
        place, pair = Members(answers.shown, len(answers.image_ids)).of(left)
        keys.append(answers.asked[pair] * answers.count + answers.answer[right[place]])
        if sight.across is not None:
            least = own_cosines(answers, sight.across, sight.pictures) - rules.margin
            left, right = neighbours(sight.across, sight.pictures, least, most)
            keys.append(left * answers.count + answers.answer[right])
    found = np.setdiff1d(np.concatenate(keys), answers.judged)
    return found // max(answers.count, 1), found % max(answers.count, 1)


def _cut(table: pd.DataFrame, rules: RivalRules) -> Rivals:
    """The surest rivals of each query."""
    table = table.sort_values(
        ["query_id", "score", "captions", "image_id"], ascending=[True, False, False, True], ignore_index=True
    )
    sure = table["score"] >= rules.at_least
    counts = table.loc[sure, "query_id"].value_counts()
    listed = table[table.groupby("query_id").cumcount() < rules.rivals].reset_index(drop=True)
    crowded = frozenset(counts.index[counts > rules.rivals])
    return Rivals(listed, frozenset(counts.index), crowded, rules.at_least)
