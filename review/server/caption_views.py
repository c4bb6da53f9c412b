"""The page of a gallery: pictures to caption by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from builders.hand_captions import LANGUAGES, HandCaption
from review.caption_cards import CaptionCards
from review.server.pages import rendered

Name = Annotated[str, Field(max_length=200)]
Keys = Annotated[list[Name], Query(max_length=20)]
_SIDES = (320, 1280)


@dataclass(frozen=True, slots=True)
class CaptionOutside:
    """What the page needs from the world; as `Outside` of the desk."""

    append: Callable[[list[HandCaption]], None]
    read_on: Callable[[int], tuple[list[HandCaption], int]]
    picture: Callable[[str, int], bytes | None]


class Text(BaseModel):
    """The captions of a picture in one language, as the page sends them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    view: Name
    image_id: Name
    language: Name
    text: str


class CaptionDesk:
    """Threads take turns; a caption is on disk before it is answered."""

    def __init__(self, cards: CaptionCards, outside: CaptionOutside) -> None:
        self.cards, self.outside = cards, outside
        self._heard, self._lock = 0, Lock()
        self.listen()

    def listen(self) -> None:
        """Hear what is new in the log."""
        with self._lock:
            self._listen()

    def keep(self, make: Callable[[str], HandCaption]) -> dict[str, Any]:
        """Put a line, made for the present time, on disk; the card as it is now."""
        with self._lock:
            self._listen()
            line = make(datetime.now(UTC).isoformat(timespec="microseconds"))
            self.outside.append([line])
            self._listen()
            return self.cards.card(line.image_id)

    def _listen(self) -> None:
        lines, self._heard = self.outside.read_on(self._heard)
        self.cards.hear(lines)


def caption_routes(desk: CaptionDesk, about: dict[str, Any]) -> APIRouter:
    """The page, its data and the gallery's pictures."""
    routes, cards = APIRouter(), desk.cards

    @routes.get("/")
    def start() -> Response:
        return RedirectResponse("/captions", 303)

    @routes.get("/captions", response_class=HTMLResponse)
    def captions() -> str:
        return rendered("review_captions.html", about, grades=[], languages=LANGUAGES)

    @routes.get("/api/captions/queue")
    def keys(state: Literal["all", "open", "decided"] = "all", search: Name = "") -> dict[str, Any]:
        desk.listen()
        found = cards.queue(state, search)
        return {"keys": found, "done": [int(cards.is_done(image_id)) for image_id in found]}

    @routes.get("/api/captions/cards")
    def some(key: Keys) -> dict[str, Any]:
        desk.listen()
        return {"cards": [cards.card(image_id) for image_id in key if cards.is_picture(image_id)]}

    @routes.post("/api/decide")
    def write(text: Text) -> dict[str, Any]:
        return {"card": desk.keep(lambda at: cards.written(text.image_id, text.language, text.text, at))}

    @routes.post("/api/undo")
    def undo() -> dict[str, Any]:
        return {"card": desk.keep(cards.undone) | {"undone": 1}}

    @routes.get("/picture/{side}/{image_id}")
    def picture(side: int, image_id: str) -> Response:
        jpeg = desk.outside.picture(image_id, side) if side in _SIDES and cards.is_picture(image_id) else None
        if jpeg is None:
            raise HTTPException(404, "no such picture is at hand")
        return Response(jpeg, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})

    return routes
