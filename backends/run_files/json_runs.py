"""Runs as JSON: {query: {image: score}}, as pytrec_eval and ranx write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from backends.run_files.run_table_builder import RunTableBuilder
from backends.run_files.trec_files import RUN_FILE_STAGE
from builders.errors import UserError


def read_json_run(path: Path) -> pd.DataFrame:
    """query_id, image_id, score. A query or image that is named twice is refused: JSON would silently drop one."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=list)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(RUN_FILE_STAGE, path, f"is no JSON ({error})", "write it again") from None
    rows = RunTableBuilder()
    for query, images in _pairs(path, "file", whole):
        for image, score in _pairs(path, query, images):
            if isinstance(score, bool) or not isinstance(score, (int, float)):
                raise UserError(
                    RUN_FILE_STAGE, path, f"query {query}, image {image}: the score is no number", "fix the entry"
                )
            try:
                rows.add(query, image, float(score))
            except OverflowError:
                raise UserError(
                    RUN_FILE_STAGE, path, f"query {query}, image {image}: too large a score", "fix it"
                ) from None
    return rows.build_table("score")


def _pairs(path: Path, name: str, value: Any) -> list[tuple[str, Any]]:
    """The entries of what was an object."""
    if not isinstance(value, list) or not all(isinstance(pair, tuple) for pair in value):
        raise UserError(RUN_FILE_STAGE, path, f"{name} is no object", "write {query: {image: score}}")
    seen: set[str] = set()
    for key, _ in value:
        if key in seen:
            raise UserError(RUN_FILE_STAGE, path, f"{name} holds {key!r} twice", "keep one of them")
        seen.add(key)
    return value
