"""What the page shows of one query or one pair, as plain data: no HTML, every text as it is."""

from __future__ import annotations

from typing import Any

import pandas as pd

from builders.agreement import Target, disagreements, last_words, verdict
from builders.benchmark_set import Tables
from builders.decisions import Decision
from builders.suspicions import open_suspicions
from review.query_queue import Entry, JudgmentsOf, entries
from review.words import Words

SHOWN = 60  # pictures of a query at a time
Card = dict[str, Any]


class Cards:
    """The cards of one version for one reviewer."""

    def __init__(self, tables: Tables, grades: dict[str, str], words: Words) -> None:
        self.words, self.grades = words, tuple(sorted({0, *map(int, grades)}))
        self.entries = entries(tables)
        self.by_id = {entry.query_id: entry for entry in self.entries}
        self._judgments = JudgmentsOf(tables.qrels)
        self._pictures = _pictures(tables.images)
        self.waiting = _waiting(tables)

    def text_of(self, entry: Entry) -> str:
        """As the reviewer has it: with their own edit, which decisions after it rest on."""
        said = self.words.own((entry.query_id, None))
        return (said.new_text or said.text) if said is not None else entry.text

    def is_decided(self, entry: Entry) -> bool:
        """Whether the reviewer has a word on the query itself."""
        return self.words.own((entry.query_id, None)) is not None

    def query(self, query_id: str, start: int = 0) -> Card:
        """A query with the pictures of its truth from `start` on, and what the reviewer said of them."""
        entry = self.by_id[query_id]
        waiting = self.waiting.get(query_id, {})
        rows: list[tuple[Any, ...]] = [(image, None, "", why, score) for image, (score, why) in waiting.items()]
        rows += [(image, grade, judge, why, None) for image, grade, judge, why in self._judgments(query_id)]
        return {
            **self._head(entry),
            "pictures": [self._picture(query_id, *row) for row in rows[start : start + SHOWN]],
            "there": len(rows),
        }

    def pair(self, target: tuple[str, str]) -> Card:
        """One query and one of its pictures."""
        query_id, image_id = target
        score, evidence = self.waiting.get(query_id, {}).get(image_id, (None, ""))
        row: tuple[Any, ...] = (image_id, None, "", evidence, score)
        for image, grade, judge, why in self._judgments(query_id):
            if image == image_id:
                row = (image, grade, judge, why, None)
        return {
            **self._head(self.by_id[query_id]),
            "key": f"{query_id}/{image_id}",
            "picture": self._picture(query_id, *row),
            "others": self._others(target),
        }

    def is_known(self, target: Target) -> bool:
        """Whether the version has that query and that picture."""
        return target[0] in self.by_id and (target[1] is None or target[1] in self._pictures)

    def is_picture(self, image_id: str) -> bool:
        """Whether the version has that picture."""
        return image_id in self._pictures

    def judged(self, query_id: str) -> dict[str, int]:
        """The pictures that have a grade for a query in the version, with it."""
        return {image: grade for image, grade, _, _ in self._judgments(query_id)}

    def disputed(self) -> list[Target]:
        """What reviewers disagree on, of what is in this version."""
        return [target for target in disagreements(last_words(self.words.standing())) if self.is_known(target)]

    def _head(self, entry: Entry) -> Card:
        said = self.words.own((entry.query_id, None))
        return {
            "key": entry.query_id,
            "query_id": entry.query_id,
            "text": self.text_of(entry),
            "published": entry.text,
            "language": entry.language,
            "style": entry.style,
            "level": entry.level,
            "topic": entry.topic,
            "labels": list(entry.labels),
            "right": entry.right,
            "suspicions": sorted(entry.suspicions),
            "own": _own(said),
            "said": self._others((entry.query_id, None)),
        }

    def _picture(
        self, query_id: str, image_id: str, relevance: int | None, judged_by: str, evidence: str, score: float | None
    ) -> Card:
        picture = self._pictures.get(image_id, {"name": image_id, "width": 0, "height": 0})
        said = self.words.own((query_id, image_id))
        return {
            "image_id": image_id,
            **picture,
            "relevance": relevance,
            "judged_by": judged_by,
            "evidence": evidence,
            "score": score,
            "own": _own(said),
            "grade": int(verdict(said)) if said is not None else relevance,
        }

    def _others(self, target: Target) -> list[Card]:
        """Two people's words where they differ; what others said alone is not shown, so that each judges afresh."""
        said = last_words(self.words.said.get(target, []))
        if not disagreements(said):
            return []
        return [{"reviewer": person, "verdict": verdict(word)} for person, word in said[target].items()]


def _own(said: Decision | None) -> Card | None:
    if said is None:
        return None
    return {"decision": said.decision, "relevance": said.relevance, "new_text": said.new_text, "note": said.note}


def _waiting(tables: Tables) -> dict[str, dict[str, tuple[float, str]]]:
    """Per query its pictures that wait for a judgment, the surest first: score and evidence."""
    found: dict[str, dict[str, tuple[float, str]]] = {}
    for row in open_suspicions(tables).itertuples():
        found.setdefault(str(row.query_id), {})[str(row.image_id)] = (float(row.score), str(row.evidence))
    return found


def _pictures(images: pd.DataFrame) -> dict[str, Card]:
    names = images["file_name"].where(images["file_name"].notna(), images["image_id"])
    return {
        str(image_id): {"name": str(name), "width": int(width), "height": int(height)}
        for image_id, name, width, height in zip(
            images["image_id"], names, images["width"], images["height"], strict=True
        )
    }
