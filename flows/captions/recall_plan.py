"""Plans a recall set: the images, and the calls whose replies are not stored yet."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from backends.chat import ChatImage, ChatModel, ChatRequest
from backends.replies.cached_replies import answer_requests
from backends.sets import set_files
from builders.ledger import Ledger
from flows.captions.captioning import (
    ChatSession,
    build_caption_requests,
    build_image_request,
    choose_parameters,
    load_caption_model,
    load_description_model,
    load_prompt,
    open_chat_session,
)
from flows.captions.recall_gallery import load_published_gallery, load_shown_images
from flows.definitions import RecallDefinition
from flows.gallery_set import choose_images
from flows.images.rendering import locate_rendered

# Seconds per image of the model and GPU in the seed article; the speed here is unknown before the first reply.
_CALL_SECONDS = 2.2
_BYTES_A_PIXEL = 0.2


def plan_recall(definition: RecallDefinition) -> dict[str, Any]:
    """Returns the funnel up to the images, and the calls that a build would make. Nothing is asked or rendered; the
    scan of the images is stored."""
    ledger = Ledger()
    images, folder = _images(definition, ledger)
    is_available = pd.Series([folder is None or (folder / path).is_file() for path in images["path"]], dtype=bool)
    shown = load_shown_images(images[is_available.to_numpy()], folder)
    chat_session, new = open_chat_session(definition), int((~is_available).sum())
    request_groups = list(_group_requests(definition, shown))
    missing = sum(_count_missing_replies(chat_session, model, requests) for model, requests, _ in request_groups)
    calls = missing + sum(each * new for model, _, each in request_groups if not model.is_recorded)
    wanted = definition.captions
    captions = len(images) * len(wanted.prompt) * wanted.per_image
    again = definition.ambiguity.rounds * captions if definition.ambiguity.policy == "recaption" else 0
    return {
        "funnel": ledger.funnel(),
        "pictures": len(images),
        "captions": captions,
        "model_calls": calls,
        "model_calls_again_at_most": again,
        "known_from_before": sum(each * len(images) for _, _, each in request_groups) - calls,
        "seconds_about": round(calls * _CALL_SECONDS, 1),
        "bytes_about": int(len(images) * definition.render.size**2 * _BYTES_A_PIXEL) if definition.render else 0,
    }


def _images(definition: RecallDefinition, ledger: Ledger) -> tuple[pd.DataFrame, Path | None]:
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


def _group_requests(
    definition: RecallDefinition, shown: list[ChatImage]
) -> Iterator[tuple[ChatModel, list[ChatRequest], int]]:
    """Yields model, requests about the available images, and the number of requests per image."""
    wanted = definition.captions
    yield (
        load_caption_model(definition),
        build_caption_requests(shown, definition)[1],
        len(wanted.prompt) * wanted.per_image,
    )
    if definition.descriptions is not None:
        for language in wanted.languages:
            prompt = load_prompt(f"{language}/description")
            limits = choose_parameters(prompt.name, definition.descriptions.max_tokens)
            yield load_description_model(definition), [build_image_request(image, prompt, limits) for image in shown], 1


def _count_missing_replies(chat_session: ChatSession, model: ChatModel, requests: list[ChatRequest]) -> int:
    return 0 if model.is_recorded else answer_requests(chat_session.store, model, requests, offline=True).missing
