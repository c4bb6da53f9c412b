"""The ledger of a build: every item that enters a stage leaves it accepted, rejected, quarantined or pending."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from builders.array_types import AnyArray
from builders.records import LEDGER_SCHEMA, empty_frame

BUCKETS = ("rejected", "quarantined", "pending")
_PLURALS = {"box": "boxes", "mix": "mixes", "query": "queries", "reply": "replies"}


class ConservationError(Exception):
    """The counts of a stage do not add up: a defect of querytruth, not of the input."""


class Rejection(NamedTuple):
    """An item that a stage did not accept; the fields are columns of the ledger (docs/set-format.md)."""

    item: str
    bucket: str
    reason: str
    item_id: str | None = None
    measure: str | None = None
    value: float | None = None
    threshold: float | None = None
    related_item: str | None = None
    rank: int | None = None
    image_id: str | None = None
    language: str | None = None
    text: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerStage:
    """The counts of one stage: a row of the funnel."""

    stage: str
    kind: str
    entered: int
    accepted: int
    rejected: dict[str, int]
    quarantined: dict[str, int]
    pending: dict[str, int]


FUNNEL_COLUMNS = ["stage", "came in", "went on", "the rest"]


def pluralize_kind(kind: str) -> str:
    """Returns the plural of a kind."""
    return _PLURALS.get(kind, f"{kind}s")


def tabulate_funnel(funnel: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """Returns the stages of a manifest as rows of FUNNEL_COLUMNS for display, with the most frequent reasons first."""
    rows = []
    for stage in funnel:
        dropped_by_reason = {**stage["rejected"], **stage["quarantined"], **stage["pending"]}
        reasons = sorted(dropped_by_reason.items(), key=lambda pair: -pair[1])
        rest = ", ".join(f"{number:,} {reason.replace('_', ' ')}" for reason, number in reasons)
        entered = f"{stage['entered']:,} {pluralize_kind(stage['kind'])}"
        rows.append([stage["stage"].replace("_", " "), entered, stage["accepted"], rest])
    return rows


def current_code(code: str) -> str:
    """Returns a kind, stage or reason as schema version 2 spells it. Version 1, and stored scans, fetches and replies
    of its builds, have "picture"."""
    return code.replace("a_picture", "an_image").replace("picture", "image")


def _current_codes(reasons: pd.Series) -> pd.Series:
    return reasons.map({reason: current_code(reason) for reason in reasons.unique()})


def rejection_rows(
    items: Sequence[str], bucket: str | Sequence[str] | AnyArray, reason: str | Sequence[str] | AnyArray, **columns: Any
) -> pd.DataFrame:
    """Returns the ledger's rows of items that a stage did not accept. `bucket`, `reason` and the further `columns`
    (fields of `Rejection`) are one value for all items or one for each."""
    rows = pd.DataFrame({"item": items, "bucket": bucket, "reason": reason, **columns})
    return rows.reindex(columns=Rejection._fields)


def rejection_table(rejections: Iterable[Rejection]) -> pd.DataFrame:
    """Returns the ledger's rows of these rejections."""
    return pd.DataFrame(rejections, columns=Rejection._fields)


def describe_rejection(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the columns of a ledger's row (`Rejection`) beside its reason and text, as phrases. Missing
    values are None, "" or NaN."""
    known = {str(name): value for name, value in row.items() if value not in (None, "") and value == value}
    parts = [f"result {known['rank']:.0f} of {known['text']}"] if known.keys() >= {"rank", "text"} else []
    if "value" in known:
        parts.append(f"{known['measure'].replace('_', ' ')} {_format_number(known['value'])}")
    if "threshold" in known:
        parts.append(f"threshold {_format_number(known['threshold'])}")
    parts += [f"see {known['related_item']}"] if "related_item" in known else []
    parts += [str(known["detail"])] if "detail" in known else []
    return tuple(parts)


def _format_number(value: float) -> str:
    return f"{round(value, 6):.15g}"


@dataclass(slots=True)
class Ledger:
    """The stages of a build, and a row for each item that was *not* accepted. Accepted items are in the tables of the
    set (boxes: in the judgments); their number is in the funnel."""

    stages: list[LedgerStage] = field(default_factory=list)
    _frames: list[pd.DataFrame] = field(default_factory=list)

    def record_stage(self, stage: str, kind: str, entered: int, accepted: int, *rejections: pd.DataFrame) -> None:
        """Add a stage. Raises ConservationError where `entered` is not `accepted` and the rejections together; callers
        count `entered` and `accepted` independently of these."""
        rows = [frame.assign(reason=_current_codes(frame["reason"])) for frame in rejections if len(frame)]
        counts = {bucket: Counter[str]() for bucket in BUCKETS}
        for frame in rows:
            if strange := set(frame["bucket"]) - set(BUCKETS):
                raise ConservationError(f"stage {stage}: unknown bucket {sorted(strange)[0]!r}")
            for (bucket, reason), group in frame.groupby(["bucket", "reason"], observed=True):
                counts[bucket][reason] += len(group)
        total = accepted + sum(sum(reasons.values()) for reasons in counts.values())
        if total != entered:
            raise ConservationError(f"stage {stage}: {entered} {kind}s came in, {total} are accounted for")
        done = {bucket: dict(sorted(reasons.items())) for bucket, reasons in counts.items()}
        self.stages.append(LedgerStage(stage, kind, entered, accepted, **done))
        self._frames += [frame.assign(stage=stage, kind=kind) for frame in rows]

    def rows(self) -> pd.DataFrame:
        """Returns the ledger table: stages in order, items sorted within a stage."""
        if not self._frames:
            return empty_frame("ledger")
        order = {stage.stage: number for number, stage in enumerate(self.stages)}
        rows = pd.concat(self._frames, ignore_index=True)[LEDGER_SCHEMA.names].astype({"measure": "str"})
        rows = rows.assign(order=rows["stage"].map(order))
        return rows.sort_values(["order", "item", "reason"], kind="stable", ignore_index=True).drop(columns="order")

    def funnel(self) -> list[dict[str, Any]]:
        """Returns the stages as the manifest stores them."""
        return [asdict(stage) for stage in self.stages]
