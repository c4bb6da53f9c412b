"""The view of decisions: their number per reviewer, the agreement, and the stale ones."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from builders.decisions.agreement import compute_agreements, latest_decisions
from review.decision_summary import DecisionSummary, count_by_reviewer
from review.page_parts import render_template
from review.server.review_session import ReviewSession


def decision_routes(
    read_summary: Callable[[], DecisionSummary], about: dict[str, Any], session: ReviewSession | None = None
) -> APIRouter:
    """Return the route of the page. `session`: that of the queries, whose agreement and CSV are shown; None without."""
    routes = APIRouter()

    @routes.get("/decisions", response_class=HTMLResponse)
    def decisions() -> str:
        summary, judging = read_summary(), {} if session is None else _judging_summary(session)
        reviewers_by_kind = judging.pop("reviewers_by_kind", {}) | summary.reviewers_by_kind
        stale = judging.pop("stale", []) + summary.stale
        return render_template(
            "review_decisions.html",
            about=about,
            kinds=list(reviewers_by_kind),
            people=count_by_reviewer(reviewers_by_kind),
            summary=summary,
            stale=stale,
            judging=judging,
        )

    return routes


def _judging_summary(session: ReviewSession) -> dict[str, Any]:
    session.refresh()
    cards, outcome = session.cards, session.storage.read_outcome()
    effective = cards.state.list_decisions()
    return {
        "reviewers_by_kind": {"Queries and pairs": [decision.reviewer for decision in effective]},
        "stale": [{"decision": one.decision, "text": one.text, "why": why} for one, why in outcome.stale],
        "shared": outcome.shared_count,
        "conflicts": [
            {
                "key": cards.get_group(conflict.decisions[0].query_id).key,
                "image": cards.get_image_name(conflict.image_id),
                "grades": conflict.describe(),
            }
            for conflict in outcome.conflicts
        ],
        "agreements": compute_agreements(latest_decisions(effective)),
        "disputed": len(cards.list_disputed_targets()),
    }
