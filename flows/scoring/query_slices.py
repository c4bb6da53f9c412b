"""Slices of a set's queries that a user names: aspect=value."""

from collections.abc import Iterable

import pandas as pd

from builders.array_types import BoolArray
from builders.errors import UserError, suggest_choice
from evaluation.run_evaluation import find_query_aspects
from flows.scoring.judged_sets import JudgedSet


def parse_slices(slices: Iterable[str], stage: str) -> list[tuple[str, str]]:
    """Returns aspect and value of texts like language=zh. Raises UserError."""
    parts = [text.partition("=") for text in slices]
    if wrong := [text for text, equals, value in parts if not equals or not value]:
        raise UserError(stage, f"--slice {wrong[0]}", "is no aspect=value", "write it like language=zh")
    return [(aspect, value) for aspect, _, value in parts]


def is_in_slice(queries: pd.DataFrame | None, query_ids: pd.Index, aspect: str, value: str, stage: str) -> BoolArray:
    """Returns whether each query belongs to the slice. Raises UserError for an unknown aspect and an empty slice."""
    aspects, name = find_query_aspects(queries, query_ids), f"{aspect}={value}" if value else aspect
    if aspect not in aspects:
        next_step = suggest_choice(aspect, list(aspects)) if aspects else f"{stage} on a set: judgments have no texts"
        if aspect == "overlap" and aspects:
            next_step = "run `querytruth overlap` on this version of the set first"
        raise UserError(stage, name, "is no slice of this set", next_step)
    values = aspects[aspect].explode().dropna().astype(str)
    rows: BoolArray = query_ids.isin(values.index[(values == value).to_numpy()])
    if not rows.any():
        known = sorted(values.unique())[:20]
        raise UserError(stage, name, "has no judged query", f"choose from {', '.join(known) or 'none'}")
    return rows


def select_slices(slices: pd.DataFrame, wanted: Iterable[str]) -> pd.DataFrame:
    """Returns the rows of a result's slices that are named by aspect, or by aspect=value, in that order."""
    parts = [text.partition("=") for text in wanted]
    found = [
        slices[(slices["slice"] == aspect) & (slices["value"].isin([value]) | (value == ""))]
        for aspect, _, value in parts
    ]
    return pd.concat(found, ignore_index=True)


def check_slices(judged: JudgedSet, wanted: Iterable[str], stage: str) -> None:
    """Raises UserError for an aspect, or aspect=value, that no query of the set has."""
    for text in wanted:
        query_ids = pd.Index([] if judged.queries is None else judged.queries["query_id"])
        aspect, _, value = text.partition("=")
        known = find_query_aspects(judged.queries, query_ids).get(aspect, pd.Series(dtype="str"))
        first = value or next(iter(known.explode().dropna().astype(str)), "")
        is_in_slice(judged.queries, query_ids, aspect, first, stage)
