"""The files of a generation stage: its journal, a summary of it, and the tables that it exported.

The journal holds every parsed reply with the outcome of each of its rows. Later stages build on the summary (JSON). A
filled-in table is compared with the exported one.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.text_formats import parse_json
from querytruth.errors import UserError, translate_write_errors
from querytruth.sets.ledger import Ledger, Rejection, rejection_rows, rejection_table

SCORE_UNIT = 10_000  # similarities are stored as whole multiples of 1 / SCORE_UNIT


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """One row of a reply. `topic`: its pool, or ''; `reason`: why it was rejected, '' if accepted; `topic_in_reply`:
    the topic in the reply where the pool has another name; `score`: the similarity to the object `nearest` in ten
    thousandths, near the threshold or above; `thought`: the thought before it, where requested."""

    topic: str
    text: str
    reason: str = ""
    topic_in_reply: str = ""
    score: int | None = None
    nearest: str = ""
    thought: str = ""


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """One reply. `reply`: its key in the reply store; `topic`: the topic of the prompt, '' where the model chooses one;
    `outcome`: why the reply ended or is missing; `tokens`: its cost."""

    round: int
    topic: str
    reply: str
    outcome: str
    tokens: int
    rows: tuple[ReplyRow, ...] = ()

    @property
    def accepted(self) -> list[ReplyRow]:
        """Return the rows that were added to a pool."""
        return [row for row in self.rows if not row.reason]


Wave = Sequence[ReplyRecord]  # the replies to all prompts of one state of the pools, in canonical order


def format_wave(wave: Wave) -> str:
    """Return a wave as one line of a journal; ASCII, which also encodes lone surrogates."""
    return json.dumps([_without_empty(asdict(reply)) for reply in wave], separators=(",", ":"), sort_keys=True)


def parse_wave(line: str) -> list[ReplyRecord]:
    """Return the wave of a line. Raises ValueError for anything else."""
    try:
        return [_parse_reply(one) for one in parse_json(line)]
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"is not a valid wave of replies ({error})") from None


def record_in_ledger(ledger: Ledger, stage: str, waves: Sequence[Wave]) -> None:
    """Record the stages of replies and of rows in the ledger."""
    replies = [one for wave in waves for one in wave]
    failed = [one for one in replies if not one.rows]
    reasons = ["nothing_listed" if one.outcome in ("stop", "length", "") else one.outcome for one in failed]
    unlisted = rejection_rows([one.reply for one in failed], "rejected", reasons)
    ledger.record_stage(f"{stage}_replies", "reply", len(replies), sum(bool(one.rows) for one in replies), unlisted)
    rows = [row for one in replies for row in one.rows]
    rejections = rejection_table(_row_rejection(row) for row in rows if row.reason)
    ledger.record_stage(f"{stage}_rows", "row", len(rows), sum(not row.reason for row in rows), rejections)


def _row_rejection(row: ReplyRow) -> Rejection:
    if not row.nearest:
        return Rejection(row.text, "rejected", row.reason, detail=row.topic_in_reply or None)
    similarity = (row.score or 0) / SCORE_UNIT
    return Rejection(row.text, "rejected", row.reason, None, "similarity", similarity, related_item=row.nearest)


def count_outcomes(waves: Sequence[Wave]) -> dict[str, int]:
    """Return the number of rows per outcome."""
    return dict(sorted(Counter(row.reason or "accepted" for wave in waves for one in wave for row in one.rows).items()))


def _without_empty(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record without empty fields."""
    short = {name: value for name, value in record.items() if value not in ("", None, ())}
    if "rows" in short:
        short["rows"] = [_without_empty(row) for row in short["rows"]]
    return short


_TYPES = {"round": int, "tokens": int, "score": int}


def _parse_reply(record: dict[str, Any]) -> ReplyRecord:
    rows = tuple(ReplyRow(**_checked(ReplyRow, {"topic": "", "text": "", **row})) for row in record.pop("rows", []))
    return ReplyRecord(**_checked(ReplyRecord, {"topic": "", "reply": "", "outcome": "", **record}), rows=rows)


def _checked(kind: type[ReplyRow] | type[ReplyRecord], record: dict[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(kind)}
    for name, value in record.items():
        if name not in known or type(value) is not _TYPES.get(name, str):
            raise ValueError(f"is not a valid wave of replies ({name}: {value!r})")
    return record


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary atomically: UTF-8 with sorted keys. Raises UserError where it cannot be written."""
    with translate_write_errors("write summary", path):
        write_atomically(path, (json.dumps(summary, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode())


def read_summary(path: Path, next_step: str) -> Any:
    """Return a summary. Raises UserError with `next_step` where it is missing or not valid."""
    try:
        summary = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError("read summary", path, "does not exist yet", next_step) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError("read summary", path, f"cannot be read ({error})", next_step) from None
    if not isinstance(summary, dict):
        raise UserError("read summary", path, "is not a valid summary", next_step)
    return summary
