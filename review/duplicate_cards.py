"""Pictures that count as the same, two at a time: a member of a duplicate group beside its representative."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables
from builders.log_words import standing
from builders.picture_decisions import PictureDecision
from review.saying import Refused

Pictures = tuple[str, str]
Shown = dict[str, Any]
_LONGEST = 4000  # characters of a note
_APART = "apart"  # in place of a group: two pictures that a person brought together
_FOUND = 60  # pictures that a search gives
_SEEN = 24  # members of a group in the strips


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two pictures, the representative first where there is one; `way` and `bits` as in DUPLICATES."""

    key: str
    group: str
    one: str
    other: str
    way: str
    bits: int | None

    @property
    def pictures(self) -> Pictures:
        return (self.one, self.other) if self.one < self.other else (self.other, self.one)


class DuplicateCards:
    """All pairs of a version, what people said of them so far, and what that changes."""

    def __init__(self, tables: Tables, reviewer: str) -> None:
        self.reviewer = reviewer
        self._names = _described(tables)
        self._members = _members(tables.duplicates)
        self._group = {one: group for group, members in self._members.items() for one in members}
        self._pairs = {pair.key: pair for pair in sorted(_pairs(tables.duplicates, self._members), key=_least_sure)}
        self._by_pictures = {pair.pictures: pair for pair in self._pairs.values()}
        self._log: list[PictureDecision] = []
        self._stands: dict[Pictures, list[PictureDecision]] = {}

    def hear(self, decisions: Iterable[PictureDecision]) -> None:
        """Follow the log by its next lines; two pictures that somebody spoke of are a pair from then on."""
        if not (new := list(decisions)):
            return
        self._log += new
        self._stands = {}
        for word in standing(self._log):
            self._stands.setdefault(word.pictures, []).append(word)
        for one, other in self._stands:
            if (one, other) not in self._by_pictures and one in self._names and other in self._names:
                pair = self._brought(one, other)
                self._pairs[pair.key] = self._by_pictures[one, other] = pair

    def is_picture(self, image_id: str) -> bool:
        """Whether the version has that picture, in its gallery or in a duplicate group."""
        return image_id in self._names

    def pictures(self, search: str) -> list[Shown]:
        """The first pictures, by name, whose name holds the words, alone in the gallery or not."""
        word = search.strip().casefold()
        found = [one for one in self._names.values() if word in one["name"].casefold()]
        return sorted(found, key=lambda one: (one["name"], one["image_id"]))[:_FOUND]

    def key_of_two(self, one: str, other: str) -> str:
        """The key of any two pictures of the version, in a group or not; `Refused` where they cannot be a pair."""
        if one == other or one not in self._names or other not in self._names:
            raise Refused("that takes two different pictures of this set")
        first, second = sorted((one, other))
        return (self._by_pictures.get((first, second)) or self._brought(first, second)).key

    def is_done(self, key: str) -> bool:
        """Whether the reviewer spoke of the pair."""
        return self._own(self._pairs[key].pictures) is not None

    def queue(self, state: str, search: str) -> list[str]:
        """The pairs of which a picture's name holds the words, the least sure first; all, or those that the reviewer
        decided, or did not."""
        word, found = search.strip().casefold(), []
        for key, pair in self._pairs.items():
            names = (self._names[one]["name"].casefold() for one in (pair.one, pair.other))
            wanted = state == "all" or (state == "decided") == self.is_done(key)
            if wanted and any(word in name for name in names):
                found.append(key)
        return found

    def cards(self, keys: Iterable[str]) -> list[Shown]:
        """The pairs of these keys, without those that are none."""
        return [self.card(key) for key in keys if self._pair(key)]

    def card(self, key: str) -> Shown:
        """A pair with its group as it is and as it will be; `query_id` is what the page tells groups by."""
        pair = self._pair(key)
        assert pair is not None, "who asks knows that there is one"
        own = self._own(pair.pictures)
        return {
            "key": key,
            "query_id": key if pair.group == _APART else pair.group,
            "one": self._names[pair.one],
            "other": self._names[pair.other],
            "way": pair.way,
            "bits": pair.bits,
            "own": own and {"decision": own.decision, "note": own.note},
            "said": self._last(*pair.pictures),
            "before": _strip(self._before(pair)),
            "after": _strip(self._after(pair)),
        }

    def decided(self, key: str, decision: str, note: str, at: str) -> PictureDecision:
        """A line for the log; `Refused` where it cannot be one."""
        pair = self._pair(key)
        if pair is None or decision not in ("same", "different"):
            raise Refused("these two pictures are not in the set, or the decision is neither same nor different")
        if len(note) > _LONGEST or "\ufffd" in note or "\x00" in note:
            raise Refused(f"the note is longer than {_LONGEST:,} characters, or holds one that cannot be kept")
        return PictureDecision(pair.pictures, decision, note, self.reviewer, "duplicates", at)

    def undone(self, at: str) -> PictureDecision:
        """The line that takes back the reviewer's last word that stands, on pictures of this version."""
        for word in reversed(standing(self._log)):
            if word.reviewer == self.reviewer and word.pictures in self._by_pictures:
                return PictureDecision(word.pictures, "undo", "", self.reviewer, "duplicates", at, word.decision_id)
        raise Refused("there is nothing to take back")

    def key_of(self, pictures: Pictures) -> str:
        """The key of two pictures that are a pair."""
        return self._by_pictures[pictures].key

    def _pair(self, key: str) -> _Pair | None:
        """Also one that nobody spoke of yet, if its key names two pictures of the version."""
        place, _, names = key.partition("/")
        one, _, other = names.partition("+")
        if place == _APART and one < other and one in self._names and other in self._names:
            return self._by_pictures.get((one, other)) or self._brought(one, other)
        return self._pairs.get(key)

    def _brought(self, one: str, other: str) -> _Pair:
        """Two pictures, sorted, neither of which stands for the other: of one group all the same, or of none."""
        group = self._group.get(one, "")
        together = group != "" and group == self._group.get(other)
        return _Pair(f"{_APART}/{one}+{other}", group if together else _APART, one, other, "", None)

    def _own(self, pictures: Pictures) -> PictureDecision | None:
        own = [word for word in self._stands.get(pictures, []) if word.reviewer == self.reviewer]
        return own[-1] if own else None

    def _last(self, one: str, other: str) -> str | None:
        said = self._stands.get((min(one, other), max(one, other)))
        return said[-1].decision if said else None

    def _before(self, pair: _Pair) -> list[list[str]]:
        """The group of both, or the groups of each."""
        if pair.group != _APART:
            return [self._members[pair.group]]
        return [self._members.get(self._group.get(one, ""), [one]) for one in (pair.one, pair.other)]

    def _after(self, pair: _Pair) -> list[list[str]]:
        """What the last words make of them, by what is known here: who was told apart from the representative leaves,
        and groups of two pictures that are the same become one. Who else goes along only a build can tell."""
        groups = self._before(pair)
        if pair.group == _APART:
            return [groups[0] + groups[1]] if self._last(*pair.pictures) == "same" else groups
        lead, rest = groups[0][0], groups[0][1:]
        leaves = [one for one in rest if self._last(lead, one) == "different"]
        if lead not in pair.pictures and self._last(*pair.pictures) == "different" and not {*pair.pictures} & {*leaves}:
            leaves.append(pair.other)
        return [[lead, *(one for one in rest if one not in leaves)], *([one] for one in leaves)]


def _described(tables: Tables) -> dict[str, Shown]:
    """Name, size and whether it is in the gallery, by picture."""
    rows = tables.duplicates.sort_values(["image_id", "item"])
    found = {str(row.image_id): _shown(row, row.item, False) for row in rows.itertuples()}
    spoken = tables.images[["image_id", "file_name", "width", "height"]]
    return found | {str(row.image_id): _shown(row, row.file_name, True) for row in spoken.itertuples()}


def _shown(row: Any, name: Any, inside: bool) -> Shown:
    size = [0 if pd.isna(side) else int(side) for side in (row.width, row.height)]
    named = name if isinstance(name, str) and name else str(row.image_id)
    return {"image_id": str(row.image_id), "name": named, "width": size[0], "height": size[1], "inside": inside}


def _members(duplicates: pd.DataFrame) -> dict[str, list[str]]:
    """The pictures of each group, the representative first; copies of the same bytes are one."""
    rows = duplicates.sort_values(["duplicate_group", "is_representative", "item"], ascending=[True, False, True])
    found: dict[str, list[str]] = {}
    for group, image_id in zip(rows["duplicate_group"], rows["image_id"], strict=True):
        members = found.setdefault(str(group), [])
        if str(image_id) not in members:
            members.append(str(image_id))
    return found


def _pairs(duplicates: pd.DataFrame, members: dict[str, list[str]]) -> Iterable[_Pair]:
    seen: set[str] = set()
    for row in duplicates.sort_values(["duplicate_group", "item"]).itertuples():
        lead, key = members[str(row.duplicate_group)][0], f"{row.duplicate_group}/{row.image_id}"
        if row.image_id == lead or key in seen:
            continue
        seen.add(key)
        way = row.matched_by if isinstance(row.matched_by, str) else ""
        bits = None if pd.isna(row.distance) else int(row.distance)
        yield _Pair(key, str(row.duplicate_group), lead, str(row.image_id), way, bits)


_SURE = ("embedding", "hash", "person", "pixels", "bytes")


def _least_sure(pair: _Pair) -> tuple[int, int, str]:
    way = _SURE.index(pair.way) if pair.way in _SURE else len(_SURE)
    return way, -(pair.bits or 0), pair.key


def _strip(groups: list[list[str]]) -> list[Shown]:
    return [{"size": len(group), "pictures": group[:_SEEN]} for group in groups]
