"""Readers for run files in five formats, by suffix or else by content, also gzipped, and for TREC qrels.

JSON {query: [image, …]} and tables with a column rank instead of score state only an order: the score is then the
negative rank. Where a run states both, and its scores rise along its ranks (distances used as likeness), the ranks
decide.

TREC runs are lines `query Q0 image rank score tag`, TREC qrels lines `query 0 image grade`, separated by blanks. As in
trec_eval, fields after the tag are ignored, and a grade below 0 means that the pair is not judged. Lines that begin
with # are comments.
"""

import errno
import gzip
import io
import json
import math
import re
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from querytruth.backends.files.parquet_files import read_parquet, read_parquet_schema
from querytruth.backends.files.safe_paths import MAX_DOCUMENT_BYTES, open_regular, read_regular
from querytruth.backends.files.table_rows import EXACT_DIGITS, WrittenFloat, iterate_rows, open_table
from querytruth.backends.files.text_formats import refuse_repeated_columns, require_text
from querytruth.errors import UserError, first_line, translate_read_errors
from querytruth.evaluation.run_formats import read_plain_trec

_STAGE = "read run file"
RUN_COLUMNS = ("query_id", "image_id", "score")
# As others name them: Chinese-CLIP's predictions have text_id and image_ids; indexes give distances.
_QUERY_NAMES = ("query_id", "query", "text", "text_id", "qid", "query-id")
_IMAGE_NAMES = ("image_id", "file_name", "path", "source_url", "source_id", "image", "corpus-id")
_RESULT_NAMES = ("results", "image_ids")
_VALUE_NAMES = {"score": "score", "similarity": "score", "distance": "distance", "rank": "rank"}
_LINES = 'write lines {"query_id": …, "image_id": …, "score": …} or {"query_id": …, "results": [image, …]}'
_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class _RowCollector:
    """Collects rows of query id, image id and number in compact columns: a run has millions of rows and few different
    ids."""

    def __init__(self) -> None:
        self._queries: dict[str, int] = {}
        self._images: dict[str, int] = {}
        self._query, self._image, self._number = array("i"), array("i"), array("d")
        self._rank = array("d")
        self._exact: dict[int, Decimal] = {}  # by row what a double cannot tell from its neighbours

    def add(self, query_id: str, image_id: str, number: float, rank: float | None = None) -> None:
        """Add a row; either all rows have a rank, or none has."""
        self._query.append(self._queries.setdefault(query_id, len(self._queries)))
        self._image.append(self._images.setdefault(image_id, len(self._images)))
        self._number.append(number)
        if rank is not None:
            self._rank.append(rank)

    def add_text(self, query_id: str, image_id: str, text: str, number: float, rank: float | None = None) -> None:
        """Add a row whose number is written as `text`."""
        if len(text) >= EXACT_DIGITS:
            self._exact[len(self._query)] = Decimal(text)
        self.add(query_id, image_id, number, rank)

    def _separate(self) -> None:
        """Move scores apart that differ in the file, and not in double precision: the lower one by the least step."""
        by_query: dict[int, list[tuple[Decimal, int]]] = {}
        for row in self._exact:
            by_query.setdefault(self._query[row], []).append((self._exact[row], row))
        for rows in by_query.values():
            rows.sort(reverse=True)
            for (above, before), (below, row) in pairwise(rows):
                if below < above and self._number[row] >= self._number[before]:
                    self._number[row] = math.nextafter(self._number[before], -math.inf)

    def build_table(self, name: str) -> pd.DataFrame:
        """Return query_id and image_id as categories, the numbers (float64) as column `name`, and the ranks, where the
        rows have one, in order."""

        self._separate()

        def ids(codes: "array[int]", known: dict[str, int]) -> pd.Categorical:
            return pd.Categorical.from_codes(np.frombuffer(codes, np.int32), pd.Index(list(known), dtype="str"))

        columns = {"query_id": ids(self._query, self._queries), "image_id": ids(self._image, self._images)}
        numbers = {name: np.frombuffer(self._number, np.float64), "rank": np.frombuffer(self._rank, np.float64)}
        return pd.DataFrame(columns | {key: values for key, values in numbers.items() if key == name or len(values)})


def _read_trec(path: Path) -> pd.DataFrame:
    """Return a table query_id, image_id, score. Raises UserError."""
    return table if (table := read_plain_trec(path)) is not None else _read_trec_lines(path)


def _read_trec_lines(path: Path) -> pd.DataFrame:
    rows = _RowCollector()
    for line, fields in _lines(path):
        if len(fields) < 5:
            raise _line_error(path, line, f"has {len(fields)} fields", "write query Q0 image rank score tag")
        if _is_shifted(fields):
            reason = f"has {len(fields)} fields, with {fields[3][:40]!r} as the rank: does an id contain a blank?"
            raise _line_error(
                path, line, reason, "write ids without blanks, or a CSV file with query_id,image_id,score"
            )
        rows.add_text(fields[0], fields[2], fields[4], _parse_number(path, line, fields[4]), float(fields[3]))
    return rows.build_table("score")


def _is_shifted(fields: list[str]) -> bool:
    """Return whether a blank within an id moved the fields of a line: the rank field is not a whole number, or a rank
    and a score are repeated before the last field."""
    return not _WHOLE.fullmatch(fields[3]) or (
        len(fields) > 6 and bool(_WHOLE.fullmatch(fields[-3]) and _NUMBER.fullmatch(fields[-2]))
    )


def read_trec_qrels(path: Path) -> pd.DataFrame:
    """Return a table query_id, image_id, relevance (int16) of the judged pairs, of lines as TREC's or BEIR's. Raises
    UserError."""
    rows = _RowCollector()
    with translate_read_errors("read qrels", path):
        for line, fields in _lines(path):
            if line == 1 and fields[0] in _QUERY_NAMES and not _NUMBER.fullmatch(fields[-1]):
                continue  # BEIR's qrels: query-id, corpus-id and score below a header
            if len(fields) < 3:
                raise _line_error(path, line, f"has {len(fields)} fields", "write query 0 image grade")
            query, image, text = fields if len(fields) == 3 else (fields[0], *fields[2:4])
            grade = _parse_number(path, line, text)
            if not abs(grade) < 30_000 or grade != int(grade):
                raise _line_error(path, line, f"has the grade {text}", "give a whole number below 30,000")
            if grade >= 0:
                rows.add(query, image, grade)
    return rows.build_table("relevance").astype({"relevance": "int16"})


def _parse_number(path: Path, line: int, text: str) -> float:
    """Return the number in a field. Raises UserError for an invalid number."""
    try:
        if "_" in text:  # Python reads 1_000 as a number
            raise ValueError
        return float(text)
    except ValueError:
        raise _line_error(path, line, f"has {text[:40]!r}, but needs a number", "fix the line") from None


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    with open_regular(path) as binary:
        require_text(_STAGE, path, binary.read(4096))
        binary.seek(0)
        for line, text in enumerate(io.TextIOWrapper(binary, "utf-8-sig"), start=1):
            if (fields := text.split()) and not text.startswith("#"):
                yield line, fields


def _line_error(path: Path, line: int, reason: str, next_step: str) -> UserError:
    return UserError(_STAGE, f"{path} line {line}", reason, next_step)


def _read_json(path: Path) -> pd.DataFrame:
    """Read {query: {image: score}}, as written by pytrec_eval and ranx, or {query: [image, …]}. Raises UserError
    for repeated names, as JSON would drop one."""
    try:
        data = read_regular(path)
        require_text(_STAGE, path, data[:4096])
        whole = json.loads(data.decode("utf-8-sig"), object_pairs_hook=list, parse_float=WrittenFloat.read)
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError also for a number of thousands of digits
        next_step = "name it .jsonl if each line is an object" if "Extra data" in str(error) else "write it again"
        raise UserError(_STAGE, path, f"is not JSON ({error})", next_step) from None
    rows = _RowCollector()
    for query, images in _pairs(path, "file", _unwrap(path, whole)):
        if isinstance(images, list) and images and all(isinstance(image, str) for image in images):
            images = [(image, -rank) for rank, image in enumerate(images, start=1)]
        for image, score in _pairs(path, query, images):
            if isinstance(score, bool) or not isinstance(score, (int, float)):
                reason = f"query {query}, image {image}: the score is not a number"
                raise UserError(_STAGE, path, reason, "fix the entry")
            try:
                rows.add_text(query, image, _written(score), float(score))
            except OverflowError:
                reason = f"query {query}, image {image}: the score is too large"
                raise UserError(_STAGE, path, reason, "fix it") from None
    return rows.build_table("score")


def _read_json_lines(path: Path) -> pd.DataFrame:
    """Read {query_id, image_id, score} a line, or {query_id, results: [image, …]}, whose results may each be an object
    with score. Raises UserError with the line."""
    rows = _RowCollector()
    for place, record in iterate_rows(path, (), stage=_STAGE):
        query = _find_id(place, record, _QUERY_NAMES)
        results = next((record[name] for name in _RESULT_NAMES if name in record), [record])
        if not isinstance(results, list):
            raise UserError(_STAGE, place, "has results that are not a list", _LINES)
        for rank, result in enumerate(results, start=1):
            if not isinstance(result, dict):
                rows.add(query, _find_id(place, {"image_id": result}, _IMAGE_NAMES), -rank)
                continue
            image = _find_id(place, result, _IMAGE_NAMES)
            what, name = next(iter(_find_values(result).items()), ("score", ""))
            score = result.get(name)
            if isinstance(score, bool) or not isinstance(score, int | float):
                raise UserError(_STAGE, place, "has a result without a score", _LINES)
            sign = 1.0 if what == "score" else -1.0
            rows.add_text(query, image, _written(score) if what == "score" else "", sign * float(score))
    return rows.build_table("score")


def _written(score: float) -> str:
    """Return how a number is written that may have more digits than a double; "" for any other."""
    return str(score) if isinstance(score, int) else getattr(score, "text", "")


def _unwrap(path: Path, whole: object) -> Any:
    """Return the run within the subset and the split of mteb's predictions ({subset: {split: {query: {image: score}}}}
    next to metadata of the model). Raises UserError where there are several."""
    for depth in (3, 2):
        parts = whole if isinstance(whole, list) and all(isinstance(one, tuple) for one in whole) else []
        inside = [(name, part) for name, part in parts if _depth(part) >= depth]
        if not inside:
            return whole
        if len(inside) > 1:
            reason = f"contains several runs ({', '.join(name for name, _ in inside[:5])})"
            raise UserError(_STAGE, path, reason, "write each run to its own file")
        whole = inside[0][1]
    return whole


def _depth(value: Any) -> int:
    """Return the number of objects within each other, by the first entries."""
    return 1 + _depth(value[0][1]) if (isinstance(value, list) and value and isinstance(value[0], tuple)) else 0


def _find_id(place: str, record: dict[str, Any], names: Sequence[str]) -> str:
    """Return the text or number that identifies a query or an image in a record. Raises UserError."""
    found = next((record[name] for name in names if name in record), None)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise UserError(_STAGE, place, f"has no {names[0].removesuffix('_id')}", _LINES)
    return str(found)


def _pairs(path: Path, name: str, value: object) -> list[tuple[str, Any]]:
    """Return the entries of a JSON object. Raises UserError for any other value and for repeated names."""
    if not isinstance(value, list) or not all(isinstance(pair, tuple) for pair in value):
        raise UserError(_STAGE, path, f"{name} is not an object", "use {query: {image: score}} or {query: [image, …]}")
    seen: set[str] = set()
    for key, _ in value:
        if key in seen:
            raise UserError(_STAGE, path, f"{name} contains {key!r} twice", "keep one of them")
        seen.add(key)
    return value


def _read_parquet(path: Path) -> pd.DataFrame:
    """Return a table query_id, image_id, score; numeric ids become text. Raises UserError."""
    try:
        names = read_parquet_schema(path).names
        ids, values = _find_id_columns(path, names), _find_value_columns(path, names)
        columns = [*ids, *values.values()]
        table = read_parquet(path, tuple(columns)).select(columns).rename_columns([*RUN_COLUMNS[:2], *values])
        ranks = table["rank"].cast(pa.float64()) if "rank" in values else None
        if "score" not in values:
            table = table.set_column(2, "score", pc.negate(table[2].cast(pa.float64())))
    except pa.ArrowException as error:
        raise _not_a_run(path, error) from None
    frame = check_run_table(path, table)
    return frame if len(values) == 1 or ranks is None else frame.assign(rank=ranks.to_numpy())


def check_run_table(source: object, table: pa.Table) -> pd.DataFrame:
    """Return the rows of a table with RUN_COLUMNS as `read_run` does; `source` is its file or name. Raises UserError
    for empty cells, and for invalid ids or scores."""
    try:
        ids = [table[name].cast(pa.string()).dictionary_encode() for name in RUN_COLUMNS[:2]]
        table = pa.table([*ids, table["score"].cast(pa.float64())], names=list(RUN_COLUMNS))
    except pa.ArrowException as error:
        raise _not_a_run(source, error) from None
    if nulls := [name for name in RUN_COLUMNS if table[name].null_count]:
        raise UserError(_STAGE, source, f"column {nulls[0]} has empty cells", "fill or remove these rows")
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _not_a_run(source: object, error: Exception) -> UserError:
    reason = f"cannot be read as a run ({first_line(error)})"
    return UserError(_STAGE, source, reason, "write ids as texts and scores as numbers")


def _read_csv(path: Path) -> pd.DataFrame:
    """Return the same table; the first line names the columns. Raises UserError."""
    rows = _RowCollector()
    table = open_table(path, (*_QUERY_NAMES, *_IMAGE_NAMES, *_VALUE_NAMES), _STAGE)
    ids, values = _find_id_columns(path, table.columns), _find_value_columns(path, table.columns)
    columns = (*ids, *values.values())
    refuse_repeated_columns(_STAGE, path, table.columns, columns)
    places = [table.columns.index(name) for name in columns]
    for line, cells, _ in table.rows:
        query, image, *texts = (cells[place] for place in places)
        number, *ranks = [_parse_number(path, line, text) for text in texts]
        if "score" in values:
            rows.add_text(query, image, texts[0], number, *ranks)
        else:
            rows.add(query, image, -number, *ranks)
    return rows.build_table("score")


def _find_id_columns(path: Path, names: list[str]) -> tuple[str, str]:
    """Return the columns that name the queries and the images. Raises UserError for a missing one."""
    found = [next((name for name in choices if name in names), None) for choices in (_QUERY_NAMES, _IMAGE_NAMES)]
    if found[0] is None or found[1] is None:
        missing = RUN_COLUMNS[0] if found[0] is None else RUN_COLUMNS[1]
        reason = f"has no column {missing} (it has {', '.join(names) or 'none'})"
        next_step = f"name the columns {', '.join(RUN_COLUMNS)}; images also by {', '.join(_IMAGE_NAMES[1:])}"
        raise UserError(_STAGE, path, reason, next_step)
    return found[0], found[1]


def _find_value_columns(path: Path, names: list[str]) -> dict[str, str]:
    """Return the kinds of values that a table has of a result, and their columns. Raises UserError without any."""
    if not (values := _find_values(names)):
        reason = f"has no column score (it has {', '.join(names) or 'none'})"
        raise UserError(_STAGE, path, reason, f"use {', '.join(RUN_COLUMNS)}, or rank instead of score")
    return values


def _find_values(names: Iterable[str]) -> dict[str, str]:
    """Return which of these names is the value of a result: its score, or else its distance, then its rank."""
    found = {_VALUE_NAMES[name]: name for name in names if name in _VALUE_NAMES}
    wanted = ("score" if "score" in found else "distance", "rank")
    return {what: found[what] for what in wanted if what in found}


_FORMS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".trec": _read_trec,
    ".run": _read_trec,
    ".txt": _read_trec,
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".tsv": _read_csv,
}


def read_run(path: Path) -> pd.DataFrame:
    """Return the rows of a run file: query_id and image_id (categories), score (float64), which is the negative rank
    where the scores contradict the ranks of the file. Raises UserError for a file that is empty or cannot be read."""
    return read_run_and_order(path)[0]


def read_run_and_order(path: Path, *, by_scores: bool = False) -> tuple[pd.DataFrame, int]:
    """Return the rows as `read_run` does, and the number of queries whose scores rise along their ranks: if there are
    any, the ranks decide. `by_scores`: the scores decide, regardless of the ranks. Raises UserError."""
    with translate_read_errors(_STAGE, path, also=(EOFError, zlib.error)):
        if path.suffix.lower() == ".gz":
            return _read_gzipped(path, by_scores=by_scores)
        table = (_FORMS.get(path.suffix.lower()) or _recognise_form(path))(path)
    if not len(table):
        raise UserError(_STAGE, path, "contains no rows", "give a run with results")
    if by_scores:
        return table.drop(columns="rank", errors="ignore"), 0
    return _order_by_rank(table) if "rank" in table else (table, 0)


def _order_by_rank(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    query, rank = table["query_id"].cat.codes.to_numpy(), table.pop("rank").to_numpy()
    is_ordered = np.where(query[1:] == query[:-1], rank[1:] > rank[:-1], query[1:] > query[:-1]).all()
    order = slice(None) if is_ordered else np.lexsort((rank, query))
    queries, ranks, scores = query[order], rank[order], table["score"].to_numpy()[order]
    is_same = queries[1:] == queries[:-1]
    if (is_same & (ranks[1:] == ranks[:-1])).any():  # they order nothing: some tools write 0, or 1, everywhere
        return table, 0
    rises = is_same & (scores[1:] > scores[:-1])
    return (table.assign(score=-rank), len(np.unique(queries[1:][rises]))) if rises.any() else (table, 0)


def _recognise_form(path: Path) -> Callable[[Path], pd.DataFrame]:
    """Return the reader for the content of a file whose suffix states no format."""
    with open_regular(path) as file:
        head = file.read(4096)
    if head.startswith(b"PAR1"):
        return _read_parquet
    require_text(_STAGE, path, head)
    start = head.decode("utf-8-sig", "replace").lstrip()
    if start.startswith(("{", "[")):
        return _read_json
    first_row = re.split(r"[,\t]", start.splitlines()[0].replace('"', "")) if start else []
    return _read_csv if {*_QUERY_NAMES, *_IMAGE_NAMES} & set(first_row) else _read_trec


def _read_gzipped(path: Path, *, by_scores: bool) -> tuple[pd.DataFrame, int]:
    with tempfile.TemporaryDirectory() as folder, open_regular(path) as packed, gzip.open(packed) as file:
        plain = Path(folder, path.stem)
        with plain.open("wb") as out:
            while piece := file.read(1 << 20):
                out.write(piece)
                if out.tell() > MAX_DOCUMENT_BYTES:
                    raise OSError(errno.EFBIG, f"is larger than {MAX_DOCUMENT_BYTES >> 20} MB when unpacked")
        try:
            return read_run_and_order(plain, by_scores=by_scores)
        except UserError as error:  # which names the unpacked file
            item = error.item.replace(str(plain), str(path))
            next_step = error.next_step.replace(str(plain), str(path))
            raise UserError(error.stage, item, error.reason, next_step) from None
