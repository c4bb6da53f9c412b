"""The table of topics or objects that a stage exported, as `querytruth review TABLE.csv` reads and replaces it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from backends.durable_files import sync_folder
from backends.journals.exported_tables import read_exported_table
from backends.sets import review_csv
from builders.decisions.review_tables import ImportTolerances, ReviewExport, read_filled_table
from builders.errors import UserError
from flows.review_session.review_target import REVIEW_STAGE, compute_table_digest
from review.actions import ActionError
from review.server.pool_views import CONFLICT_MESSAGE, PoolFile, PoolFileContent, PoolSession, pool_routes


def build_pool_routes(table: Path) -> tuple[list[APIRouter], dict[str, Any]]:
    """Return the routes of a table in <out>/<name>/review, and what its page shows of it."""
    session = PoolSession(
        PoolFile(
            lambda known_digest: _read_checked_table(table, known_digest),
            lambda export, known: _replace_table(table, export, known),
        )
    )
    name = session.table.export.set_name.partition("/")[0]
    views = [table.stem.title()]
    page_context = {"name": name, "version": 0, "title": name, "grades": {}, "reviewer": "", "views": views}
    return [pool_routes(session, page_context)], page_context


def _read_checked_table(table: Path, known_digest: str) -> PoolFileContent | None:
    """Return the table checked cell by cell, as the next stage will; None while its bytes have the known digest."""
    while True:
        digest = compute_table_digest(table)
        if digest == known_digest:
            return None
        filled = review_csv.read_review_csv(table)
        export = _load_original_export(table, filled)
        reading = read_filled_table(export, filled.rows, ImportTolerances())
        if digest != compute_table_digest(table):
            continue  # written again while it was read
        if reading.problems:
            reason = f"{len(reading.problems)} problems, the first: {reading.problems[0]}"
            raise UserError(REVIEW_STAGE, table, reason, "fix those cells in a spreadsheet")
        return PoolFileContent(digest, export, reading.decisions)


def _load_original_export(table: Path, filled: ReviewExport) -> ReviewExport:
    """Return the table as the stage wrote it beside its journal. Raises UserError where it wrote another one."""
    export = read_exported_table(table.absolute().parents[1] / "generated", table.stem, filled)
    if export is None:
        reason = f"is the export {filled.export_id} of {filled.set_name}, which was not handed out here"
        raise UserError(REVIEW_STAGE, table, reason, "give the table where the stage put it")
    return export


def _replace_table(table: Path, export: ReviewExport, known_digest: str) -> str:
    """Put the table in place of the one with the known digest, durably, and return the new digest."""
    temporary_file = table.with_name(f".{table.name}.page")
    try:
        with _lock_folder(table.parent):
            if (opened := table.with_name(f".~lock.{table.name}#")).exists():
                where = f"in LibreOffice ({opened.name})"
                raise ActionError(f"the table is open {where}: close it there, then decide again")
            review_csv.write_review_csv(export, temporary_file)
            digest = compute_table_digest(temporary_file)
            # As late as possible: a spreadsheet asks nobody before it writes.
            if compute_table_digest(table) != known_digest:
                temporary_file.unlink()
                raise ActionError(CONFLICT_MESSAGE)
            temporary_file.replace(table)
            sync_folder(table.parent)
            return digest
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); nothing was taken"
        raise UserError(REVIEW_STAGE, table, reason, "fix that and do the same again") from None


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no other page writes in it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
