"""The view of rejections: items that a rule rejected, and their overrides.

The view of captions: images of a gallery to caption by hand.

The view of near-duplicates: whether two images are the same.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from querytruth.review import gallery_cards, rejection_table, server
from querytruth.review.deck import ActionError
from querytruth.review.page_parts import render_template
from querytruth.review.query_queue import LongText, ShortText
from querytruth.review.rejection_cards import RejectionCards
from querytruth.review.server_session import LogSession, card_routes
from querytruth.review.similar_images import RejectedFiles
from querytruth.sets.decision_records import CAPTION_LANGUAGES, HumanCaption, ImagePairDecision, Override

_IMAGE_PATH = "/rejects/image"
_SEPARATOR = "_"  # between the key of a rejection and the stamp of its file


class CaptionRequest(BaseModel, extra="forbid", strict=True):
    """The captions of an image in one language, one per line."""

    view: ShortText
    image_id: ShortText
    language: ShortText
    text: str


def caption_routes(
    session: LogSession[HumanCaption], cards: gallery_cards.CaptionCards, about: dict[str, Any]
) -> APIRouter:
    """Return the routes of the page and its data; the cards follow the log of the session."""
    routes = card_routes("captions", "/api", session, cards)

    @routes.get("/captions", response_class=HTMLResponse)
    def captions() -> str:
        return render_template("review_captions.html", about=about, grades=[], languages=CAPTION_LANGUAGES)

    @routes.post("/api/decide")
    def write(request: CaptionRequest) -> dict[str, Any]:
        texts = (request.image_id, request.language, request.text)
        return {"card": session.append_one(lambda at: cards.create_entry(*texts, at), cards.find_card)}

    return routes


class DuplicateDecisionRequest(BaseModel, extra="forbid", strict=True):
    """A decision on a pair of images."""

    view: ShortText
    key: ShortText
    decision: ShortText
    note: str = ""


def duplicate_routes(
    session: LogSession[ImagePairDecision], cards: gallery_cards.DuplicateCards, about: dict[str, Any]
) -> APIRouter:
    """Return the routes of the page and its data; the cards follow the log of the session."""
    routes = card_routes("duplicates", "/api/duplicates", session, cards)

    @routes.get("/duplicates", response_class=HTMLResponse)
    def page() -> str:
        return render_template("review_duplicates.html", about=about, grades=[])

    @routes.get("/api/duplicates/images")
    def images(search: ShortText = "") -> dict[str, Any]:
        return {"images": cards.search_images(search)}

    @routes.get("/api/duplicates/pair")
    def pair(one: ShortText, other: ShortText) -> dict[str, Any]:
        session.refresh()
        return {"key": cards.get_key_for_any_pair(one, other)}

    @routes.post("/api/duplicates/decide")
    def decide(request: DuplicateDecisionRequest) -> dict[str, Any]:
        fields = (request.key, request.decision, request.note)
        return {"card": session.append_one(lambda at: cards.create_decision(*fields, at), cards.find_card)}

    return routes


class OverrideRequest(BaseModel, extra="forbid", strict=True):
    """An override of a rejection. `seen`: the file that the person saw, as key and stamp."""

    view: ShortText
    key: ShortText
    decision: Literal["rescue"]
    note: LongText
    caption: LongText = ""
    seen: ShortText = ""


def rejection_routes(
    session: LogSession[Override], cards: RejectionCards, files: RejectedFiles, about: dict[str, Any]
) -> list[APIRouter]:
    """Return the routes of the page, its data and the images; the cards follow the log of the session."""
    routes = APIRouter()

    @routes.get("/rejects", response_class=HTMLResponse)
    def page() -> str:
        return render_template("review_rejects.html", about=about, grades=[], **_choices(cards))

    @routes.get("/api/rejects/queue")
    def keys(params: Annotated[rejection_table.RejectionFilter, Query()]) -> dict[str, Any]:
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

    return [routes, server.image_routes(_IMAGE_PATH, lambda name: cards.is_file(name.partition(_SEPARATOR)[0]), small)]


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


def _with_files(cards_data: list[dict[str, Any]], cards: RejectionCards, files: RejectedFiles) -> list[dict[str, Any]]:
    """Return the cards with the addresses of their images, each with the stamp of its file."""
    items = {card["key"]: cards.get_rejection(card["key"]).item for card in cards_data if cards.is_file(card["key"])}
    stamps = files.get_stamps(items.values())
    for card in cards_data:
        if stamp := stamps.get(items.get(card["key"], "")):
            card["shown"] = {"path": _IMAGE_PATH, "id": f"{card['key']}{_SEPARATOR}{stamp}"}
    return cards_data


def _item_of(reject: rejection_table.RejectedItem, seen: str, files: RejectedFiles) -> str:
    """Return the name by which builds identify the item. Raises ActionError where there is none."""
    if reject.group.kind == "image":
        return _image_id(reject.item, seen.partition(_SEPARATOR)[2], files)
    if reject.group.kind == "caption" and not reject.item_id:
        raise ActionError("several captions go by this name, or its image is gone from the set")
    return reject.item_id or reject.item


def _image_id(item: str, seen: str, files: RejectedFiles) -> str:
    """Return the image id. Raises ActionError where the file is no longer the one that the person saw."""
    if seen and files.get_stamps([item]).get(item) != seen:
        raise ActionError("the file is another by now, or gone: look at it again")
    image_id = files.compute_image_id(item)
    if seen and files.get_stamps([item]).get(item) != seen:
        raise ActionError("the file is being written: look at it again")
    return image_id
