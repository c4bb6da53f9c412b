"""An audit until a goal: which cards people are asked next, and what the cards and answers certify.

Cards are planned from all answers so far, kept, and only then shown; each person has cards of their own for a while, so
that several who judge at once are asked different ones."""

import time
from typing import Any

import pandas as pd

from querytruth.audit import audit_files
from querytruth.audit.answers import AuditAnswers
from querytruth.audit.certificate import PEOPLE_ALPHA
from querytruth.audit.judging_errors import bound_errors, choose_second_ratings, count_needed_ratings
from querytruth.audit.next_cards import AnsweredPool, PooledPairs
from querytruth.audit.pool import OUTSIDE, PAIR, AuditPool, JsonRecord
from querytruth.sets.set_files import StoredSet

_OUTSIDE_CARDS = 2_000  # that an audit until a goal draws at most
_CLAIM_SECONDS = 300
_SEPARATOR = "/"  # between query and image in a claim


class CardAudit:
    """An audit until a goal: its pool, and what its cards and answers certify."""

    def __init__(self, audit: audit_files.StoredAudit, stored: StoredSet) -> None:
        self.audit, self.goal = audit, audit.manifest.get("goal", 0.0)
        self.people = int(audit.manifest.get("people", 1))
        pool = AuditPool(audit.pool, audit.ranks, audit.manifest["outside"]["pairs"])
        tables = stored.tables
        queries, images = (
            [str(name) for name in ids] for ids in (tables.queries["query_id"], tables.images["image_id"])
        )
        self.pool = PooledPairs.from_audit(pool, queries, images, audit.manifest["seed"], _OUTSIDE_CARDS)

    def answer(self, answers: AuditAnswers, cards: pd.DataFrame | None = None) -> AnsweredPool:
        """Return the bounds by these answers. Undecided pairs count as not relevant. Pairs on which two people disagree
        wait; of pairs that are judged again, the first answer counts until the third."""
        waiting = set(answers.disputed) if self.people > 1 else set()
        known = {pair: ratings[0] for pair, ratings in answers.ratings.items() if pair not in waiting}
        known |= {pair: grade > 0 for pair, grade in answers.grades.items()}
        return self.pool.find_cards(audit_files.read_cards(self.audit.path) if cards is None else cards, known)

    def certify(self, answers: AuditAnswers) -> JsonRecord:
        """Return what these answers certify, with how far people err once all wanted pairs are judged again;
        `to_judge_again` of them wait."""
        again = self._list_again(answers)
        errors = None if again or not answers.ratings else bound_errors(answers.ratings, PEOPLE_ALPHA)
        return self.answer(answers).certify(self.goal, errors=errors) | {"to_judge_again": len(again)}

    def hand_out(self, answers: AuditAnswers, reviewer: str, count: int) -> list[tuple[str, str]]:
        """Return up to so many pairs for this person to judge: first cards that nobody else holds, from rounds that are
        already stored. Once these certify the goal, return pairs that are judged again, those of other people first;
        then nothing. Raises UserError where cards cannot be written."""
        folder, now = self.audit.path, time.time()
        with audit_files.lock_cards(folder) as append:
            cards = audit_files.read_cards(folder, lock=False)
            answered = self.answer(answers, cards)
            claims = {
                pair: claim
                for pair, claim in audit_files.read_claims(folder).items()
                if now - claim[1] < _CLAIM_SECONDS
            }
            free = self._list_free(cards, answers, reviewer, claims)
            while len(free) < count and answered.recall < self.goal:
                asked_outside = int((cards["stratum"] == OUTSIDE).sum())
                new = self.pool.name_cards(answered.plan_round(self.goal), len(cards), asked_outside)
                if not len(new):
                    break
                append(new)
                cards = pd.concat([cards, new], ignore_index=True)
                answered = self.answer(answers, cards)
                free = self._list_free(cards, answers, reviewer, claims)
            if self.people == 1 and answered.recall >= self.goal:
                again = [pair for pair in self._list_again(answers) if self._is_free(pair, reviewer, claims)]
                free = sorted(again, key=lambda pair: answers.reviewers[pair].count(reviewer))
            claims |= {_SEPARATOR.join(pair): [reviewer, now] for pair in free[:count]}
            audit_files.write_claims(folder, claims)
        return free[:count]

    def _list_again(self, answers: AuditAnswers) -> list[tuple[str, str]]:
        """Return the pairs to judge again, or a third time: a part of them if one person judges each pair, all if two
        do."""
        ratings = answers.ratings
        twice = [pair for pair, seen in ratings.items() if len(seen) > 1]
        chosen = (
            dict.fromkeys([*choose_second_ratings(ratings, self.pool.seed), *twice]) if self.people == 1 else ratings
        )
        return [pair for pair in chosen if len(ratings[pair]) < count_needed_ratings(ratings[pair])]

    def _list_free(
        self, cards: pd.DataFrame, answers: AuditAnswers, reviewer: str, claims: dict[str, list[Any]]
    ) -> list[tuple[str, str]]:
        pairs = cards.sort_values("order")[PAIR].itertuples(index=False, name=None)

        def is_wanted(pair: tuple[str, str]) -> bool:
            known = answers.reviewers.get(pair, [])
            return reviewer not in known and len(known) < self.people + (pair in answers.disputed)

        return [pair for pair in filter(is_wanted, pairs) if self._is_free(pair, reviewer, claims)]

    @staticmethod
    def _is_free(pair: tuple[str, str], reviewer: str, claims: dict[str, list[Any]]) -> bool:
        return bool(claims.get(_SEPARATOR.join(pair), [reviewer])[0] == reviewer)
