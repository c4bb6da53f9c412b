"""A stage's table as people were given it, kept beside its journal: what a filled-in one is compared with."""

from __future__ import annotations

from pathlib import Path

from backends.sets import review_csv
from backends.sets.review_csv import FilledExport
from builders.decisions.review_tables import ReviewExport


def exported_table_path(generated: Path, stage: str, export_id: str) -> Path:
    """Where it is kept, in the folder of a set's journals: <out>/<name>/generated."""
    return generated / stage / f"{export_id}.csv"


def read_exported_table(generated: Path, stage: str, filled: FilledExport) -> ReviewExport | None:
    """The table that people filled in, as it was; None where that stage of that set did not hand it out."""
    path = exported_table_path(generated, stage, filled.export_id)
    if filled.set_name != f"{generated.parent.name}/v0" or not path.exists():
        return None
    original = review_csv.read_review_csv(path)
    return ReviewExport(original.export_id, original.set_name, original.view, original.rows.reset_index(drop=True))
