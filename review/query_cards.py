"""Cards of queries and of query-image pairs, as plain data without HTML."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from builders.benchmark_set import Tables, open_candidate_judgments
from builders.decisions.agreement import JudgmentTarget, decision_category, find_disagreements, latest_decisions
from builders.decisions.records import QueryDecision
from review.box_index import BoxIndex
from review.query_queue import EquivalentEntries, JudgmentIndex, QueryEntry, build_query_entries, group_entries
from review.review_state import ReviewState

IMAGES_PER_CARD = 60  # images of a query at a time
CardData = dict[str, Any]


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
        self,
        tables: Tables,
        grades: dict[str, str],
        state: ReviewState[QueryDecision],
        render_mode: str | None = None,
    ) -> None:
        self.state, self.grades = state, tuple(sorted({0, *map(int, grades)}))
        self.entries = build_query_entries(tables)
        self.entries_by_id = {entry.query_id: entry for entry in self.entries}
        self.groups = group_entries(self.entries, tables.queries)
        self._groups_by_id = {entry.query_id: group for group in self.groups for entry in group.members}
        self._judgments = JudgmentIndex(tables.qrels)
        self._images = _images(tables.images)
        self._boxes = BoxIndex(tables.boxes, render_mode)
        self.candidate_judgments = _candidate_judgments(tables)

    def text_of(self, entry: QueryEntry) -> str:
        """Return the text that the reviewer sees: their own edit, else the published text."""
        decision = self.state.get_own_decision((entry.query_id, None))
        return (decision.new_text or decision.text) if decision is not None else entry.text

    def is_decided(self, group: EquivalentEntries) -> bool:
        """Return whether the reviewer decided on every query of a group."""
        return all(self.state.get_own_decision((entry.query_id, None)) is not None for entry in group.members)

    def is_pair_decided(self, target: tuple[str, str]) -> bool:
        """Return whether the reviewer decided on an image for the query, or for one that asks the same."""
        query_id, image_id = target
        return bool(self._own_decisions(self._groups_by_id[query_id], image_id))

    def get_group(self, query_id: str) -> EquivalentEntries:
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
        same."""
        others = [entry.query_id for entry in self._groups_by_id[query_id].members if entry.query_id != query_id]
        return {image: grade for member in (*others[::-1], query_id) for image, grade, _, _ in self._judgments(member)}

    def get_image_name(self, image_id: str) -> str:
        """Return the name of an image of the version."""
        return str(self._images[image_id]["name"]) if image_id in self._images else image_id

    def list_disputed_targets(self) -> list[JudgmentTarget]:
        """Return the targets of this version on which reviewers disagree."""
        disputed = find_disagreements(latest_decisions(self.state.list_decisions()))
        return [target for target in disputed if self.has_target(target)]

    def _list_images(self, group: EquivalentEntries) -> list[_ImageRow]:
        """Return unjudged candidates, images that the reviewer added, and judged images, the highest grade first."""
        judged: dict[str, _ImageRow] = {}
        waiting: dict[str, _ImageRow] = {}
        query_ids = [entry.query_id for entry in group.members]
        for query_id in query_ids:
            for image_id, grade, judge, evidence in self._judgments(query_id):
                judged.setdefault(image_id, _ImageRow(image_id, judge, evidence)).grades[query_id] = grade
        for query_id in query_ids:
            for image_id, (score, evidence) in self.candidate_judgments.get(query_id, {}).items():
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

    def _text(self, entry: QueryEntry) -> CardData:
        return {
            "query_id": entry.query_id,
            "text": self.text_of(entry),
            "published": entry.text,
            "language": entry.language,
            "style": entry.style,
            "own": _own(self.state.get_own_decision((entry.query_id, None))),
            "disputed_by": self._others((entry.query_id, None)),
        }

    def _image(self, group: EquivalentEntries, row: _ImageRow) -> CardData:
        """Return an image. `grade` is that of the first query; `grades` by query id, where they differ."""
        image = self._images.get(row.image_id, {"name": row.image_id, "width": 0, "height": 0})
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
            "boxes": self._boxes.list_boxes(row.image_id, (image["width"], image["height"]), group.members[0].labels),
            "own": _own(latest),
            "grade": grades[group.key] if latest is not None else relevance,
            "grades": grades if differing else None,
        }

    def _own_decisions(self, group: EquivalentEntries, image_id: str) -> dict[str, QueryDecision]:
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


def _images(images: pd.DataFrame) -> dict[str, CardData]:
    names = images["file_name"].where(images["file_name"].notna(), images["image_id"])
    columns = (images["image_id"], names, images["width"], images["height"])
    return {
        str(image_id): {"name": str(name), "width": int(width), "height": int(height)}
        for image_id, name, width, height in zip(*columns, strict=True)
    }
