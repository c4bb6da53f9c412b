"""The collection as a stage of its own: searches, fetches and chooses images, and writes a table of every query's
outcome.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from builders.generated import generation_journal, generation_rounds, stages
from builders.generated.collection_steps import WebCollection, collect_images
from builders.generated.definition import GeneratedDefinition
from querytruth.backends.files.text_formats import write_csv
from querytruth.backends.steps import current_run, step
from querytruth.sets.ledger import Ledger, describe_rejection
from querytruth.sets.manifest_notes import Collection
from querytruth.sets.review_csv import ReviewTableOptions

COLLECT_COLUMNS = ("query_id", "text", "topic", "reported", "images", "outcome", "detail")


@dataclass(frozen=True, slots=True)
class CollectResult:
    """The result of the stage. `pending`: queries that a further run may complete; `fetches`: requests of this run."""

    file: Path
    command: str
    ledger: Ledger
    figures: Collection
    pending: int
    fetches: int


def run_collect_stage(
    definition: GeneratedDefinition, source: str, table_options: ReviewTableOptions = stages.DEFAULT_FILLING
) -> CollectResult:
    """Collect the images of the queries that people accepted in the second stage's table. `source` is the definition
    as the user named it, for the next command; `table_options` say how the table is read."""
    ledger = Ledger()
    chosen = stages.load_chosen_objects(definition, source, table_options, ledger)
    collection = collect_images(definition, chosen, ledger, connected=not current_run().offline)
    pending = sum(sum(stage.pending.values()) for stage in ledger.stages if stage.kind == "query")
    path = _write_collect_table(definition, chosen, collection, ledger)
    command = f"querytruth build generated {source}"
    return CollectResult(path, command, ledger, collection.figures, pending, collection.fetch_count)


@step("write table")
def _write_collect_table(
    definition: GeneratedDefinition, chosen: pd.DataFrame, collection: WebCollection, ledger: Ledger
) -> Path:
    """Write the table and its summary; both are the same whatever was stored before."""
    folder = generation_rounds.generation_folder(definition)
    write_csv(folder / "collect.csv", COLLECT_COLUMNS, _rows(chosen, collection, ledger))
    summary = {
        "stage": "collect",
        **collection.provenance.as_dict(),
        "funnel": ledger.funnel(),
        "figures": collection.figures,
    }
    generation_journal.write_summary(folder / "collect.json", summary)
    return folder / "collect.csv"


def _rows(chosen: pd.DataFrame, collection: WebCollection, ledger: Ledger) -> Iterator[tuple[object, ...]]:
    """Yield the queries by topic, as in the table that people filled in."""
    rows = ledger.rows()
    query_rejections = rows[rows["kind"] == "query"].drop_duplicates("item", keep="last").set_index("item")
    queries = collection.search_results.queries
    reported = dict(zip(queries["query_id"], queries["reported"].astype(object), strict=True))
    images = collection.collected.relevant_results["query_id"].value_counts().to_dict()
    for query in chosen.itertuples(index=False):
        count = reported[query.query_id]
        rejection = query_rejections.loc[query.query_id] if query.query_id in query_rejections.index else None
        outcome, detail = "kept", ""
        if rejection is not None:
            outcome, detail = rejection["reason"], ", ".join(describe_rejection(rejection))
        known = None if pd.isna(count) else count
        yield query.query_id, query.text, query.topic, known, images.get(query.query_id, 0), outcome, detail
