"""The views of queries and pairs: two pages, their data, and the CSV.

The view of decisions: their number per reviewer, the agreement, and the stale ones.

The routes that find images of the gallery for a query: by a text, by another image, by a file.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from querytruth.review import deck, query_queue
from querytruth.review.page_parts import render_template
from querytruth.review.review_exports import CsvUploadOptions, export_review_csv, import_review_csv
from querytruth.review.server_session import ReviewSession
from querytruth.review.similar_images import SimilarImageSearch
from querytruth.sets import decision_application, decision_outcomes, ledger
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_agreement import compute_agreements, find_disputes, latest_decisions
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import HumanCaption, ImagePairDecision, Override, QueryDecision, UndeterminedPair
from querytruth.sets.set_files import StoredSet


def page_routes(session: ReviewSession, about: dict[str, Any]) -> APIRouter:
    """Return the routes of the HTML pages; `about` describes the set."""
    pages = APIRouter(default_response_class=HTMLResponse)
    cards = session.cards

    @pages.get("/queries")
    def queries() -> str:
        session.refresh()
        return render_template(
            "review_queries.html",
            about=about,
            choices=query_queue.list_filter_choices(cards.entries),
            flags=query_queue.QUERY_FLAGS,
            disputed=len(cards.list_disputed_targets()),
            grades=cards.grades,
        )

    @pages.get("/pairs")
    def pairs() -> str:
        session.refresh()
        counts = {source: len(deck.build_pair_queue(cards, source, session.results)) for source in deck.PAIR_SOURCES}
        return render_template(
            "review_pairs.html", about=about, sources=deck.PAIR_SOURCES, counts=counts, grades=cards.grades
        )

    return pages


def data_routes(session: ReviewSession) -> APIRouter:
    """Return the routes of the queries, and those that take decisions on queries and pairs."""
    api = APIRouter()
    cards = session.cards

    @api.get("/api/queries/queue")
    def query_keys(params: Annotated[query_queue.QueryFilter, Query()]) -> dict[str, Any]:
        session.refresh()
        groups = cards.groups
        if params.flag == "disagreements":
            disputed = {cards.get_group(query).key for query, image in cards.list_disputed_targets() if image is None}
            groups = [group for group in groups if group.key in disputed]
            params = params.model_copy(update={"flag": ""})
        matching = query_queue.filter_groups(groups, params, cards.text_of, cards.is_decided)
        return {"keys": [group.key for group in matching], "done": [int(cards.is_decided(one)) for one in matching]}

    @api.get("/api/queries/cards")
    def query_cards(key: Annotated[query_queue.CardKeys, Query()]) -> dict[str, Any]:
        session.refresh()
        return {"cards": [cards.build_query_card(name) for name in key if name in cards.entries_by_id]}

    @api.get("/api/queries/images")
    def more_images(key: query_queue.ShortText, start: Annotated[int, Query(ge=0, le=10_000_000)]) -> dict[str, Any]:
        if key not in cards.entries_by_id:
            raise HTTPException(404, "this query is not in the set")
        return {"images": cards.build_query_card(key, start)["images"]}

    @api.post("/api/decide")
    def decide(action: deck.Action) -> dict[str, Any]:
        return {"card": session.record(action)}

    @api.post("/api/undo")
    def undo(view: Annotated[query_queue.ShortText, Body(embed=True)]) -> dict[str, Any]:
        return {"card": session.undo(view)}

    return api


def pair_routes(session: ReviewSession) -> APIRouter:
    """Return the routes of the pairs of a query and an image."""
    api = APIRouter()
    cards = session.cards

    @api.get("/api/pairs/queue")
    def pair_keys(
        source: Literal["results", "candidates", "disagreements", "sample"] = "sample",
        state: query_queue.ShortText = "all",
    ) -> dict[str, Any]:
        session.refresh()
        targets = deck.build_pair_queue(cards, source, session.results)
        done = [int(cards.is_pair_decided(target)) for target in targets]
        shown = [n for n in range(len(targets)) if state == "all" or (state == "decided") == bool(done[n])]
        return {"keys": ["/".join(targets[n]) for n in shown], "done": [done[n] for n in shown]}

    @api.get("/api/pairs/cards")
    def pair_cards(key: Annotated[query_queue.CardKeys, Query()]) -> dict[str, Any]:
        session.refresh()
        targets = [(query, image) for query, _, image in (name.partition("/") for name in key)]
        known = [target for target in targets if target[1] and cards.has_target(target)]
        return {"cards": [cards.build_pair_card(target) for target in known]}

    return api


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


def decision_routes(stored: StoredSet, about: dict[str, Any], session: ReviewSession | None = None) -> APIRouter:
    """Return the route of the page. `session`: that of the queries, whose agreement and CSV are shown; None without."""
    routes = APIRouter()

    @routes.get("/decisions", response_class=HTMLResponse)
    def decisions() -> str:
        summary, judging = _read_summary(stored), {} if session is None else _judging_summary(stored, session)
        reviewers_by_kind = judging.pop("reviewers_by_kind", {}) | summary.reviewers_by_kind
        stale = judging.pop("stale", []) + summary.stale
        return render_template(
            "review_decisions.html",
            about=about,
            kinds=list(reviewers_by_kind),
            people=deck.count_by_reviewer(reviewers_by_kind),
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


def _read_summary(stored: StoredSet) -> deck.DecisionSummary:
    """Counts the decisions on images and rejections, and the captions that people wrote, as the logs are now."""
    folder = stored.path.parent
    return deck.summarize_decisions(
        read_decisions(folder, ImagePairDecision),
        read_decisions(folder, Override),
        read_decisions(folder, HumanCaption),
        stored.manifest["decisions"],
        _image_names(stored),
    )


def _image_names(stored: StoredSet) -> dict[str, str]:
    """The names that people know the images by."""
    duplicates, images = stored.tables.duplicates, stored.tables.images
    names_by_image = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    named = images[images["file_name"].notna()]
    return names_by_image | dict(zip(named["image_id"].astype("str"), named["file_name"].astype("str"), strict=True))


def _read_outcome(stored: StoredSet) -> decision_outcomes.DecisionOutcome:
    """Returns which decisions of the log fit the version, and which contradict each other, as `apply` takes them."""
    log, in_effect = (
        read_decisions(stored.path.parent, QueryDecision),
        frozenset(stored.manifest["decisions"]["in_effect"]),
    )
    disputes = find_disputes(log, read_decisions(stored.path.parent, UndeterminedPair), in_effect)
    return decision_application.apply_decisions(
        stored.tables, disputes.exclude_from(log, in_effect), ledger.Ledger(), in_effect
    )[1]


def image_finder_routes(session: ReviewSession, tables: Tables, similar: SimilarImageSearch) -> APIRouter:
    """Return the routes; each answers with images as the card of the query shows them, and why they were found."""
    routes = APIRouter()
    cards = session.cards

    def answer(query: str, found: deck.FoundImages, remark: str = "") -> dict[str, Any]:
        if query not in cards.entries_by_id:
            raise HTTPException(404, "this query is not in the set")
        session.refresh()
        views = cards.build_image_views(query, [image_id for image_id, _ in found])
        return {"images": [view | {"why": why} for view, (_, why) in zip(views, found, strict=True)], "remark": remark}

    @routes.get("/api/finder/text")
    def by_text(query: query_queue.ShortText, search: query_queue.ShortText) -> dict[str, Any]:
        return answer(query, deck.find_images_by_text(tables, cards, search))

    @routes.get("/api/finder/similar")
    def by_image(query: query_queue.ShortText, image_id: query_queue.ShortText) -> dict[str, Any]:
        if not cards.has_image(image_id):
            raise HTTPException(404, "this image is not in the set")
        return answer(query, *similar.find_by_image(image_id))

    @routes.post("/api/finder/file")
    async def by_file(request: Request, query: Annotated[query_queue.ShortText, Query()]) -> dict[str, Any]:
        data = await request.body()
        return await run_in_threadpool(lambda: answer(query, *similar.find_by_file(data)))

    return routes
