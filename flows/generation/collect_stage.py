"""The collection on its own: asked, fetched and settled, with a table of what became of every query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from backends.journals.stage_summary import write_summary
from backends.journals.stage_table import write_table
from builders.ledger import Ledger
from flows.definitions.generated import GeneratedDefinition
from flows.generation.generation_rounds import folder_of
from flows.generation.pool_review import Filling
from flows.steps import current, step
from flows.topics_and_objects import AS_HANDED_OUT, chosen_objects
from flows.web_collection import Collection, collect_pictures

COLUMNS = ("query_id", "text", "topic", "reported", "pictures", "outcome", "detail")


@dataclass(frozen=True, slots=True)
class CollectResult:
    """What the stage came to. `pending`: queries of which the next run may know more; `fetches`: made now."""

    file: Path
    command: str
    ledger: Ledger
    figures: dict[str, Any]
    pending: int
    fetches: int


def collect_stage(definition: GeneratedDefinition, source: str, filling: Filling = AS_HANDED_OUT) -> CollectResult:
    """Collect the pictures of the queries that people kept in the second stage's table. `source`: the definition as the
    person named it, for the next command; `filling`: how their table is read."""
    ledger = Ledger()
    chosen = chosen_objects(definition, source, filling, ledger)
    collection = collect_pictures(definition, chosen, ledger, connected=not current().offline)
    pending = sum(sum(stage.pending.values()) for stage in ledger.stages if stage.kind == "query")
    path = _hand_out(definition, chosen, collection, ledger)
    command = f"querytruth build generated {source}"
    return CollectResult(path, command, ledger, collection.figures, pending, collection.fetches)


@step("write table")
def _hand_out(definition: GeneratedDefinition, chosen: pd.DataFrame, collection: Collection, ledger: Ledger) -> Path:
    """Table and summary; the same whatever was known before."""
    folder = folder_of(definition)
    write_table(folder / "collect.csv", COLUMNS, _rows(chosen, collection, ledger))
    summary = {
        "stage": "collect",
        "models": collection.models,
        "inputs": collection.inputs,
        "funnel": ledger.funnel(),
        "figures": collection.figures,
    }
    write_summary(folder / "collect.json", summary)
    return folder / "collect.csv"


def _rows(chosen: pd.DataFrame, collection: Collection, ledger: Ledger) -> Iterator[tuple[object, ...]]:
    """Queries by topic, as in the table that people filled in."""
    rows = ledger.rows()
    away = rows[rows["kind"] == "query"].drop_duplicates("item", keep="last").set_index("item")
    queries = collection.searched.queries
    reported = dict(zip(queries["query_id"], queries["reported"].astype(object), strict=True))
    pictures = collection.collected.kept["query_id"].value_counts().to_dict()
    for query in chosen.itertuples(index=False):
        count = reported[query.query_id]
        told = away.loc[query.query_id] if query.query_id in away.index else None
        outcome, detail = ("kept", "") if told is None else (told["reason"], told["detail"])
        known = None if pd.isna(count) else count
        yield query.query_id, query.text, query.topic, known, pictures.get(query.query_id, 0), outcome, detail
