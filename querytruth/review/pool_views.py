"""A review table of topics or objects: its rows, their answers, the filled-in table, and its view."""

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from pydantic import Field

from querytruth.backends.files import durable_files
from querytruth.errors import UserError
from querytruth.review.deck import (
    ActionError,
    CardData,
    CardFilter,
    DeckView,
    LongText,
    ShortText,
    Verdict,
    choice_field,
    queue_of,
    search_field,
    state_field,
)
from querytruth.sets import review_csv
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.review_tables import (
    ANSWER_COLUMNS,
    ImportTolerances,
    ReviewExport,
    compute_table_digest,
    read_filled_table,
)

REVIEW_STAGE = "review"
FILTER_COLUMNS = ("topic", "origin", "flag")


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """The three cells that a person fills in; without a decision a row is open."""

    decision: str = ""
    new_text: str = ""
    note: str = ""


class PoolFilter(CardFilter):
    """A filter of rows; an empty text excludes none."""

    topic: LongText = ""
    origin: ShortText = ""
    flag: ShortText = ""


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
            raise ActionError("a new text needs exactly one row")
        exported_rows = self.export.rows[self.export.rows["query_id"].isin(row_ids)].reset_index(drop=True)
        reading = read_filled_table(
            replace(self.export, rows=exported_rows), exported_rows.assign(**asdict(answer)), ImportTolerances()
        )
        if reading.problems:
            raise ActionError(reading.problems[0].partition(", ")[2])
        answers = _answers(reading.decisions)
        if len(answers) < len(set(row_ids)):
            raise ActionError(f"unknown decision; known decisions: {', '.join(self.export.decision_choices)}")
        return answers

    def fill_in_answers(self, answers: Mapping[str, RowAnswer]) -> ReviewExport:
        """Return the table for people with these answers in it, each row with the digest that it was handed out
        with."""
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


class PoolFile:
    """The file of a table that a stage exported, as `querytruth review TABLE.csv` reads and replaces it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, known_digest: str) -> tuple[str, PoolTable] | None:
        """Return the digest of the file's bytes, and the table checked cell by cell, as the next stage will; None while
        they have the known digest."""
        while True:
            digest = compute_table_digest(self.path)
            if digest == known_digest:
                return None
            filled = review_csv.read_review_csv(self.path)
            export = self._load_original_export(filled)
            reading = read_filled_table(export, filled.rows, ImportTolerances())
            if digest != compute_table_digest(self.path):
                continue  # written again while it was read
            if reading.problems:
                reason = f"{len(reading.problems)} problems, the first: {reading.problems[0]}"
                raise UserError(REVIEW_STAGE, self.path, reason, "fix those cells in a spreadsheet")
            return digest, PoolTable(export, reading.decisions)

    def write(self, export: ReviewExport, known_digest: str) -> str:
        """Put the table in place of the one with the known digest, durably, and return the new digest. Raises
        ActionError where another program changed it."""
        table = self.path
        temporary_file = table.with_name(f".{table.name}.page")
        try:
            with lock_folder(table.parent):
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
                durable_files.sync_folder(table.parent)
                return digest
        except OSError as error:
            reason = f"cannot be written ({error.strerror}); no decision was stored"
            raise UserError(REVIEW_STAGE, table, reason, "fix that and repeat the action") from None

    def _load_original_export(self, filled: ReviewExport) -> ReviewExport:
        """Return the table as the stage wrote it beside its journal. Raises UserError where it wrote another one."""
        export = read_exported_table(self.path.absolute().parents[1] / "generated", self.path.stem, filled)
        if export is None:
            reason = f"is export {filled.export_id} of {filled.set_name}, which did not come from here"
            raise UserError(REVIEW_STAGE, self.path, reason, "give the table where the stage wrote it")
        return export


class RowAnswerVerdict(Verdict):
    """An answer for several rows. `epoch`: the reading of the file that the person saw."""

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
        self._load(*content)

    def _load(self, digest: str, table: PoolTable) -> None:
        self._digest, self.table = digest, table
        self.epoch = secrets.token_hex(8)  # names this reading of the file
        self._before: list[AnswersByRow] = []  # the answers that each action replaced

    def refresh(self) -> None:
        """Read the table again if another program changed it."""
        with self._lock:
            self._refresh()

    def record(self, verdict: RowAnswerVerdict) -> dict[str, Any]:
        """Write an answer into the file and return the card of its first row. Raises ActionError where the answer is
        invalid or the file changed."""
        with self._lock:
            self._refresh()
            if verdict.epoch != self.epoch:
                raise ActionError(CONFLICT_MESSAGE)
            changed = self.table.check_answer(verdict.rows, RowAnswer(verdict.decision, verdict.new_text, verdict.note))
            before = self.table.answers
            self._write(changed)
            self._before.append({row_id: before.get(row_id, RowAnswer()) for row_id in changed})
            return self.table.build_card(verdict.rows[0])

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
        if (content := self.file.read(self._digest)) is not None:
            self._load(*content)


CONFLICT_MESSAGE = "another program changed the table: nothing was stored, and the page now shows its content"


class PoolView(DeckView):
    """The rows of a table. `stage`: topics or objects, the path of its page."""

    name, filter_model, verdict_model = "pools", PoolFilter, RowAnswerVerdict
    promise = "Rows without a decision are kept."

    def __init__(self, session: PoolSession, stage: str) -> None:
        self._session, self._stage = session, stage

    @property
    def path(self) -> str:
        """Return the path of the page."""
        return self._stage

    def refresh(self) -> None:
        """Read the table again if another program changed it."""
        self._session.refresh()

    def list_fields(self) -> list[CardData]:
        """Return the search, and a field for each column that has several values."""
        labels = {"topic": ("Topic", "all"), "origin": ("From", "all"), "flag": ("Flagged", "any")}
        choices = self._session.table.list_filter_choices()
        fields = [
            choice_field(name, labels[name][0], {value: value for value in values}, labels[name][1])
            for name, values in choices.items()
            if values
        ]
        return [search_field("text or note ( / )"), *fields, state_field(decided="yes")]

    def build_queue(self, card_filter: PoolFilter) -> CardData:
        """Return the rows that pass the filter, with their cards, and the reading of the file."""
        table = self._session.table
        row_ids = table.list_row_ids(card_filter)
        cards = {"cards": self.build_cards(row_ids), "epoch": self._session.epoch}
        return queue_of(row_ids, self.is_decided) | cards

    def is_decided(self, key: str) -> bool:
        """Return whether a row has an answer."""
        return key in self._session.table.answers

    def build_cards(self, keys: Iterable[str]) -> list[CardData]:
        """Return these rows of the table."""
        return [self._session.table.build_card(row_id) for row_id in keys]

    def decide(self, verdict: RowAnswerVerdict) -> CardData:
        """Write an answer into the file."""
        return self._session.record(verdict)

    def undo(self) -> CardData:
        """Undo the last action of this page."""
        return self._session.undo()


def exported_table_path(generated: Path, stage: str, export_id: str) -> Path:
    """Return the path of an exported table; `generated` is <out>/<name>/generated, the folder of a set's journals."""
    return generated / stage / f"{export_id}.csv"


def read_exported_table(generated: Path, stage: str, filled: ReviewExport) -> ReviewExport | None:
    """Return the original of a filled-in table; None where that stage of that set did not export it."""
    path = exported_table_path(generated, stage, filled.export_id)
    if filled.set_name != f"{generated.parent.name}/v0" or not path.exists():
        return None
    original = review_csv.read_review_csv(path)
    return replace(original, rows=original.rows.reset_index(drop=True))


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no other page writes in it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
