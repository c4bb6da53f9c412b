"""The view of captions: images of a gallery to caption by hand."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from builders.decisions.records import CAPTION_LANGUAGES, HumanCaption
from review.caption_cards import CaptionCards
from review.page_parts import render_template
from review.request_fields import ShortText
from review.server.card_routes import card_routes
from review.server.log_session import LogSession


class CaptionRequest(BaseModel, extra="forbid", strict=True):
    """The captions of an image in one language, one per line."""

    view: ShortText
    image_id: ShortText
    language: ShortText
    text: str


def caption_routes(session: LogSession[HumanCaption], cards: CaptionCards, about: dict[str, Any]) -> APIRouter:
    """Return the routes of the page and its data; the cards follow the log of the session."""
    routes = card_routes("captions", "/api", session, cards)

    @routes.get("/captions", response_class=HTMLResponse)
    def captions() -> str:
        return render_template("review_captions.html", about=about, grades=[], languages=CAPTION_LANGUAGES)

    @routes.post("/api/decide")
    def write(request: CaptionRequest) -> dict[str, Any]:
        texts = (request.image_id, request.language, request.text)
        return {"card": session.append_one(lambda at: cards.create_entry(*texts, at), cards.find_card)}

    return routes
