"""The steps of recall sets: images of a set or a folder, questions about them, queries, and the page."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from builders.gallery import selection
from builders.gallery.definition import GallerySource
from builders.gallery.source_sets import describe_covering_set, is_uncovered, record_covered
from builders.lint import lint_tables
from builders.publication import BuiltTables
from builders.recall.caption_rules import load_recall_prompts
from builders.recall.captions import (
    build_caption_requests,
    build_image_request,
    choose_parameters,
    limit_caption_tokens,
    load_caption_model,
    load_description_model,
)
from builders.recall.definition import RecallDefinition
from builders.recall.page import render_recall_page, select_recall
from querytruth.backends.models.cached_replies import answer_requests
from querytruth.backends.models.chat import ChatImage, ChatModel, ChatRequest, has_written_answers
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.backends.steps import step
from querytruth.definitions import PriceOptions
from querytruth.errors import UserError
from querytruth.questions import CallForecast, forecast_calls, guess_tokens, load_prompt
from querytruth.records import empty_frame
from querytruth.sets import benchmark_set, set_files, set_thumbnails
from querytruth.sets.ledger import Ledger
from querytruth.sets.manifest import Prompt, Provenance, describe_input_set

_ASSUMED_SIDE = 1024  # pixels of an image that is not rendered


@step("read gallery")
def load_published_gallery(definition: GallerySource) -> BuiltTables:
    """Return the images of the published set that `gallery` names. Raise UserError for a set without image files."""
    assert definition.gallery is not None
    path = set_files.find_set(definition.gallery, definition.out)
    stored = set_files.read_set(path, ("images", "duplicates"))
    images, name = stored.tables.images, f"{path.parent.name}/{path.name}"
    absent = int(images["path"].isna().sum())
    if absent or not len(images):
        reason = f"has no file for {absent} of its {len(images)} images" if absent else "contains no images"
        raise UserError("read gallery", name, reason, "build it with `render`, or give another set")
    ledger, kept = Ledger(), is_uncovered(images, definition.select, definition.out)
    record_covered(ledger, "gallery", images, kept)
    images = images[kept].reset_index(drop=True)
    return BuiltTables(
        tables=benchmark_set.Tables(
            empty_frame("queries"), images, empty_frame("qrels"), duplicates=stored.tables.duplicates
        ),
        ledger=ledger,
        grades={},
        provenance=Provenance([describe_input_set(stored.manifest), *describe_covering_set(definition)]),
        notes={"render": stored.manifest["configuration"].get("render")},
        rendered_folder=path if images["path"].str.startswith("images/").all() else None,
    )


def selection_ranks(images: pd.DataFrame, definition: RecallDefinition) -> pd.Series:
    """Return per row its rank in the gallery's selection; smaller sets hold the first ranks."""
    rules = definition.select
    chosen = selection.select_images(
        images, count=None, place_degrees=rules.place_degrees, time=rules.time, seed=definition.seed
    )
    return pd.Series(chosen.rank, index=images.index)


@step("write queries")
def build_caption_queries(captions: pd.DataFrame, definition: RecallDefinition) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the queries and qrels tables: each caption is relevant to the image that it describes."""
    captions = captions.sort_values("query_id", ignore_index=True)
    queries = captions[["query_id", "text", "language", "style"]].assign(
        level=np.int8(1), labels=None, topic=None, source_image_id=captions["image_id"]
    )
    unreviewed = "caption" if has_written_answers(definition.captions.model) else "model"
    judge = np.where(captions["note"].isna(), unreviewed, "human")
    evidence = captions["note"].fillna("written for this image")
    qrels = captions[["query_id", "image_id"]].assign(relevance=np.int8(1), judged_by=judge, evidence=evidence)
    return queries, qrels.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))


def list_recall_prompts(definition: RecallDefinition) -> list[Prompt]:
    """Return the prompts of all chat models, and the cleaning rules."""
    return [Prompt(name=template.name, sha256=template.sha256) for template in load_recall_prompts(definition)]


class _QuestionGroup(NamedTuple):
    """The questions of a role about the images that are available, and their number per image."""

    role: str
    model: ChatModel
    requests: list[ChatRequest]
    per_image: int
    price: PriceOptions | None
    guess: tuple[float, float]  # tokens


def forecast_group(store: ReplyStore, group: _QuestionGroup, new: int) -> CallForecast:
    """Return what the questions without a stored answer cost; `new`: images that are not available yet."""
    if group.model.is_recorded:
        return forecast_calls(store, group.model, group.role, 0)
    stored = answer_requests(store, group.model, group.requests, offline=True)
    calls, known = stored.missing + group.per_image * new, stored.answers
    return forecast_calls(store, group.model, group.role, calls, known=known, price=group.price, guess=group.guess)


def group_questions(definition: RecallDefinition, shown: list[ChatImage]) -> Iterator[_QuestionGroup]:
    wanted = definition.captions
    requests, per_image = build_caption_requests(shown, definition)[1], len(wanted.prompt) * wanted.per_image
    side = definition.render.size if definition.render else _ASSUMED_SIDE
    asked = [load_prompt(name, definition.prompt_files).text for name in wanted.prompt]
    limit = limit_caption_tokens(choose_parameters(wanted.prompt[0]), wanted).max_tokens or wanted.options.get(
        "max_tokens"
    )
    guesses = [guess_tokens([text], limit, side) for text in asked]
    guess = sum(one[0] for one in guesses) / len(guesses), guesses[0][1]
    yield _QuestionGroup("captions", load_caption_model(definition), requests, per_image, wanted.price, guess)
    if definition.descriptions is not None:
        for language in wanted.languages:
            prompt = load_prompt(f"{language}/description", definition.prompt_files)
            limits = choose_parameters(prompt.name, definition.descriptions.max_tokens)
            requests = [build_image_request(image, prompt, limits) for image in shown]
            model, price = load_description_model(definition), definition.descriptions.price or wanted.price
            yield _QuestionGroup(
                f"descriptions, {language}",
                model,
                requests,
                1,
                price,
                guess_tokens([prompt.text], limits.max_tokens, side),
            )


def render_captions_page(stored: set_files.StoredSet) -> str:
    """Return the page of a recall set, with its ambiguous captions."""
    shown = select_recall(stored.tables, stored.manifest["notes"])
    small = set_thumbnails.make_set_thumbnails(stored, shown.image_ids)
    return render_recall_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)
