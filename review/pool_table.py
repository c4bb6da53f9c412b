"""A table of topics or objects while a person judges it: its rows, their answers, and the table that comes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from builders.decisions import Decision
from builders.review_tables import ANSWERS, Allow, Export, read_back
from review.saying import Refused

FILTERS = ("topic", "origin", "flag")  # columns of which a person may want to see one value


@dataclass(frozen=True, slots=True)
class Answer:
    """What a row's three cells say; a row without a decision is kept, and waits."""

    decision: str = ""
    new_text: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PoolFilter:
    """What a person wants to see of a table; empty words let everything through."""

    topic: str = ""
    origin: str = ""
    flag: str = ""
    state: str = "all"
    search: str = ""


Answers = dict[str, Answer]


class PoolTable:
    """A table as it was handed out, and the answers that stand in it."""

    def __init__(self, export: Export, decisions: Iterable[Decision]) -> None:
        self.export = export
        self.answers = _answers(decisions)
        self._rows: dict[str, dict[str, str]] = {row["query_id"]: row for row in _records(export.rows)}
        self._topics = {row["topic"]: name for name, row in self._rows.items() if row.get("kind") == "topic"}

    def is_row(self, row_id: str) -> bool:
        """Whether the table has that row."""
        return row_id in self._rows

    def choices(self) -> dict[str, list[str]]:
        """The values that can be asked for, of columns that tell some rows from others."""
        found = {}
        for name in FILTERS:
            if name not in self.export.rows:
                continue
            values = list(dict.fromkeys(self.export.rows[name]))
            if len(values) > 1:
                found[name] = [value for value in values if value]
        return found

    def queue(self, wanted: PoolFilter) -> list[str]:
        """The rows that pass the filter, in the table's order, which has them by topic."""
        return [row_id for row_id, row in self._rows.items() if self._passes(row, wanted)]

    def card(self, row_id: str) -> dict[str, Any]:
        """A row as the page shows it. `own`: what was answered, or None; `gone`: its topic was dropped with all of
        its objects."""
        row, answer = self._rows[row_id], self.answers.get(row_id)
        shown = {name: row[name] for name in self.export.shown}
        of_topic = self._topics.get(row["topic"], row_id)
        gone = of_topic != row_id and self.answers.get(of_topic, Answer()).decision == "drop"
        own = asdict(answer) if answer else None
        return {"kind": "object", **shown, "key": row_id, "own": own, "gone": gone}

    def changed(self, row_ids: list[str], answer: Answer) -> Answers:
        """One answer for some rows, as the reader of the table takes it; `Refused` where that reader would not."""
        if not row_ids or not all(map(self.is_row, row_ids)):
            raise Refused("this row is not in the table")
        if answer.decision == "edit" and len(row_ids) > 1:
            raise Refused("a new text is for one row")
        handed = self.export.rows[self.export.rows["query_id"].isin(row_ids)].reset_index(drop=True)
        reading = read_back(replace(self.export, rows=handed), handed.assign(**asdict(answer)), Allow())
        if reading.problems:
            raise Refused(reading.problems[0].partition(", ")[2])
        found = _answers(reading.decisions)
        if len(found) < len(set(row_ids)):
            raise Refused(f"the decision is none of {', '.join(self.export.choices)}")
        return found

    def filled(self, answers: Mapping[str, Answer]) -> Export:
        """The table for people with these answers in it, each row with the digest that it was handed out with."""
        said = [answers.get(row_id, Answer()) for row_id in self.export.rows["query_id"]]
        columns = {name: [getattr(one, name) for one in said] for name in ANSWERS}
        return replace(self.export, rows=self.export.rows.assign(**columns).astype("str"))

    def _passes(self, row: dict[str, str], wanted: PoolFilter) -> bool:
        if any(row.get(name) != asked for name in FILTERS if (asked := getattr(wanted, name))):
            return False
        answer = self.answers.get(row["query_id"])
        if wanted.state != "all" and (wanted.state == "decided") != (answer is not None):
            return False
        word = wanted.search.strip().casefold()
        told = [row["text"], row["topic"], *([answer.new_text, answer.note] if answer else [])]
        return any(word in text.casefold() for text in told)


def _answers(decisions: Iterable[Decision]) -> Answers:
    return {one.query_id: Answer(one.decision, one.new_text or "", one.note) for one in decisions}


def _records(rows: pd.DataFrame) -> Iterator[dict[str, str]]:
    yield from rows.to_dict("records")
