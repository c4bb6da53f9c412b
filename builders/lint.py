"""What is doubtful about a set, found before anybody publishes figures on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from builders.benchmark_set import Tables

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of fault, how often it occurs, and its first cases. An error makes figures wrong, a warning may,
    a note is worth knowing."""

    check: str
    severity: str
    count: int
    says: str
    examples: tuple[str, ...]


def lint(tables: Tables) -> list[Finding]:
    """All findings, the gravest first; an empty list is a clean set."""
    found = [*_dangling(tables), *_duplicate_pictures(tables)]
    if len(tables.queries):  # a gallery has none: nothing there is asked, or out of reach
        found += [_empty_truth(tables), _repeated_texts(tables), _shared_truth(tables)]
        found += [_unreachable(tables), _leaking_names(tables)]
    kept = [finding for finding in found if finding is not None]
    return sorted(kept, key=lambda finding: (SEVERITIES.index(finding.severity), finding.check))


def _finding(check: str, severity: str, says: str, cases: Any) -> Finding | None:
    listed = [str(case) for case in cases]
    return Finding(check, severity, len(listed), says, tuple(sorted(listed)[:5])) if listed else None


def _dangling(tables: Tables) -> list[Finding | None]:
    out = []
    for column, table in (("query_id", tables.queries), ("image_id", tables.images)):
        named = tables.qrels[column].cat.remove_unused_categories().cat.categories
        out.append(
            _finding(
                f"dangling_{column}",
                "error",
                f"judgments name a {column} that the set does not have",
                set(named) - set(table[column]),
            )
        )
    return out


def _empty_truth(tables: Tables) -> Finding | None:
    answered = set(tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].unique())
    cases = [query for query in tables.queries["query_id"] if query not in answered]
    return _finding("empty_truth", "error", "queries have no relevant picture", cases)


def _repeated_texts(tables: Tables) -> Finding | None:
    queries = tables.queries
    key = queries["language"] + "\x00" + queries["text"].str.casefold().str.strip()
    twice = queries[key.duplicated(keep=False)]
    return _finding(
        "repeated_text",
        "warning",
        "queries read the same as another one",
        twice["query_id"] + " " + twice["text"],
    )


def _duplicate_pictures(tables: Tables) -> list[Finding | None]:
    images = tables.images
    digests = images["sha256"].dropna()
    same = images.loc[digests[digests.duplicated(keep=False)].index, "image_id"]
    group = images.set_index("image_id")["duplicate_group"].dropna()
    cases = []
    if len(group):
        positive = tables.qrels[tables.qrels["relevance"] > 0]
        pairs = pd.DataFrame(
            {"query": positive["query_id"].astype(str), "group": positive["image_id"].astype(str).map(group)}
        ).dropna()
        held = pairs.value_counts()
        sizes = group.value_counts()
        cases = [f"{query} ({group})" for (query, group), count in held.items() if count < sizes[group]]
    return [
        _finding("same_bytes", "error", "pictures have the same bytes under two ids", same),
        _finding(
            "twin_not_in_truth",
            "warning",
            "queries have a picture in their truth, but not its near-duplicate",
            cases,
        ),
    ]


def _shared_truth(tables: Tables) -> Finding | None:
    """Queries that ask for different things and have the very same pictures: one of them may be too broad."""
    positive = tables.qrels[tables.qrels["relevance"] > 0]
    codes = positive["image_id"].cat.codes.to_numpy().astype(np.uint64)
    mixed = (codes + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    query = positive["query_id"].cat.codes.to_numpy()
    sums = np.zeros(len(positive["query_id"].cat.categories), dtype=np.uint64)
    np.add.at(sums, query, mixed)  # a sum of scrambled codes: the same for the same set, whatever the order
    by_query = dict(zip(positive["query_id"].cat.categories, sums, strict=True))
    asked: dict[Any, dict[str, str]] = {}
    for row in tables.queries.itertuples():
        if by_query.get(row.query_id):
            what = "&".join(sorted(row.labels)) if row.labels is not None else str(row.text)
            asked.setdefault(by_query[row.query_id], {}).setdefault(what, str(row.query_id))
    cases = [" = ".join(sorted(texts)) for texts in asked.values() if len(texts) > 1]
    return _finding("shared_truth", "note", "groups of different queries have exactly the same truth", cases)


def _unreachable(tables: Tables) -> Finding | None:
    positive = tables.qrels.loc[tables.qrels["relevance"] > 0, "image_id"].cat.remove_unused_categories().cat.categories
    cases = tables.images.loc[~tables.images["image_id"].isin(positive), "image_id"]
    return _finding("unreachable_image", "note", "pictures are right for no query (they only distract)", cases)


def _leaking_names(tables: Tables) -> Finding | None:
    """File names that hold a query's words: a system that reads names would score for free."""
    words: dict[str, str] = {}
    for row in tables.queries.itertuples():
        for name in [str(row.text), *(row.labels if row.labels is not None and len(row.labels) == 1 else [])]:
            if len(name.strip()) > 2 or any(ord(character) > 0x2E80 for character in name):
                words.setdefault(name.strip().casefold(), str(row.text))
    if not words:
        return None
    names = tables.images["file_name"].fillna("")
    spaced = names.str.casefold().str.replace(r"[\W_\d]+", " ", regex=True)
    pattern = "|".join(
        re.escape(word) if any(ord(c) > 0x2E80 for c in word) else rf"\b{re.escape(word)}s?\b"
        for word in sorted(words, key=len, reverse=True)
    )
    return _finding(
        "text_in_file_name",
        "warning",
        "pictures bear a query's words in their file name",
        names[spaced.str.contains(pattern, regex=True)],
    )
