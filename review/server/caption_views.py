"""The page of a gallery: pictures to caption by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from builders.decisions.records import CAPTION_LANGUAGES, HumanCaption
from review.caption_cards import CaptionCards
from review.server.log_session import LogSession
from review.server.pages import render_template

_ShortText = Annotated[str, Field(max_length=200)]
_CardKeys = Annotated[list[_ShortText], Query(max_length=20)]


class CaptionRequest(BaseModel):
    """The captions of a picture in one language, as the page sends them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    view: _ShortText
    image_id: _ShortText
    language: _ShortText
    text: str


def caption_routes(session: LogSession[HumanCaption], cards: CaptionCards, about: dict[str, Any]) -> APIRouter:
    """The page and its data; the desk's lines are heard by the cards."""
    routes = APIRouter()

    def append(build_entry: Callable[[str], HumanCaption]) -> dict[str, Any]:
        return session.append(lambda at: [build_entry(at)], lambda lines: cards.build_card(lines[0].image_id))

    @routes.get("/")
    def start() -> Response:
        return RedirectResponse("/captions", 303)

    @routes.get("/captions", response_class=HTMLResponse)
    def captions() -> str:
        return render_template("review_captions.html", about, grades=[], languages=CAPTION_LANGUAGES)

    @routes.get("/api/captions/queue")
    def keys(state: Literal["all", "open", "decided"] = "all", search: _ShortText = "") -> dict[str, Any]:
        session.refresh()
        matching = cards.list_keys(state, search)
        return {"keys": matching, "done": [int(cards.is_captioned(image_id)) for image_id in matching]}

    @routes.get("/api/captions/cards")
    def some(key: _CardKeys) -> dict[str, Any]:
        session.refresh()
        return {"cards": [cards.build_card(image_id) for image_id in key if cards.has_image(image_id)]}

    @routes.post("/api/decide")
    def write(request: CaptionRequest) -> dict[str, Any]:
        return {"card": append(lambda at: cards.create_entry(request.image_id, request.language, request.text, at))}

    @routes.post("/api/undo")
    def undo() -> dict[str, Any]:
        return {"card": append(cards.create_undo) | {"undone": 1}}

    return routes
