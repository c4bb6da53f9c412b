"""The folder of an evaluation result.

result.json          figures, curves, slices, conventions, warnings; written last, its presence means complete
run.parquet          the run: query_id, rank, image_id, score, relevance (-1: unjudged); readable as a run file
per_query.parquet    a row per query: query_id, text, and a column per metric; per_query.csv holds the same
ledger.parquet       images and queries that the system could not process, if any
left_out.csv         ids of the run that the set does not have, if any
report.html          the report page, if requested

result.json holds the plain data of a result, the same for the same figures on every machine, the digests of the tables
and its own; they are checked whenever it or a table is read.
"""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from querytruth.backends.files.durable_files import file_sha256, write_atomically
from querytruth.backends.files.parquet_files import read_stated_table
from querytruth.backends.files.safe_paths import contained_file, read_regular
from querytruth.backends.files.text_formats import encode_csv, parse_bounded_json
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.evaluation.evaluation_result import DIRECTIONS, EvaluationResult
from querytruth.evaluation.metric_scores import average_directions
from querytruth.evaluation.result_types import ResultFile
from querytruth.records import list_rows
from querytruth.sets.benchmark_set import canonical_json

SCHEMA_VERSION = 1
_DECIMALS = 12  # further ones depend on the processor
RESULT_FILE, RUN_FILE, PER_QUERY_FILE, PER_QUERY_CSV_FILE, LEDGER_FILE, LEFT_OUT_FILE, PAGE_FILE = RESULT_FILE_NAMES = (
    "result.json",
    "run.parquet",
    "per_query.parquet",
    "per_query.csv",
    "ledger.parquet",
    "left_out.csv",
    "report.html",
)
_STAGE = "read result"
_NEXT_STEP = "evaluate the system again"
_MAX_BYTES = 64 << 20


def result_to_json(result: EvaluationResult) -> dict[str, Any]:
    """Return data for JSON: null for unknown values, numbers to 12 decimals, without results and figures per query,
    which tables hold."""
    figures = result.figures.assign(definition=result.figures["metric"].map(result.definitions))
    curves = {"precision_recall": result.precision_recall, "open_set": result.open_set}
    plain: dict[str, Any] = to_plain_json(
        {
            "schema_version": SCHEMA_VERSION,
            "system": result.system,
            "set": result.set,
            "direction": result.direction,
            "counts": result.counts,
            "conventions": result.conventions,
            "figures": list_rows(figures),
            "warnings": [asdict(warning) for warning in result.warnings],
            "thresholds": {name: found and asdict(found) for name, found in result.thresholds.items()},
            "slices": list_rows(result.slices),
            **({"phrasings": list_rows(result.phrasings)} if len(result.phrasings) else {}),
            **({"traffic": list_rows(result.traffic)} if len(result.traffic) else {}),
            "cmc": result.cmc.tolist(),
            **{name: {column: table[column].tolist() for column in table} for name, table in curves.items()},
        }
    )
    return plain


def average_results(results: Sequence[EvaluationResult]) -> dict[str, dict[str, float]]:
    """Return by system the mean of both directions per metric; empty where only one was evaluated."""
    by_direction = [[result for result in results if result.direction == direction] for direction in DIRECTIONS]
    return {
        str(one.system["name"]): average_directions(_metric_values(one), _metric_values(other))
        for one, other in zip(*by_direction, strict=False)
    }


def _metric_values(result: EvaluationResult) -> dict[str, float]:
    return dict(zip(result.metrics, result.figures["value"].tolist(), strict=True))


def to_plain_json(value: object) -> Any:
    """Return plain values; None for what is not finite, floats to twelve digits."""
    if isinstance(value, dict):
        return {str(key): to_plain_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_json(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return round(float(value), _DECIMALS) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def write_result(
    folder: Path, content: dict[str, Any], tables: Mapping[str, pd.DataFrame], envelope: dict[str, Any]
) -> None:
    """Replace the result in the folder. `tables` are by file name; `content` is result.json without files and
    `envelope`, the only part that differs between equal evaluations. Raises UserError where it cannot be written."""
    with translate_write_errors("write result", folder, "or give another folder with --report"):
        for name in RESULT_FILE_NAMES:
            (folder / name).unlink(missing_ok=True)
        for name, table in tables.items():
            is_parquet = name.endswith(".parquet")
            data = _parquet(table) if is_parquet else encode_csv(table.columns, table.itertuples(index=False))
            write_atomically(folder / name, data)
        files = {name: {"rows": len(table), "sha256": file_sha256(folder / name)[0]} for name, table in tables.items()}
        whole = {**content, "files": files, "envelope": envelope}
        write_atomically(folder / RESULT_FILE, canonical_json({**whole, "result_digest": digest_result(whole)}))


def read_result(folder: Path) -> ResultFile:
    """Read result.json and check its keys and its own digest. Raises UserError for a missing or invalid one."""
    file = folder / RESULT_FILE
    if not file.exists():
        raise UserError(_STAGE, folder, f"contains no {RESULT_FILE}", "give a folder that evaluate wrote")
    with translate_read_errors(_STAGE, file, _NEXT_STEP, also=(ValueError,)):
        content: ResultFile = parse_bounded_json(read_regular(contained_file(folder, RESULT_FILE, _STAGE), _MAX_BYTES))
    try:
        msgspec.convert(content, ResultFile)
    except msgspec.ValidationError as error:
        reason = f"does not have the expected form: {str(error).replace('`$.', '`')[:300]}"
        raise UserError(_STAGE, file, reason, _NEXT_STEP) from None
    if content["result_digest"] != digest_result(content):
        raise UserError(_STAGE, file, "is damaged: its checksum does not match", _NEXT_STEP)
    return content


def check_result_table(folder: Path, name: str, content: ResultFile) -> Path:
    """Return the file of a table of the result in the folder, after a check of its bytes against result.json,
    `content`. Raises UserError."""
    stated = content["files"].get(name)
    if stated is None:
        raise UserError(_STAGE, folder / name, f"is not in {RESULT_FILE}", _NEXT_STEP)
    file = contained_file(folder, name, _STAGE)
    with translate_read_errors(_STAGE, file, _NEXT_STEP):
        if file_sha256(file)[0] != stated["sha256"]:
            raise UserError(_STAGE, file, f"is damaged: {RESULT_FILE} states another checksum", _NEXT_STEP)
    return file


def find_run_file(path: Path) -> Path:
    """Return the run at the path: the file itself, or the undamaged run of a result's folder. Raises UserError."""
    return check_result_table(path, RUN_FILE, read_result(path)) if path.is_dir() else path


def read_per_query(folder: Path, content: ResultFile) -> pd.DataFrame:
    """Read the figures of each query, indexed by query_id; `content` is result.json. Raises UserError."""
    file = folder / PER_QUERY_FILE
    if PER_QUERY_FILE not in content["files"]:
        raise UserError(_STAGE, file, f"is not in {RESULT_FILE}", _NEXT_STEP)
    sha256 = content["files"][PER_QUERY_FILE]["sha256"]
    table: pd.DataFrame = read_stated_table(folder, PER_QUERY_FILE, sha256, _STAGE, _NEXT_STEP).to_pandas()
    wanted = {row["metric"] for row in content["figures"]}
    if not wanted <= set(table.columns[table.dtypes == np.float64]) or "query_id" not in table:
        raise UserError(_STAGE, file, f"lacks figures that {RESULT_FILE} states", _NEXT_STEP)
    if not table["query_id"].is_unique:
        raise UserError(_STAGE, file, "contains a query twice", _NEXT_STEP)
    return table.set_index("query_id")


def digest_result(content: Mapping[str, object]) -> str:
    """Return the digest of result.json without its own key and the envelope, where equal evaluations differ."""
    kept = {key: value for key, value in content.items() if key not in ("result_digest", "envelope")}
    return hashlib.sha256(canonical_json(kept)).hexdigest()


def _parquet(table: pd.DataFrame) -> bytes:
    """Write ids as texts: the order of categories would change the bytes."""
    arrow = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    for place, column in enumerate(arrow.schema):
        if pa.types.is_dictionary(column.type) or pa.types.is_large_string(column.type):
            arrow = arrow.set_column(place, column.name, arrow.column(place).cast(pa.string()))
    sink = io.BytesIO()
    pq.write_table(arrow, sink, compression="zstd")
    return sink.getvalue()
