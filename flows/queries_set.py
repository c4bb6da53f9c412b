"""The set of own queries: what people typed into a search, on the images that are searched.

gallery ─► lines of the log ─► questions ─► draw ─► people's decisions ─► set v<N>, whose judgments are still to come
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from builders.publication import BuiltTables
from builders.queries import steps
from builders.queries.definition import QueriesDefinition
from builders.queries.search_log import list_aliases
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.recall_set import load_image_gallery, plan_images
from flows.requests import QueriesBuild
from flows.set_kind import SetKind
from querytruth.records import empty_frame
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import Provenance

QUERIES_GRADES = {"1": "a person judged it relevant", "0": "a person judged it not relevant"}
QUERIES_LIMITATIONS = [
    "The language of a query follows from its letters, unless the log names it: Latin letters count as English.",
    "Misspelt queries remain separate queries.",
]
_BYTES_A_PIXEL = 0.2


def build_queries_tables(definition: QueriesDefinition) -> BuiltTables:
    """Return the set before it is published: tables, ledger and provenance. It has no judgments."""
    gallery = load_image_gallery(definition)
    questions, ids, log = steps.read_log(definition, gallery.ledger)
    queries = steps.draw_sample(questions, definition, gallery.ledger)
    strata = steps.summarize_strata(questions, queries)
    return replace(
        gallery,
        tables=replace(
            gallery.tables, queries=queries, qrels=empty_frame("qrels"), query_aliases=list_aliases(ids, queries)
        ),
        grades=QUERIES_GRADES,
        provenance=gallery.provenance + Provenance(inputs=[log]),
        notes={**gallery.notes, "log": {"file": definition.queries.name, "strata": strata}},
        known_limitations=[*gallery.known_limitations, *QUERIES_LIMITATIONS],
    )


def plan_queries(definition: QueriesDefinition) -> dict[str, Any]:
    """Return the funnel of the log and what would be drawn; nothing is rendered or written."""
    ledger = Ledger()
    questions, _, _ = steps.read_log(definition, ledger)
    drawn = steps.draw_sample(questions, definition, ledger)
    images, _ = plan_images(definition, ledger)
    pixels = definition.render.size**2 if definition.render else 0
    return {
        "funnel": ledger.funnel(),
        "queries": len(drawn),
        "strata": steps.summarize_strata(questions, drawn),
        "images": len(images),
        "model_calls": 0,
        "bytes_about": int(len(images) * pixels * _BYTES_A_PIXEL),
    }


QUERIES_SET = SetKind(
    name="queries",
    summary="Read a search log, sample queries by frequency, and publish them with the images that are searched; if "
    "people are to be asked, wait for their judgments and publish those.",
    build_tables=build_queries_tables,
    plan=plan_queries,
    parameters=QueriesBuild,
)

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__ = make_flow_getattr(QUERIES_SET)

if __name__ == "__main__":
    run_flow_script(QUERIES_SET)
