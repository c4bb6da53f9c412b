"""Cards of queries and of query-image pairs, as plain data without HTML, with the boxes that a card draws over an image
and the effective decisions on a set, for one view of the review page."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from querytruth.array_types import FloatArray
from querytruth.backends.environment import without_garbage_collection
from querytruth.records import RowsById
from querytruth.review import query_queue
from querytruth.review.deck import CardData
from querytruth.sets.benchmark_set import Tables, open_candidate_judgments
from querytruth.sets.decision_agreement import JudgmentTarget, decision_category, find_disagreements, latest_decisions
from querytruth.sets.decision_application import JUDGED_BY_TEXT, describe_retired, find_reworded, is_other_text
from querytruth.sets.decision_records import DecisionT, EffectiveDecisions, QueryDecision, remove_last

_SIDES = ("left", "top", "right", "bottom")
BoxData = dict[str, Any]
IMAGES_PER_CARD = 60  # images of a query at a time


class BoxIndex:
    """An index of a set's boxes by image. `render_mode`: how the images were rendered, which decides where a box of the
    source is in the shown image."""

    def __init__(self, boxes: pd.DataFrame, render_mode: str | None) -> None:
        inside = boxes[boxes[list(_SIDES)].ge(0).all(axis=1) & boxes[list(_SIDES)].le(1).all(axis=1)]
        self._boxes, self._sides, self._render_mode = inside, inside[list(_SIDES)].to_numpy(), render_mode
        self._rows = inside.groupby("image_id", observed=True).indices if len(inside) else {}
        self._counts_for = {str(text): _parse_labels(str(text)) for text in inside["counts_for"].unique()}

    def list_boxes(self, image_id: str, size: tuple[int, int], labels: Sequence[str]) -> list[BoxData]:
        """Return the boxes of an image of this size (of the source) that count for one of a query's labels: `label` is
        what is marked, `place` the number of the query's label, `sides` are shares of the image shown, `score` is a
        detector's. Those of detectors are last, the surest first."""
        found = []
        for row in self._rows.get(image_id, ()):
            counts_for, label, score = (self._boxes[name].iat[row] for name in ("counts_for", "label", "score"))
            asked = [place for place, name in enumerate(labels) if name in self._counts_for[str(counts_for)]]
            if asked:
                sides = place_sides(self._sides[row], size, self._render_mode)
                score = None if pd.isna(score) else round(float(score), 3)
                shown = [round(float(side), 4) for side in sides]
                found.append({"label": str(label), "place": asked[0], "sides": shown, "score": score})
        return sorted(found, key=lambda box: (box["score"] is not None, -(box["score"] or 0)))


def _parse_labels(text: str) -> list[object]:
    """Return the labels of a stored list; an empty list where another publisher stored something else."""
    try:
        labels = json.loads(text)
    except ValueError:
        return []
    return labels if isinstance(labels, list) else []


def place_sides(sides: FloatArray, size: tuple[int, int], render_mode: str | None) -> FloatArray:
    """Return left, top, right and bottom as shares of the rendered image. `fit` adds bars beside an image, `crop` cuts
    it: sides beyond the cut move to the edge. Other modes leave shares unchanged."""
    width, height = size
    if render_mode not in ("fit", "crop") or not width or not height:
        return sides
    extents = np.array([width, height, width, height]) / (max(size) if render_mode == "fit" else min(size))
    placed: FloatArray = (1 - extents) / 2 + sides * extents
    return np.clip(placed, 0, 1)


class ReviewState(EffectiveDecisions[DecisionT]):
    """All effective decisions, and those of one reviewer. `published_ids`: decisions that the version on the page
    already holds; they are not shown as the reviewer's own and cannot be undone."""

    def __init__(self, reviewer: str, published_ids: Collection[str] = frozenset()) -> None:
        super().__init__(published_ids)
        self.reviewer = reviewer
        self.own: list[DecisionT] = []  # in their order, without undone ones

    def apply_entries(self, entries: Iterable[DecisionT]) -> None:
        """Apply the next entries of the log."""
        for entry in entries:
            self.apply_entry(entry)
            if entry.undoes is not None and entry.undoes not in self.published_ids:
                remove_last(self.own, entry.undoes)
            elif entry.undoes is None and entry.reviewer == self.reviewer:
                self.own += [entry] if entry.decision_id not in self.published_ids else []

    def get_own_decision(self, target: object) -> DecisionT | None:
        """Return the reviewer's last decision on a target, None without one or where the version holds it."""
        own = [decision for decision in self.on_target(target) if decision.reviewer == self.reviewer]
        return own[-1] if own and own[-1].decision_id not in self.published_ids else None

    def list_decisions(self) -> list[DecisionT]:
        """Return all effective decisions, target by target, each in its order."""
        return [decision for target in self.by_target for decision in self.on_target(target)]


@dataclass(slots=True)
class _ImageRow:
    """An image of a card: a candidate judgment (with `score`), a judged image, or one that the reviewer added.
    `grades`: by query id, those of the version."""

    image_id: str
    judged_by: str = ""
    evidence: str = ""
    score: float | None = None
    grades: dict[str, int] = field(default_factory=dict)


class QueryCards:
    """The cards of one version for one reviewer; a card has all queries that ask the same."""

    def __init__(
        self, tables: Tables, grades: dict[str, str], state: ReviewState[QueryDecision], render_mode: str | None = None
    ) -> None:
        self.state, self.grades = state, tuple(sorted({0, *map(int, grades)}))
        self._judgments = query_queue.JudgmentIndex(tables.qrels)
        self.entries = query_queue.build_query_entries(tables, self._judgments)
        self.entries_by_id = {entry.query_id: entry for entry in self.entries}
        self._queries, self._groups_lock = tables.queries, Lock()
        self._groups: list[query_queue.EquivalentEntries] | None = None
        self._images = _ImageIndex(tables.images)
        self._boxes = BoxIndex(tables.boxes, render_mode)
        self.candidate_judgments = _candidate_judgments(tables)

    @property
    def groups(self) -> list[query_queue.EquivalentEntries]:
        """Return the groups of equivalent queries, those that matter most first: made when they are first asked for,
        so that the page opens before."""
        with self._groups_lock, without_garbage_collection():
            if self._groups is None:
                self._groups = query_queue.group_entries(self.entries, self._queries)
            return self._groups

    @cached_property
    def _groups_by_id(self) -> dict[str, query_queue.EquivalentEntries]:
        return {entry.query_id: group for group in self.groups for entry in group.members}

    def text_of(self, entry: query_queue.QueryEntry) -> str:
        """Return the text that the reviewer sees: their own edit, else the published text."""
        decision = self.state.get_own_decision((entry.query_id, None))
        return (decision.new_text or decision.text) if decision is not None else entry.text

    def is_decided(self, group: query_queue.EquivalentEntries) -> bool:
        """Return whether the reviewer decided on every query of a group."""
        return all(self.state.get_own_decision((entry.query_id, None)) is not None for entry in group.members)

    def is_pair_decided(self, target: tuple[str, str]) -> bool:
        """Return whether the reviewer decided on an image for the query, or for one that asks the same."""
        query_id, image_id = target
        return bool(self._own_decisions(self._groups_by_id[query_id], image_id))

    def get_group(self, query_id: str) -> query_queue.EquivalentEntries:
        """Return the queries that ask the same as one of the version."""
        return self._groups_by_id[query_id]

    def build_query_card(self, query_id: str, start: int = 0) -> CardData:
        """Return a query and those that ask the same, with up to 60 of their images from `start` on, and the reviewer's
        decisions on them."""
        group = self._groups_by_id[query_id]
        rows = self._list_images(group)
        return {
            **self._head(query_id),
            "images": [self._image(group, row) for row in rows[start : start + IMAGES_PER_CARD]],
            "image_total": len(rows),
        }

    def build_pair_card(self, target: tuple[str, str]) -> CardData:
        """Return a query and those that ask the same, with one image."""
        query_id, image_id = target
        (image,) = self.build_image_views(query_id, [image_id])
        return {
            **self._head(query_id),
            "key": f"{query_id}/{image_id}",
            "image": image,
            "disputed_by": [
                one
                for entry in self._groups_by_id[query_id].members
                for one in self._others((entry.query_id, image_id))
            ],
        }

    def build_image_views(self, query_id: str, image_ids: list[str]) -> list[CardData]:
        """Return images as a card of the query shows them, whether they are judged or not."""
        group = self._groups_by_id[query_id]
        rows = {row.image_id: row for row in self._list_images(group)}
        return [self._image(group, rows.get(image_id) or _ImageRow(image_id)) for image_id in image_ids]

    def has_target(self, target: JudgmentTarget) -> bool:
        """Return whether the version has the query and the image."""
        return target[0] in self.entries_by_id and (target[1] is None or target[1] in self._images)

    def has_image(self, image_id: str) -> bool:
        """Return whether the version has the image."""
        return image_id in self._images

    def get_grades(self, query_id: str) -> dict[str, int]:
        """Return the grades of a query's judged images by image id; where it has none, those of a query that asks the
        same. Judgments of the text before the reviewer's edit are left out."""
        others = [entry.query_id for entry in self._groups_by_id[query_id].members if entry.query_id != query_id]
        members = (*others[::-1], query_id)
        return {image: grade for member in members for image, grade, _, _ in self._list_judgments(member)[0]}

    def _list_judgments(self, query_id: str) -> tuple[list[query_queue.Judgment], dict[str, tuple[float | None, str]]]:
        """Return a query's judgments, and score and evidence by image of what waits for one. Once the reviewer asked
        the truth of another text, what was judged for the text before it waits, as it will after `apply`."""
        judged = list(self._judgments(query_id))
        waiting: dict[str, tuple[float | None, str]] = dict(self.candidate_judgments.get(query_id, {}))
        if self._is_asked_anew(entry := self.entries_by_id[query_id]):
            retired = [one for one in judged if one[2] in JUDGED_BY_TEXT]
            judged = [one for one in judged if one not in retired]
            waiting = {image: (None, describe_retired(entry.text)) for image, grade, _, _ in retired if grade > 0}
        return judged, waiting

    def _is_asked_anew(self, entry: query_queue.QueryEntry) -> bool:
        target = (entry.query_id, None)
        if entry.labels or self.state.get_own_decision(target) is None:
            return False
        own = [decision for decision in self.state.on_target(target) if decision.reviewer == self.state.reviewer]
        return is_other_text(entry.text, find_reworded({target: own}).get(entry.query_id, entry.text))

    def get_image_name(self, image_id: str) -> str:
        """Return the name of an image of the version."""
        return str(self._images[image_id]["name"])

    def list_disputed_targets(self) -> list[JudgmentTarget]:
        """Return the targets of this version on which reviewers disagree."""
        disputed = find_disagreements(latest_decisions(self.state.list_decisions()))
        return [target for target in disputed if self.has_target(target)]

    def _list_images(self, group: query_queue.EquivalentEntries) -> list[_ImageRow]:
        """Return unjudged candidates, images that the reviewer added, and judged images, the highest grade first."""
        judged: dict[str, _ImageRow] = {}
        waiting: dict[str, _ImageRow] = {}
        query_ids = [entry.query_id for entry in group.members]
        for query_id in query_ids:
            known, candidates = self._list_judgments(query_id)
            for image_id, grade, judge, evidence in known:
                judged.setdefault(image_id, _ImageRow(image_id, judge, evidence)).grades[query_id] = grade
            for image_id, (score, evidence) in candidates.items():
                waiting.setdefault(image_id, _ImageRow(image_id, "", evidence, score))
        for decision in self.state.own:
            if decision.query_id in query_ids and decision.image_id is not None:
                waiting.setdefault(decision.image_id, _ImageRow(decision.image_id))
        ordered = sorted(judged.values(), key=lambda row: -max(row.grades.values()))
        return [*(row for row in waiting.values() if row.image_id not in judged), *ordered]

    def _head(self, query_id: str) -> CardData:
        group, entry = self._groups_by_id[query_id], self.entries_by_id[query_id]
        return {
            "key": group.key,
            **self._text(entry),
            "level": entry.level,
            "topic": entry.topic,
            "labels": list(entry.labels),
            "flags": sorted(group.flags),
            "queries": [self._text(member) for member in group.members],
        }

    def _text(self, entry: query_queue.QueryEntry) -> CardData:
        return {
            "query_id": entry.query_id,
            "text": self.text_of(entry),
            "published": entry.text,
            "language": entry.language,
            "style": entry.style,
            "rests_on_text": not entry.labels
            and any(judge in JUDGED_BY_TEXT for _, _, judge, _ in self._judgments(entry.query_id)),
            "own": _own(self.state.get_own_decision((entry.query_id, None))),
            "disputed_by": self._others((entry.query_id, None)),
        }

    def _image(self, group: query_queue.EquivalentEntries, row: _ImageRow) -> CardData:
        """Return an image. `grade` belongs to the first query; `grades` by query id, where they differ."""
        image = self._images[row.image_id]
        own = self._own_decisions(group, row.image_id)
        latest = max(own.values(), key=lambda decision: decision.at, default=None)
        grades: dict[str, int | None] = {entry.query_id: row.grades.get(entry.query_id) for entry in group.members}
        relevance = next((grade for grade in grades.values() if grade is not None), None)
        if latest is not None:
            grades = {query_id: int(decision_category(own.get(query_id, latest))) for query_id in grades}
        differing = len({*grades.values()}) > 1
        return {
            "image_id": row.image_id,
            **image,
            "relevance": relevance,
            "judged_by": row.judged_by,
            "evidence": row.evidence,
            "score": row.score,
            "is_source": any(entry.source_image_id == row.image_id for entry in group.members),
            "boxes": self._boxes.list_boxes(row.image_id, (image["width"], image["height"]), group.members[0].labels),
            "own": _own(latest),
            "grade": grades[group.key] if latest is not None else relevance,
            "grades": grades if differing else None,
        }

    def _own_decisions(self, group: query_queue.EquivalentEntries, image_id: str) -> dict[str, QueryDecision]:
        """Return the reviewer's decisions on an image by query of a group."""
        decisions = {entry.query_id: self.state.get_own_decision((entry.query_id, image_id)) for entry in group.members}
        return {query_id: decision for query_id, decision in decisions.items() if decision is not None}

    def _others(self, target: JudgmentTarget) -> list[CardData]:
        """Return the decisions of reviewers who disagree. Others are hidden, so that each judges independently."""
        decisions_by_reviewer = latest_decisions(self.state.on_target(target))
        if not find_disagreements(decisions_by_reviewer):
            return []
        return [
            {"reviewer": person, "verdict": decision_category(decision)}
            for person, decision in decisions_by_reviewer[target].items()
        ]


def _own(decision: QueryDecision | None) -> CardData | None:
    shown = ("decision", "relevance", "new_text", "note")
    return None if decision is None else {name: getattr(decision, name) for name in shown}


def _candidate_judgments(tables: Tables) -> dict[str, dict[str, tuple[float, str]]]:
    """Return per query its unjudged candidates with score and evidence, the most certain first."""
    candidates: dict[str, dict[str, tuple[float, str]]] = {}
    for row in open_candidate_judgments(tables).itertuples():
        candidates.setdefault(str(row.query_id), {})[str(row.image_id)] = (float(row.score), str(row.evidence))
    return candidates


class _ImageIndex:
    """Name and size of each image, looked up when a card shows it."""

    def __init__(self, images: pd.DataFrame) -> None:
        self._images, self._rows = images, RowsById(images["image_id"])

    def __contains__(self, image_id: str) -> bool:
        return self._rows.get(image_id) is not None

    def __getitem__(self, image_id: str) -> CardData:
        """Return those of an image; its id and 0 for an image that the version does not have."""
        if (row := self._rows.get(image_id)) is None:
            return {"name": image_id, "width": 0, "height": 0}
        name, *size = (self._images[column].iat[row] for column in ("file_name", "width", "height"))
        return {"name": name if isinstance(name, str) else image_id, "width": int(size[0]), "height": int(size[1])}
