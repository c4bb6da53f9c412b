"""The generated set: topics and objects that people chose, and images of them from the web.

replies ─► topics ─► objects ─► people's choice ─► images from the web ─► render ─► judge ─► set v<N>
"""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from builders.generated import collection_steps, image_collection, result_screening, steps
from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import count_choices, load_chosen_objects, load_stage_summary, record_stage
from builders.judged_pairs import judge_candidates
from builders.publication import BuildResult, BuiltTables, publish_built
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.requests import GeneratedBuild
from flows.set_kind import SetKind
from querytruth.backends.steps import current_run
from querytruth.questions import open_chat_session
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import Input, Provenance
from querytruth.sets.manifest_notes import Notes

STAGES = ("topics", "objects")
# For plans: seconds and bytes of a search and of an image, measured on two cores (docs/performance.md) and on Baidu's
# results; hosts that ask for long intervals take longer.
_ANSWER_SECONDS, _IMAGES_PER_SECOND, _BYTES_A_IMAGE, _BYTES_A_PIXEL = 0.5, 30, 150_000, 0.2
_STAGE_NOTE_KEYS = ("rows", "stops", "tokens", "health", "course")
JUDGED_GRADES = {"1": "the image search found it for the query, and a judge or a person confirmed that it fits"}
UNSEEN_LIMITATION = (
    "Relevant images are the first results of the image search; nobody checked them, and some show something else."
)
GENERATED_LIMITATIONS = [
    "Images of other queries may show the same thing: those pairs are unjudged and count as wrong.",
    "Near-duplicates are found by views of whole images: not small crops and, unless requested, not rotated images.",
]


def build_generated_tables(definition: GeneratedDefinition, *, connected: bool = False) -> BuiltTables:
    """Return the set before it is published, from the pages stored beside it. `connected`: the web is searched if the
    stored pages do not decide every query. Raises UserError if no query has enough images."""
    ledger = Ledger()
    summaries: dict[str, Any] = {}
    for stage in STAGES:
        summaries[stage] = load_stage_summary(definition, stage, steps.DEFINITION_PLACEHOLDER)
        record_stage(definition, stage, steps.DEFINITION_PLACEHOLDER, ledger)
    chosen = load_chosen_objects(definition, steps.DEFINITION_PLACEHOLDER, ledger=ledger)
    connected = connected and not steps.is_fully_stored(definition, chosen)
    collection = collection_steps.collect_images(definition, chosen, ledger, connected=connected)
    images, rendered = steps.render_collection(collection, definition, ledger)
    truth = steps.keep_rendered_pairs(collection, images, definition, ledger)
    queries, qrels = steps.build_collected_queries(truth, chosen, definition)
    provenance = Provenance.from_dict(summaries["topics"]) + Provenance.from_dict(summaries["objects"])
    rows = chosen.sort_values("query_id")[["query_id", "text", "topic"]].values.tolist()
    digest = hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()
    chosen_record = Input(file="objects that people kept", sha256=digest, counts={"queries": len(rows)})
    provenance += Provenance(inputs=[chosen_record]) + collection.provenance
    tables = Tables(queries, images, qrels, duplicates=collection.collected.duplicates)
    notes: Notes = {
        "collection": {
            **collection.figures,
            "choices_of_people": count_choices(definition),
        },
        "stages": {stage: {key: summaries[stage][key] for key in _STAGE_NOTE_KEYS} for stage in STAGES},
    }
    grades, limitations, calls = image_collection.GENERATED_SET_GRADES, [UNSEEN_LIMITATION], dict[str, Any]()
    if definition.judge is not None:
        session = open_chat_session(definition)
        judged = judge_candidates(definition, steps.propose_results(tables), rendered, session)
        judged.record(ledger)
        if judged.is_calibrated:
            tables = steps.keep_sure_results(tables, judged, collection.overrides, ledger)
            grades, limitations = JUDGED_GRADES, judged.limitations()
        notes["judge"], calls = judged.figures, session.call_counts()
        provenance += session.provenance()
    return BuiltTables(
        tables=tables,
        ledger=ledger,
        grades=grades,
        provenance=provenance,
        notes=notes,
        known_limitations=[*limitations, *GENERATED_LIMITATIONS],
        rendered_folder=rendered,
        model_calls=calls,
        decision_outcome=collection.decision_outcome
        + result_screening.summarize_overrides(collection.overrides, truth, ledger),
    )


def plan_generated(definition: GeneratedDefinition) -> dict[str, Any]:
    """Return what a build would still request from the web, by the stored pages; the web is not accessed."""
    ledger = Ledger()
    chosen = load_chosen_objects(definition, steps.DEFINITION_PLACEHOLDER, ledger=ledger)
    collection = collection_steps.collect_images(definition, chosen, ledger, connected=False)
    collect_rules, judge, complete = definition.collect, definition.judge, len(collection.collected.query_ids)
    searches = int((collection.search_results.queries["reason"] == "not_fetched").sum())
    unknown = sum(image.reason == "not_fetched" for image in collection.images.values())
    at_most = unknown + searches * collect_rules.first
    images = len(collection.collected.images) + min(at_most, (len(chosen) - complete) * collect_rules.keep)
    seconds = searches * (collect_rules.limits.interval + _ANSWER_SECONDS) + at_most / _IMAGES_PER_SECOND
    return {
        "funnel": ledger.funnel(),
        "queries": len(chosen),
        "complete": complete,
        "searches": searches,
        "images_at_most": at_most,
        "model_calls": 0,
        "judge_calls_at_most": 0 if judge is None else len(chosen) * collect_rules.keep * judge.calls_per_pair,
        "seconds_about": round(seconds, 1),
        "bytes_about": int(images * (definition.render.size**2 * _BYTES_A_PIXEL + _BYTES_A_IMAGE)),
    }


def publish_generated_set(definition: GeneratedDefinition) -> BuildResult:
    """Build and publish the set; the web is asked unless the run is offline."""
    return publish_built(definition, build_generated_tables(definition, connected=not current_run().offline))


GENERATED_SET = SetKind(
    name="generated",
    summary="Collect images for the queries that people kept, and publish them. If people are to be asked, start "
    "with topics and objects, and wait after each of them.",
    build_tables=build_generated_tables,
    publish=publish_generated_set,
    plan=plan_generated,
    render_page=steps.render_topics_page,
    parameters=GeneratedBuild,
)

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__ = make_flow_getattr(GENERATED_SET)

if __name__ == "__main__":
    run_flow_script(GENERATED_SET)
