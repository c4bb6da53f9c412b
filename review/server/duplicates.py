"""The view of near-duplicates: the same, or not the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from builders.picture_decisions import PictureDecision
from review.duplicate_cards import DuplicateCards
from review.server.log_desk import LogDesk
from review.server.pages import rendered

Name = Annotated[str, Field(max_length=200)]
Keys = Annotated[list[Name], Query(max_length=20)]


class Word(BaseModel):
    """A word on a pair, as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    view: Name
    key: Name
    decision: Name
    note: str = ""


def duplicate_routes(desk: LogDesk[PictureDecision], cards: DuplicateCards, about: dict[str, Any]) -> APIRouter:
    """The page and its data; the desk's lines are heard by the cards."""
    routes = APIRouter()

    def keep(make: Callable[[str], PictureDecision]) -> dict[str, Any]:
        return desk.keep(lambda at: [make(at)], lambda lines: cards.card(cards.key_of(lines[0].pictures)))

    @routes.get("/duplicates", response_class=HTMLResponse)
    def page() -> str:
        return rendered("review_duplicates.html", about, grades=[])

    @routes.get("/api/duplicates/queue")
    def keys(state: Literal["all", "open", "decided"] = "all", search: Name = "") -> dict[str, Any]:
        desk.listen()
        found = cards.queue(state, search)
        return {"keys": found, "done": [int(cards.is_done(key)) for key in found]}

    @routes.get("/api/duplicates/cards")
    def some(key: Keys) -> dict[str, Any]:
        desk.listen()
        return {"cards": cards.cards(key)}

    @routes.get("/api/duplicates/pictures")
    def pictures(search: Name = "") -> dict[str, Any]:
        return {"pictures": cards.pictures(search)}

    @routes.get("/api/duplicates/pair")
    def pair(one: Name, other: Name) -> dict[str, Any]:
        desk.listen()
        return {"key": cards.key_of_two(one, other)}

    @routes.post("/api/duplicates/decide")
    def decide(word: Word) -> dict[str, Any]:
        return {"card": keep(lambda at: cards.decided(word.key, word.decision, word.note, at))}

    @routes.post("/api/duplicates/undo")
    def undo() -> dict[str, Any]:
        return {"card": keep(cards.undone) | {"undone": 1}}

    return routes
