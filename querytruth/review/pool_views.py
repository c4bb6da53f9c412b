"""A review table of topics or objects: its rows, their answers, the filled-in table, and its view."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from querytruth.review.deck import ActionError
from querytruth.review.page_parts import render_template
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


@dataclass(frozen=True, slots=True)
class PoolFileContent:
    """A table on disk: the digest of its bytes, the export it was filled in from, and its decisions."""

    digest: str
    export: ReviewExport
    decisions: list[QueryDecision]


@dataclass(frozen=True, slots=True)
class PoolFile:
    """Access to the file. `read(digest)`: its content, None if the digest is unchanged; `write(export, digest)`:
    replaces the file of that digest and returns the new digest, or raises ActionError where the file changed."""

    read: Callable[[str], PoolFileContent | None]
    write: Callable[[ReviewExport, str], str]


class RowAnswerRequest(BaseModel, extra="forbid", strict=True):
    """An answer for several rows. `epoch`: the reading of the file that the person saw."""

    view: ShortText
    epoch: ShortText
    rows: Annotated[list[ShortText], Field(max_length=5000)]
    decision: ShortText
    new_text: LongText = ""
    note: LongText = ""


class PoolSession:
    """A session on one table, safe for threads. Changes of the file are read before each response; an answer that was
    given before a change is rejected."""

    def __init__(self, file: PoolFile) -> None:
        self.file = file
        self._lock = Lock()
        content = file.read("")
        assert content is not None, "no file has an empty digest"
        self._load(content)

    def _load(self, content: PoolFileContent) -> None:
        self._digest = content.digest
        self.table = PoolTable(content.export, content.decisions)
        self.epoch = secrets.token_hex(8)  # names this reading of the file
        self._before: list[AnswersByRow] = []  # the answers that each action replaced

    def refresh(self) -> None:
        """Read the table again if another program changed it."""
        with self._lock:
            self._refresh()

    def record(self, request: RowAnswerRequest) -> dict[str, Any]:
        """Write an answer into the file and return the card of its first row. Raises ActionError where the answer is
        invalid or the file changed."""
        with self._lock:
            self._refresh()
            if request.epoch != self.epoch:
                raise ActionError(CONFLICT_MESSAGE)
            changed = self.table.check_answer(request.rows, RowAnswer(request.decision, request.new_text, request.note))
            before = self.table.answers
            self._write(changed)
            self._before.append({row_id: before.get(row_id, RowAnswer()) for row_id in changed})
            return self.table.build_card(request.rows[0])

    def undo(self) -> dict[str, Any]:
        """Undo the last action of this page and return the card of its first row. Raises ActionError without one."""
        with self._lock:
            self._refresh()
            if not self._before:
                raise ActionError("nothing was decided on this page since it read the table")
            self._write(self._before[-1])
            before = self._before.pop()
            return {**self.table.build_card(next(iter(before))), "undone": len(before)}

    def _write(self, changed: AnswersByRow) -> None:
        answers = {row_id: one for row_id, one in (self.table.answers | changed).items() if one.decision}
        self._digest = self.file.write(self.table.fill_in_answers(answers), self._digest)
        self.table.answers = answers

    def _refresh(self) -> None:
        content = self.file.read(self._digest)
        if content is not None:
            self._load(content)


CONFLICT_MESSAGE = "another program wrote the table meanwhile: nothing was changed, and the page now shows what it says"


def pool_routes(session: PoolSession, about: dict[str, Any]) -> APIRouter:
    """Return the routes of the page and its data. `about`: name, version, title, reviewer, grades and views."""
    routes = APIRouter()

    @routes.get("/" + about["views"][0].lower(), response_class=HTMLResponse)
    def pools() -> str:
        session.refresh()
        return render_template("review_pools.html", about=about, grades=[], choices=session.table.list_filter_choices())

    @routes.get("/api/pools/queue")
    def rows(params: Annotated[PoolFilter, Query()]) -> dict[str, Any]:
        session.refresh()
        table = session.table
        row_ids = table.list_row_ids(params)
        done = [int(row_id in table.answers) for row_id in row_ids]
        return {
            "keys": row_ids,
            "done": done,
            "cards": [table.build_card(row_id) for row_id in row_ids],
            "epoch": session.epoch,
        }

    @routes.post("/api/decide")
    def decide(request: RowAnswerRequest) -> dict[str, Any]:
        return {"card": session.record(request)}

    @routes.post("/api/undo")
    def undo() -> dict[str, Any]:
        return {"card": session.undo()}

    return routes
