"""An audit until a goal: which cards people are asked next, and what the cards and answers certify.

Cards are planned from all answers so far, kept, and only then shown; each person has cards of their own for a while, so
that several who judge at once are asked different ones."""

import time
from typing import Any

import pandas as pd

from querytruth.audit import audit_files
from querytruth.audit.answers import AuditAnswers
from querytruth.audit.next_cards import AnsweredPool, PooledPairs
from querytruth.audit.pool import OUTSIDE, PAIR, AuditPool
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
        """Returns the bounds by these answers. Pairs of which people cannot tell count as not relevant; those on which
        they differ wait."""
        unsure = set(answers.undetermined) - set(answers.disputed)
        known = dict.fromkeys(unsure, False) | {pair: grade > 0 for pair, grade in answers.grades.items()}
        return self.pool.find_cards(audit_files.read_cards(self.audit.path) if cards is None else cards, known)

    def hand_out(self, answers: AuditAnswers, reviewer: str, count: int) -> list[tuple[str, str]]:
        """Returns up to so many pairs for this person to judge, none once the goal is reached: cards that nobody else
        has at the moment, of rounds that are kept before. Raises UserError where they cannot be written."""
        folder, now = self.audit.path, time.time()
        with audit_files.lock_cards(folder) as append:
            cards = audit_files.read_cards(folder, lock=False)
            answered = self.answer(answers, cards)
            if answered.recall >= self.goal:
                return []
            claims = {
                pair: claim
                for pair, claim in audit_files.read_claims(folder).items()
                if now - claim[1] < _CLAIM_SECONDS
            }
            free = self._list_free(cards, answers, reviewer, claims)
            while len(free) < count:
                asked_outside = int((cards["stratum"] == OUTSIDE).sum())
                new = self.pool.name_cards(answered.plan_round(self.goal), len(cards), asked_outside)
                if not len(new):
                    break
                append(new)
                cards = pd.concat([cards, new], ignore_index=True)
                answered = self.answer(answers, cards)
                free = self._list_free(cards, answers, reviewer, claims)
            claims |= {_SEPARATOR.join(pair): [reviewer, now] for pair in free[:count]}
            audit_files.write_claims(folder, claims)
        return free[:count]

    def _list_free(
        self, cards: pd.DataFrame, answers: AuditAnswers, reviewer: str, claims: dict[str, list[Any]]
    ) -> list[tuple[str, str]]:
        pairs = cards.sort_values("order")[PAIR].itertuples(index=False, name=None)

        def is_wanted(pair: tuple[str, str]) -> bool:
            known = answers.reviewers.get(pair, [])
            return reviewer not in known and len(known) < self.people + (pair in answers.disputed)

        return [
            pair for pair in filter(is_wanted, pairs) if claims.get(_SEPARATOR.join(pair), [reviewer])[0] == reviewer
        ]
