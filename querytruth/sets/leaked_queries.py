"""The queries of a set that are leaked to another collection, from <set>/overlap/v<N>."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from querytruth.backends.files.safe_paths import contained_path, read_regular
from querytruth.backends.files.text_formats import parse_bounded_json
from querytruth.errors import UserError, translate_read_errors

if TYPE_CHECKING:
    import pandas as pd

OVERLAP_FILE = "overlap.json"
_FOLDER, _STAGE = "overlap", "read overlap"
_HALF = 0.5  # of the relevant images: from there on what a system knows decides the query


def classify_queries(
    queries: pd.DataFrame, qrels: pd.DataFrame, image_ids: set[str], query_ids: set[str], unseen: set[str]
) -> pd.DataFrame:
    """Return query_id, overlap, images_shared (a share of the relevant ones) and by_text, in the order of the queries.
    `image_ids` and `query_ids` are those in a pair; `unseen`: images whose pairs cannot be found.

    A query is `leaked` by its text or by half of its relevant images, `partly_leaked` by fewer, `unknown` where none is
    found and half of them are unseen, else `clean`."""
    import pandas as pd

    relevant = qrels[qrels["relevance"] > 0].astype({"query_id": str, "image_id": str})
    shares = {
        name: relevant["image_id"].isin(ids).groupby(relevant["query_id"]).mean().reindex(queries["query_id"]).fillna(0)
        for name, ids in (("shared", image_ids), ("unseen", unseen))
    }
    shared, by_text = shares["shared"].to_numpy(), queries["query_id"].isin(query_ids).to_numpy()
    overlap = pd.Series("clean", range(len(queries)), dtype="str")
    overlap[shares["unseen"].to_numpy() >= _HALF] = "unknown"
    overlap[shared > 0] = "partly_leaked"
    overlap[by_text | (shared >= _HALF)] = "leaked"
    names = queries["query_id"].reset_index(drop=True)
    return pd.DataFrame({"query_id": names, "overlap": overlap, "images_shared": shared.round(3), "by_text": by_text})


class _OverlapRecord(msgspec.Struct):
    content_digest: str
    queries_by_overlap: dict[str, list[str]]
    against: list[str] = []


def overlap_folder(version: Path) -> Path:
    """Return the folder of the result for a version; it may be missing. Raises UserError where it is a link."""
    return contained_path(version.parent, f"{_FOLDER}/{version.name}", _STAGE)


def read_overlap(version: Path, content_digest: str, query_ids: pd.Series) -> pd.Series | None:
    """Return the overlap by query id (as `classify_queries` has it); None where nothing was compared, or another
    content. Raises UserError for a damaged file."""
    import pandas as pd

    record = _read_record(version, content_digest)
    if record is None:
        return None
    known = {query: status for status, queries in record.queries_by_overlap.items() for query in queries}
    ids = query_ids.astype(str)
    return ids.map(known).fillna("clean").set_axis(pd.Index(ids))


def describe_overlap(version: Path, content_digest: str) -> list[str]:
    """Return the warning that queries of the version are leaked, for where a set is shown; empty where none is. Raises
    UserError for a damaged file."""
    record = _read_record(version, content_digest)
    if record is None or not (count := len(record.queries_by_overlap.get("leaked", ()))):
        return []
    others = f" ({', '.join(Path(one).name for one in record.against)})" if record.against else ""
    seen = f"{count:,} {'query is' if count == 1 else 'queries are'} leaked: another collection{others} has the same"
    return [f"{seen} image or text. `evaluate --slice overlap` shows the figures of the other queries."]


def _read_record(version: Path, content_digest: str) -> _OverlapRecord | None:
    """Return the result for this content, or None. Raises UserError for a damaged file."""
    file = contained_path(version.parent, f"{_FOLDER}/{version.name}/{OVERLAP_FILE}", _STAGE)
    if not file.is_file():
        return None
    try:
        with translate_read_errors(_STAGE, file):
            record = msgspec.convert(parse_bounded_json(read_regular(file)), _OverlapRecord)
    except ValueError:  # also what msgspec raises
        raise UserError(_STAGE, file, "is damaged", "run `querytruth overlap` again, or delete it") from None
    return record if record.content_digest == content_digest else None
