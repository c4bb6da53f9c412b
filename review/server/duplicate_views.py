"""The view of near-duplicates: the same, or not the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from builders.decisions.records import ImagePairDecision
from review.duplicate_cards import DuplicateCards
from review.server.log_session import LogSession
from review.server.pages import render_template

_ShortText = Annotated[str, Field(max_length=200)]
_CardKeys = Annotated[list[_ShortText], Query(max_length=20)]


class DuplicateDecisionRequest(BaseModel):
    """A word on a pair, as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    view: _ShortText
    key: _ShortText
    decision: _ShortText
    note: str = ""


def duplicate_routes(session: LogSession[ImagePairDecision], cards: DuplicateCards, about: dict[str, Any]) -> APIRouter:
    """The page and its data; the desk's lines are heard by the cards."""
    routes = APIRouter()

    def append(build_entry: Callable[[str], ImagePairDecision]) -> dict[str, Any]:
        return session.append(
            lambda at: [build_entry(at)], lambda lines: cards.build_card(cards.get_key(lines[0].images))
        )

    @routes.get("/duplicates", response_class=HTMLResponse)
    def page() -> str:
        return render_template("review_duplicates.html", about, grades=[])

    @routes.get("/api/duplicates/queue")
    def keys(state: Literal["all", "open", "decided"] = "all", search: _ShortText = "") -> dict[str, Any]:
        session.refresh()
        matching = cards.list_keys(state, search)
        return {"keys": matching, "done": [int(cards.is_decided(key)) for key in matching]}

    @routes.get("/api/duplicates/cards")
    def some(key: _CardKeys) -> dict[str, Any]:
        session.refresh()
        return {"cards": cards.build_cards(key)}

    @routes.get("/api/duplicates/pictures")
    def images(search: _ShortText = "") -> dict[str, Any]:
        return {"pictures": cards.search_images(search)}

    @routes.get("/api/duplicates/pair")
    def pair(one: _ShortText, other: _ShortText) -> dict[str, Any]:
        session.refresh()
        return {"key": cards.get_key_for_any_pair(one, other)}

    @routes.post("/api/duplicates/decide")
    def decide(request: DuplicateDecisionRequest) -> dict[str, Any]:
        return {"card": append(lambda at: cards.create_decision(request.key, request.decision, request.note, at))}

    @routes.post("/api/duplicates/undo")
    def undo() -> dict[str, Any]:
        return {"card": append(cards.create_undo) | {"undone": 1}}

    return routes
