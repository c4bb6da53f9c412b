"""Cards of queries and of query-image pairs, as plain data without HTML."""

from typing import Any

import pandas as pd

from builders.benchmark_set import Tables, open_candidate_judgments
from builders.decisions.agreement import JudgmentTarget, decision_category, find_disagreements, latest_decisions
from builders.decisions.records import QueryDecision
from review.query_queue import JudgmentIndex, QueryEntry, build_query_entries
from review.review_state import ReviewState

IMAGES_PER_CARD = 60  # images of a query at a time
CardData = dict[str, Any]


class QueryCards:
    """The cards of one version for one reviewer."""

    def __init__(self, tables: Tables, grades: dict[str, str], state: ReviewState[QueryDecision]) -> None:
        self.state, self.grades = state, tuple(sorted({0, *map(int, grades)}))
        self.entries = build_query_entries(tables)
        self.entries_by_id = {entry.query_id: entry for entry in self.entries}
        self._judgments = JudgmentIndex(tables.qrels)
        self._images = _images(tables.images)
        self.candidate_judgments = _candidate_judgments(tables)

    def text_of(self, entry: QueryEntry) -> str:
        """Return the text that the reviewer sees: their own edit, else the published text."""
        decision = self.state.get_own_decision((entry.query_id, None))
        return (decision.new_text or decision.text) if decision is not None else entry.text

    def is_decided(self, entry: QueryEntry) -> bool:
        """Return whether the reviewer decided on the query itself."""
        return self.state.get_own_decision((entry.query_id, None)) is not None

    def build_query_card(self, query_id: str, start: int = 0) -> CardData:
        """Return a query with up to 60 of its images from `start` on, and the reviewer's decisions on them."""
        entry = self.entries_by_id[query_id]
        candidates = self.candidate_judgments.get(query_id, {})
        rows: list[tuple[Any, ...]] = [(image, None, "", why, score) for image, (score, why) in candidates.items()]
        rows += [(image, grade, judge, why, None) for image, grade, judge, why in self._judgments(query_id)]
        return {
            **self._head(entry),
            "images": [self._image(query_id, *row) for row in rows[start : start + IMAGES_PER_CARD]],
            "image_total": len(rows),
        }

    def build_pair_card(self, target: tuple[str, str]) -> CardData:
        """Return a query with one of its images."""
        query_id, image_id = target
        score, evidence = self.candidate_judgments.get(query_id, {}).get(image_id, (None, ""))
        row: tuple[Any, ...] = (image_id, None, "", evidence, score)
        for image, grade, judge, why in self._judgments(query_id):
            if image == image_id:
                row = (image, grade, judge, why, None)
        return {
            **self._head(self.entries_by_id[query_id]),
            "key": f"{query_id}/{image_id}",
            "image": self._image(query_id, *row),
            "disputed_by": self._others(target),
        }

    def has_target(self, target: JudgmentTarget) -> bool:
        """Return whether the version has the query and the image."""
        return target[0] in self.entries_by_id and (target[1] is None or target[1] in self._images)

    def has_image(self, image_id: str) -> bool:
        """Return whether the version has the image."""
        return image_id in self._images

    def get_grades(self, query_id: str) -> dict[str, int]:
        """Return the grades of a query's judged images by image id."""
        return {image: grade for image, grade, _, _ in self._judgments(query_id)}

    def list_disputed_targets(self) -> list[JudgmentTarget]:
        """Return the targets of this version on which reviewers disagree."""
        disputed = find_disagreements(latest_decisions(self.state.list_decisions()))
        return [target for target in disputed if self.has_target(target)]

    def _head(self, entry: QueryEntry) -> CardData:
        decision = self.state.get_own_decision((entry.query_id, None))
        return {
            "key": entry.query_id,
            "text": self.text_of(entry),
            "published": entry.text,
            **{name: getattr(entry, name) for name in ("query_id", "language", "style", "level", "topic")},
            "labels": list(entry.labels),
            "flags": sorted(entry.flags),
            "own": _own(decision),
            "disputed_by": self._others((entry.query_id, None)),
        }

    def _image(
        self, query_id: str, image_id: str, relevance: int | None, judged_by: str, evidence: str, score: float | None
    ) -> CardData:
        image = self._images.get(image_id, {"name": image_id, "width": 0, "height": 0})
        decision = self.state.get_own_decision((query_id, image_id))
        return {
            "image_id": image_id,
            **image,
            "relevance": relevance,
            "judged_by": judged_by,
            "evidence": evidence,
            "score": score,
            "own": _own(decision),
            "grade": int(decision_category(decision)) if decision is not None else relevance,
        }

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
