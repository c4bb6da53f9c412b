"""The view of rejects: what a rule turned away, and what a person wants in the set all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from builders.rescues import LONGEST, Rescue
from review.reject_cards import RejectCards
from review.reject_table import Reject, RejectFilter
from review.saying import Refused
from review.server.log_desk import LogDesk
from review.server.pages import rendered
from review.server.pictures import picture_routes

Name = Annotated[str, Field(max_length=200)]
Keys = Annotated[list[Name], Query(max_length=48)]
Text = Annotated[str, Field(max_length=LONGEST)]
_PLACE = "/rejects/picture"
_BETWEEN = "_"  # a reject's key, and which file the person saw


@dataclass(frozen=True, slots=True)
class Files:
    """The files that rejects are, by what the ledger calls them. `stamps`: of those that are at hand, what is another
    once the file is; `small`: the JPEG of one with that stamp, by its longer side; `image_id`: the digest of its bytes
    as a picture's id, `Refused` where there is no reading it."""

    stamps: Callable[[Iterable[str]], Mapping[str, str]]
    small: Callable[[str, str, int], bytes | None]
    image_id: Callable[[str], str]


class Word(BaseModel):
    """A rescue, as the page sends it. `seen`: which file the person saw."""

    model_config = ConfigDict(extra="forbid", strict=True)

    view: Name
    key: Name
    decision: Literal["rescue"]
    note: Text
    caption: Text = ""
    seen: Name = ""


class Wanted(BaseModel):
    """The filters of the list."""

    model_config = ConfigDict(extra="forbid")

    stage: Name = ""
    reason: Name = ""
    bucket: Name = ""
    state: Literal["all", "open", "decided"] = "all"
    search: Name = ""


def reject_routes(desk: LogDesk[Rescue], cards: RejectCards, files: Files, about: dict[str, Any]) -> list[APIRouter]:
    """The page and its data, and the pictures; the desk's lines are heard by the cards."""
    routes = APIRouter()

    def shown(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return _with_files(found, cards, files)

    @routes.get("/rejects", response_class=HTMLResponse)
    def page() -> str:
        return rendered("review_rejects.html", about, grades=[], **_choices(cards))

    @routes.get("/api/rejects/queue")
    def keys(wanted: Annotated[Wanted, Query()]) -> dict[str, Any]:
        desk.listen()
        return cards.queue(RejectFilter(**wanted.model_dump()))

    @routes.get("/api/rejects/cards")
    def some(key: Keys) -> dict[str, Any]:
        desk.listen()
        return {"cards": shown(cards.cards(key))}

    @routes.post("/api/rejects/decide")
    def decide(word: Word) -> dict[str, Any]:
        reject = cards.at(word.key)
        cards.check(reject)
        item, said = _item_of(reject, word.seen, cards, files), {"note": word.note, "caption": word.caption}
        card = desk.keep(lambda at: [cards.rescued(reject, item, said, at)], lambda _lines: cards.cards([word.key])[0])
        return {"card": shown([card])[0]}

    @routes.post("/api/rejects/undo")
    def undo() -> dict[str, Any]:
        card = desk.keep(lambda at: [cards.undone(at)], lambda lines: cards.card_of(lines[0]))
        return {"card": shown([card])[0] | {"undone": 1}}

    def small(shown_id: str, side: int) -> bytes | None:
        key, _, stamp = shown_id.partition(_BETWEEN)
        return files.small(cards.at(key).item, stamp, side)

    return [routes, picture_routes(_PLACE, lambda name: cards.is_file(name.partition(_BETWEEN)[0]), small)]


def _choices(cards: RejectCards) -> dict[str, Any]:
    """What can be asked for, with the numbers: stages, reasons and buckets; and of each reason the stages."""
    found: dict[str, dict[str, int]] = {"stage": {}, "reason": {}, "bucket": {}}
    stages: dict[str, list[str]] = {}
    for group, number in cards.choices().items():
        stages.setdefault(group.reason, []).append(group.stage)
        for name, counts in found.items():
            value = getattr(group, name)
            counts[value] = counts.get(value, 0) + number
    return {"choices": found, "stages": stages}


def _with_files(found: list[dict[str, Any]], cards: RejectCards, files: Files) -> list[dict[str, Any]]:
    """Cards with the pictures that lie in the source, each under the stamp of its file."""
    items = {card["key"]: cards.at(card["key"]).item for card in found if cards.is_file(card["key"])}
    stamps = files.stamps(items.values())
    for card in found:
        if stamp := stamps.get(items.get(card["key"], "")):
            card["shown"] = {"place": _PLACE, "id": f"{card['key']}{_BETWEEN}{stamp}"}
    return found


def _item_of(reject: Reject, seen: str, cards: RejectCards, files: Files) -> str:
    """What every build knows it by."""
    if reject.group.kind == "picture":
        return _image_id(reject.item, seen.partition(_BETWEEN)[2], files)
    if reject.group.kind == "caption":
        if (caption := cards.caption_of(reject)) is None:
            raise Refused("several captions go by this name, or its picture is gone from the set")
        return caption.query_id
    return reject.item


def _image_id(item: str, seen: str, files: Files) -> str:
    """The picture's id, while the file is the one that the person saw: else the word would be about another."""
    if seen and files.stamps([item]).get(item) != seen:
        raise Refused("the file is another by now, or gone: look at it again")
    image_id = files.image_id(item)
    if seen and files.stamps([item]).get(item) != seen:
        raise Refused("the file is being written: look at it again")
    return image_id
