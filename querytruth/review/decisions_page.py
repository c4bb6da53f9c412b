"""The view of decisions: their number per reviewer, the agreement, the stale ones, and the CSV."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from querytruth.review.page_parts import render_template
from querytruth.review.query_decisions import ReviewSession
from querytruth.review.review_exports import CsvUploadOptions, export_review_csv, import_review_csv
from querytruth.sets import decision_application, decision_outcomes, decision_records, ledger
from querytruth.sets.decision_agreement import compute_agreements, find_disputes, latest_decisions
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import HumanCaption, ImagePairDecision, Override, QueryDecision, UndeterminedPair
from querytruth.sets.set_files import StoredSet


def csv_routes(stored: StoredSet, reviewer: str) -> APIRouter:
    """Return the routes that export and import CSV."""
    files = APIRouter()

    @files.get("/csv/{view}.csv")
    def download(view: Literal["queries", "judgments"]) -> Response:
        headers = {"content-disposition": f'attachment; filename="{stored.manifest["name"]}-{view}.csv"'}
        return Response(export_review_csv(stored.path, view), media_type="text/csv; charset=utf-8", headers=headers)

    @files.post("/api/csv")
    async def upload(request: Request, options: Annotated[CsvUploadOptions, Query()]) -> dict[str, Any]:
        return await run_in_threadpool(import_review_csv, stored.path, await request.body(), options, reviewer)

    return files


def _build_summary(stored: StoredSet) -> dict[str, Any]:
    """Return the reviewers of the effective decisions on images and rejections, and of the captions that people wrote,
    by the kind's name on the page. Of those that only a build can apply: how many are in the version, how many wait for
    the next build, and the stale ones as table rows."""
    folder = stored.path.parent
    pairs, overrides = read_decisions(folder, ImagePairDecision), read_decisions(folder, Override)
    captions = read_decisions(folder, HumanCaption)
    image_names = _image_names(stored, {image_id for pair in pairs for image_id in pair.images})
    reviewers_by_kind = {
        "Captions": [
            caption.reviewer for caption in decision_records.latest_by_target(captions).values() if caption.lines
        ],
        "Near-duplicates": [one.reviewer for one in decision_records.effective(pairs) if one.undoes is None],
        "Rejects": [one.reviewer for one in decision_records.effective(overrides) if one.undoes is None],
    }
    outcome, waiting_ids = decision_outcomes.carry_over([*pairs, *overrides], stored.manifest["decisions"])
    latest_ids = {
        one.decision_id for log in (pairs, overrides) for one in decision_records.latest_by_target(log).values()
    }
    stale = []
    for decision, reason in outcome.stale:
        text = decision.text
        if isinstance(decision, ImagePairDecision):
            text = " and ".join(image_names.get(image_id, image_id) for image_id in decision.images)
        stale.append({"decision": decision.decision, "text": text, "why": reason})
    return {
        "reviewers_by_kind": {kind: reviewers for kind, reviewers in reviewers_by_kind.items() if reviewers},
        "in_version": len(latest_ids.intersection(outcome.in_effect)),
        "waiting": len(waiting_ids),
        "stale": stale,
    }


def count_by_reviewer(reviewers_by_kind: Mapping[str, Iterable[str]]) -> list[tuple[str, list[int]]]:
    """Return the number of decisions of each kind per reviewer, sorted by name."""
    counts = [Counter(name or "nobody named" for name in names) for names in reviewers_by_kind.values()]
    return [(name, [count[name] for count in counts]) for name in sorted(set().union(*counts))]


def decision_routes(stored: StoredSet, about: dict[str, Any], session: ReviewSession | None = None) -> APIRouter:
    """Return the route of the page. `session`: that of the queries, whose agreement and CSV are shown; None without."""
    routes = APIRouter()

    @routes.get("/decisions", response_class=HTMLResponse)
    def decisions() -> str:
        summary, judging = _build_summary(stored), {} if session is None else _judging_summary(stored, session)
        reviewers_by_kind = judging.pop("reviewers_by_kind", {}) | summary["reviewers_by_kind"]
        stale = judging.pop("stale", []) + summary["stale"]
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


def _judging_summary(stored: StoredSet, session: ReviewSession) -> dict[str, Any]:
    session.refresh()
    cards, outcome = session.cards, _read_outcome(stored)
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


def _image_names(stored: StoredSet, image_ids: set[str]) -> dict[str, str]:
    """Return the names that people know these images by."""
    duplicates, images = stored.tables.duplicates, stored.tables.images
    duplicates, images = (table[table["image_id"].isin(image_ids)] for table in (duplicates, images))
    names_by_image = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    named = images[images["file_name"].notna()]
    return names_by_image | dict(zip(named["image_id"].astype("str"), named["file_name"].astype("str"), strict=True))


def _read_outcome(stored: StoredSet) -> decision_outcomes.DecisionOutcome:
    """Return which decisions of the log fit the version, and which contradict each other, as `apply` takes them."""
    log, in_effect = (
        read_decisions(stored.path.parent, QueryDecision),
        frozenset(stored.manifest["decisions"]["in_effect"]),
    )
    disputes = find_disputes(log, read_decisions(stored.path.parent, UndeterminedPair), in_effect)
    return decision_application.apply_decisions(
        stored.tables, disputes.exclude_from(log, in_effect), ledger.Ledger(), in_effect
    )[1]
