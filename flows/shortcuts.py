"""How well a set is answered without a look at its images: a row per shortcut, with its interval and its test."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from backends.durable_files import write_atomically, write_page
from backends.file_errors import translate_write_errors
from backends.sets.set_files import StoredSet
from backends.spreadsheet_csv import write_csv
from builders.benchmark_set import canonical_json
from builders.shortcuts.shortcut_test import PERMUTATIONS, ShortcutResult, measure_shortcuts
from evaluation.statistics import estimate_interval
from review.shortcuts_page import render_shortcuts_page

PAGE_FILE = "shortcuts.html"
_LEADING = 10  # queries listed per shortcut


def find_shortcuts(stored: StoredSet) -> dict[str, pd.DataFrame]:
    """Returns `shortcuts` (system, queries, ndcg, low, high, random, deviations, p, beats_chance), the most deviations
    first, and `queries` (system, query_id, text, ndcg, random) of each system that beats chance."""
    results = sorted(measure_shortcuts(stored.tables), key=lambda one: (-one.deviations, one.name))
    texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    columns = ["system", "queries", "ndcg", "low", "high", "random", "deviations", "p", "beats_chance"]
    rows = pd.DataFrame([_summarize(one) for one in results], columns=columns)
    leading = [row for one in results if one.beats_chance for row in _list_queries(one, texts)]
    return {
        "shortcuts": rows,
        "queries": pd.DataFrame(leading, columns=["system", "query_id", "text", "ndcg", "random"]),
    }


def summarize_shortcuts(stored: StoredSet, tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Returns both tables, for JSON."""
    rows = {name: table.to_dict("records") for name, table in tables.items()}
    return {"schema_version": 1, "set": str(stored.path), "permutations": PERMUTATIONS, **rows}


def write_shortcuts(
    folder: Path, stored: StoredSet, tables: dict[str, pd.DataFrame], summary: dict[str, Any], language: str = "en"
) -> None:
    """Writes shortcuts.csv, queries.csv, shortcuts.json and the page shortcuts.html in a language of PAGE_TEXTS. Raises
    UserError."""
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table.columns, table.itertuples(index=False))
    with translate_write_errors("write shortcuts", folder):
        write_atomically(folder / "shortcuts.json", canonical_json(summary))
    page = render_shortcuts_page(stored.manifest, tables, language)
    write_page(folder / PAGE_FILE, page, "or give another folder with --to")


def _summarize(one: ShortcutResult) -> tuple[Any, ...]:
    interval = estimate_interval(one.values[:, None])
    value = float(one.values.mean())
    p = float(1 + np.count_nonzero(one.null >= value)) / (1 + len(one.null))
    ends = float(interval.low[0]), float(interval.high[0])
    figures = value, *ends, float(one.chance.mean()), one.deviations, p
    return one.name, len(one.values), *(round(figure, 6) for figure in figures), one.beats_chance


def _list_queries(one: ShortcutResult, texts: dict[str, str]) -> list[tuple[Any, ...]]:
    places = {name: place for place, name in enumerate(one.query_ids)}
    return [
        (one.name, name, texts[name], *(round(float(part[places[name]]), 6) for part in (one.values, one.chance)))
        for name in one.leading_queries(_LEADING)
    ]
