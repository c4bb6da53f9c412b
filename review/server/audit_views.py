"""The view of audits: the drawn pairs one by one, blind."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from review.audit_cards import AuditAnswer, AuditCards
from review.page_parts import render_template
from review.request_fields import CardKeys, LongText, ShortText
from review.server.log_session import LogSession


class AuditAnswerRequest(BaseModel, extra="forbid", strict=True):
    """An answer to a pair; no grade: the person cannot tell."""

    view: ShortText
    key: ShortText
    grade: int | None
    note: LongText = ""


def audit_routes(session: LogSession[AuditAnswer], cards: AuditCards, about: dict[str, Any]) -> APIRouter:
    """Return the routes of the page and its data; the cards follow the log of the session."""
    routes = APIRouter()

    @routes.get("/audit", response_class=HTMLResponse)
    def page() -> str:
        session.refresh()
        answers = {name: cards.collect(name) for name in cards.samples}
        return render_template("review_audit.html", about=about, grades=list(cards.grades), answers=answers)

    @routes.get("/api/audit/queue")
    def queue(audit: ShortText, state: Literal["all", "open", "decided", "disputed"] = "all") -> dict[str, Any]:
        session.refresh()
        keys = cards.list_keys(audit, state)
        return {"keys": keys, "done": [int(cards.is_decided(key)) for key in keys]}

    @routes.get("/api/audit/cards")
    def some(key: Annotated[CardKeys, Query()]) -> dict[str, Any]:
        session.refresh()
        return {"cards": [cards.build_card(name) for name in key if cards.has_key(name)]}

    @routes.post("/api/audit/decide")
    def decide(request: AuditAnswerRequest) -> dict[str, Any]:
        card = session.append_one(
            lambda at: cards.create_answer(request.key, request.grade, request.note, at), cards.find_card
        )
        return {"card": card}

    @routes.post("/api/audit/undo")
    def undo() -> dict[str, Any]:
        return {"card": session.append_one(cards.create_undo, cards.find_card) | {"undone": 1}}

    return routes
