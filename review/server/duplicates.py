"""The view of near-duplicates: the same, or not the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from builders.picture_decisions import PictureDecision
from review.duplicate_cards import DuplicateCards
from review.server.pages import rendered

Name = Annotated[str, Field(max_length=200)]
Keys = Annotated[list[Name], Query(max_length=20)]
_SIDES = (320, 1280)


@dataclass(frozen=True, slots=True)
class DuplicateOutside:
    """What the view needs from the world; as `Outside` of the desk."""

    append: Callable[[list[PictureDecision]], None]
    read_on: Callable[[int], tuple[list[PictureDecision], int]]
    picture: Callable[[str, int], bytes | None]


class Word(BaseModel):
    """A word on a pair, as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    view: Name
    key: Name
    decision: Name
    note: str = ""


class DuplicateDesk:
    """Threads take turns; a decision is on disk before it is answered."""

    def __init__(self, cards: DuplicateCards, outside: DuplicateOutside) -> None:
        self.cards, self.outside = cards, outside
        self._heard, self._lock = 0, Lock()
        self.listen()

    def listen(self) -> None:
        """Hear what is new in the log."""
        with self._lock:
            self._listen()

    def keep(self, make: Callable[[str], PictureDecision]) -> dict[str, Any]:
        """Put a line, made for the present time, on disk; the card as it is now."""
        with self._lock:
            self._listen()
            line = make(datetime.now(UTC).isoformat(timespec="microseconds"))
            key = self.cards.key_of(line.pictures)
            self.outside.append([line])
            self._listen()
            return self.cards.card(key)

    def _listen(self) -> None:
        lines, self._heard = self.outside.read_on(self._heard)
        self.cards.hear(lines)


def duplicate_routes(desk: DuplicateDesk, about: dict[str, Any]) -> APIRouter:
    """The page, its data, and the pictures of the groups, of which all but one are not in the gallery."""
    routes, cards = APIRouter(), desk.cards

    @routes.get("/duplicates", response_class=HTMLResponse)
    def page() -> str:
        return rendered("review_duplicates.html", about, grades=[])

    @routes.get("/api/duplicates/queue")
    def keys(state: Literal["all", "open", "decided"] = "all", search: Name = "") -> dict[str, Any]:
        desk.listen()
        found = cards.queue(state, search)
        return {"keys": found, "done": [int(cards.is_done(key)) for key in found]}

    @routes.get("/api/duplicates/cards")
    def some(key: Keys) -> dict[str, Any]:
        desk.listen()
        return {"cards": cards.cards(key)}

    @routes.post("/api/duplicates/decide")
    def decide(word: Word) -> dict[str, Any]:
        return {"card": desk.keep(lambda at: cards.decided(word.key, word.decision, word.note, at))}

    @routes.post("/api/duplicates/undo")
    def undo() -> dict[str, Any]:
        return {"card": desk.keep(cards.undone) | {"undone": 1}}

    @routes.get("/duplicates/picture/{side}/{image_id}")
    def picture(side: int, image_id: str) -> Response:
        jpeg = desk.outside.picture(image_id, side) if side in _SIDES and cards.is_picture(image_id) else None
        if jpeg is None:
            raise HTTPException(404, "no such picture is at hand")
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})

    return routes
