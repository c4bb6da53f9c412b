"""The page of a table of topics or objects, as a stage of a generated set hands it out."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from builders.decisions import Decision
from builders.review_tables import Export
from review.pool_table import Answer, Answers, PoolFilter, PoolTable
from review.saying import Refused
from review.server.pages import rendered

Name = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=4000)]


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table on disk: the digest of its bytes, as it was handed out, and what it decides."""

    digest: str
    export: Export
    decisions: list[Decision]


@dataclass(frozen=True, slots=True)
class PoolOutside:
    """What the page needs of the disk. `read`: the table, or None while its bytes are those of that digest; `write`:
    the digest of the table once it is on disk in place of the one of that digest, `Refused` where that is gone."""

    read: Callable[[str], FoundTable | None]
    write: Callable[[Export, str], str]


class Row(BaseModel):
    """An answer for rows of one table, as the page sends it. `epoch`: which reading of the file the person saw."""

    model_config = ConfigDict(extra="forbid", strict=True)

    view: Name
    epoch: Name
    rows: Annotated[list[Name], Field(max_length=5000)]
    decision: Name
    new_text: Text = ""
    note: Text = ""


class Wanted(BaseModel):
    """The filters of the list."""

    model_config = ConfigDict(extra="forbid")

    topic: Text = ""
    origin: Name = ""
    flag: Name = ""
    state: Literal["all", "open", "decided"] = "all"
    search: Name = ""


class PoolDesk:
    """Threads take turns. The file is the truth: what others wrote into it is read before each answer, and an answer
    that was given without sight of it is refused."""

    def __init__(self, outside: PoolOutside) -> None:
        self.outside = outside
        self._lock = Lock()
        found = outside.read("")
        assert found is not None, "no file has that digest"
        self._digest, self.epoch, self.table = found.digest, _epoch(), PoolTable(found.export, found.decisions)
        self._before: list[Answers] = []  # what the acts of this page took the place of

    def listen(self) -> None:
        """Read the table again if another program wrote it."""
        with self._lock:
            self._listen()

    def say(self, row: Row) -> dict[str, Any]:
        """Put an answer into the file, then the first row of those that it is about."""
        with self._lock:
            self._listen()
            if row.epoch != self.epoch:
                raise Refused(ELSEWHERE)
            changed = self.table.changed(row.rows, Answer(row.decision, row.new_text, row.note))
            before = {row_id: self.table.answers.get(row_id, Answer()) for row_id in changed}
            self._put(changed)
            self._before.append(before)
            return self.table.card(row.rows[0])

    def undo(self) -> dict[str, Any]:
        """Put back what the last act of this page took the place of."""
        with self._lock:
            self._listen()
            if not self._before:
                raise Refused("nothing was decided on this page since it read the table")
            self._put(self._before[-1])
            before = self._before.pop()
            return {**self.table.card(next(iter(before))), "undone": len(before)}

    def _put(self, changed: Answers) -> None:
        answers = {row_id: one for row_id, one in (self.table.answers | changed).items() if one.decision}
        self._digest = self.outside.write(self.table.filled(answers), self._digest)
        self.table.answers = answers

    def _listen(self) -> None:
        found = self.outside.read(self._digest)
        if found is not None:
            self._digest, self.epoch, self.table = found.digest, _epoch(), PoolTable(found.export, found.decisions)
            self._before = []


def _epoch() -> str:
    """A name for one reading of the file."""
    return secrets.token_hex(8)


ELSEWHERE = "another program wrote the table meanwhile: nothing was changed, and the page now shows what it says"


def pool_routes(desk: PoolDesk, about: dict[str, Any]) -> APIRouter:
    """The page, at the name of its stage, and its data. `about`: name, version, title, reviewer, grades and views."""
    routes = APIRouter()
    place = "/" + about["views"][0].lower()

    @routes.get("/")
    def start() -> Response:
        return RedirectResponse(place, 303)

    @routes.get(place, response_class=HTMLResponse)
    def pools() -> str:
        desk.listen()
        return rendered("review_pools.html", about, grades=[], choices=desk.table.choices())

    @routes.get("/api/pools/queue")
    def rows(wanted: Annotated[Wanted, Query()]) -> dict[str, Any]:
        desk.listen()
        table = desk.table
        found = table.queue(PoolFilter(**wanted.model_dump()))
        done = [int(row_id in table.answers) for row_id in found]
        return {"keys": found, "done": done, "cards": [table.card(row_id) for row_id in found], "epoch": desk.epoch}

    @routes.post("/api/decide")
    def decide(row: Row) -> dict[str, Any]:
        return {"card": desk.say(row)}

    @routes.post("/api/undo")
    def undo() -> dict[str, Any]:
        return {"card": desk.undo()}

    return routes
