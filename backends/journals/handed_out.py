"""A stage's table as people were given it, kept beside its journal: what a filled-in one is compared with."""

from __future__ import annotations

from pathlib import Path

from backends.sets import review_csv
from backends.sets.review_csv import Filled
from builders.review_tables import Export


def kept_table(generated: Path, stage: str, export_id: str) -> Path:
    """Where it is kept, in the folder of a set's journals: <out>/<name>/generated."""
    return generated / stage / f"{export_id}.csv"


def as_handed_out(generated: Path, stage: str, filled: Filled) -> Export | None:
    """The table that people filled in, as it was; None where that stage of that set did not hand it out."""
    kept = kept_table(generated, stage, filled.export_id)
    if filled.set_name != f"{generated.parent.name}/v0" or not kept.exists():
        return None
    pristine = review_csv.read_csv(kept)
    return Export(pristine.export_id, pristine.set_name, pristine.view, pristine.rows.reset_index(drop=True))
