"""The routes of judging: two pages, their data, and the CSV."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from review.pair_queue import SOURCES, pair_queue
from review.query_queue import ORDERS, STATES, SUSPICIONS, Filter, choices, queue
from review.saying import Said
from review.server.desk import Desk
from review.server.pages import rendered
from review.server.upload import Upload

Name = Annotated[str, Field(max_length=200)]
Source = Literal["waiting", "disagreements", "sample"]
Keys = Annotated[list[Name], Query(max_length=20)]


class Act(BaseModel):
    """A word on a query or on one of its pictures, as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    query_id: Name
    text: str
    decision: Name
    image_id: Name | None = None
    relevance: int | None = None
    new_text: str | None = None
    note: str = ""
    view: Name
    accept: Annotated[list[Name], Field(max_length=500)] = []


class Wanted(BaseModel):
    """The filters of the queue of queries."""

    model_config = ConfigDict(extra="forbid")

    level: int | None = None
    topic: Name = ""
    language: Name = ""
    suspicion: Literal["", "disagreements", "ambiguous", "few_pictures", "near_the_cut"] = ""
    state: Literal["all", "open", "decided"] = "all"
    search: Name = ""
    order: Literal["matters", "text", "pictures"] = "matters"


def page_routes(desk: Desk, about: dict[str, Any]) -> APIRouter:
    """The HTML; `about` is what every page says of the set."""
    pages = APIRouter(default_response_class=HTMLResponse)
    cards = desk.cards

    @pages.get("/")
    def start() -> Response:
        return RedirectResponse("/queries", 303)

    @pages.get("/queries")
    def queries() -> str:
        desk.listen()
        return rendered(
            "review_queries.html", about, choices=choices(cards.entries), orders=ORDERS, states=STATES,
            suspicions=SUSPICIONS, disputed=len(cards.disputed()), grades=cards.grades,
        )  # fmt: skip

    @pages.get("/pairs")
    def pairs() -> str:
        desk.listen()
        counts = {source: len(pair_queue(cards, source)) for source in SOURCES}
        return rendered("review_pairs.html", about, sources=SOURCES, counts=counts, grades=cards.grades)

    return pages


def data_routes(desk: Desk) -> APIRouter:
    """What the pages fetch and send."""
    api = APIRouter()
    cards = desk.cards

    @api.get("/api/queries/queue")
    def query_keys(wanted: Annotated[Wanted, Query()]) -> dict[str, Any]:
        desk.listen()
        every = cards.entries
        if wanted.suspicion == "disagreements":
            disputed = {query for query, image in cards.disputed() if image is None}
            every = [entry for entry in every if entry.query_id in disputed]
            wanted = wanted.model_copy(update={"suspicion": ""})
        found = queue(every, Filter(**wanted.model_dump()), cards.text_of, cards.is_decided)
        return {"keys": [e.query_id for e in found], "done": [int(cards.is_decided(e)) for e in found]}

    @api.get("/api/queries/cards")
    def query_cards(key: Keys) -> dict[str, Any]:
        desk.listen()
        return {"cards": [cards.query(name) for name in key if name in cards.by_id]}

    @api.get("/api/queries/pictures")
    def more_pictures(key: Name, start: Annotated[int, Query(ge=0, le=10_000_000)]) -> dict[str, Any]:
        if key not in cards.by_id:
            raise HTTPException(404, "this query is not in the set")
        return {"pictures": cards.query(key, start)["pictures"]}

    @api.get("/api/pairs/queue")
    def pair_keys(source: Source = "sample", state: Name = "all") -> dict[str, Any]:
        desk.listen()
        found = pair_queue(cards, source)
        done = [int(cards.words.own(target) is not None) for target in found]
        shown = [n for n in range(len(found)) if state == "all" or (state == "decided") == bool(done[n])]
        return {"keys": ["/".join(found[n]) for n in shown], "done": [done[n] for n in shown]}

    @api.get("/api/pairs/cards")
    def pair_cards(key: Keys) -> dict[str, Any]:
        desk.listen()
        targets = [(query, image) for query, _, image in (name.partition("/") for name in key)]
        return {"cards": [cards.pair(target) for target in targets if target[1] and cards.is_known(target)]}

    @api.post("/api/decide")
    def decide(act: Act) -> dict[str, Any]:
        return {"card": desk.say(Said(**act.model_dump()))}

    @api.post("/api/undo")
    def undo(view: Annotated[Name, Body(embed=True)]) -> dict[str, Any]:
        return {"card": desk.undo(view)}

    return api


def csv_routes(desk: Desk, name: str) -> APIRouter:
    """CSV out and in; `name` is the set's."""
    files = APIRouter()

    @files.get("/csv/{view}.csv")
    def download(view: Literal["queries", "judgments"]) -> Response:
        disposition = f'attachment; filename="{name}-{view}.csv"'
        headers = {"content-disposition": disposition}
        return Response(desk.outside.hand_out(view), media_type="text/csv; charset=utf-8", headers=headers)

    @files.post("/api/csv")
    async def upload(request: Request, how: Annotated[Upload, Query()]) -> dict[str, Any]:
        return await run_in_threadpool(desk.outside.take_csv, await request.body(), how)

    return files
