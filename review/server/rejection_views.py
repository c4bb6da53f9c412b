"""The view of rejections: items that a rule rejected, and their overrides."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from builders.decisions.records import Override
from review.actions import ActionError
from review.page_parts import render_template
from review.rejection_cards import RejectionCards
from review.rejection_table import RejectedItem, RejectionFilter
from review.request_fields import LongText, ShortText
from review.server.images import image_routes
from review.server.log_session import LogSession

_IMAGE_PATH = "/rejects/image"
_SEPARATOR = "_"  # between the key of a rejection and the stamp of its file


@dataclass(frozen=True, slots=True)
class RejectionFiles:
    """Access to the files of rejected items, by item. `get_stamps`: stamps of available files, which change with the
    file; `load_thumbnail(item, stamp, side)`: its JPEG, or None; `compute_image_id`: its image id. Raises ActionError
    where the file cannot be read."""

    get_stamps: Callable[[Iterable[str]], Mapping[str, str]]
    load_thumbnail: Callable[[str, str, int], bytes | None]
    compute_image_id: Callable[[str], str]


class OverrideRequest(BaseModel, extra="forbid", strict=True):
    """An override of a rejection. `seen`: the file that the person saw, as key and stamp."""

    view: ShortText
    key: ShortText
    decision: Literal["rescue"]
    note: LongText
    caption: LongText = ""
    seen: ShortText = ""


def rejection_routes(
    session: LogSession[Override], cards: RejectionCards, files: RejectionFiles, about: dict[str, Any]
) -> list[APIRouter]:
    """Return the routes of the page, its data and the images; the cards follow the log of the session."""
    routes = APIRouter()

    @routes.get("/rejects", response_class=HTMLResponse)
    def page() -> str:
        return render_template("review_rejects.html", about=about, grades=[], **_choices(cards))

    @routes.get("/api/rejects/queue")
    def keys(params: Annotated[RejectionFilter, Query()]) -> dict[str, Any]:
        session.refresh()
        return cards.build_queue(params)

    @routes.get("/api/rejects/cards")
    def some(key: Annotated[list[ShortText], Query(max_length=48)]) -> dict[str, Any]:
        session.refresh()
        return {"cards": _with_files(cards.build_cards(key), cards, files)}

    @routes.post("/api/rejects/decide")
    def decide(request: OverrideRequest) -> dict[str, Any]:
        reject = cards.get_rejection(request.key)
        cards.check_overridable(reject)
        item, texts = _item_of(reject, request.seen, files), {"note": request.note, "caption": request.caption}
        card = session.append_one(
            lambda at: cards.create_override(reject, item, texts, at), lambda _: cards.build_cards([request.key])[0]
        )
        return {"card": _with_files([card], cards, files)[0]}

    @routes.post("/api/rejects/undo")
    def undo() -> dict[str, Any]:
        card = session.append_one(cards.create_undo, cards.find_card)
        return {"card": _with_files([card], cards, files)[0] | {"undone": 1}}

    def small(shown_id: str, side: int) -> bytes | None:
        key, _, stamp = shown_id.partition(_SEPARATOR)
        return files.load_thumbnail(cards.get_rejection(key).item, stamp, side)

    return [routes, image_routes(_IMAGE_PATH, lambda name: cards.is_file(name.partition(_SEPARATOR)[0]), small)]


def _choices(cards: RejectionCards) -> dict[str, Any]:
    """Return the values of each filter with their numbers, and the stages of each reason."""
    counts_by_column: dict[str, dict[str, int]] = {"stage": {}, "reason": {}, "bucket": {}}
    stages: dict[str, list[str]] = {}
    for group, number in cards.table.count_by_group().items():
        stages.setdefault(group.reason, []).append(group.stage)
        for name, counts in counts_by_column.items():
            value = getattr(group, name)
            counts[value] = counts.get(value, 0) + number
    return {"choices": counts_by_column, "stages": stages}


def _with_files(cards_data: list[dict[str, Any]], cards: RejectionCards, files: RejectionFiles) -> list[dict[str, Any]]:
    """Return the cards with the addresses of their images, each with the stamp of its file."""
    items = {card["key"]: cards.get_rejection(card["key"]).item for card in cards_data if cards.is_file(card["key"])}
    stamps = files.get_stamps(items.values())
    for card in cards_data:
        if stamp := stamps.get(items.get(card["key"], "")):
            card["shown"] = {"path": _IMAGE_PATH, "id": f"{card['key']}{_SEPARATOR}{stamp}"}
    return cards_data


def _item_of(reject: RejectedItem, seen: str, files: RejectionFiles) -> str:
    """Return the name by which builds identify the item. Raises ActionError where there is none."""
    if reject.group.kind == "image":
        return _image_id(reject.item, seen.partition(_SEPARATOR)[2], files)
    if reject.group.kind == "caption" and not reject.item_id:
        raise ActionError("several captions go by this name, or its picture is gone from the set")
    return reject.item_id or reject.item


def _image_id(item: str, seen: str, files: RejectionFiles) -> str:
    """Return the image id. Raises ActionError where the file is no longer the one that the person saw."""
    if seen and files.get_stamps([item]).get(item) != seen:
        raise ActionError("the file is another by now, or gone: look at it again")
    image_id = files.compute_image_id(item)
    if seen and files.get_stamps([item]).get(item) != seen:
        raise ActionError("the file is being written: look at it again")
    return image_id
