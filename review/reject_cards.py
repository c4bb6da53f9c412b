"""What the rules of a build turned away, what people said of it so far, and why some of it cannot be had."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from builders.log_words import standing
from builders.recall.reply_checks import has_words
from builders.records import empty
from builders.rescuable import advice
from builders.rescues import LONGEST, Rescue
from review.reject_captions import Caption, Captions
from review.reject_table import Group, Mask, Reject, RejectFilter, RejectTable, Rows
from review.saying import Refused

Shown = dict[str, Any]
_AT_MOST = 1500  # characters of a name or detail on the page
_FILES = frozenset({"picture", "image", "result"})  # kinds whose items are files, of a source or from the web
_PICTURE = "/picture"  # where the page has those of the set
_NOWHERE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Around:
    """What the ledger alone does not tell. `elsewhere`: why nothing of this set can be rescued here, or ""; `stale`:
    why words changed nothing in this version, by decision_id; `duplicates`: the table, where the set has the view."""

    captions: Captions
    elsewhere: str = ""
    stale: Mapping[str, str] = field(default_factory=dict)
    duplicates: pd.DataFrame = field(default_factory=lambda: empty("duplicates"))


class RejectCards:
    """All rejects of a version and the words on them, by what the ledger calls them."""

    def __init__(self, ledger: pd.DataFrame, around: Around, reviewer: str) -> None:
        self.reviewer = reviewer
        self._table, self._around = RejectTable(ledger), around
        self._log: list[Rescue] = []
        self._words: dict[str, list[Rescue]] = {}
        self._rows: dict[str, Rows] = {}  # where the ledger names what words name
        self._wanted: Mask = np.zeros(len(self._table), dtype=bool)

    def hear(self, rescues: Iterable[Rescue]) -> None:
        """Follow the log by its next lines. Whoever reads meanwhile sees what stood before, or what stands now."""
        if not (new := list(rescues)):
            return
        self._log += new
        named: dict[str, list[Rescue]] = {}
        for word in standing(self._log):
            for name in {word.item, word.name}:
                named.setdefault(name, []).append(word)
        if unknown := {name for word in new for name in (word.item, word.name) if name not in self._rows}:
            self._rows |= dict.fromkeys(unknown, _NOWHERE) | self._table.rows_of(unknown)
        wanted: Mask = np.zeros(len(self._table), dtype=bool)
        for name, words in named.items():
            kinds = frozenset().union(*(_kinds(word) for word in words))
            wanted[self._table.of_kinds(self._rows[name], kinds)] = True
        self._words, self._wanted = named, wanted

    def choices(self) -> dict[Group, int]:
        """The groups with their numbers."""
        return self._table.counts()

    def queue(self, wanted: RejectFilter) -> Shown:
        """The keys that pass, whether each is wanted by anybody, and the groups with how many they have and list."""
        listed = self._table.listed(wanted, self._wanted)
        groups = {
            str(code): asdict(self._table.groups[code]) | {"found": found, "listed": listed.listed[code]}
            for code, found in listed.found.items()
        }
        keys = [reject.key for reject in self._table.rejects(listed.rows)]
        return {"keys": keys, "done": self._wanted[listed.rows].astype(int).tolist(), "groups": groups}

    def at(self, key: str) -> Reject:
        """The reject that a page names so; `Refused` where there is none."""
        if (row := self._table.row_of(key)) is None:
            raise Refused("this is no reject of this version")
        return self._table.rejects([row])[0]

    def is_file(self, key: str) -> bool:
        """Whether it is a reject that is a picture's file."""
        row = self._table.row_of(key)
        return row is not None and self._table.rejects([row])[0].group.kind in _FILES

    def cards(self, keys: Iterable[str]) -> list[Shown]:
        """The rejects of these keys, without those that are none."""
        rows = [row for key in keys if (row := self._table.row_of(key)) is not None]
        rejects = self._table.rejects(rows)
        links = self._links([reject.item for reject in rejects if reject.group.stage == "duplicates"])
        return [self._card(reject, links.get(reject.item)) for reject in rejects]

    def check(self, reject: Reject) -> None:
        """`Refused` with what to do instead where no build can let it in."""
        if why := self._why_not(reject.group):
            raise Refused(why)

    def caption_of(self, reject: Reject) -> Caption | None:
        """The caption that it is; None for anything else."""
        return self._around.captions.find(reject.item, reject.detail) if reject.group.kind == "caption" else None

    def rescued(self, reject: Reject, item: str, said: Mapping[str, str], at: str) -> Rescue:
        """A line for the log, of `item` as builds know it; `said`: note and caption. `Refused` where it cannot be."""
        self.check(reject)
        note, caption = _kept(said["note"], "the reason"), ""
        if not note:
            raise Refused("write why it belongs in: whoever sees the set later has only that")
        if reject.group.kind == "caption":
            caption = _kept(" ".join(said["caption"].split()), "the caption")
            if not has_words(caption):
                raise Refused("write the caption: the query shall have those words")
        name = self._named(reject)
        return Rescue(item, "rescue", name, caption, note, self.reviewer, "rejects", at)

    def undone(self, at: str) -> Rescue:
        """The line that takes back the reviewer's last rescue that stands, in whichever version it was a reject."""
        for word in reversed(standing(self._log)):
            if word.reviewer == self.reviewer:
                return Rescue(word.item, "undo", word.name, "", "", self.reviewer, "rejects", at, word.decision_id)
        raise Refused("there is nothing to take back")

    def card_of(self, word: Rescue) -> Shown:
        """The reject that a word is about; of one that this version has let in nothing but its name."""
        for name in (word.name, word.item):
            if len(rows := self._table.of_kinds(self._rows.get(name, _NOWHERE), _kinds(word))):
                return self.cards([self._table.rejects(rows[:1])[0].key])[0]
        return {"key": "", "query_id": " ", "own": None, "gone": _shortened(word.text)}

    def _card(self, reject: Reject, link: str | None) -> Shown:
        group, caption = reject.group, self.caption_of(reject)
        words = [word for word in self._words.get(reject.item, []) if group.kind in _kinds(word)]
        own = [word for word in words if word.reviewer == self.reviewer][-1:]
        others = {word.reviewer: word for word in words if word.reviewer != self.reviewer}
        text = _query_text(reject) if group.kind == "query" else ""
        detail = reject.detail.removeprefix(text).lstrip(" :") if text else reject.detail
        if caption and group.stage != "caption":  # at which there was no reply
            text, detail = caption.text, caption.evidence
        return {
            "key": reject.key,
            "query_id": reject.key,  # by which the page tells cards apart
            "group": str(self._table.groups.index(group)),
            **asdict(group),
            "name": _shortened(reject.item),
            "detail": _shortened(detail),
            "text": _shortened(text),
            "language": caption.language if caption else "",
            "shown": caption and {"place": _PICTURE, "id": caption.image_id},
            "rival": {"place": _PICTURE, "id": caption.rival} if caption and caption.rival else None,
            "rescuable": not (why := self._why_not(group)),
            "why": why,
            "own": self._said(own[0]) if own else None,
            "said": [self._said(word) for word in others.values()],
            "link": link,
        }

    def _said(self, word: Rescue) -> Shown:
        stale = self._around.stale.get(word.decision_id, "")
        return {"reviewer": word.reviewer, "note": word.note, "caption": word.caption, "stale": stale}

    def _named(self, reject: Reject) -> str:
        """What people call it. Where the ledger has an id, which finds it again, they read the words."""
        if reject.group.kind == "query":
            return _query_text(reject) or reject.item
        caption = self.caption_of(reject)
        return caption.text if caption is not None and caption.query_id == reject.item else reject.item

    def _why_not(self, group: Group) -> str:
        if group.is_rescuable:
            return self._around.elsewhere
        return advice(group.stage, group.kind, group.bucket, group.reason) or "no build can let it in"

    def _links(self, items: list[str]) -> dict[str, str]:
        """Where the page of near-duplicates has them: group and picture, unless it is the same file as the one that
        stands for it."""
        twins = self._around.duplicates
        if not items or not len(twins):
            return {}
        rows = twins[twins["item"].isin(items)]
        groups = twins[twins["duplicate_group"].isin(rows["duplicate_group"].unique())]
        leads = set(groups.loc[groups["is_representative"].astype(bool), "image_id"])
        named = zip(rows["item"], rows["duplicate_group"], rows["image_id"], strict=True)
        return {str(item): f"{group}/{image_id}" for item, group, image_id in named if image_id not in leads}


def _kinds(word: Rescue) -> frozenset[str]:
    """The kinds of the ledger that a word can be about: an object and a query may have one name."""
    if word.item.startswith("q_"):
        return frozenset({"query", "caption"})
    return frozenset({"picture"} if word.item.startswith("img_") else {"result", "picture"})


def _query_text(reject: Reject) -> str:
    """As the ledger's detail begins."""
    return reject.detail.partition(": ")[0]


def _shortened(text: str) -> str:
    return text if len(text) <= _AT_MOST else text[:_AT_MOST] + "…"


def _kept(text: str, what: str) -> str:
    """The text as the log can keep it."""
    text = text.replace("\r\n", "\n").strip()
    if len(text) > LONGEST:
        raise Refused(f"{what} is longer than {LONGEST:,} characters")
    if "\ufffd" in text or any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in text):
        raise Refused(f"{what} holds a character that cannot be kept")
    return text
