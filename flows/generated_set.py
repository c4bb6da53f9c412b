"""The generated set: topics and objects that people chose, and images of them from the web.

replies ─► topics ─► objects ─► people's choice ─► images from the web ─► render ─► set v<N>
"""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from builders.benchmark_set import Tables
from builders.errors import UserError
from builders.ledger import Ledger, rejection_rows
from builders.manifest_records import InputRecord, Provenance
from builders.records import IMAGES_SCHEMA
from builders.rendered_sizes import RENDERED_SIZE_COLUMNS
from builders.self_instruct.image_collection import GENERATED_SET_GRADES
from builders.self_instruct.overridden_results import summarize_overrides
from flows.definitions.generated import GeneratedDefinition
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.images.rendering import render_images
from flows.pages.set_pages import render_topics_page
from flows.prefect_runs.build_parameters import GeneratedBuild
from flows.set_kind import SetKind
from flows.set_publication import BuildResult, BuiltTables, publish_built
from flows.steps import current_run, step
from flows.topics_and_objects import count_choices, load_chosen_objects, load_stage_summary, record_stage
from flows.web_collection import WebCollection, collect_images

DEFINITION_PLACEHOLDER = "DEFINITION"  # for the definition's path in a next step, where it is not known
STAGES = ("topics", "objects")
# For plans: seconds and bytes of a search and of an image, measured on two cores (docs/performance.md) and on Baidu's
# results; hosts that ask for long intervals take longer.
_ANSWER_SECONDS, _IMAGES_PER_SECOND, _BYTES_A_IMAGE, _BYTES_A_PIXEL = 0.5, 30, 150_000, 0.2
_STAGE_NOTE_KEYS = ("rows", "stops", "tokens", "health", "course")
GENERATED_LIMITATIONS = [
    "Right is what the image search found first; no person has looked, and some of it shows something else.",
    "The same thing may be on pictures of other queries: those pairs are unjudged, and count as wrong.",
    "Near-duplicates are found by perceptual hashes: small parts of a picture and, unless asked for, turned pictures "
    "are not.",
]


def build_generated_tables(definition: GeneratedDefinition, *, connected: bool = False) -> BuiltTables:
    """The set before it is published, from the pages stored beside it. `connected`: the web is asked if they decide
    not every query. Raises UserError if no query has enough images."""
    ledger = Ledger()
    summaries = {}
    for stage in STAGES:
        summaries[stage] = load_stage_summary(definition, stage, DEFINITION_PLACEHOLDER)
        record_stage(definition, stage, DEFINITION_PLACEHOLDER, ledger)
    chosen = load_chosen_objects(definition, DEFINITION_PLACEHOLDER, ledger=ledger)
    connected = connected and not _is_fully_stored(definition, chosen)
    collection = collect_images(definition, chosen, ledger, connected=connected)
    images, rendered = render_collection(collection, definition, ledger)
    truth = keep_rendered_pairs(collection, images, definition, ledger)
    queries, qrels = build_collected_queries(truth, chosen, definition)
    provenance = Provenance.from_dict(summaries["topics"]) + Provenance.from_dict(summaries["objects"])
    rows = chosen.sort_values("query_id")[["query_id", "text", "topic"]].values.tolist()
    digest = hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()
    chosen_record = InputRecord("objects that people kept", digest, {"queries": len(rows)})
    provenance += Provenance(inputs=[chosen_record]) + collection.provenance
    return BuiltTables(
        tables=Tables(queries, images, qrels, duplicates=collection.collected.duplicates),
        ledger=ledger,
        grades=GENERATED_SET_GRADES,
        provenance=provenance,
        notes={
            "collection": {
                **collection.figures,
                "search": definition.collect.search,
                "choices_of_people": count_choices(definition),
            },
            "stages": {stage: {key: summaries[stage][key] for key in _STAGE_NOTE_KEYS} for stage in STAGES},
        },
        known_limitations=GENERATED_LIMITATIONS,
        rendered_folder=rendered,
        decision_outcome=collection.decision_outcome + summarize_overrides(collection.overrides, truth, ledger),
    )


def _is_fully_stored(definition: GeneratedDefinition, chosen: pd.DataFrame) -> bool:
    """Whether the stored pages decide every query. An image that another one replaces is not fetched again by every
    build, which would change the set each time; an overridden image that was never fetched has to be."""
    ledger = Ledger()
    collection = collect_images(definition, chosen, ledger, connected=False)
    overridden_images = [image for url, image in collection.images.items() if url in collection.overrides]
    never_asked = any(image.reason == "not_fetched" for image in overridden_images)
    return not never_asked and not any(stage.pending for stage in ledger.stages if stage.kind == "query")


def render_collection(
    collection: WebCollection, definition: GeneratedDefinition, ledger: Ledger
) -> tuple[pd.DataFrame, Path]:
    """The images table and the folder of the rendered images. Raises UserError if nothing was collected."""
    collected_images = collection.collected.images
    if not len(collected_images):
        raise _no_images_error(definition, ledger)
    fetched_images = [collection.images[url] for url in collected_images["url"]]
    named = collected_images.rename(columns={"url": "file_name"})[["image_id", "file_name"]]
    folder = definition.out / definition.name
    paths, digests = [image.path for image in fetched_images], [image.sha256 for image in fetched_images]
    rendered_rows, rejections, rendered = render_images(named, paths, digests, definition.render, folder)
    ledger.record_stage("render", "image", len(collected_images), len(rendered_rows), rejections)
    image_rows = collected_images.assign(
        file_name=[None if one.url else url for url, one in zip(collected_images["url"], fetched_images, strict=True)],
        source_url=[one.url or None for one in fetched_images],
    )
    images = image_rows[image_rows["image_id"].isin(rendered_rows["image_id"])]
    images = images.assign(**{name: rendered_rows[name] for name in ("path", *RENDERED_SIZE_COLUMNS)})
    images = images.reindex(columns=IMAGES_SCHEMA.names)
    texts = [field.name for field in IMAGES_SCHEMA if field.type == pa.string()]
    return images.astype(dict.fromkeys(texts, "str")), rendered


@step("count pictures")
def keep_rendered_pairs(
    collection: WebCollection, images: pd.DataFrame, definition: GeneratedDefinition, ledger: Ledger
) -> pd.DataFrame:
    """The relevant pairs whose image was rendered, of the queries that still have `collect.keep` images; an overridden
    query needs one."""
    collected = collection.collected
    rendered_pairs = collected.relevant_results[collected.relevant_results["image_id"].isin(images["image_id"])]
    image_counts = rendered_pairs["query_id"].value_counts().reindex(collected.query_ids, fill_value=0)
    needed = np.where(image_counts.index.isin(list(collection.overrides)), 1, definition.collect.keep)
    is_short = image_counts.to_numpy() < needed
    queries = image_counts[is_short].index
    if len(queries):
        measured = {"value": image_counts[is_short].to_numpy(), "threshold": needed[is_short]}
        rejections = rejection_rows(
            queries, "quarantined", "too_few_images", item_id=queries, measure="rendered_images", **measured
        )
        ledger.record_stage("answers", "query", len(image_counts), len(image_counts) - len(queries), rejections)
    return rendered_pairs[~rendered_pairs["query_id"].isin(queries)]


@step("write queries")
def build_collected_queries(
    rendered_pairs: pd.DataFrame, chosen: pd.DataFrame, definition: GeneratedDefinition
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The queries and qrels tables, from a row per query and image."""
    queries = chosen[chosen["query_id"].isin(rendered_pairs["query_id"])].sort_values("query_id", ignore_index=True)
    queries = queries[["query_id", "text"]].assign(
        language=definition.language, style="object", level=np.int8(1), labels=None, topic=queries["topic"]
    )
    search = definition.collect.search
    evidence = []
    for rank, caption in zip(rendered_pairs["rank"], rendered_pairs["caption"], strict=True):
        quoted = f": {caption}" if isinstance(caption, str) and caption else ""
        evidence.append(f"result {rank} of {search}{quoted}")
    qrels = rendered_pairs[["query_id", "image_id"]].assign(relevance=np.int8(1), judged_by="web", evidence=evidence)
    categories = dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category")
    return queries.assign(source_image_id=None), qrels.reset_index(drop=True).astype(categories)


def plan_generated(definition: GeneratedDefinition) -> dict[str, Any]:
    """What a build would still have to ask the web for, by the stored pages; the web is not asked."""
    ledger = Ledger()
    chosen = load_chosen_objects(definition, DEFINITION_PLACEHOLDER, ledger=ledger)
    collection = collect_images(definition, chosen, ledger, connected=False)
    collect_rules, complete = definition.collect, len(collection.collected.query_ids)
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
        "pictures_at_most": at_most,
        "model_calls": 0,
        "seconds_about": round(seconds, 1),
        "bytes_about": int(images * (definition.render.size**2 * _BYTES_A_PIXEL + _BYTES_A_IMAGE)),
    }


def _no_images_error(definition: GeneratedDefinition, ledger: Ledger) -> UserError:
    reasons = Counter[str]()
    for stage in ledger.stages:
        if stage.kind == "query":
            for counts in (stage.rejected, stage.quarantined, stage.pending):
                reasons.update(counts)
    by_count = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    reason_counts = ", ".join(f"{count} {reason}" for reason, count in by_count)
    next_step = "loosen collect.min_results or collect.keep, or choose another search"
    if current_run().offline and "not_fetched" in reasons:
        next_step = "run without --offline"
    return UserError("collect pictures", definition.name, f"no query has enough pictures ({reason_counts})", next_step)


def publish_generated_set(definition: GeneratedDefinition) -> BuildResult:
    """Build and publish the set; the web is asked unless the run is offline."""
    return publish_built(definition, build_generated_tables(definition, connected=not current_run().offline))


GENERATED_SET = SetKind(
    name="generated",
    summary="Collect pictures for the queries that people kept, and publish them; where they are to be asked, from the "
    "start: topics and objects, and after each of them the run waits.",
    build_tables=build_generated_tables,
    publish=publish_generated_set,
    plan=plan_generated,
    render_page=render_topics_page,
    parameters=GeneratedBuild,
)

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__ = make_flow_getattr(GENERATED_SET)

if __name__ == "__main__":
    run_flow_script(GENERATED_SET)
