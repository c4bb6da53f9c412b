"""What an import found wrong with its source, told from the ledger of the set that it became."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

# By stage of the import and reason: the check's name, how grave it is for figures, what it says.
_DEFECTS = {
    ("judgments", "unknown_query"): (
        "unreachable_judgment",
        "warning",
        "judgments of the source name a query or picture that it does not have",
    ),
    ("judgments", "contradicting_judgment"): (
        "contradicting_judgment",
        "warning",
        "judgments of the source have another one of the same pair against them",
    ),
    ("imported_images", "same_bytes"): (
        "same_image_twice",
        "warning",
        "pictures of the source have another one's bytes: where they are kept apart, one counts as wrong",
    ),
    ("imported_images", "image_missing"): (
        "missing_image",
        "warning",
        "pictures that the source lists were not to be had",
    ),
    ("truth", "no_image_left"): ("lost_query", "warning", "queries of the source have lost all their right pictures"),
    ("queries", "empty_text"): ("empty_text", "warning", "queries of the source have no text"),
    ("queries", "doubled_query"): ("doubled_query", "warning", "queries of the source stand there twice under one id"),
}
_DEFECTS[("judgments", "unknown_image")] = _DEFECTS[("judgments", "unknown_query")]


def find_source_defects(ledger: pd.DataFrame) -> Iterator[tuple[str, str, str, list[str]]]:
    """Per kind of fault: its check's name, severity, what it says, and the items. A ledger that is no import's gives
    none: its stages have other names."""
    cases: dict[tuple[str, str, str], list[str]] = {}
    for (stage, reason), rows in ledger.groupby(["stage", "reason"], observed=True, sort=True):
        if defect := _DEFECTS.get((str(stage), str(reason))):
            cases.setdefault(defect, []).extend(rows["item"].astype(str))
    for (check, severity, says), items in cases.items():
        yield check, severity, says, items
