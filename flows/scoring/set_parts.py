"""Parts of a set for an evaluation: its queries of one language, level, style, topic or family, and all its images."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from builders.errors import UserError, suggest_choice
from evaluation.evaluation_result import describe_part
from flows.scoring.judged_sets import JudgedSet

PART_COLUMNS = ("language", "level", "style", "topic", "family")
_STAGE = "choose part"


def select_part(judged: JudgedSet, part: Mapping[str, str | int]) -> JudgedSet:
    """Returns the set with only those queries that have all the values, by column; the gallery stays whole. A family is
    given alone ("count") or with its kind ("count/2"). The description of the set states the part. Raises
    UserError for an unknown column or value, for bare judgments, and where no query has all the values."""
    if not part:
        return judged
    stored = judged.stored
    if stored is None:
        raise UserError(_STAGE, describe_part(part), "needs a set: bare judgments name no values", "name a set")
    queries = stored.tables.queries
    in_part = pd.Series(True, index=queries.index)
    for column, value in part.items():
        in_part &= _has_value(queries, column, str(value))
    if not in_part.any():
        name = f"{judged.description['name']}/v{judged.description['version']}"
        raise UserError(_STAGE, describe_part(part), f"is no query of {name}", "give fewer values")
    inside = queries[in_part].reset_index(drop=True)
    qrels = stored.tables.qrels[stored.tables.qrels["query_id"].isin(inside["query_id"])].reset_index(drop=True)
    tables = replace(stored.tables, queries=inside, qrels=qrels)
    title = f"{judged.description['title'] or judged.description['name']} ({describe_part(part)})"
    return replace(
        judged,
        description={**judged.description, "title": title, "part": {key: str(value) for key, value in part.items()}},
        qrels=qrels,
        stored=replace(stored, tables=tables),
        outside_queries=frozenset(queries.loc[~in_part, "query_id"]),
    )


def _has_value(queries: pd.DataFrame, column: str, value: str) -> "pd.Series[bool]":
    if column not in PART_COLUMNS:
        raise UserError(_STAGE, column, "is no column to choose by", suggest_choice(column, list(PART_COLUMNS)))
    values = queries[column].dropna() if column in queries else pd.Series(dtype="str")
    names = values.astype("str")
    families = names.str.split("/").str[0] if column == "family" else names
    found = (names == value) | (families == value)
    if not found.any():
        choices = sorted({*names, *families})
        next_step = suggest_choice(value, choices) if choices else f"leave {column} out"
        raise UserError(_STAGE, f"{column}={value}", "is the value of no query", next_step)
    return found.reindex(queries.index, fill_value=False)
