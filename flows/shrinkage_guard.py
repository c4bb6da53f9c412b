"""Stops a build that would lose more of the last version than it may: a person looks first."""

from __future__ import annotations

import pandas as pd

from backends.sets import set_files
from builders.benchmark_set import Tables, content_digest
from builders.errors import UserError
from flows.definitions import SetDefinition


class ShrinkageError(UserError):
    """The build is done and not published. `digest`: of the content that waits for a person's word."""

    digest = ""


def check_shrinkage(definition: SetDefinition, tables: Tables) -> None:
    """Raise LosesTooMuch where a larger share of the newest version's queries is gone than `lose_at_most`."""
    folder = definition.out / definition.name
    newest = set_files.newest_version(folder)
    if newest is None or definition.lose_at_most is None:
        return
    before = set_files.read_set(folder / f"v{newest}", ("queries", "images")).tables
    kind, old, new = "queries", before.queries["query_id"], tables.queries["query_id"]
    if old.empty:
        kind, old, new = "pictures", before.images["image_id"], tables.images["image_id"]
    removed_count = _count_removed(old, new)
    if removed_count <= definition.lose_at_most * len(old):
        return
    share = f"{removed_count:,} of its {len(old):,} {kind} ({removed_count / len(old):.0%})"
    allowed = f"{definition.lose_at_most:.0%}"
    error = ShrinkageError(
        "publish",
        f"{definition.name}/v{newest}",
        f"would lose {share}, more than lose_at_most ({allowed}) allows; nothing was published",
        "see whether the inputs are whole, or publish all the same with --set lose_at_most=1",
    )
    error.digest = content_digest(tables.to_arrow_tables())
    raise error


def _count_removed(old: pd.Series, new: pd.Series) -> int:
    return len(set(old.astype(str)) - set(new.astype(str)))
