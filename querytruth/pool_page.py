"""`querytruth review TABLE.csv`: the table of topics or objects that a stage handed out, on the page."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builders.errors import UserError

if TYPE_CHECKING:
    from fastapi import APIRouter

    from backends.sets.review_csv import Filled
    from builders.review_tables import Export
    from review.server.pools import FoundTable

_THEN = {"topics": "querytruth objects DEFINITION", "objects": "querytruth collect DEFINITION"}
_STAGE = "review"


def is_table(set_: str) -> bool:
    """Whether what is to be reviewed is a table, not a set."""
    return set_.endswith(".csv")


def table_at(path: str) -> Path:
    """The table that a person named, if there is one."""
    table = Path(path)
    if table.stem not in _THEN:
        reason = "is no table of topics or objects"
        raise UserError(_STAGE, table, reason, "give the file after “awaiting review”, or a set's name")
    _digest(table)
    return table


def next_command(table: Path) -> str:
    """What goes on from a table."""
    return _THEN[table.stem]


def pool_view(table: Path) -> tuple[list[APIRouter], dict[str, Any]]:
    """The routes of a table in <out>/<name>/review, and what its page says of it."""
    from review.server.pools import PoolDesk, PoolOutside, pool_routes

    desk = PoolDesk(PoolOutside(lambda known: _read(table, known), lambda export, known: _write(table, export, known)))
    name = desk.table.export.set_name.partition("/")[0]
    about = {"name": name, "version": 0, "title": name, "grades": {}, "reviewer": "", "views": [table.stem.title()]}
    return [pool_routes(desk, about)], about


def _read(table: Path, known: str) -> FoundTable | None:
    """The table checked cell by cell, as the next stage will; None while its bytes have the digest `known`."""
    from backends.sets import review_csv
    from builders.review_tables import Allow, read_back
    from review.server.pools import FoundTable

    while True:
        digest = _digest(table)
        if digest == known:
            return None
        filled = review_csv.read_csv(table)
        export = _handed_out(table, filled)
        reading = read_back(export, filled.rows, Allow())
        if digest != _digest(table):
            continue  # written again while it was read
        if reading.problems:
            reason = f"{len(reading.problems)} problems, the first: {reading.problems[0]}"
            raise UserError(_STAGE, table, reason, "mend those cells in a spreadsheet")
        return FoundTable(digest, export, reading.decisions)


def _handed_out(table: Path, filled: Filled) -> Export:
    """The table as the stage wrote it beside its journal."""
    from backends.journals.handed_out import as_handed_out

    export = as_handed_out(table.absolute().parents[1] / "generated", table.stem, filled)
    if export is None:
        reason = f"is the export {filled.export_id} of {filled.set_name}, which was not handed out here"
        raise UserError(_STAGE, table, reason, "give the table where the stage put it")
    return export


def _write(table: Path, export: Export, known: str) -> str:
    """Put the table in place of the one with the digest `known`, on disk when this returns."""
    from backends.durable_files import sync_folder
    from backends.sets import review_csv
    from review.saying import Refused
    from review.server.pools import ELSEWHERE

    beside = table.with_name(f".{table.name}.page")
    try:
        with _alone(table.parent):
            if (opened := table.with_name(f".~lock.{table.name}#")).exists():
                raise Refused(f"the table is open in LibreOffice ({opened.name}): close it there, then decide again")
            review_csv.write_csv(export, beside)
            digest = _digest(beside)
            if _digest(table) != known:  # as late as can be: a spreadsheet asks nobody before it writes
                beside.unlink()
                raise Refused(ELSEWHERE)
            beside.replace(table)
            sync_folder(table.parent)
            return digest
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); nothing was taken"
        raise UserError(_STAGE, table, reason, "mend that and do the same again") from None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other page writes there meanwhile."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _digest(path: Path) -> str:
    """Of a file's bytes, which are few enough to read whole."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise UserError(_STAGE, path, "is not there", "run the stage that hands it out again") from None
    except OSError as error:
        raise UserError(_STAGE, path, f"cannot be read ({error.strerror})", "check the path") from None
