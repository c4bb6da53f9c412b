"""The ledger of a build: every item that enters a stage leaves it accepted, rejected, quarantined or pending."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import union_categoricals

from querytruth.array_types import AnyArray
from querytruth.records import LEDGER_SCHEMA, empty_frame
from querytruth.sets.manifest import FunnelStage

BUCKETS = ("rejected", "quarantined", "pending")


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


def rejection_rows(
    items: Sequence[str],
    bucket: str | Sequence[str] | AnyArray,
    reason: str | Sequence[str] | AnyArray,
    **columns: object,
) -> pd.DataFrame:
    """Return the ledger's rows of items that a stage did not accept. `bucket`, `reason` and the further `columns`
    (fields of `Rejection`) are one value for all items or one per item."""
    given = {"bucket": bucket, "reason": reason, **columns}
    once = {name: pd.Categorical([value]).repeat(len(items)) for name, value in given.items() if isinstance(value, str)}
    return pd.DataFrame({"item": items, **given, **once}, copy=False)


def rejection_table(rejections: Iterable[Rejection]) -> pd.DataFrame:
    """Return the ledger's rows of these rejections."""
    return pd.DataFrame(rejections, columns=Rejection._fields)


def _join_frames(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of a stage, sorted by item and reason. A column without a value is left out: for ten million
    images that were not selected, the ledger stores nothing else."""
    if not frames:
        return pd.DataFrame(
            {"item": pd.array([], "str"), **{name: pd.Categorical([]) for name in ("bucket", "reason")}}
        )
    rows = pd.DataFrame(_join_columns([frame.dropna(axis="columns", how="all") for frame in frames]), copy=False)
    items = pa.chunked_array(pa.Array.from_pandas(rows["item"]))
    if pc.all(pc.less(items[:-1], items[1:])).as_py() is False:
        rows = rows.sort_values(["item", "reason"], kind="stable", ignore_index=True)
    return rows


def _join_columns(frames: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """Return the columns of the ledger that a frame has, all frames concatenated: codes as categories, numbers
    as floats, and texts in Arrow, which are not copied."""
    columns: dict[str, Any] = {}
    for name, of_type in zip(LEDGER_SCHEMA.names, LEDGER_SCHEMA.types, strict=True):
        if not any(name in frame for frame in frames):
            continue
        parts = [frame[name] if name in frame else pd.Series(None, range(len(frame)), "object") for frame in frames]
        if pa.types.is_dictionary(of_type):
            codes = [part if part.dtype == "category" else part.astype("str").astype("category") for part in parts]
            columns[name] = union_categoricals(codes, sort_categories=True)
        else:
            kind: Any = "str" if pa.types.is_string(of_type) else "float64"
            columns[name] = pd.concat([part.astype(kind) for part in parts], ignore_index=True)
    return columns


def describe_rejection(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of a ledger's row (`Rejection`) beside its reason and text, as phrases. Missing
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
        rows = _join_frames([frame for frame in rejections if len(frame)])
        counts = {bucket: Counter[str]() for bucket in BUCKETS}
        if strange := set(rows["bucket"].cat.categories) - set(BUCKETS):
            raise ConservationError(f"stage {stage}: unknown bucket {sorted(strange)[0]!r}")
        for (bucket, reason), count in rows.groupby(["bucket", "reason"], observed=True).size().items():
            counts[bucket][reason] = int(count)
        total = accepted + sum(sum(reasons.values()) for reasons in counts.values())
        if total != entered:
            raise ConservationError(f"stage {stage}: {entered} {kind}s entered, but {total} are accounted for")
        done = {bucket: dict(sorted(reasons.items())) for bucket, reasons in counts.items()}
        self.stages.append(LedgerStage(stage, kind, entered, accepted, **done))
        self._frames.append(rows)

    def rows(self) -> pd.DataFrame:
        """Return the ledger table: stages in order, items sorted within a stage."""
        frames = [frame for frame in self._frames if len(frame)]
        if not frames:
            return empty_frame("ledger")
        lengths = [len(frame) for frame in self._frames]
        rows = _join_columns(frames)
        for name in ("stage", "kind"):
            values = [getattr(stage, name) for stage in self.stages]
            codes, distinct = pd.factorize(np.array(values, dtype=object), sort=True)
            rows[name] = pd.Categorical.from_codes(np.repeat(codes.astype(np.int16), lengths), distinct)
        nulls = pd.array(pa.chunked_array([pa.nulls(sum(lengths), pa.large_string())]), dtype="str")
        rows |= {name: nulls for name in LEDGER_SCHEMA.names if name not in rows}
        return pd.DataFrame({name: rows[name] for name in LEDGER_SCHEMA.names}, copy=False)

    def funnel(self) -> list[FunnelStage]:
        """Return the stages as the manifest stores them."""
        return [cast(FunnelStage, asdict(stage)) for stage in self.stages]
