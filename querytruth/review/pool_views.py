"""The view of a review table of topics or objects."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from querytruth.review.deck import ActionError
from querytruth.review.page_parts import render_template
from querytruth.review.pool_table import AnswersByRow, PoolFilter, PoolTable, RowAnswer
from querytruth.review.query_queue import LongText, ShortText
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.review_tables import ReviewExport


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
