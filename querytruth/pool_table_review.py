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

    from backends.sets.review_csv import FilledExport
    from builders.review_tables import ReviewExport
    from review.server.pool_views import PoolFileContent

_NEXT_COMMANDS = {"topics": "querytruth objects DEFINITION", "objects": "querytruth collect DEFINITION"}
_STAGE = "review"


def is_pool_table(set_: str) -> bool:
    """Whether what is to be reviewed is a table, not a set."""
    return set_.endswith(".csv")


def find_pool_table(path: str) -> Path:
    """The table that a person named, if there is one."""
    table = Path(path)
    if table.stem not in _NEXT_COMMANDS:
        reason = "is no table of topics or objects"
        raise UserError(_STAGE, table, reason, "give the file after “awaiting review”, or a set's name")
    _digest(table)
    return table


def next_pool_command(table: Path) -> str:
    """What goes on from a table."""
    return _NEXT_COMMANDS[table.stem]


def build_pool_routes(table: Path) -> tuple[list[APIRouter], dict[str, Any]]:
    """The routes of a table in <out>/<name>/review, and what its page says of it."""
    from review.server.pool_views import PoolFile, PoolSession, pool_routes

    session = PoolSession(
        PoolFile(
            lambda known_digest: _read_checked_table(table, known_digest),
            lambda export, known: _replace_table(table, export, known),
        )
    )
    name = session.table.export.set_name.partition("/")[0]
    page_context = {
        "name": name,
        "version": 0,
        "title": name,
        "grades": {},
        "reviewer": "",
        "views": [table.stem.title()],
    }
    return [pool_routes(session, page_context)], page_context


def _read_checked_table(table: Path, known_digest: str) -> PoolFileContent | None:
    """The table checked cell by cell, as the next stage will; None while its bytes have the digest `known`."""
    from backends.sets import review_csv
    from builders.review_tables import ImportTolerances, read_filled_table
    from review.server.pool_views import PoolFileContent

    while True:
        digest = _digest(table)
        if digest == known_digest:
            return None
        filled = review_csv.read_review_csv(table)
        export = _load_original_export(table, filled)
        reading = read_filled_table(export, filled.rows, ImportTolerances())
        if digest != _digest(table):
            continue  # written again while it was read
        if reading.problems:
            reason = f"{len(reading.problems)} problems, the first: {reading.problems[0]}"
            raise UserError(_STAGE, table, reason, "mend those cells in a spreadsheet")
        return PoolFileContent(digest, export, reading.decisions)


def _load_original_export(table: Path, filled: FilledExport) -> ReviewExport:
    """The table as the stage wrote it beside its journal."""
    from backends.journals.exported_tables import read_exported_table

    export = read_exported_table(table.absolute().parents[1] / "generated", table.stem, filled)
    if export is None:
        reason = f"is the export {filled.export_id} of {filled.set_name}, which was not handed out here"
        raise UserError(_STAGE, table, reason, "give the table where the stage put it")
    return export


def _replace_table(table: Path, export: ReviewExport, known_digest: str) -> str:
    """Put the table in place of the one with the digest `known`, on disk when this returns."""
    from backends.durable_files import sync_folder
    from backends.sets import review_csv
    from review.actions import ActionError
    from review.server.pool_views import CONFLICT_MESSAGE

    temporary_file = table.with_name(f".{table.name}.page")
    try:
        with _lock_folder(table.parent):
            if (opened := table.with_name(f".~lock.{table.name}#")).exists():
                raise ActionError(
                    f"the table is open in LibreOffice ({opened.name}): close it there, then decide again"
                )
            review_csv.write_review_csv(export, temporary_file)
            digest = _digest(temporary_file)
            if _digest(table) != known_digest:  # as late as can be: a spreadsheet asks nobody before it writes
                temporary_file.unlink()
                raise ActionError(CONFLICT_MESSAGE)
            temporary_file.replace(table)
            sync_folder(table.parent)
            return digest
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); nothing was taken"
        raise UserError(_STAGE, table, reason, "mend that and do the same again") from None


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
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
