"""Which queries of a set are leaked to another collection, as <set>/overlap/v<N> has it."""

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


def classify_queries(
    queries: pd.DataFrame, qrels: pd.DataFrame, image_ids: set[str], query_ids: set[str]
) -> pd.DataFrame:
    """Returns query_id, overlap (`leaked` or `clean`), by_image and by_text, in the order of the queries. `image_ids`
    and `query_ids` are those that have a pair."""
    import pandas as pd

    relevant = qrels[(qrels["relevance"] > 0) & qrels["image_id"].astype(str).isin(image_ids)]
    by_image = queries["query_id"].isin(set(relevant["query_id"].astype(str)))
    by_text = queries["query_id"].isin(query_ids)
    overlap = (by_image | by_text).map({True: "leaked", False: "clean"})
    return pd.DataFrame(
        {"query_id": queries["query_id"], "overlap": overlap, "by_image": by_image, "by_text": by_text}
    ).reset_index(drop=True)


class _OverlapRecord(msgspec.Struct):
    content_digest: str
    leaked_queries: list[str]
    against: list[str] = []


def overlap_folder(version: Path) -> Path:
    """Returns the folder of the result for a version; it may be missing. Raises UserError where it is a link."""
    return contained_path(version.parent, f"{_FOLDER}/{version.name}", _STAGE)


def read_overlap(version: Path, content_digest: str, query_ids: pd.Series) -> pd.Series | None:
    """Returns `leaked` or `clean` by query id; None where nothing was compared, or another content. Raises UserError
    for a damaged file."""
    import pandas as pd

    record = _read_record(version, content_digest)
    if record is None:
        return None
    ids = query_ids.astype(str)
    return ids.isin(record.leaked_queries).map({True: "leaked", False: "clean"}).set_axis(pd.Index(ids))


def describe_overlap(version: Path, content_digest: str) -> list[str]:
    """Returns the warning that queries of the version are leaked, for where a set is shown; empty where none is. Raises
    UserError for a damaged file."""
    record = _read_record(version, content_digest)
    if record is None or not record.leaked_queries:
        return []
    count = len(record.leaked_queries)
    others = f" ({', '.join(Path(one).name for one in record.against)})" if record.against else ""
    seen = f"{count:,} {'query is' if count == 1 else 'queries are'} leaked: another collection{others} has the same"
    return [f"{seen} image or text. `evaluate --slice overlap` tells how systems do on the others."]


def _read_record(version: Path, content_digest: str) -> _OverlapRecord | None:
    """Returns the result for this content, or None. Raises UserError for a damaged file."""
    file = contained_path(version.parent, f"{_FOLDER}/{version.name}/{OVERLAP_FILE}", _STAGE)
    if not file.is_file():
        return None
    try:
        with translate_read_errors(_STAGE, file):
            record = msgspec.convert(parse_bounded_json(read_regular(file)), _OverlapRecord)
    except ValueError:  # also what msgspec raises
        raise UserError(_STAGE, file, "is damaged", "run `querytruth overlap` again, or delete it") from None
    return record if record.content_digest == content_digest else None
