"""A stage's exported tables, stored beside its journal: a filled-in table is compared with its original."""

from dataclasses import replace
from pathlib import Path

from backends.sets.review_csv import read_review_csv
from builders.decisions.review_tables import ReviewExport


def exported_table_path(generated: Path, stage: str, export_id: str) -> Path:
    """Returns the path of an exported table; `generated` is <out>/<name>/generated, the folder of a set's journals."""
    return generated / stage / f"{export_id}.csv"


def read_exported_table(generated: Path, stage: str, filled: ReviewExport) -> ReviewExport | None:
    """Returns the original of a filled-in table; None where that stage of that set did not export it."""
    path = exported_table_path(generated, stage, filled.export_id)
    if filled.set_name != f"{generated.parent.name}/v0" or not path.exists():
        return None
    original = read_review_csv(path)
    return replace(original, rows=original.rows.reset_index(drop=True))
