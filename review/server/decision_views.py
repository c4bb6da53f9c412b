"""The view of decisions: who decided how much, how far they agree, and what of it a version follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from builders.agreement import agreements, last_words
from review.server.desk import Desk
from review.server.pages import rendered
from review.told_words import ToldWords, by_person


def decision_routes(told: Callable[[], ToldWords], about: dict[str, Any], desk: Desk | None = None) -> APIRouter:
    """The page; `desk` where queries are judged, which have an agreement and a CSV as well."""
    routes = APIRouter()

    @routes.get("/decisions", response_class=HTMLResponse)
    def decisions() -> str:
        found, judging = told(), {} if desk is None else _judging(desk)
        whose = judging.pop("whose", {}) | found.whose
        stale = judging.pop("stale", []) + found.followed.stale
        return rendered(
            "review_decisions.html", about, kinds=list(whose), people=by_person(whose), followed=found.followed,
            stale=stale, judging=judging,
        )  # fmt: skip

    return routes


def _judging(desk: Desk) -> dict[str, Any]:
    desk.listen()
    cards = desk.cards
    standing = cards.words.standing()
    return {
        "whose": {"Queries and pairs": [word.reviewer for word in standing]},
        "stale": desk.outside.stale(),
        "agreements": agreements(last_words(standing)),
        "disputed": len(cards.disputed()),
    }
