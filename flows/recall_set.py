"""The recall set: each query is the caption of one image.

gallery ─► captions ─► clean ─► confusable images ─► resolved by policy ─► set v<N>, and smaller ones within it
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from backends.chat import ChatImage, ChatModel, ChatRequest, has_written_answers
from backends.replies.cached_replies import answer_requests
from backends.replies.reply_store import ReplyStore
from backends.sets import set_files
from backends.sets.decision_log import load_decisions
from backends.sets.image_digests import read_intact_digests
from builders.benchmark_set import Tables
from builders.decisions.records import Override
from builders.ledger import Ledger
from builders.manifest_records import PromptRecord, Provenance
from builders.records import CANDIDATE_JUDGMENTS_SCHEMA
from flows.call_forecasts import CallForecast, forecast_calls, summarize_forecasts
from flows.captions.caption_ambiguity import ConfusionContext, resolve_caption_ambiguity
from flows.captions.caption_limits import list_caption_thresholds
from flows.captions.captioning import (
    build_caption_requests,
    build_image_request,
    caption_images,
    choose_caption_prompts,
    choose_parameters,
    clean_captions,
    describe_images,
    load_caption_model,
    load_description_model,
)
from flows.captions.model_checks import check_recall_models
from flows.captions.nested_sets import publish_nested_sets
from flows.captions.recall_gallery import (
    load_published_gallery,
    load_recall_gallery,
    load_shown_images,
    pin_gallery_version,
)
from flows.captions.similarity_models import load_similarity_models
from flows.chat_session import open_chat_session
from flows.definitions import RecallDefinition
from flows.definitions.common import PriceOptions
from flows.flow_entrypoint import make_flow_getattr, run_flow_script
from flows.gallery_set import choose_images
from flows.images.rendering import locate_rendered
from flows.pages.set_pages import render_captions_page
from flows.prefect_runs.build_parameters import RecallBuild
from flows.prompt_loading import load_prompt, load_recall_prompts
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
_BYTES_A_PIXEL = 0.2
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
    shown = {image.image_id: image for image in to_caption}
    in_table_order = [shown[image_id] for image_id in images["image_id"]]
    similarity_models = load_similarity_models(definition, queries, in_table_order)
    duplicates, wanted = gallery.tables.duplicates, captioned.wanted
    context = ConfusionContext(images, duplicates, descriptions, similarity_models)
    resolved, ambiguity = resolve_caption_ambiguity(queries, qrels, context, shown, chat_session, wanted)
    ledger.record_stage("ambiguity", "caption", len(queries), len(resolved.queries), resolved.rejections)
    candidates = resolved.ambiguous_pairs[CANDIDATE_JUDGMENTS_SCHEMA.names].astype({"score": np.float32})
    thresholds = list_caption_thresholds(definition.captions)
    prompts = Provenance(prompts=list_recall_prompts(definition), thresholds=thresholds)
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
    return [PromptRecord(template.name, template.sha256) for template in load_recall_prompts(definition)]


def publish_recall_set(definition: RecallDefinition) -> BuildResult:
    """Build and publish the set and the nested sets of its `sizes`."""
    definition = choose_caption_prompts(pin_gallery_version(definition))
    check_recall_models(definition)
    result = publish_built(definition, build_recall_tables(definition))
    return replace(result, nested_results=publish_nested_sets(definition, result))


def plan_recall(definition: RecallDefinition) -> dict[str, Any]:
    """Returns the funnel up to the images, and the calls that a build would make. Nothing is asked or rendered; the
    scan of the images is stored."""
    to_download = check_recall_models(definition, is_plan=True)
    ledger, definition = Ledger(), choose_caption_prompts(definition)
    images, folder = _plan_images(definition, ledger)
    known = None if folder is None else read_intact_digests(folder)
    listed = [known is None or path in known for path in images["path"]]
    is_there = [folder is None or (folder / path).is_file() for path in images["path"]]
    is_available = pd.Series(listed, dtype=bool) & pd.Series(is_there, dtype=bool)
    shown = load_shown_images(images[is_available.to_numpy()], folder)
    chat_session, new = open_chat_session(definition), int((~is_available).sum())
    question_groups = list(_group_questions(definition, shown))
    forecasts = [_forecast_group(chat_session.store, group, new) for group in question_groups]
    calls = sum(one.calls for one in forecasts)
    wanted = definition.captions
    captions = len(images) * len(wanted.prompt) * wanted.per_image
    again = definition.ambiguity.rounds * captions if definition.ambiguity.policy == "recaption" else 0
    return {
        "funnel": ledger.funnel(),
        "pictures": len(images),
        "captions": captions,
        "model_calls": calls,
        "model_calls_again_at_most": again,
        "models_to_download": to_download,
        "known_from_before": sum(group.per_image * len(images) for group in question_groups) - calls,
        **summarize_forecasts(forecasts),
        "budget": definition.budget and definition.budget.model_dump(exclude_none=True),
        "bytes_about": int(len(images) * definition.render.size**2 * _BYTES_A_PIXEL) if definition.render else 0,
    }


def _plan_images(definition: RecallDefinition, ledger: Ledger) -> tuple[pd.DataFrame, Path | None]:
    """Returns the images with the paths that a set gives them, and the folder of the rendered files."""
    if definition.gallery is not None:
        gallery = load_published_gallery(set_files.find_set(definition.gallery, definition.out))
        ledger.stages.extend(gallery.ledger.stages)
        return gallery.tables.images, gallery.rendered_folder
    described = definition.as_gallery()
    assert described.render is not None
    chosen = choose_images(described, ledger).images
    inside, store = locate_rendered(chosen["image_id"], described.render, definition.out / definition.name)
    return chosen.rename(columns={"item": "file_name"}).assign(path=inside), store


class _QuestionGroup(NamedTuple):
    """The questions of a role about the images that are available, and their number per image."""

    role: str
    model: ChatModel
    requests: list[ChatRequest]
    per_image: int
    price: PriceOptions | None


def _forecast_group(store: ReplyStore, group: _QuestionGroup, new: int) -> CallForecast:
    """Returns what the questions without a stored answer cost; `new`: images that are not available yet."""
    if group.model.is_recorded:
        return forecast_calls(store, group.model, group.role, 0)
    stored = answer_requests(store, group.model, group.requests, offline=True)
    calls, known = stored.missing + group.per_image * new, stored.answers
    return forecast_calls(store, group.model, group.role, calls, known=known, price=group.price)


def _group_questions(definition: RecallDefinition, shown: list[ChatImage]) -> Iterator[_QuestionGroup]:
    wanted = definition.captions
    requests, per_image = build_caption_requests(shown, definition)[1], len(wanted.prompt) * wanted.per_image
    yield _QuestionGroup("captions", load_caption_model(definition), requests, per_image, wanted.price)
    if definition.descriptions is not None:
        for language in wanted.languages:
            prompt = load_prompt(f"{language}/description", definition.prompt_files)
            limits = choose_parameters(prompt.name, definition.descriptions.max_tokens)
            requests = [build_image_request(image, prompt, limits) for image in shown]
            model, price = load_description_model(definition), definition.descriptions.price or wanted.price
            yield _QuestionGroup(f"descriptions, {language}", model, requests, 1, price)


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
