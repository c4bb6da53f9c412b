"""The views of queries and pairs: two pages, their data, and the CSV."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from review.actions import Action
from review.page_parts import render_template
from review.pair_queue import PAIR_SOURCES, build_pair_queue
from review.query_queue import QUERY_FLAGS, QueryFilter, filter_groups, list_filter_choices
from review.request_fields import CardKeys, ShortText
from review.server.csv_upload import CsvUploadOptions
from review.server.review_session import ReviewSession


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
            choices=list_filter_choices(cards.entries),
            flags=QUERY_FLAGS,
            disputed=len(cards.list_disputed_targets()),
            grades=cards.grades,
        )

    @pages.get("/pairs")
    def pairs() -> str:
        session.refresh()
        counts = {source: len(build_pair_queue(cards, source, session.results)) for source in PAIR_SOURCES}
        return render_template(
            "review_pairs.html", about=about, sources=PAIR_SOURCES, counts=counts, grades=cards.grades
        )

    return pages


def data_routes(session: ReviewSession) -> APIRouter:
    """Return the routes of the queries, and those that take decisions on queries and pairs."""
    api = APIRouter()
    cards = session.cards

    @api.get("/api/queries/queue")
    def query_keys(params: Annotated[QueryFilter, Query()]) -> dict[str, Any]:
        session.refresh()
        groups = cards.groups
        if params.flag == "disagreements":
            disputed = {cards.get_group(query).key for query, image in cards.list_disputed_targets() if image is None}
            groups = [group for group in groups if group.key in disputed]
            params = params.model_copy(update={"flag": ""})
        matching = filter_groups(groups, params, cards.text_of, cards.is_decided)
        return {"keys": [group.key for group in matching], "done": [int(cards.is_decided(one)) for one in matching]}

    @api.get("/api/queries/cards")
    def query_cards(key: Annotated[CardKeys, Query()]) -> dict[str, Any]:
        session.refresh()
        return {"cards": [cards.build_query_card(name) for name in key if name in cards.entries_by_id]}

    @api.get("/api/queries/images")
    def more_images(key: ShortText, start: Annotated[int, Query(ge=0, le=10_000_000)]) -> dict[str, Any]:
        if key not in cards.entries_by_id:
            raise HTTPException(404, "this query is not in the set")
        return {"images": cards.build_query_card(key, start)["images"]}

    @api.post("/api/decide")
    def decide(action: Action) -> dict[str, Any]:
        return {"card": session.record(action)}

    @api.post("/api/undo")
    def undo(view: Annotated[ShortText, Body(embed=True)]) -> dict[str, Any]:
        return {"card": session.undo(view)}

    return api


def pair_routes(session: ReviewSession) -> APIRouter:
    """Return the routes of the pairs of a query and an image."""
    api = APIRouter()
    cards = session.cards

    @api.get("/api/pairs/queue")
    def pair_keys(
        source: Literal["results", "candidates", "disagreements", "sample"] = "sample", state: ShortText = "all"
    ) -> dict[str, Any]:
        session.refresh()
        targets = build_pair_queue(cards, source, session.results)
        done = [int(cards.is_pair_decided(target)) for target in targets]
        shown = [n for n in range(len(targets)) if state == "all" or (state == "decided") == bool(done[n])]
        return {"keys": ["/".join(targets[n]) for n in shown], "done": [done[n] for n in shown]}

    @api.get("/api/pairs/cards")
    def pair_cards(key: Annotated[CardKeys, Query()]) -> dict[str, Any]:
        session.refresh()
        targets = [(query, image) for query, _, image in (name.partition("/") for name in key)]
        known = [target for target in targets if target[1] and cards.has_target(target)]
        return {"cards": [cards.build_pair_card(target) for target in known]}

    return api


def csv_routes(session: ReviewSession, name: str) -> APIRouter:
    """Return the routes that export and import CSV; `name` is that of the set."""
    files = APIRouter()

    @files.get("/csv/{view}.csv")
    def download(view: Literal["queries", "judgments"]) -> Response:
        headers = {"content-disposition": f'attachment; filename="{name}-{view}.csv"'}
        return Response(session.storage.export_csv(view), media_type="text/csv; charset=utf-8", headers=headers)

    @files.post("/api/csv")
    async def upload(request: Request, options: Annotated[CsvUploadOptions, Query()]) -> dict[str, Any]:
        return await run_in_threadpool(session.storage.import_csv, await request.body(), options)

    return files
