"""The view of rejected items: the rule, the overrides so far, and why some items cannot be overridden."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from fastapi import APIRouter

from querytruth.array_types import BoolArray, RowIndices
from querytruth.backends.files.text_formats import has_words
from querytruth.records import empty_frame
from querytruth.review import deck, server
from querytruth.review.page_parts import translate, translate_detail
from querytruth.review.query_cards import ReviewState
from querytruth.review.rejection_table import RejectedItem, RejectionFilter, RejectionGroup, RejectionTable
from querytruth.review.similar_images import RejectedFiles
from querytruth.sets.decision_outcomes import advise_fix
from querytruth.sets.decision_records import Override

_AT_MOST = 1500  # characters of a name or detail on the page
_FILES = frozenset({"image", "result"})  # kinds whose items are files, of a source or from the web
_IMAGE_PATH = "/rejects/image"
_SEPARATOR = "_"  # between the key of a rejection and the stamp of its file
_SET_IMAGE_PATH = "/image"  # where the page has those of the set
_NO_ROWS = np.empty(0, dtype=np.int64)


class OverrideVerdict(deck.Verdict):
    """An override of a rejection. `seen`: the file that the person saw, as key and stamp."""

    key: deck.ShortText
    decision: Literal["rescue"]
    note: deck.LongText
    caption: deck.LongText = ""
    seen: deck.ShortText = ""


@dataclass(frozen=True, slots=True)
class RejectionContext:
    """Facts outside the ledger. `blocked_reason`: why nothing of this set can be overridden, or ""; `stale_reasons`:
    why overrides changed nothing in this version, by decision_id; `duplicates`: the table, empty without that view;
    `files`: those of rejected items."""

    blocked_reason: str = ""
    stale_reasons: Mapping[str, str] = field(default_factory=dict)
    duplicates: pd.DataFrame = field(default_factory=lambda: empty_frame("duplicates"))
    files: RejectedFiles | None = None


class RejectionCards(deck.LogView[Override]):
    """All rejections of a version with their overrides, by the names in the ledger."""

    name, filter_model, verdict_model = "rejects", RejectionFilter, OverrideVerdict
    promise = "The next build of the set applies it."

    def __init__(self, ledger: pd.DataFrame, context: RejectionContext, reviewer: str) -> None:
        self._state = ReviewState[Override](reviewer)
        self.table, self._context, self._files = RejectionTable(ledger), context, context.files
        self._effective_by_name: dict[str, list[Override]] = {}
        self._rows: dict[str, RowIndices] = {}  # of the ledger, by the name in an override
        self._is_overridden: BoolArray = np.zeros(len(self.table), dtype=bool)

    def apply_entries(self, overrides: Iterable[Override]) -> None:
        """Apply the next entries of the log. Concurrent readers see the state before or after, never between."""
        if not (new := list(overrides)):
            return
        self._state.apply_entries(new)
        named: dict[str, list[Override]] = {}
        for override in self._state.list_decisions():
            for name in _ledger_names(override):
                named.setdefault(name, []).append(override)
        if unknown := {name for override in new for name in _ledger_names(override) if name not in self._rows}:
            self._rows |= dict.fromkeys(unknown, _NO_ROWS) | self.table.find_rows(unknown)
        is_overridden: BoolArray = np.zeros(len(self.table), dtype=bool)
        for name in named:
            is_overridden[self._rows[name]] = True
        self._effective_by_name, self._is_overridden = named, is_overridden

    def build_queue(self, rejection_filter: RejectionFilter) -> deck.CardData:
        """Return the keys that pass the filter, whether each is overridden, and the groups with their size and the
        number listed."""
        rows, counts = self.table.build_queue(rejection_filter, self._is_overridden)
        groups = {
            str(code): {**asdict(self.table.groups[code]), "size": size, "listed": listed}
            for code, (size, listed) in counts.items()
        }
        keys = [reject.key for reject in self.table.get_rejections(rows)]
        return {"keys": keys, "done": self._is_overridden[rows].astype(int).tolist(), "groups": groups}

    def get_rejection(self, key: str) -> RejectedItem:
        """Return the rejected item of a key. Raises ActionError for an unknown key."""
        if (row := self.table.find_row(key)) is None:
            raise deck.ActionError("this item was not rejected in this version")
        return self.table.get_rejections([row])[0]

    def is_decided(self, key: str) -> bool:
        """Return whether anybody overrode the rejection."""
        row = self.table.find_row(key)
        return row is not None and bool(self._is_overridden[row])

    def is_file(self, key: str) -> bool:
        """Return whether the key is a rejected image file."""
        row = self.table.find_row(key)
        return row is not None and self.table.get_rejections([row])[0].group.kind in _FILES

    def build_cards(self, keys: Iterable[str]) -> list[deck.CardData]:
        """Return the cards of these rejections; unknown keys are skipped."""
        rejects = self.table.get_rejections([row for key in keys if (row := self.table.find_row(key)) is not None])
        links = self._links([reject.item for reject in rejects if reject.group.stage == "duplicates"])
        return self._with_files([self._card(reject, links.get(reject.item)) for reject in rejects])

    def check_overridable(self, reject: RejectedItem) -> None:
        """Raise ActionError, with the alternative, where no build can accept the item."""
        if why := self._why_not(reject.group):
            raise deck.ActionError(why)

    def create_override(self, reject: RejectedItem, item: str, texts: Mapping[str, str], at: str) -> Override:
        """Return an override of `item`, its name in builds; `texts`: note and caption. Raises ActionError where the
        item cannot be overridden or a text is invalid."""
        self.check_overridable(reject)
        note, caption = deck.clean_text(texts["note"], "the reason"), ""
        if not note:
            raise deck.ActionError("write why it belongs in the set: readers of the set see only this note")
        if reject.group.kind == "caption":
            caption = deck.clean_text(" ".join(texts["caption"].split()), "the caption")
            if not has_words(caption):
                raise deck.ActionError("write the caption that the query shall have")
        return Override(item, "rescue", reject.name, caption, note, self._state.reviewer, "rejects", at)

    def create_undo(self, at: str) -> Override:
        """Return the decision that undoes the reviewer's last effective override, of any version. Raises ActionError
        without one."""
        if not self._state.own:
            raise deck.ActionError("there is nothing to undo")
        last = self._state.own[-1]
        return Override(last.item, "undo", last.name, "", "", last.reviewer, "rejects", at, last.decision_id)

    def find_card(self, override: Override) -> deck.CardData:
        """Return the card of an override's item; only its name where this version accepted it."""
        for name in _ledger_names(override):
            if len(rows := self._rows.get(name, _NO_ROWS)):
                return self.build_cards([self.table.get_rejections(rows[:1])[0].key])[0]
        return {"key": "", "query_id": " ", "own": None, "undone_name": _shortened(override.text)}

    def _card(self, reject: RejectedItem, link: str | None) -> deck.CardData:
        group, is_caption = reject.group, reject.group.kind == "caption" and bool(reject.image_id)
        names = {reject.item, reject.item_id}
        overrides = list(dict.fromkeys(one for name in names for one in self._effective_by_name.get(name, [])))
        own = [override for override in overrides if override.reviewer == self._state.reviewer][-1:]
        others = {override.reviewer: override for override in overrides if override.reviewer != self._state.reviewer}
        return {
            "key": reject.key,
            "query_id": reject.key,  # the page groups cards by it
            "group": str(self.table.groups.index(group)),
            **asdict(group),
            "name": _shortened(reject.item),
            "detail": _shortened(", ".join(map(translate_detail, reject.description.split(", ")))),
            "text": "" if group.kind == "result" else _shortened(reject.text),
            "language": reject.language,
            "shown": {"path": _SET_IMAGE_PATH, "id": reject.image_id} if is_caption else None,
            "confusable": {"path": _SET_IMAGE_PATH, "id": reject.related_item}
            if is_caption and reject.related_item
            else None,
            "overridable": not (why := self._why_not(group)),
            "why": why,
            "own": self._describe_override(own[0]) if own else None,
            "other_overrides": [self._describe_override(override) for override in others.values()],
            "link": link,
        }

    def _describe_override(self, override: Override) -> deck.CardData:
        stale = self._context.stale_reasons.get(override.decision_id, "")
        return {"reviewer": override.reviewer, "note": override.note, "caption": override.caption, "stale": stale}

    def _why_not(self, group: RejectionGroup) -> str:
        if group.is_overridable:
            return self._context.blocked_reason
        advice = advise_fix(group.stage, group.kind, group.bucket, group.reason)
        return translate(advice or "no build can accept it")

    def _links(self, items: list[str]) -> dict[str, str]:
        """Return the keys of items on the page of near-duplicates, without exact copies of a representative."""
        duplicates = self._context.duplicates
        if not items or not len(duplicates):
            return {}
        rows = duplicates[duplicates["item"].isin(items)]
        groups = duplicates[duplicates["duplicate_group"].isin(rows["duplicate_group"].unique())]
        leads = set(groups.loc[groups["is_representative"].astype(bool), "image_id"])
        named = zip(rows["item"], rows["duplicate_group"], rows["image_id"], strict=True)
        return {str(item): f"{group}/{image_id}" for item, group, image_id in named if image_id not in leads}

    def list_fields(self) -> list[deck.CardData]:
        """Return a field for each of stage, reason and bucket that has several values, with the numbers of items."""
        counts_by_column: dict[str, dict[str, int]] = {"stage": {}, "reason": {}, "bucket": {}}
        stages: dict[str, list[str]] = {}
        for group, number in self.table.count_by_group().items():
            stages.setdefault(group.reason, []).append(group.stage)
            for name, counts in counts_by_column.items():
                value = getattr(group, name)
                counts[value] = counts.get(value, 0) + number
        fields = [
            deck.choice_field(
                name,
                name.capitalize(),
                {value: f"{translate(value.replace('_', ' '))} ({number:,})" for value, number in counts.items()},
                "all",
                stages=stages if name == "reason" else {},
            )
            for name, counts in counts_by_column.items()
            if len(counts) > 1
        ]
        return [deck.search_field("name or detail ( / )"), *fields, deck.state_field("Rescued", "yes")]

    def decide(self, verdict: OverrideVerdict) -> deck.CardData:
        """Write the override."""
        reject = self.get_rejection(verdict.key)
        self.check_overridable(reject)
        assert self._files is not None, "only people who decide see the files"
        item = _item_of(reject, verdict.seen, self._files)
        texts = {"note": verdict.note, "caption": verdict.caption}
        self.append_one(lambda at: self.create_override(reject, item, texts, at))
        return self.build_cards([verdict.key])[0]

    def image_routes(self, files: RejectedFiles) -> APIRouter:
        """Return the route of the images of rejected files."""

        def small(shown_id: str, side: int) -> bytes | None:
            key, _, stamp = shown_id.partition(_SEPARATOR)
            return files.load_thumbnail(self.get_rejection(key).item, stamp, side)

        return server.image_routes(_IMAGE_PATH, lambda name: self.is_file(name.partition(_SEPARATOR)[0]), small)

    def _with_files(self, cards: list[deck.CardData]) -> list[deck.CardData]:
        """Return the cards with the addresses of their images, each with the stamp of its file."""
        if self._files is None:
            return cards
        items = {card["key"]: self.get_rejection(card["key"]).item for card in cards if self.is_file(card["key"])}
        stamps = self._files.get_stamps(items.values())
        for card in cards:
            if stamp := stamps.get(items.get(card["key"], "")):
                card["shown"] = {"path": _IMAGE_PATH, "id": f"{card['key']}{_SEPARATOR}{stamp}"}
        return cards


def _item_of(reject: RejectedItem, seen: str, files: RejectedFiles) -> str:
    """Return the name by which builds identify the item. Raises ActionError where it has no such name."""
    if reject.group.kind == "image":
        return _image_id(reject.item, seen.partition(_SEPARATOR)[2], files)
    if reject.group.kind == "caption" and not reject.item_id:
        raise deck.ActionError("several captions have this name, or its image is no longer in the set")
    return reject.item_id or reject.item


def _image_id(item: str, seen: str, files: RejectedFiles) -> str:
    """Return the image id. Raises ActionError where the file changed since the person saw it."""
    if seen and files.get_stamps([item]).get(item) != seen:
        raise deck.ActionError("the file was changed or removed: look at it again")
    image_id = files.compute_image_id(item)
    if seen and files.get_stamps([item]).get(item) != seen:
        raise deck.ActionError("the file is being written: look at it again")
    return image_id


def _ledger_names(override: Override) -> list[str]:
    """Return the names in the ledger: the id, and the file name of an image, whose id the ledger may lack."""
    return [override.item, override.name] if override.item.startswith("img_") else [override.item]


def _shortened(text: str) -> str:
    return text if len(text) <= _AT_MOST else text[:_AT_MOST] + "…"
