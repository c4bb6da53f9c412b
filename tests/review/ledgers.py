"""Small ledgers for the tests of what shows them."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from querytruth.records import LEDGER_SCHEMA

LedgerRow = tuple[str, str, str, str, str, dict[str, Any]]  # item, kind, stage, bucket, reason, further columns


def make_ledger(rows: Sequence[LedgerRow]) -> pd.DataFrame:
    """The ledger's table of these rows."""
    names = ("item", "kind", "stage", "bucket", "reason")
    frame = pd.DataFrame([dict(zip(names, row[:5], strict=True)) | row[5] for row in rows], dtype=object)
    return frame.reindex(columns=LEDGER_SCHEMA.names).astype(dict.fromkeys(names[1:], "category"))
