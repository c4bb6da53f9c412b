"""Which cards people are asked next, and what their answers certify so far.

In: the pool of an audit, the cards that were handed out, the answers. Out: the next round of cards, and the
certificate. Cards are handed out in rounds, each kept before anybody sees it (`audit_files.append_cards`), so that any
number of people, and a process that was killed, go on from the same place.

Three populations have bounds of their own: the pairs of the pool that the truth lacks (`chosen` and `drawn` cards;
relevant ones were missing), those that it calls relevant (`judged_relevant`; others were wrong), and the pairs outside
the pool (`outside`; relevant ones the pool cannot see). Cards of the latter two are all drawn.

An answer is worth the most where a relevant image is likely: first, among the pairs that must be asked at all, where a
query has none yet and where some systems return the image and others do not (after LARA, arXiv 2411.06877).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from querytruth.array_types import BoolArray, FloatArray, RowIndices
from querytruth.audit import certificate
from querytruth.audit.judging_errors import ErrorBounds
from querytruth.audit.pool import (
    JUDGED_RELEVANT,
    NO_LABEL,
    OUTSIDE,
    PAIR,
    AuditPool,
    JsonRecord,
    draw_outside,
    hash_pairs,
)

CHOSEN, DRAWN = "chosen", "drawn"
KINDS = (CHOSEN, DRAWN, JUDGED_RELEVANT, OUTSIDE)
_CHOSEN, _DRAWN, _MARKED, _OUTSIDE = range(4)
CARD_COLUMNS = [*PAIR, "stratum", "probability", "order", "forecast"]
WRONG_GOAL = 0.05  # of the truth's unasked pairs; further ones are not drawn once they are known to be fewer
_ROUND, _LARGEST_ROUND = 20, 200  # cards
_SHARE_OF_ROUND = {"wrong": 4, "outside": 20, "missing": 20}  # one card in so many, at least
_CONSTANT, _WEIGHTS = -2.5, {"rank": 0.4, "systems": 0.4, "judge": 1.2}
_FORGET = 0.995  # a draw's share in the correction of the forecasts, by each later draw
_MORE = 100  # judgments
NO_CARDS = pd.DataFrame(columns=CARD_COLUMNS)


class PooledPairs:
    """The pool of an audit as it is certified.

    `pairs`: query_id, image_id, relevance, best_rank, judge (a grade, -1 without), perhaps score; `returned_by`:
    by pair the share of the systems that return it; `outside`: the pairs outside the pool that are drawn, in their
    order, and `outside_size` the number of all of them; `query_count`: of the set."""

    def __init__(
        self,
        pairs: pd.DataFrame,
        returned_by: FloatArray,
        outside: pd.DataFrame,
        outside_size: int,
        query_count: int,
        seed: int,
    ) -> None:
        self.pairs, self.returned_by, self.outside, self.query_count = pairs, returned_by, outside, query_count
        self.seed = seed
        self.is_marked = np.asarray(pairs["relevance"].to_numpy() > 0)
        self.queries = pd.factorize(pairs["query_id"])[0].astype(np.int64)
        self.features, self.prior = self._describe()
        self._hashes = hash_pairs(pairs, seed, "next")
        marked = int(self.is_marked.sum())
        # By bound the number of pairs that it is about.
        self.sizes = {"missing": len(pairs) - marked, "wrong": marked, "outside": outside_size}

    def _describe(self) -> tuple[FloatArray, list[float]]:
        """Return the features of all pairs, standardised, and the weights to start from."""
        best = self.pairs["best_rank"].to_numpy(dtype=np.float64)
        grades = self.pairs.get("score", self.pairs["judge"]).to_numpy(dtype=np.float64)
        is_graded = ~np.isnan(grades) & (("score" in self.pairs) | (grades != NO_LABEL))
        usual = float(np.median(grades[is_graded])) if is_graded.any() else 0.0
        columns = {"rank": -np.where(best > 0, best, best.max(initial=0) + 1), "systems": self.returned_by}
        columns["judge"] = np.where(is_graded, grades, usual)
        used = {name: column for name, column in columns.items() if len(np.unique(column)) > 1}
        standardised = [ndtri((pd.Series(column).rank().to_numpy() - 0.5) / len(column)) for column in used.values()]
        return np.column_stack([np.zeros((len(best), 0)), *standardised]), [_CONSTANT, *(_WEIGHTS[one] for one in used)]

    @classmethod
    def from_audit(
        cls, pool: AuditPool, query_ids: Sequence[str], image_ids: Sequence[str], seed: int, outside_count: int
    ) -> PooledPairs:
        """Return the pool of an audit of these queries and images; so many pairs outside it can be drawn."""
        returned = pool.ranks.groupby(PAIR)["system"].nunique() / max(pool.ranks["system"].nunique(), 1)
        shares = returned.reindex(pd.MultiIndex.from_frame(pool.pairs[PAIR])).fillna(0.0).to_numpy(dtype=np.float64)
        outside = draw_outside(pool, query_ids, image_ids, outside_count, seed)
        return cls(pool.pairs, shares, outside, pool.outside_size, len(query_ids), seed)

    def draw(self, rows: RowIndices, count: int) -> RowIndices:
        """Return a uniform draw of these rows, the same at each call."""
        return rows[np.argsort(self._hashes[rows], kind="stable")[:count]]

    def find_cards(self, cards: pd.DataFrame, answers: Mapping[tuple[str, str], bool]) -> AnsweredPool:
        """Return the pool with its cards (CARD_COLUMNS), in the order in which they were planned, and the answers: by
        query_id and image_id whether the pair is relevant; a card without an answer waits."""
        pairs = list(zip(cards["query_id"], cards["image_id"], strict=True))
        known_pairs, asked = (pd.MultiIndex.from_frame(table[PAIR].astype("str")) for table in (self.pairs, cards))
        rows = known_pairs.get_indexer(asked).astype(np.int64)
        known = np.array([np.nan if (answer := answers.get(pair)) is None else answer for pair in pairs], dtype=float)
        kinds = np.array([KINDS.index(kind) for kind in cards["stratum"]], dtype=np.int64)
        return AnsweredPool(self, rows, kinds, cards["forecast"].to_numpy(dtype=np.float64), known)

    def name_cards(self, planned: PlannedCards, before: int, asked_outside: int) -> pd.DataFrame:
        """Return planned cards as a table (CARD_COLUMNS), numbered after earlier ones. `order` is the order in which
        they are shown, which does not reveal why a card is asked."""
        inside = planned.rows >= 0
        rest = self.outside[PAIR].iloc[asked_outside : asked_outside + int((~inside).sum())]
        pairs = pd.concat([self.pairs[PAIR].iloc[planned.rows[inside]], rest], ignore_index=True).astype("str")
        kinds = [KINDS[kind] for kind in planned.kinds.tolist()]
        cards = pairs.assign(stratum=kinds, probability=planned.chances, forecast=planned.forecasts)
        shown = np.argsort(np.argsort(hash_pairs(pairs, self.seed, "order"), kind="stable"))
        return cards.assign(order=before + 1 + shown)[CARD_COLUMNS]


class PlannedCards(NamedTuple):
    """Cards of a round, those outside the pool last: rows of the pool (-1 outside), places in KINDS, the probability of
    each to be drawn, and that of a hit that is forecast for it."""

    rows: RowIndices
    kinds: RowIndices
    chances: FloatArray
    forecasts: FloatArray


class AnsweredPool:
    """The bounds of a pool by the cards that were handed out, in their order. `rows`: of the pool, -1 outside it;
    `kinds`: places in KINDS; `answers`: 1 relevant, 0 not, NaN for a card that waits."""

    def __init__(
        self, pool: PooledPairs, rows: RowIndices, kinds: RowIndices, forecasts: FloatArray, answers: FloatArray
    ) -> None:
        self.pool, self.rows, self.kinds, self.forecasts = pool, rows, kinds, forecasts
        self.is_waiting, self.is_relevant = np.isnan(answers), answers > 0
        self.is_own = (kinds == _CHOSEN) | (kinds == _DRAWN)
        share = certificate.divide_error(**pool.sizes)
        self.missing, self.wrong, self.outside = (
            self._bound(pool.sizes[name], share.get(name, 1.0), places)
            for name, places in (
                ("missing", self.is_own),
                ("wrong", kinds == _MARKED),
                ("outside", kinds == _OUTSIDE),
            )
        )
        self.found = int((self.is_relevant & self.is_own).sum())
        self.confirmed = int((self.is_relevant & (kinds == _MARKED)).sum())

    def _bound(self, size: int, alpha: float, is_about: BoolArray) -> certificate.CountBound:
        bound, places = certificate.CountBound(size, alpha), np.flatnonzero(is_about)
        is_hit = (self.is_relevant != (self.kinds == _MARKED)) | self.is_waiting
        is_draw = self.kinds[places] != _CHOSEN
        waiting = np.flatnonzero(self.is_waiting[places])
        is_draw[waiting[0] if len(waiting) else len(places) :] = False
        start = 0
        for number in [*np.flatnonzero(is_draw).tolist(), len(places)]:
            chosen = places[start:number]
            bound.add_chosen(len(chosen), int(is_hit[chosen].sum()))
            if number < len(places):
                bound.add_drawn(bool(is_hit[places[number]]), float(self.forecasts[places[number]]))
            start = number + 1
        return bound

    @property
    def kept(self) -> int:
        """Return the lower bound of the number of correct pairs in the ground truth."""
        return self.wrong.size - self.wrong.at_most

    @property
    def recall(self) -> float:
        """Return the lower bound of the share of the pool's relevant pairs in the ground truth; 1 for an empty pool."""
        most = self.kept + self.missing.at_most
        return (self.kept + self.found) / most if most else 1.0

    @property
    def truth_size(self) -> int:
        """Return the number of pairs in the ground truth with these answers."""
        return self.wrong.size - (self.wrong.at_most - self.doubt[0]) + self.found

    @property
    def doubt(self) -> tuple[int, int]:
        """Return the upper bounds of wrong unjudged pairs in the ground truth, and of missing pairs."""
        wrong = int((~self.is_relevant & ~self.is_waiting & (self.kinds == _MARKED)).sum())
        return self.wrong.at_most - wrong, self.missing.at_most - self.found

    def judge_pairs(self) -> RowIndices:
        """Return by pair of the pool 1 where a person found it relevant, 0 where not, 2 where the truth has it and
        nobody judged it, -1 for the others."""
        known = np.where(self.pool.is_marked, 2, -1)
        is_known = ~self.is_waiting & (self.rows >= 0)
        known[self.rows[is_known]] = self.is_relevant[is_known]
        return np.asarray(known, dtype=np.int64)

    def estimate_relevant(self) -> float | None:
        """Return the number of relevant pairs that the truth lacked, without bias however cards were chosen: at each
        draw, those found before and the answer times the pairs left is a fair estimate."""
        is_own = self.is_own & ~self.is_waiting
        relevant, is_drawn = self.is_relevant[is_own], self.kinds[is_own] == _DRAWN
        before = np.cumsum(relevant) - relevant
        left = self.missing.size - np.arange(len(relevant))
        if not is_drawn.any():
            return None
        return float(np.average((before + left * relevant)[is_drawn], weights=1 / left[is_drawn]))

    def predict(self) -> tuple[FloatArray, BoolArray]:
        """Return by pair of the pool the probability that it is relevant, and whether it was not handed out."""
        pool, inside = self.pool, self.rows >= 0
        is_free = np.ones(len(pool.pairs), dtype=bool)
        is_free[self.rows[inside]] = False
        is_known = self.is_own & ~self.is_waiting
        model = certificate.RelevanceModel(pool.features, pool.prior, pool.queries)
        chances = model.fit(self.rows[is_known], self.is_relevant[is_known])
        return np.minimum(chances * self._correct_forecasts(), 1.0), is_free

    def _correct_forecasts(self) -> float:
        """Return hits among the draws so far, per expected one."""
        is_drawn = (self.kinds == _DRAWN) & ~self.is_waiting
        weights = _FORGET ** np.arange(int(is_drawn.sum()))[::-1]
        return float((2 + weights @ self.is_relevant[is_drawn]) / (2 + weights @ self.forecasts[is_drawn]))

    def certify(self, goal: float, errors: ErrorBounds | None = None) -> JsonRecord:
        """Return the certificate: what holds, with 95% confidence and at every look, of the truth with these answers,
        and what 100 more cards would give. `errors`: how far people err; None: the answers are taken as right. The goal
        is reached by what people found, whatever they missed."""
        chances, is_free = self.predict()
        expected = -np.sort(-chances[is_free & ~self.pool.is_marked])
        wrong, missed, slips, again = errors or (0.0, 0.0, 0.0, 0)
        right, unasked = self.kept + self.found * (1 - wrong), self.missing.at_most - self.found
        relevant = (right + unasked) * (1 + missed)
        recall = _divide(right, relevant)
        doubtful = self.doubt[0] / (1 - slips) + wrong * (self.found + self.confirmed)
        is_reached = self.recall >= goal
        cost = 0.0 if is_reached else certificate.plan_cards(self.missing, expected, goal, self.kept)[1]
        drawn_outside = int(((self.kinds == _OUTSIDE) & ~self.is_waiting).sum())
        is_known = drawn_outside or not self.pool.sizes["outside"]
        unseen = (self.outside.at_most - self.outside.found) * (1 + missed) if is_known else None
        return {
            "confidence": certificate.CONFIDENCE,
            "goal": goal,
            "is_reached": is_reached,
            "recall_at_least": recall,
            "recall_of_all_at_least": None if unseen is None else _divide(right, relevant + unseen),
            "judged_again": again,
            "wrong_at_most": min(doubtful / self.truth_size, 1.0) if self.truth_size else 0.0,
            "outside_at_most": unseen,
            "outside_per_query_at_most": None if unseen is None else unseen / max(self.pool.query_count, 1),
            "pool": len(self.pool.pairs),
            "asked": int((~self.is_waiting).sum()),
            "drawn": int((~self.is_waiting & (self.kinds != _CHOSEN)).sum()),
            "found": self.found,
            "missing_at_most": self.missing.at_most - self.found,
            "relevant_estimate": self.estimate_relevant(),
            "further": {
                "judgments": _MORE,
                "recall_at_least": max(
                    certificate.forecast_recall(self.missing, expected, _MORE, goal, self.kept) / (1 + missed),
                    recall,
                ),
            },
            "to_goal": int(np.ceil(cost)) or (0 if is_reached else self.wrong.left),
        }

    def plan_round(self, goal: float) -> PlannedCards:
        """Return the next cards, none once the goal is certified: the chosen ones first, since the draws are from what
        these leave. A draw is the next by hash of those that were not handed out: uniform, and the same again."""
        asked = 0 if self.recall >= goal else min(max(_ROUND, len(self.rows) // 50), _LARGEST_ROUND)
        chances, is_free = self.predict()
        free = np.flatnonzero(is_free & ~self.pool.is_marked)
        free = free[np.argsort(-chances[free], kind="stable")]
        marked = np.flatnonzero(is_free & self.pool.is_marked)
        checks = (
            0 if self.doubt[0] <= WRONG_GOAL * self.truth_size else min(len(marked), asked // _SHARE_OF_ROUND["wrong"])
        )
        unseen = min(self.outside.left, asked // _SHARE_OF_ROUND["outside"])
        size = min(asked - checks - unseen, len(free))
        depth, _ = certificate.plan_cards(self.missing, chances[free], goal, self.kept) if size else (0, 0.0)
        must = free[:depth][np.argsort(-self._value(chances)[free[:depth]], kind="stable")]
        chosen = must[: max(size - max(size // _SHARE_OF_ROUND["missing"], 1), 0)]
        left = free[~np.isin(free, chosen)]
        drawn = self.pool.draw(left, size - len(chosen))
        rate = float(chances[left].sum()) / max(len(left), 1)
        share_wrong = (self.wrong.found + 0.5) / (self.wrong.asked + 10)
        parts: list[tuple[int, RowIndices, float, float]] = [
            (_CHOSEN, chosen, 1.0, 0.0),
            (_DRAWN, drawn, len(drawn) / max(len(left), 1), rate),
            (_MARKED, self.pool.draw(marked, checks), checks / max(len(marked), 1), share_wrong),
            (_OUTSIDE, np.full(unseen, -1), unseen / max(self.outside.left, 1), 0.0),
        ]
        rows, counts = np.concatenate([part[1] for part in parts]), [len(part[1]) for part in parts]
        kinds, inclusion, forecasts = (np.repeat([part[key] for part in parts], counts) for key in (0, 2, 3))
        return PlannedCards(rows, kinds, inclusion, forecasts)

    def _value(self, chances: FloatArray) -> FloatArray:
        """Return the value of an answer to each pair."""
        pool, is_found = self.pool, self.is_relevant & (self.rows >= 0)
        has_one = np.zeros(int(pool.queries.max(initial=-1)) + 1, dtype=bool)
        has_one[pool.queries[self.rows[is_found]]] = has_one[pool.queries[pool.is_marked]] = True
        separates = 4 * pool.returned_by * (1 - pool.returned_by)
        return np.asarray(chances * (1 + 0.5 * ~has_one[pool.queries] + 0.25 * separates))


def _divide(part: float, whole: float) -> float:
    """Return the share of a whole; 1 where the whole is 0."""
    return part / whole if whole else 1.0
