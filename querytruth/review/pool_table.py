"""A review table of topics or objects: its rows, their answers, and the filled-in table."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import BaseModel

from querytruth.review.deck import ActionError
from querytruth.review.query_queue import DecisionState, LongText, ShortText
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.review_tables import ANSWER_COLUMNS, ImportTolerances, ReviewExport, read_filled_table

FILTER_COLUMNS = ("topic", "origin", "flag")


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """The three cells that a person fills in; without a decision a row is open."""

    decision: str = ""
    new_text: str = ""
    note: str = ""


class PoolFilter(BaseModel, extra="forbid", frozen=True):
    """A filter of rows; an empty text excludes none."""

    topic: LongText = ""
    origin: ShortText = ""
    flag: ShortText = ""
    state: DecisionState = "all"
    search: ShortText = ""


AnswersByRow = dict[str, RowAnswer]


class PoolTable:
    """An exported table and the answers in it."""

    def __init__(self, export: ReviewExport, decisions: Iterable[QueryDecision]) -> None:
        self.export = export
        self.answers = _answers(decisions)
        self._rows: dict[str, dict[str, str]] = {row["query_id"]: row for row in export.rows.to_dict("records")}
        self._topics = {row["topic"]: name for name, row in self._rows.items() if row.get("kind") == "topic"}

    def list_filter_choices(self) -> dict[str, list[str]]:
        """Return the values of each filter column that has more than one."""
        values_by_column = {}
        for name in FILTER_COLUMNS:
            values = list(dict.fromkeys(self.export.rows.get(name, ())))
            if len(values) > 1:
                values_by_column[name] = [value for value in values if value]
        return values_by_column

    def list_row_ids(self, pool_filter: PoolFilter) -> list[str]:
        """Return the rows that pass the filter, in the table's order."""
        return [row_id for row_id, row in self._rows.items() if self._passes(row, pool_filter)]

    def build_card(self, row_id: str) -> dict[str, Any]:
        """Return a row for the page. `own`: the answer, or None; `dropped_with_topic`: whether its topic was
        dropped."""
        row, answer = self._rows[row_id], self.answers.get(row_id)
        shown = {name: row[name] for name in self.export.read_only_columns}
        of_topic = self._topics.get(row["topic"], row_id)
        gone = of_topic != row_id and self.answers.get(of_topic, RowAnswer()).decision == "drop"
        own = asdict(answer) if answer else None
        return {"kind": "object", **shown, "key": row_id, "own": own, "dropped_with_topic": gone}

    def check_answer(self, row_ids: list[str], answer: RowAnswer) -> AnswersByRow:
        """Return one answer for several rows, as the table's reader reads it. Raises ActionError where it is
        invalid."""
        if not row_ids or not self._rows.keys() >= set(row_ids):
            raise ActionError("this row is not in the table")
        if answer.decision == "edit" and len(row_ids) > 1:
            raise ActionError("a new text is for one row")
        exported_rows = self.export.rows[self.export.rows["query_id"].isin(row_ids)].reset_index(drop=True)
        reading = read_filled_table(
            replace(self.export, rows=exported_rows), exported_rows.assign(**asdict(answer)), ImportTolerances()
        )
        if reading.problems:
            raise ActionError(reading.problems[0].partition(", ")[2])
        answers = _answers(reading.decisions)
        if len(answers) < len(set(row_ids)):
            raise ActionError(f"the decision is none of {', '.join(self.export.decision_choices)}")
        return answers

    def fill_in_answers(self, answers: Mapping[str, RowAnswer]) -> ReviewExport:
        """The table for people with these answers in it, each row with the digest that it was handed out with."""
        row_answers = [answers.get(row_id, RowAnswer()) for row_id in self.export.rows["query_id"]]
        columns = {name: [getattr(one, name) for one in row_answers] for name in ANSWER_COLUMNS}
        return replace(self.export, rows=self.export.rows.assign(**columns).astype("str"))

    def _passes(self, row: dict[str, str], pool_filter: PoolFilter) -> bool:
        if any(row.get(name) != value for name in FILTER_COLUMNS if (value := getattr(pool_filter, name))):
            return False
        answer = self.answers.get(row["query_id"])
        if pool_filter.state != "all" and (pool_filter.state == "decided") != (answer is not None):
            return False
        search_text = pool_filter.search.strip().casefold()
        searched_texts = [row["text"], row["topic"], *([answer.new_text, answer.note] if answer else [])]
        return any(search_text in text.casefold() for text in searched_texts)


def _answers(decisions: Iterable[QueryDecision]) -> AnswersByRow:
    return {one.query_id: RowAnswer(one.decision, one.new_text or "", one.note) for one in decisions}
