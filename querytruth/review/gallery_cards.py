"""The views of a gallery's images, for captions written by hand, and of image pairs: a member of a duplicate group
beside its representative."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from fastapi import APIRouter

from querytruth.review import deck
from querytruth.review.page_parts import text_or_empty
from querytruth.review.query_cards import ReviewState
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_records import CAPTION_LANGUAGES, HumanCaption, ImagePairDecision

ImagePair = tuple[str, str]
_APART = "apart"  # in place of a group: two images that a person chose
_MAX_MATCHES = 60  # images that a search returns
_IMAGES_PER_STRIP = 24  # members of a group in the strips


class CaptionVerdict(deck.Verdict):
    """The captions of an image in one language, one per line."""

    image_id: deck.ShortText
    language: deck.ShortText
    text: str


class CaptionCards(deck.LogView[HumanCaption]):
    """A gallery's images, sorted by day and name, with their captions."""

    name, verdict_model = "captions", CaptionVerdict

    def __init__(self, images: pd.DataFrame, reviewer: str) -> None:
        rows = images.sort_values(["taken_at", "file_name", "image_id"], na_position="last")
        self.reviewer = reviewer
        self._images = {
            str(row.image_id): {
                "name": text_or_empty(row.file_name) or row.image_id,
                "taken_at": text_or_empty(row.taken_at),
            }
            for row in rows.itertuples()
        }
        self._log: list[HumanCaption] = []
        self._texts: dict[tuple[str, str], str] = {}

    def apply_entries(self, captions: Iterable[HumanCaption]) -> None:
        """Apply the next entries of the log."""
        captions = list(captions)
        self._log += captions
        self._texts |= {caption.target: caption.text for caption in captions}

    def has_image(self, image_id: str) -> bool:
        """Return whether the gallery has the image."""
        return image_id in self._images

    def is_decided(self, image_id: str) -> bool:
        """Return whether anybody wrote a caption of the image."""
        return any(self._texts.get((image_id, language)) for language in CAPTION_LANGUAGES)

    def list_keys(self, state: str, search: str) -> list[str]:
        """Return the images whose name or captions contain the search: all, or those with (decided) or without (open) a
        caption."""
        search_text = search.strip().casefold()
        keys = []
        for image_id, image in self._images.items():
            texts = [image["name"], *self._of(image_id).values()]
            matches_state = state == "all" or (state == "decided") == self.is_decided(image_id)
            if matches_state and any(search_text in text.casefold() for text in texts):
                keys.append(image_id)
        return keys

    def build_card(self, image_id: str) -> dict[str, Any]:
        """Return an image and its captions by language; the page groups cards by `query_id`."""
        texts = self._of(image_id)
        own = texts if self.is_decided(image_id) else None
        ids = {"key": image_id, "query_id": image_id, "image_id": image_id}
        return {**ids, "texts": texts, "own": own, **self._images[image_id]}

    def build_cards(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """Return the cards of these images; ids that the gallery does not have are skipped."""
        return [self.build_card(image_id) for image_id in keys if self.has_image(image_id)]

    def find_card(self, caption: HumanCaption) -> dict[str, Any]:
        """Return the card of a caption's image."""
        return self.build_card(caption.image_id)

    def _of(self, image_id: str) -> dict[str, str]:
        return {language: self._texts.get((image_id, language), "") for language in CAPTION_LANGUAGES}

    def create_entry(self, image_id: str, language: str, text: str, at: str) -> HumanCaption:
        """Return a caption for the log. Raises ActionError where the image, the language or the text is invalid."""
        if not self.has_image(image_id) or language not in CAPTION_LANGUAGES:
            languages = ", ".join(CAPTION_LANGUAGES)
            raise deck.ActionError(f"this image is not in the gallery, or the language is not one of {languages}")
        lines = deck.clean_text(text, "the text").split("\n")
        text = "\n".join(line.strip() for line in lines if line.strip())
        return HumanCaption(image_id, language, text, self.reviewer, at)

    def create_undo(self, at: str) -> HumanCaption:
        """Return the entry that restores the text before the reviewer's last caption. Raises ActionError without
        one."""
        undone: Counter[tuple[str, str]] = Counter()
        own = [place for place, caption in enumerate(self._log) if caption.reviewer == self.reviewer]
        for place in reversed(own):
            caption = self._log[place]
            if not caption.undo and not undone[caption.target]:
                earlier = (one.text for one in reversed(self._log[:place]) if one.target == caption.target)
                return HumanCaption(*caption.target, next(earlier, ""), self.reviewer, at, undo=True)
            undone[caption.target] += 1 if caption.undo else -1
        raise deck.ActionError("there is nothing to undo")

    def list_fields(self) -> list[deck.CardData]:
        """Return the search, and what is captioned."""
        return [deck.search_field("name or caption ( / )"), deck.state_field("Captioned", "yes")]

    def build_queue(self, card_filter: deck.CardFilter) -> deck.CardData:
        """Return the images that pass the filter."""
        return deck.queue_of(self.list_keys(card_filter.state, card_filter.search), self.is_decided)

    def decide(self, verdict: CaptionVerdict) -> deck.CardData:
        """Write the captions."""
        texts = (verdict.image_id, verdict.language, verdict.text)
        return self.append_one(lambda at: self.create_entry(*texts, at))


class DuplicateVerdict(deck.Verdict):
    """A decision on a pair of images."""

    key: deck.ShortText
    decision: deck.ShortText
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two images, the representative first where there is one; `matched_by` and `edit` as in the duplicates table."""

    key: str
    group: str
    one: str
    other: str
    matched_by: str
    hash_distance: int | None
    edit: str = ""

    @property
    def images(self) -> ImagePair:
        return (self.one, self.other) if self.one < self.other else (self.other, self.one)


class DuplicateCards(deck.LogView[ImagePairDecision]):
    """All pairs of a version, the decisions on them, and their effect on the groups."""

    name, verdict_model = "duplicates", DuplicateVerdict
    promise = "The next build of the set applies it."

    def __init__(self, tables: Tables, reviewer: str) -> None:
        self._state = ReviewState[ImagePairDecision](reviewer)
        self._names = _describe_images(tables)
        self._members = _members(tables.duplicates)
        self._group = {one: group for group, members in self._members.items() for one in members}
        self._pairs = {pair.key: pair for pair in sorted(_pairs(tables.duplicates, self._members), key=_certainty_key)}
        self._by_images = {pair.images: pair for pair in self._pairs.values()}

    def apply_entries(self, decisions: Iterable[ImagePairDecision]) -> None:
        """Apply the next entries of the log; two images with a decision become a pair."""
        decisions = list(decisions)
        self._state.apply_entries(decisions)
        for images in (decision.images for decision in decisions):
            is_known = images in self._by_images or not all(map(self.has_image, images))
            if self._state.on_target(images) and not is_known:
                pair = self._make_pair(*images)
                self._pairs[pair.key] = self._by_images[images] = pair

    def has_image(self, image_id: str) -> bool:
        """Return whether the version has the image, in its gallery or in a duplicate group."""
        return image_id in self._names

    def search_images(self, search: str) -> list[deck.CardData]:
        """Return up to 60 images whose name contains the search, sorted by name."""
        search_text = search.strip().casefold()
        matches = [one for one in self._names.values() if search_text in one["name"].casefold()]
        return sorted(matches, key=lambda one: (one["name"], one["image_id"]))[:_MAX_MATCHES]

    def get_key_for_any_pair(self, one: str, other: str) -> str:
        """Return the key of any two images of the version. Raises ActionError where they cannot be a pair."""
        if one == other or one not in self._names or other not in self._names:
            raise deck.ActionError("this key joins two different images of this set")
        first, second = sorted((one, other))
        return (self._by_images.get((first, second)) or self._make_pair(first, second)).key

    def is_decided(self, key: str) -> bool:
        """Return whether the reviewer decided the pair."""
        pair = self._pair(key)
        return pair is not None and self._state.get_own_decision(pair.images) is not None

    def list_keys(self, state: str, search: str) -> list[str]:
        """Return the pairs with an image whose name contains the search, the least certain first: all, or those that
        the reviewer decided (decided) or not (open)."""
        search_text, keys = search.strip().casefold(), []
        for key, pair in self._pairs.items():
            names = (self._names[one]["name"].casefold() for one in (pair.one, pair.other))
            matches_state = state == "all" or (state == "decided") == self.is_decided(key)
            if matches_state and any(search_text in name for name in names):
                keys.append(key)
        return keys

    def build_cards(self, keys: Iterable[str]) -> list[deck.CardData]:
        """Return the cards of these pairs; unknown keys are skipped."""
        return [self.build_card(key) for key in keys if self._pair(key)]

    def build_card(self, key: str) -> deck.CardData:
        """Return a pair with its group before and after the decisions; the page groups cards by `query_id`."""
        pair = self._pair(key)
        assert pair is not None, "this key was checked before"
        own = self._state.get_own_decision(pair.images)
        return {
            "key": key,
            "query_id": key if pair.group == _APART else pair.group,
            "one": self._names[pair.one],
            "other": self._names[pair.other],
            "matched_by": pair.matched_by,
            "hash_distance": pair.hash_distance,
            "edit": pair.edit,
            "own": own and {"decision": own.decision, "note": own.note},
            "last_decision": self._last(*pair.images),
            "before": _strip(self._before(pair)),
            "after": _strip(self._after(pair)),
        }

    def create_decision(self, key: str, decision: str, note: str, at: str) -> ImagePairDecision:
        """Return a decision for the log. Raises ActionError where the key, the decision or the note is invalid."""
        pair = self._pair(key)
        if pair is None or decision not in ("same", "different"):
            raise deck.ActionError("these two images are not in the set, or the decision is neither same nor different")
        note = deck.clean_text(note, "the note")
        return ImagePairDecision(pair.images, decision, note, self._state.reviewer, "duplicates", at)

    def create_undo(self, at: str) -> ImagePairDecision:
        """Return the decision that undoes the reviewer's last one on images of this version. Raises ActionError without
        one."""
        for last in reversed(self._state.own):
            if last.images in self._by_images:
                return ImagePairDecision(last.images, "undo", "", last.reviewer, "duplicates", at, last.decision_id)
        raise deck.ActionError("there is nothing to undo")

    def find_card(self, decision: ImagePairDecision) -> deck.CardData:
        """Return the card of a decision's two images."""
        return self.build_card(self._by_images[decision.images].key)

    def _pair(self, key: str) -> _Pair | None:
        """Return the pair of a key, also one without a decision if the key names two images of the version."""
        place, _, names = key.partition("/")
        one, _, other = names.partition("+")
        if place == _APART and one < other and one in self._names and other in self._names:
            return self._by_images.get((one, other)) or self._make_pair(one, other)
        return self._pairs.get(key)

    def _make_pair(self, one: str, other: str) -> _Pair:
        """Return a pair of two sorted images, neither the representative: of one group, or of none."""
        group = self._group.get(one, "")
        together = group != "" and group == self._group.get(other)
        return _Pair(f"{_APART}/{one}+{other}", group if together else _APART, one, other, "", None)

    def _last(self, one: str, other: str) -> str | None:
        decisions = self._state.on_target((min(one, other), max(one, other)))
        return decisions[-1].decision if decisions else None

    def _before(self, pair: _Pair) -> list[list[str]]:
        """Return the group of both images, or the group of each."""
        if pair.group != _APART:
            return [self._members[pair.group]]
        return [self._members.get(self._group.get(one, ""), [one]) for one in (pair.one, pair.other)]

    def _after(self, pair: _Pair) -> list[list[str]]:
        """Return the groups after the last decisions: images that differ from the representative leave, and groups of
        two images that are the same are merged. Only a build can tell which other members follow."""
        groups = self._before(pair)
        if pair.group == _APART:
            return [groups[0] + groups[1]] if self._last(*pair.images) == "same" else groups
        lead, rest = groups[0][0], groups[0][1:]
        leaves = [one for one in rest if self._last(lead, one) == "different"]
        if lead not in pair.images and self._last(*pair.images) == "different" and not {*pair.images} & {*leaves}:
            leaves.append(pair.other)
        return [[lead, *(one for one in rest if one not in leaves)], *([one] for one in leaves)]

    def list_fields(self) -> list[deck.CardData]:
        """Return the search, and what is decided."""
        return [deck.search_field("name ( / )"), deck.state_field()]

    def build_queue(self, card_filter: deck.CardFilter) -> deck.CardData:
        """Return the pairs that pass the filter."""
        return deck.queue_of(self.list_keys(card_filter.state, card_filter.search), self.is_decided)

    def decide(self, verdict: DuplicateVerdict) -> deck.CardData:
        """Write the decision."""
        fields = (verdict.key, verdict.decision, verdict.note)
        return self.append_one(lambda at: self.create_decision(*fields, at))


def pairing_routes(cards: DuplicateCards) -> APIRouter:
    """Return the routes that bring any two images together."""
    routes = APIRouter()

    @routes.get("/api/duplicates/images")
    def images(search: deck.ShortText = "") -> deck.CardData:
        return {"images": cards.search_images(search)}

    @routes.get("/api/duplicates/pair")
    def pair(one: deck.ShortText, other: deck.ShortText) -> deck.CardData:
        cards.refresh()
        return {"key": cards.get_key_for_any_pair(one, other)}

    return routes


def _describe_images(tables: Tables) -> dict[str, deck.CardData]:
    """Return name, size and whether it is in the gallery, by image id."""
    rows = tables.duplicates.sort_values(["image_id", "item"])
    by_image = {str(row.image_id): _describe_image(row, row.item, False) for row in rows.itertuples()}
    gallery_rows = tables.images[["image_id", "file_name", "width", "height"]]
    return by_image | {
        str(row.image_id): _describe_image(row, row.file_name, True) for row in gallery_rows.itertuples()
    }


def _describe_image(row: Any, name: Any, in_gallery: bool) -> deck.CardData:
    size = [0 if pd.isna(side) else int(side) for side in (row.width, row.height)]
    named = name if isinstance(name, str) and name else str(row.image_id)
    return {"image_id": str(row.image_id), "name": named, "width": size[0], "height": size[1], "in_gallery": in_gallery}


def _members(duplicates: pd.DataFrame) -> dict[str, list[str]]:
    """Return the images of each group, the representative first; copies of the same bytes count once."""
    rows = duplicates.sort_values(["duplicate_group", "is_representative", "item"], ascending=[True, False, True])
    members_by_group: dict[str, list[str]] = {}
    for group, image_id in zip(rows["duplicate_group"], rows["image_id"], strict=True):
        members = members_by_group.setdefault(str(group), [])
        if str(image_id) not in members:
            members.append(str(image_id))
    return members_by_group


def _pairs(duplicates: pd.DataFrame, members: dict[str, list[str]]) -> Iterable[_Pair]:
    seen: set[str] = set()
    for row in duplicates.sort_values(["duplicate_group", "item"]).itertuples():
        lead, key = members[str(row.duplicate_group)][0], f"{row.duplicate_group}/{row.image_id}"
        if row.image_id == lead or key in seen:
            continue
        seen.add(key)
        matched_by = row.matched_by if isinstance(row.matched_by, str) else ""
        bits = None if pd.isna(row.distance) else int(row.distance)
        edit = row.edit if isinstance(row.edit, str) else ""
        yield _Pair(key, str(row.duplicate_group), lead, str(row.image_id), matched_by, bits, edit)


_MATCH_CERTAINTY = ("embedding", "views", "person", "pixels", "bytes")


def _certainty_key(pair: _Pair) -> tuple[int, int, str]:
    certainty = [*_MATCH_CERTAINTY, pair.matched_by].index(pair.matched_by)
    return certainty, -(pair.hash_distance or 0), pair.key


def _strip(groups: list[list[str]]) -> list[deck.CardData]:
    return [{"size": len(group), "images": group[:_IMAGES_PER_STRIP]} for group in groups]
