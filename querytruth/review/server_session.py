"""A log that a view of the page writes and follows: each decision is on disk before the response.

The session of one reviewer on one version: actions become decisions in the log, and the cards follow the log.

The routes that views of cards share: the queue, the cards, and undo.
"""

import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from threading import Lock
from typing import Annotated, Any, Generic, Protocol

from fastapi import APIRouter, Query

from querytruth.review.deck import Action, build_decisions, build_undo_decisions
from querytruth.review.query_cards import CardData, QueryCards
from querytruth.review.query_queue import CardKeys, DecisionState, ShortText
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import DecisionT, QueryDecision


class LogSession(Generic[DecisionT]):
    """A session on one log, safe for threads; entries of other processes are read before each response."""

    def __init__(self, apply_entries: Callable[[list[DecisionT]], None], log: DecisionLog[DecisionT]) -> None:
        self._apply_entries, self._log = apply_entries, log
        self._position, self._lock = 0, Lock()
        self.refresh()

    def refresh(self) -> None:
        """Apply the new entries of the log."""
        with self._lock:
            self._refresh()

    def append(
        self,
        build_entries: Callable[[str], list[DecisionT]],
        build_response: Callable[[list[DecisionT]], dict[str, Any]],
    ) -> dict[str, Any]:
        """Write the decisions that `build_entries` returns for the present time; return the response to them."""
        with self._lock:
            self._refresh()
            # To the microsecond, so that no two actions have one time.
            entries = build_entries(datetime.now(UTC).isoformat(timespec="microseconds"))
            self._log.append(entries)
            self._refresh()
            return build_response(entries)

    def append_one(
        self, create: Callable[[str], DecisionT], find_card: Callable[[DecisionT], dict[str, Any]]
    ) -> dict[str, Any]:
        """Write the decision that `create` returns for the present time; return its card."""
        return self.append(lambda at: [create(at)], lambda entries: find_card(entries[0]))

    def _refresh(self) -> None:
        entries, self._position = self._log.read_from(self._position)
        self._apply_entries(entries)


class ReviewSession(LogSession[QueryDecision]):
    """A session in which an action makes several decisions, and undo takes all of them back. `results`: unjudged pairs
    that searches returned, by rank."""

    def __init__(
        self, cards: QueryCards, log: DecisionLog[QueryDecision], results: list[tuple[str, str]] | None = None
    ) -> None:
        super().__init__(cards.state.apply_entries, log)
        self.cards, self.results = cards, results or []
        self._source = f"s_{secrets.token_hex(6)}"

    def record(self, action: Action) -> CardData:
        """Write the decisions of an action and return its card. Raises ActionError where the action is invalid."""
        return self.append(
            lambda at: build_decisions(action, self.cards, self._source, at),
            lambda _lines: self._card(action.view, action.query_id, action.image_id),
        )

    def undo(self, view: str) -> CardData:
        """Undo the last action of any view and return its card. Raises ActionError without one."""
        return self.append(
            lambda at: build_undo_decisions(self.cards, view, self._source, at),
            lambda lines: self._card(view, lines[0].query_id, lines[0].image_id) | {"undone": len(lines)},
        )

    def _card(self, view: str, query_id: str, image_id: str | None) -> CardData:
        if view == "queries" or image_id is None:
            return self.cards.build_query_card(query_id)
        return self.cards.build_pair_card((self.cards.get_group(query_id).key, image_id))


class DecisionCards(Protocol[DecisionT]):
    """The cards of a view, by key."""

    def list_keys(self, state: str, search: str) -> list[str]:
        """Return the keys of the cards in this state whose texts contain the search."""

    def is_decided(self, key: str) -> bool:
        """Return whether a card has a decision."""

    def build_cards(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """Return the cards of these keys; unknown keys are skipped."""

    def find_card(self, decision: DecisionT, /) -> dict[str, Any]:
        """Return the card of a decision."""

    def create_undo(self, at: str) -> DecisionT:
        """Return the decision that undoes the reviewer's last one. Raises ActionError without one."""


def card_routes(view: str, home: str, session: LogSession[DecisionT], cards: DecisionCards[DecisionT]) -> APIRouter:
    """Return the routes of a view. `view`: its name in the paths of queue and cards; `home`: the path of its
    decisions."""
    routes = APIRouter()

    @routes.get(f"/api/{view}/queue")
    def queue(state: DecisionState = "all", search: ShortText = "") -> dict[str, Any]:
        session.refresh()
        keys = cards.list_keys(state, search)
        return {"keys": keys, "done": [int(cards.is_decided(key)) for key in keys]}

    @routes.get(f"/api/{view}/cards")
    def some(key: Annotated[CardKeys, Query()]) -> dict[str, Any]:
        session.refresh()
        return {"cards": cards.build_cards(key)}

    @routes.post(f"{home}/undo")
    def undo() -> dict[str, Any]:
        return {"card": session.append_one(cards.create_undo, cards.find_card) | {"undone": 1}}

    return routes
