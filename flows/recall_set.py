"""The recall set: each query is the caption of one image.

gallery ─► captions ─► clean ─► confusable images ─► resolved by policy ─► set v<N>, and smaller ones within it
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from backends.chat import has_written_answers
from backends.sets.decision_log import load_decisions
from builders.benchmark_set import Tables
from builders.decisions.records import Override
from builders.manifest_records import PromptRecord, Provenance
from builders.records import CANDIDATE_JUDGMENTS_SCHEMA
from flows.captions.caption_ambiguity import ConfusionContext, load_similarity_models, resolve_caption_ambiguity
from flows.captions.captioning import (
    caption_images,
    clean_captions,
    describe_images,
    load_cleaning_rules,
    load_prompt,
    open_chat_session,
)
from flows.captions.nested_sets import publish_nested_sets
from flows.captions.recall_gallery import (
    load_recall_gallery,
    load_shown_images,
    pin_gallery_version,
    resolve_image_path,
)
from flows.captions.recall_plan import plan_recall
from flows.definitions import RecallDefinition
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.pages.set_pages import render_captions_page
from flows.prefect_runs.build_parameters import RecallBuild
from flows.set_kind import SetKind
from flows.set_publication import BuildResult, BuiltTables, publish_built
from flows.steps import step

RECALL_GRADES = {
    "1": "the caption was written of this picture, or fits it, too",
    "0": "a person looked, and it does not fit",
}
UNSEEN_AMBIGUITY_LIMITATION = (
    "A caption may fit a picture whose rivalry nobody saw: what remains is unjudged, and counts as wrong."
)
MODEL_STYLE_LIMITATION = "A model's captions have its habits of speech, which people who search do not share."


def build_recall_tables(definition: RecallDefinition) -> BuiltTables:
    """The set before it is published: tables, ledger and provenance."""
    gallery = load_recall_gallery(definition)
    ledger, images = gallery.ledger, gallery.tables.images
    to_caption = load_shown_images(images, gallery.rendered_folder)
    chat_session = open_chat_session(definition)
    overrides = load_decisions(definition.out / definition.name, Override)
    captioned = caption_images(to_caption, definition, chat_session, overrides, ledger)
    asked = ledger.stages[-1].entered
    captions, caption_notes = clean_captions(captioned, ledger)
    queries, qrels = build_caption_queries(captions, definition)
    descriptions = describe_images(to_caption, definition, chat_session)
    places = [str(resolve_image_path(place, gallery.rendered_folder)) for place in images["path"]]
    similarity_models = load_similarity_models(definition, queries, images, places)
    duplicates, wanted = gallery.tables.duplicates, captioned.wanted
    context = ConfusionContext(images, duplicates, descriptions, similarity_models)
    shown = {image.image_id: image for image in to_caption}
    resolved, ambiguity = resolve_caption_ambiguity(queries, qrels, context, shown, chat_session, wanted)
    ledger.record_stage("ambiguity", "caption", len(queries), len(resolved.queries), resolved.rejections)
    candidates = resolved.ambiguous_pairs[CANDIDATE_JUDGMENTS_SCHEMA.names].astype({"score": np.float32})
    prompts = Provenance(prompts=list_recall_prompts(definition))
    model_style = [] if has_written_answers(definition.captions.model) else [MODEL_STYLE_LIMITATION]
    return replace(
        gallery,
        tables=Tables(resolved.queries, images, resolved.qrels, duplicates=duplicates, candidate_judgments=candidates),
        grades=RECALL_GRADES,
        provenance=gallery.provenance + chat_session.provenance() + similarity_models.provenance() + prompts,
        notes={**gallery.notes, "captions": {"asked": asked, **caption_notes}, "ambiguity": ambiguity},
        known_limitations=[UNSEEN_AMBIGUITY_LIMITATION, *model_style],
        model_calls=chat_session.call_counts(),
        decision_outcome=gallery.decision_outcome + wanted.decision_outcome(set(resolved.queries["query_id"])),
    )


@step("write queries")
def build_caption_queries(captions: pd.DataFrame, definition: RecallDefinition) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The queries and qrels tables: each caption is relevant to the image that it describes."""
    captions = captions.sort_values("query_id", ignore_index=True)
    queries = captions[["query_id", "text", "language", "style"]].assign(
        level=np.int8(1), labels=None, topic=None, source_image_id=captions["image_id"]
    )
    unreviewed = "caption" if has_written_answers(definition.captions.model) else "model"
    judge = np.where(captions["note"].isna(), unreviewed, "human")
    qrels = captions[["query_id", "image_id"]].assign(relevance=np.int8(1), judged_by=judge, evidence=captions["note"])
    names = ["query_id", "image_id", "judged_by", "evidence"]
    return queries, qrels.astype(dict.fromkeys(names, "category"))


def list_recall_prompts(definition: RecallDefinition) -> list[PromptRecord]:
    """The prompts of all chat models, and the cleaning rules."""
    names = list(definition.captions.prompt)
    for language in definition.captions.languages:
        names += [f"{language}/description"] if definition.descriptions is not None else []
        names += [f"{language}/recaption"] if definition.ambiguity.policy == "recaption" else []
    templates = [load_prompt(name) for name in names] + load_cleaning_rules()[1]
    return [PromptRecord(template.name, template.sha256) for template in templates]


def publish_recall_set(definition: RecallDefinition) -> BuildResult:
    """Build and publish the set and the nested sets of its `sizes`."""
    definition = pin_gallery_version(definition)
    result = publish_built(definition, build_recall_tables(definition))
    return replace(result, nested_results=publish_nested_sets(definition, result))


RECALL_SET = SetKind(
    name="recall",
    summary="Caption images, resolve ambiguous captions, and publish a recall set and the smaller ones within it.",
    build_tables=build_recall_tables,
    publish=publish_recall_set,
    plan=plan_recall,
    render_page=render_captions_page,
    parameters=RecallBuild,
)

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__ = make_flow_getattr(RECALL_SET)

if __name__ == "__main__":
    run_flow_script(RECALL_SET)
