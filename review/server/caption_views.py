"""The view of captions: images of a gallery to caption by hand."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel

from builders.decisions.records import CAPTION_LANGUAGES, HumanCaption
from review.caption_cards import CaptionCards
from review.request_fields import ShortText
from review.server.card_routes import card_routes
from review.server.log_session import LogSession
from review.server.pages import render_template


class CaptionRequest(BaseModel, extra="forbid", strict=True):
    """The captions of an image in one language, one per line."""

    view: ShortText
    image_id: ShortText
    language: ShortText
    text: str


def caption_routes(session: LogSession[HumanCaption], cards: CaptionCards, about: dict[str, Any]) -> APIRouter:
    """Return the routes of the page and its data; the cards follow the log of the session."""
    routes = card_routes("captions", "/api", session, cards)

    @routes.get("/")
    def start() -> Response:
        return RedirectResponse("/captions", 303)

    @routes.get("/captions", response_class=HTMLResponse)
    def captions() -> str:
        return render_template("review_captions.html", about, grades=[], languages=CAPTION_LANGUAGES)

    @routes.post("/api/decide")
    def write(request: CaptionRequest) -> dict[str, Any]:
        def create(at: str) -> HumanCaption:
            return cards.create_entry(request.image_id, request.language, request.text, at)

        return {"card": session.append_one(create, cards.find_card)}

    return routes
