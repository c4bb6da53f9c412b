"""The routes that views of cards share: the queue, the cards, and undo."""

from collections.abc import Iterable
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query

from builders.decisions.effective import DecisionT
from review.request_fields import CardKeys, DecisionState, ShortText
from review.server.log_session import LogSession


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
