"""What a set says that a format has no place for: counted, named, and lost only if that was allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from backends.sets.set_files import StoredSet
from builders.errors import UserError

GRADED_RELEVANCE = "grades"
JUDGED_ZEROS = "judged zeros"
SEVERAL_RELEVANT_IMAGES = "many pictures a query"
NO_RELEVANT_IMAGE = "queries without a right picture"
WHITESPACE_IN_TEXTS = "tabs and line ends in texts"
_ROWS = 10_000


def describe_losses(stored: StoredSet, *kinds: str) -> list[str]:
    """Of these kinds what the set really has, in words with numbers; nothing where it has none of it."""
    descriptions = {kind: _DESCRIBERS[kind](stored.tables.queries, stored.tables.qrels) for kind in kinds}
    return [text for text in descriptions.values() if text]


def reject_losses(stored: StoredSet, name: str, lost: list[str], allow_loss: bool) -> None:
    """Stop an export that would change what the figures mean, unless that is wanted."""
    if lost and not allow_loss:
        reason = f"has what {name} cannot hold: {'; '.join(lost)}"
        raise UserError("export", stored.path, reason, "say --allow-loss to lose that, or choose beir, mteb or trec")


def relevant_pairs(stored: StoredSet) -> pd.DataFrame:
    """The pairs of relevance over 0 as plain text columns query_id, image_id, sorted; none that names what is not
    in the set."""
    tables = stored.tables
    qrels = tables.qrels[
        tables.qrels["query_id"].isin(tables.queries["query_id"])
        & tables.qrels["image_id"].isin(tables.images["image_id"])
    ]
    pairs = qrels.loc[qrels["relevance"] > 0, ["query_id", "image_id"]].astype("str")
    return pairs.sort_values(["query_id", "image_id"], ignore_index=True)


def iterate_rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows as plain values by column, a part of the table at a time."""
    for start in range(0, len(frame), _ROWS):
        for record in frame.iloc[start : start + _ROWS].to_dict("records"):
            yield {str(name): value for name, value in record.items()}


def _grades(_queries: pd.DataFrame, qrels: pd.DataFrame) -> str:
    counts = qrels.loc[qrels["relevance"] > 0, "relevance"].value_counts().sort_index()
    if len(counts) < 2:
        return ""
    shown = ", ".join(f"{number:,} of grade {grade}" for grade, number in counts.items())
    return f"grades ({shown}; all of them count as right)"


def _zeros(_queries: pd.DataFrame, qrels: pd.DataFrame) -> str:
    number = int((qrels["relevance"] == 0).sum())
    return f"{number:,} pictures judged not relevant (they look unjudged)" if number else ""


def _many(_queries: pd.DataFrame, qrels: pd.DataFrame) -> str:
    sizes = qrels.loc[qrels["relevance"] > 0, "query_id"].value_counts()
    number = int((sizes > 1).sum())
    split = int(sizes[sizes > 1].sum())
    if not number:
        return ""
    return f"{number:,} queries with several right pictures (split into {split:,}, each with one of them)"


def _empty(queries: pd.DataFrame, qrels: pd.DataFrame) -> str:
    answered = qrels.loc[qrels["relevance"] > 0, "query_id"].unique()
    number = int((~queries["query_id"].isin(set(answered))).sum())
    return f"{number:,} queries without a right picture (left out)" if number else ""


def _lines(queries: pd.DataFrame, _qrels: pd.DataFrame) -> str:
    number = int((queries["text"] != queries["text"].map(collapse_whitespace)).sum())
    return f"the tabs, line ends and double blanks of {number:,} texts" if number else ""


def collapse_whitespace(text: str) -> str:
    """The text with single blanks for whatever white space it holds: a line of a file."""
    return " ".join(text.split())


_DESCRIBERS = {
    GRADED_RELEVANCE: _grades,
    JUDGED_ZEROS: _zeros,
    SEVERAL_RELEVANT_IMAGES: _many,
    NO_RELEVANT_IMAGE: _empty,
    WHITESPACE_IN_TEXTS: _lines,
}
