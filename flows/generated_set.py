"""The generated set: topics and objects that people chose, and the pictures that the web has for them.

replies ─► topics ─► objects ─► people's choice ─► pictures from the web ─► render ─► set v<N>
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from builders.benchmark_set import Tables
from builders.errors import UserError
from builders.generated.collection_rules import GRADES
from builders.generated.rescued_results import told_of
from builders.generated.result_rules import booked, thresholds
from builders.ledger import Ledger
from builders.records import IMAGES
from flows.definitions.generated import GeneratedDefinition
from flows.entry import flow_in, main
from flows.pictures.rendering import render_pictures
from flows.publish import Built
from flows.steps import current, step
from flows.topics_and_objects import book_stage, chosen_objects, stage_summary
from flows.web_collection import Collection, collect_pictures, rules_of

SOURCE = "DEFINITION"  # in a next step, where the person's own name for it is not known
STAGES = ("topics", "objects")
# For plans: what a search's answer and a picture take, measured on two cores (docs/performance.md) and, for sizes, on
# what Baidu finds; hosts that want to be asked slowly take longer.
_ANSWER_SECONDS, _A_SECOND, _BYTES_A_PICTURE, _BYTES_A_PIXEL = 0.5, 30, 150_000, 0.2
_HEALTH = ("rows", "stops", "tokens", "health", "course")
FAULTS = [
    "Right is what the image search found first; no person has looked, and some of it shows something else.",
    "The same thing may be on pictures of other queries: those pairs are unjudged, and count as wrong.",
    "Near-duplicates are found by perceptual hashes: crops and, unless asked for, turned pictures are not.",
]


def generated_tables(definition: GeneratedDefinition, *, connected: bool = False) -> Built:
    """All but publishing. Not `connected`: from what is stored, without the web; else the web is asked where a query
    is not settled by that."""
    ledger = Ledger()
    summaries = {stage: stage_summary(definition, stage, SOURCE) for stage in STAGES}
    for stage in STAGES:
        book_stage(definition, stage, SOURCE, ledger)
    chosen = chosen_objects(definition, SOURCE, ledger=ledger)
    connected = connected and not _is_settled(definition, chosen)
    collection = collect_pictures(definition, chosen, ledger, connected=connected)
    images, rendered = render(collection, definition, ledger)
    truth = rendered_truth(collection, images, definition, ledger)
    queries, qrels = as_tables(truth, chosen, definition)
    return Built(
        tables=Tables(queries, images, qrels, duplicates=collection.collected.duplicates),
        ledger=ledger,
        grades=GRADES,
        inputs=[*_of(summaries, "inputs"), _reviewed(chosen), *collection.inputs],
        models=[*_of(summaries, "models"), *collection.models],
        prompts=_of(summaries, "prompts"),
        thresholds=[*_of(summaries, "thresholds"), *_cuts(definition)],
        notes={
            "collection": {**collection.figures, "search": definition.collect.search},
            "stages": {stage: {key: summaries[stage][key] for key in _HEALTH} for stage in STAGES},
        },
        faults=FAULTS,
        rendered=rendered,
        told=collection.told + told_of(collection.rescues, truth, ledger),
    )


def _is_settled(definition: GeneratedDefinition, chosen: pd.DataFrame) -> bool:
    """Whether what is stored tells all. A host that did not answer, whose picture another one stands in for, is not
    asked again by every build: the set would be another each time. One that was never asked for a picture that people
    want has to be."""
    ledger = Ledger()
    collection = collect_pictures(definition, chosen, ledger, connected=False)
    wanted = [picture for url, picture in collection.pictures.items() if url in collection.rescues]
    never_asked = any(picture.reason == "not_fetched" for picture in wanted)
    return not never_asked and not any(stage.pending for stage in ledger.stages if stage.kind == "query")


def render(collection: Collection, definition: GeneratedDefinition, ledger: Ledger) -> tuple[pd.DataFrame, Path]:
    """The images table, with pictures rendered."""
    found = collection.collected.images
    if not len(found):
        raise _nothing(definition, ledger)
    at = [collection.pictures[url] for url in found["url"]]
    named = found.rename(columns={"url": "file_name"})[["image_id", "file_name"]]
    folder = definition.out / definition.name
    shown, lost, rendered = render_pictures(named, [one.path for one in at], definition.render, folder)
    ledger.close("render", "picture", len(found), len(shown), lost)
    told = found.assign(
        file_name=[None if one.url else url for url, one in zip(found["url"], at, strict=True)],
        source_url=[one.url or None for one in at],
    )
    images = told[told["image_id"].isin(shown["image_id"])].assign(path=shown["path"]).reindex(columns=IMAGES.names)
    texts = [field.name for field in IMAGES if field.type == pa.string()]
    return images.astype(dict.fromkeys(texts, "str")), rendered


@step("count pictures")
def rendered_truth(
    collection: Collection, images: pd.DataFrame, definition: GeneratedDefinition, ledger: Ledger
) -> pd.DataFrame:
    """What is left of the truth. A query of which a picture could not be rendered has too few, and goes; one that
    people want stays as long as it has one."""
    collected = collection.collected
    there = collected.kept[collected.kept["image_id"].isin(images["image_id"])]
    whole = there["query_id"].value_counts().reindex(collected.query_ids, fill_value=0)
    needed = np.where(whole.index.isin(list(collection.rescues)), 1, definition.collect.keep)
    lost = whole[whole < needed].index
    if len(lost):
        away = booked([(name, "quarantined", "too_few_pictures", "some could not be rendered") for name in lost])
        ledger.close("answers", "query", len(whole), len(whole) - len(lost), away)
    return there[~there["query_id"].isin(lost)]


@step("write queries")
def as_tables(
    there: pd.DataFrame, chosen: pd.DataFrame, definition: GeneratedDefinition
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Queries and judgments, from a row per query and picture."""
    queries = chosen[chosen["query_id"].isin(there["query_id"])].sort_values("query_id", ignore_index=True)
    queries = queries[["query_id", "text"]].assign(
        language=definition.language, style="object", level=np.int8(1), labels=None, topic=queries["topic"]
    )
    search = definition.collect.search
    evidence = [_evidence(search, rank, caption) for rank, caption in zip(there["rank"], there["caption"], strict=True)]
    qrels = there[["query_id", "image_id"]].assign(relevance=np.int8(1), judged_by="web", evidence=evidence)
    return queries.assign(source_image_id=None), qrels.reset_index(drop=True).astype(
        dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category")
    )


def plan_generated(definition: GeneratedDefinition) -> dict[str, Any]:
    """What a build would still have to ask the web for, told from what is stored; the web is not asked."""
    ledger = Ledger()
    chosen = chosen_objects(definition, SOURCE, ledger=ledger)
    collection = collect_pictures(definition, chosen, ledger, connected=False)
    wanted, complete = definition.collect, len(collection.collected.query_ids)
    searches = int((collection.searched.queries["reason"] == "not_fetched").sum())
    unknown = sum(picture.reason == "not_fetched" for picture in collection.pictures.values())
    at_most = unknown + searches * wanted.first
    pictures = len(collection.collected.images) + min(at_most, (len(chosen) - complete) * wanted.keep)
    return {
        "funnel": ledger.funnel(),
        "queries": len(chosen),
        "complete": complete,
        "searches": searches,
        "pictures_at_most": at_most,
        "model_calls": 0,
        "seconds_about": round(searches * (wanted.limits.interval + _ANSWER_SECONDS) + at_most / _A_SECOND, 1),
        "bytes_about": int(pictures * (definition.render.size**2 * _BYTES_A_PIXEL + _BYTES_A_PICTURE)),
    }


def _of(summaries: dict[str, dict[str, Any]], key: str) -> list[Any]:
    return [entry for stage in STAGES for entry in summaries[stage][key]]


def _reviewed(chosen: pd.DataFrame) -> dict[str, Any]:
    rows = chosen.sort_values("query_id")[["query_id", "text", "topic"]].values.tolist()
    digest = hashlib.sha256(json.dumps(rows, ensure_ascii=True).encode()).hexdigest()
    return {"file": "objects that people kept", "sha256": digest, "counts": {"queries": len(rows)}}


def _cuts(definition: GeneratedDefinition) -> list[dict[str, Any]]:
    cuts, rules = thresholds(rules_of(definition.collect)), definition.near_duplicates
    for name, passes in (("distance", "at most"), ("cosine", "at least")):
        value = getattr(rules, name)
        if value is not None and (name == "distance" or rules.embedder is not None):
            cuts.append({"name": f"near_duplicates.{name}", "passes": passes, "value": value, "inclusive": True})
    return cuts


def _evidence(search: str, rank: int, caption: str | None) -> str:
    return f"result {rank} of {search}" + (f": {caption}" if isinstance(caption, str) and caption else "")


def _nothing(definition: GeneratedDefinition, ledger: Ledger) -> UserError:
    reasons: dict[str, int] = {}
    for stage in ledger.funnel():
        if stage["kind"] == "query":
            for bucket in ("rejected", "quarantined", "pending"):
                for reason, count in stage[bucket].items():
                    reasons[reason] = reasons.get(reason, 0) + count
    told = ", ".join(
        f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    )
    next_step = "loosen collect.min_results or collect.keep, or choose another search"
    if current().offline and "not_fetched" in reasons:
        next_step = "run without --offline"
    return UserError("collect pictures", definition.name, f"no query has enough pictures ({told})", next_step)


if not TYPE_CHECKING:  # to a type checker every name would be in here
    __getattr__ = flow_in("generated_set")

if __name__ == "__main__":
    main("generated_set")
