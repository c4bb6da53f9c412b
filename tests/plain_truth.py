"""What the decisions of people do to a set, told in plain dicts: what the life of a set is held against.

It shares no line with the code that it checks, and is written to be read once, from top to bottom.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from querytruth.sets.decision_records import QueryDecision

Pair = tuple[str, str]


@dataclass
class PlainTruth:
    """A version: the text of each query, the grade and the judge of each judged pair, and which queries ask the same
    (Chinese first, then the shortest, as the set lists them)."""

    texts: dict[str, str]
    grades: dict[Pair, tuple[int, str]]
    same: dict[str, tuple[str, ...]]
    images: frozenset[str]
    absorbed: frozenset[str] = frozenset()  # ids of the decisions that this version contains

    @classmethod
    def of_tables(cls, queries: pd.DataFrame, qrels: pd.DataFrame, images: Iterable[str]) -> PlainTruth:
        """The truth of a version that nobody decided on."""
        asks: dict[tuple[str, ...], list[tuple[bool, int, str]]] = {}
        for query, text, language, labels in queries[["query_id", "text", "language", "labels"]].itertuples(
            index=False
        ):
            asks.setdefault(tuple(sorted(labels)), []).append((language != "zh", len(text), query))
        groups = [tuple(query for _, _, query in sorted(group)) for group in asks.values()]
        rows = qrels[["query_id", "image_id", "relevance", "judged_by"]].itertuples(index=False)
        return cls(
            dict(zip(queries["query_id"], queries["text"], strict=True)),
            {(query, image): (int(grade), judge) for query, image, grade, judge in rows},
            {query: group for group in groups for query in group},
            frozenset(images),
        )

    def after(self, log: Sequence[QueryDecision]) -> PlainTruth:
        """The version that is published of this one and of the whole log."""
        standing = list(_without_undone(log, self.absorbed))
        fits = [one for one in standing if one.decision_id not in self.absorbed and self._fits(one, standing)]
        # What was decided before a decision that is published already comes too late, if it fits only now.
        newest = {one.target: place for place, one in enumerate(standing) if one.decision_id in self.absorbed}
        new = [one for one in fits if standing.index(one) > newest.get(one.target, -1)]
        texts, grades = dict(self.texts), dict(self.grades)
        judged = self._judge(grades, new, [one for one in standing if one.decision_id in self.absorbed], list(log))
        dropped = set()
        for query in texts:
            if of_query := [one for one in new if one.target == (query, None)]:
                texts[query] = of_query[-1].new_text or of_query[-1].text
                dropped |= {query} if of_query[-1].decision == "drop" else set()
        for query in {query for query, _ in judged} - dropped:
            right = [pair for pair, (grade, _) in grades.items() if pair[0] == query and grade > 0]
            dropped |= set() if right else {query}
        return PlainTruth(
            {query: text for query, text in texts.items() if query not in dropped},
            {pair: judged for pair, judged in grades.items() if pair[0] not in dropped},
            self._same_without(dropped),
            self.images,
            self.absorbed | {one.decision_id for one in new},
        )

    def _fits(self, one: QueryDecision, standing: Sequence[QueryDecision]) -> bool:
        """Whether a decision is about a query, text and image of this version. A text counts, too, which edits in the
        log made of the version's own."""
        if one.undoes is not None or one.query_id not in self.texts:
            return False
        if one.image_id is not None and one.image_id not in self.images:
            return False
        own = self.texts[one.query_id]
        edits = [edit for edit in standing if edit.decision == "edit" and edit.query_id == one.query_id]
        known = {own}
        for _ in edits:  # at most one more text an edit
            known |= {str(edit.new_text) for edit in edits if edit.text in known}
        return one.text in known or one.new_text == own

    def _judge(
        self,
        grades: dict[Pair, tuple[int, str]],
        new: Sequence[QueryDecision],
        published: Sequence[QueryDecision],
        log: Sequence[QueryDecision],
    ) -> set[Pair]:
        """Write people's grades over the others, and say which pairs were judged. A decision on one query holds for all
        that ask the same and have none of their own on that image; not where a later one is published already."""
        place = {one.decision_id: number for number, one in enumerate(log)}
        own = {one.target for one in published}
        judged: dict[Pair, list[QueryDecision]] = {}
        for one in sorted(new, key=lambda one: place[one.decision_id]):
            if one.image_id is None:
                continue
            group = self.same[one.query_id]
            later = [p for p in published if p.image_id == one.image_id and p.query_id in group]
            is_latest = all(place[p.decision_id] < place[one.decision_id] for p in later)
            for query in group:
                pair = (query, one.image_id)
                if query == one.query_id:
                    own.add(pair)
                elif not is_latest or pair in own:
                    continue
                judged.setdefault(pair, []).append(one)
        for pair, decisions in judged.items():
            grade = grades.get(pair, (1, ""))[0]
            for one in decisions:
                if one.decision != "keep":
                    grade = one.relevance or 0 if one.decision == "grade" else 0
                elif one.relevance is not None:
                    grade = one.relevance
            grades[pair] = grade, "human"
        return set(judged)

    def _same_without(self, dropped: Collection[str]) -> dict[str, tuple[str, ...]]:
        return {
            query: tuple(other for other in group if other not in dropped)
            for query, group in self.same.items()
            if query not in dropped
        }


def _without_undone(log: Sequence[QueryDecision], published: Collection[str]) -> Iterable[QueryDecision]:
    """The log without what was taken back; what a version contains already cannot be."""
    standing: list[QueryDecision] = []
    for one in log:
        places = [place for place, other in enumerate(standing) if other.decision_id == one.undoes]
        if one.undoes is not None and one.undoes not in published and places:
            del standing[places[-1]]
        elif one.undoes is None:
            standing.append(one)
    return standing
