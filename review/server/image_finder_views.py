"""The routes that find images of the gallery for a query: by a text, by another image, by a file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.concurrency import run_in_threadpool

from builders.benchmark_set import Tables
from review.image_finder import FoundImages, find_images_by_text
from review.request_fields import ShortText
from review.server.review_session import ReviewSession


@dataclass(frozen=True, slots=True)
class SimilarImages:
    """Images that resemble one of the set or a file, the most similar first, with a remark on the search or "". Both
    raise ActionError where there is none."""

    find_by_image: Callable[[str], tuple[FoundImages, str]]
    find_by_file: Callable[[bytes], tuple[FoundImages, str]]


def image_finder_routes(session: ReviewSession, tables: Tables, similar: SimilarImages) -> APIRouter:
    """Return the routes; each answers with images as the card of the query shows them, and why they were found."""
    routes = APIRouter()
    cards = session.cards

    def answer(query: str, found: FoundImages, remark: str = "") -> dict[str, Any]:
        if query not in cards.entries_by_id:
            raise HTTPException(404, "this query is not in the set")
        session.refresh()
        views = cards.build_image_views(query, [image_id for image_id, _ in found])
        return {"images": [view | {"why": why} for view, (_, why) in zip(views, found, strict=True)], "remark": remark}

    @routes.get("/api/finder/text")
    def by_text(query: ShortText, search: ShortText) -> dict[str, Any]:
        return answer(query, find_images_by_text(tables, cards, search))

    @routes.get("/api/finder/similar")
    def by_image(query: ShortText, image_id: ShortText) -> dict[str, Any]:
        if not cards.has_image(image_id):
            raise HTTPException(404, "this picture is not in the set")
        return answer(query, *similar.find_by_image(image_id))

    @routes.post("/api/finder/file")
    async def by_file(request: Request, query: Annotated[ShortText, Query()]) -> dict[str, Any]:
        data = await request.body()
        return await run_in_threadpool(lambda: answer(query, *similar.find_by_file(data)))

    return routes
