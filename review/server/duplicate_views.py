"""The view of near-duplicates: whether two images are the same."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from builders.decisions.records import ImagePairDecision
from review.duplicate_cards import DuplicateCards
from review.page_parts import render_template
from review.request_fields import ShortText
from review.server.card_routes import card_routes
from review.server.log_session import LogSession


class DuplicateDecisionRequest(BaseModel, extra="forbid", strict=True):
    """A decision on a pair of images."""

    view: ShortText
    key: ShortText
    decision: ShortText
    note: str = ""


def duplicate_routes(session: LogSession[ImagePairDecision], cards: DuplicateCards, about: dict[str, Any]) -> APIRouter:
    """Return the routes of the page and its data; the cards follow the log of the session."""
    routes = card_routes("duplicates", "/api/duplicates", session, cards)

    @routes.get("/duplicates", response_class=HTMLResponse)
    def page() -> str:
        return render_template("review_duplicates.html", about=about, grades=[])

    @routes.get("/api/duplicates/images")
    def images(search: ShortText = "") -> dict[str, Any]:
        return {"images": cards.search_images(search)}

    @routes.get("/api/duplicates/pair")
    def pair(one: ShortText, other: ShortText) -> dict[str, Any]:
        session.refresh()
        return {"key": cards.get_key_for_any_pair(one, other)}

    @routes.post("/api/duplicates/decide")
    def decide(request: DuplicateDecisionRequest) -> dict[str, Any]:
        fields = (request.key, request.decision, request.note)
        return {"card": session.append_one(lambda at: cards.create_decision(*fields, at), cards.find_card)}

    return routes
