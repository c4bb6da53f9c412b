"""The page of a gallery: pictures to caption by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from builders.hand_captions import LANGUAGES, HandCaption
from review.caption_cards import CaptionCards
from review.server.log_desk import LogDesk
from review.server.pages import rendered

Name = Annotated[str, Field(max_length=200)]
Keys = Annotated[list[Name], Query(max_length=20)]


class Text(BaseModel):
    """The captions of a picture in one language, as the page sends them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    view: Name
    image_id: Name
    language: Name
    text: str


def caption_routes(desk: LogDesk[HandCaption], cards: CaptionCards, about: dict[str, Any]) -> APIRouter:
    """The page and its data; the desk's lines are heard by the cards."""
    routes = APIRouter()

    def keep(make: Callable[[str], HandCaption]) -> dict[str, Any]:
        return desk.keep(lambda at: [make(at)], lambda lines: cards.card(lines[0].image_id))

    @routes.get("/")
    def start() -> Response:
        return RedirectResponse("/captions", 303)

    @routes.get("/captions", response_class=HTMLResponse)
    def captions() -> str:
        return rendered("review_captions.html", about, grades=[], languages=LANGUAGES)

    @routes.get("/api/captions/queue")
    def keys(state: Literal["all", "open", "decided"] = "all", search: Name = "") -> dict[str, Any]:
        desk.listen()
        found = cards.queue(state, search)
        return {"keys": found, "done": [int(cards.is_done(image_id)) for image_id in found]}

    @routes.get("/api/captions/cards")
    def some(key: Keys) -> dict[str, Any]:
        desk.listen()
        return {"cards": [cards.card(image_id) for image_id in key if cards.is_picture(image_id)]}

    @routes.post("/api/decide")
    def write(text: Text) -> dict[str, Any]:
        return {"card": keep(lambda at: cards.written(text.image_id, text.language, text.text, at))}

    @routes.post("/api/undo")
    def undo() -> dict[str, Any]:
        return {"card": keep(cards.undone) | {"undone": 1}}

    return routes
