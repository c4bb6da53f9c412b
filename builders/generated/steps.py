"""Screens, renders and judges what a generated set collected, and renders its page: what its flow calls."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from builders.gallery.render_steps import render_images
from builders.generated.collection_steps import WebCollection, collect_images
from builders.generated.definition import GeneratedDefinition
from builders.generated.page import render_generated_page, select_generated
from builders.judged_pairs import JudgedPairs
from builders.lint import lint_tables
from querytruth.backends.steps import current_run, step
from querytruth.errors import UserError
from querytruth.records import CANDIDATE_JUDGMENTS_SCHEMA, IMAGES_SCHEMA, drop_unused_categories
from querytruth.sets.benchmark_set import RENDERED_SIZE_COLUMNS, Tables
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.set_files import StoredSet
from querytruth.sets.set_thumbnails import make_set_thumbnails

_UNKNOWN = 0.5  # the score of a result that nobody judged
DEFINITION_PLACEHOLDER = "DEFINITION"  # for the definition's path in a next step, where it is not known


def is_fully_stored(definition: GeneratedDefinition, chosen: pd.DataFrame) -> bool:
    """Return whether the stored pages decide every query. An image that another one replaces is not fetched again by
    every build, which would change the set each time; an overridden image that was never fetched has to be."""
    ledger = Ledger()
    collection = collect_images(definition, chosen, ledger, connected=False)
    overridden_images = [image for url, image in collection.images.items() if url in collection.overrides]
    never_asked = any(image.reason == "not_fetched" for image in overridden_images)
    return not never_asked and not any(stage.pending for stage in ledger.stages if stage.kind == "query")


def render_collection(
    collection: WebCollection, definition: GeneratedDefinition, ledger: Ledger
) -> tuple[pd.DataFrame, Path]:
    """Return the images table and the folder of the rendered images. Raises UserError if nothing was collected."""
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


@step("count images")
def keep_rendered_pairs(
    collection: WebCollection, images: pd.DataFrame, definition: GeneratedDefinition, ledger: Ledger
) -> pd.DataFrame:
    """Return the relevant pairs whose image was rendered, of the queries that still have `collect.keep` images; an
    overridden query needs one."""
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
    """Return the queries and qrels tables, from a row per query and image."""
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


def propose_results(tables: Tables) -> Tables:
    """Return the tables with what the search found as candidate judgments, for a judge."""
    found = tables.qrels[["query_id", "image_id", "evidence"]].astype("str").assign(score=np.float32(_UNKNOWN))
    return replace(tables, candidate_judgments=found[CANDIDATE_JUDGMENTS_SCHEMA.names])


def keep_sure_results(tables: Tables, judged: JudgedPairs, accepted: Collection[str], ledger: Ledger) -> Tables:
    """Return the tables with the results of which the judge is sure, and those that people answered or whose query they
    accepted. The others become candidate judgments, and a query without relevant results is quarantined."""
    proposed, pairs = propose_results(tables), judged.pairs
    stays = (pairs["is_answered"] | pairs["query_id"].isin(list(accepted))).to_numpy(dtype=bool)
    candidates = proposed.candidate_judgments[~stays].reset_index(drop=True)
    decided = judged.apply_to(replace(tables, qrels=tables.qrels[stays], candidate_judgments=candidates))
    has_truth = tables.queries["query_id"].isin(decided.qrels["query_id"].astype("str"))
    unsure = tables.queries.loc[~has_truth, "query_id"]
    rejections = rejection_rows(unsure, "quarantined", "no_sure_image", item_id=unsure)
    ledger.record_stage("sure", "query", len(tables.queries), int(has_truth.sum()), rejections)
    queries, qrels = tables.queries[has_truth].reset_index(drop=True), drop_unused_categories(decided.qrels)
    waiting = decided.candidate_judgments
    waiting = waiting[waiting["query_id"].isin(queries["query_id"])].reset_index(drop=True)
    return replace(decided, queries=queries, qrels=qrels, candidate_judgments=waiting)


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
    return UserError("collect images", definition.name, f"no query has enough images ({reason_counts})", next_step)


def render_topics_page(stored: StoredSet) -> str:
    """Return the page of a generated set, topic by topic."""
    shown = select_generated(stored.tables)
    small = make_set_thumbnails(stored, shown.image_ids)
    return render_generated_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)
