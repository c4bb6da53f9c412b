"""The recall set: each query is the caption of one image.

gallery ─► captions ─► clean ─► confusable images ─► resolved by policy ─► set v<N>, and smaller ones within it
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from builders.gallery.definition import GallerySource
from builders.gallery.render_steps import load_shown_images, locate_rendered
from builders.publication import BuildResult, BuiltTables, publish_built
from builders.publication_guards import check_not_empty
from builders.recall import steps
from builders.recall.ambiguity_steps import ConfusionContext, resolve_caption_ambiguity
from builders.recall.captions import (
    caption_images,
    choose_caption_prompts,
    clean_captions,
    describe_images,
    list_caption_thresholds,
)
from builders.recall.definition import RecallDefinition
from builders.recall.nested_sets import publish_nested_sets
from builders.recall.similarity_models import check_recall_models, load_similarity_models
from flows import flow_entrypoint, gallery_set, set_kind
from flows.gallery_set import choose_images
from flows.requests import RecallBuild
from querytruth.backends.models.chat import has_written_answers
from querytruth.questions import open_chat_session, summarize_forecasts
from querytruth.records import CANDIDATE_JUDGMENTS_SCHEMA
from querytruth.sets import benchmark_set, decision_log, decision_records, manifest
from querytruth.sets.ledger import Ledger
from querytruth.sets.set_files import read_intact_digests

RECALL_GRADES = {
    "1": "the caption was written for this image, or also fits it",
    "0": "a person judged that it does not fit",
}
UNSEEN_AMBIGUITY_LIMITATION = (
    "A caption may fit images that were not found to be confusable: those pairs are unjudged and count as wrong."
)
_BYTES_A_PIXEL = 0.2
MODEL_STYLE_LIMITATION = "A model's captions have habits of wording that people who search do not share."


def plan_images(definition: GallerySource, ledger: Ledger) -> tuple[pd.DataFrame, Path | None]:
    """Return the images with the paths that a set gives them, and the folder of the rendered files."""
    if definition.gallery is not None:
        gallery = steps.load_published_gallery(definition)
        ledger.stages.extend(gallery.ledger.stages)
        return gallery.tables.images, gallery.rendered_folder
    described = definition.as_gallery()
    assert described.render is not None
    chosen = choose_images(described, ledger).images
    inside, store = locate_rendered(chosen["image_id"], described.render, definition.out / definition.name)
    return chosen.rename(columns={"item": "file_name"}).assign(path=inside), store


def load_image_gallery(definition: GallerySource) -> BuiltTables:
    """Return images, their duplicate groups, the ledger so far, and the folder of the image files.
    Raises UserError where no image is left."""
    if definition.gallery is None:
        gallery = gallery_set.build_gallery_tables(definition.as_gallery())
        check_not_empty("gallery", definition.name, gallery.tables, gallery.ledger.funnel())
        return gallery
    return steps.load_published_gallery(definition)


def build_recall_tables(definition: RecallDefinition) -> BuiltTables:
    """Return the set before it is published: tables, ledger and provenance."""
    gallery = load_image_gallery(definition)
    ledger, images = gallery.ledger, gallery.tables.images
    to_caption = load_shown_images(images, gallery.rendered_folder)
    chat_session = open_chat_session(definition)
    overrides = decision_log.load_decisions(definition.out / definition.name, decision_records.Override)
    asked, answers, wanted = caption_images(to_caption, definition, chat_session, overrides, ledger)
    captions, caption_notes = clean_captions(asked, answers, wanted, definition, ledger, to_caption)
    queries, qrels = steps.build_caption_queries(captions, definition)
    descriptions = describe_images(to_caption, definition, chat_session)
    shown = {image.image_id: image for image in to_caption}
    in_table_order = [shown[image_id] for image_id in images["image_id"]]
    similarity_models = load_similarity_models(definition, queries, in_table_order)
    duplicates = gallery.tables.duplicates
    context = ConfusionContext(images, duplicates, descriptions, similarity_models)
    resolved, ambiguity, judged = resolve_caption_ambiguity(queries, qrels, context, shown, chat_session, wanted)
    if judged is not None:
        judged.record(ledger)
    ledger.record_stage("ambiguity", "caption", len(queries), len(resolved.queries), resolved.rejections)
    candidates = resolved.ambiguous_pairs[CANDIDATE_JUDGMENTS_SCHEMA.names].astype({"score": np.float32})
    thresholds = list_caption_thresholds(definition.captions)
    prompts = manifest.Provenance(prompts=steps.list_recall_prompts(definition), thresholds=thresholds)
    model_style = [] if has_written_answers(definition.captions.model) else [MODEL_STYLE_LIMITATION]
    judge_limits = judged.limitations() if judged is not None else []
    return replace(
        gallery,
        tables=benchmark_set.Tables(
            resolved.queries, images, resolved.qrels, duplicates=duplicates, candidate_judgments=candidates
        ),
        grades=RECALL_GRADES,
        provenance=gallery.provenance + chat_session.provenance() + similarity_models.provenance() + prompts,
        notes={**gallery.notes, "captions": caption_notes, "ambiguity": ambiguity},
        known_limitations=[UNSEEN_AMBIGUITY_LIMITATION, *model_style, *judge_limits],
        model_calls=chat_session.call_counts(),
        decision_outcome=gallery.decision_outcome + wanted.decision_outcome(set(resolved.queries["query_id"])),
    )


def publish_recall_set(definition: RecallDefinition) -> BuildResult:
    """Build and publish the set and the nested sets of its `sizes`."""
    definition = choose_caption_prompts(definition)
    check_recall_models(definition)
    result = publish_built(definition, build_recall_tables(definition))
    return replace(result, nested_results=publish_nested_sets(definition, result))


def plan_recall(definition: RecallDefinition) -> dict[str, Any]:
    """Return the funnel up to the images, and the calls that a build would make. Nothing is asked or rendered; the
    scan of the images is stored."""
    to_download = check_recall_models(definition, is_plan=True)
    ledger, definition = Ledger(), choose_caption_prompts(definition)
    images, folder = plan_images(definition, ledger)
    known = None if folder is None else read_intact_digests(folder)
    listed = [known is None or path in known for path in images["path"]]
    is_there = [folder is None or (folder / path).is_file() for path in images["path"]]
    is_available = pd.Series(listed, dtype=bool) & pd.Series(is_there, dtype=bool)
    shown = load_shown_images(images[is_available.to_numpy()], folder)
    chat_session, new = open_chat_session(definition), int((~is_available).sum())
    question_groups = list(steps.group_questions(definition, shown))
    forecasts = [steps.forecast_group(chat_session.store, group, new) for group in question_groups]
    calls = sum(one.calls for one in forecasts)
    wanted = definition.captions
    captions = len(images) * len(wanted.prompt) * wanted.per_image
    rules = definition.ambiguity
    again = rules.rounds * captions if rules.policy == "recaption" else 0
    again += rules.candidates.nearest * captions * rules.judge.calls_per_pair if rules.judge is not None else 0
    return {
        "funnel": ledger.funnel(),
        "images": len(images),
        "captions": captions,
        "model_calls": calls,
        "model_calls_again_at_most": again,
        "models_to_download": to_download,
        "known_from_before": sum(group.per_image * len(images) for group in question_groups) - calls,
        **summarize_forecasts(forecasts),
        "budget": definition.budget and definition.budget.model_dump(exclude_none=True),
        "bytes_about": int(len(images) * definition.render.size**2 * _BYTES_A_PIXEL) if definition.render else 0,
    }


RECALL_SET = set_kind.SetKind(
    name="recall",
    summary="Caption images, resolve ambiguous captions, and publish a recall set and its smaller nested sets.",
    build_tables=build_recall_tables,
    publish=publish_recall_set,
    plan=plan_recall,
    render_page=steps.render_captions_page,
    parameters=RecallBuild,
)

if not TYPE_CHECKING:  # a type checker would accept every name
    __getattr__ = flow_entrypoint.make_flow_getattr(RECALL_SET)

if __name__ == "__main__":
    flow_entrypoint.run_flow_script(RECALL_SET)
