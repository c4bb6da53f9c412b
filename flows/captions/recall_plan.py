"""What a recall set would cost: pictures, and the questions whose answers are not known yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from backends.chat import ChatModel, ChatRequest, ShownPicture
from backends.replies.asking import asked
from backends.sets import set_files
from builders.ledger import Ledger
from flows.captions.captioning import (
    Talk,
    about,
    caption_model,
    describing_model,
    limits_of,
    load_prompt,
    open_talk,
    questions,
)
from flows.captions.recall_gallery import published_gallery, shown_pictures
from flows.definitions import RecallDefinition
from flows.gallery_set import choose_pictures
from flows.pictures.rendering import rendered_store

# A picture captioned by the seed article's model and GPU; what an answer takes here, nobody knows before the first.
_CALL_SECONDS = 2.2
_BYTES_A_PIXEL = 0.2


def plan_recall(definition: RecallDefinition) -> dict[str, Any]:
    """The funnel up to the pictures, and the calls that a build would make. Nothing is asked or rendered; what was
    read of the pictures is kept."""
    ledger = Ledger()
    images, folder = _pictures(definition, ledger)
    at_hand = pd.Series([folder is None or (folder / path).is_file() for path in images["path"]], dtype=bool)
    shown = shown_pictures(images[at_hand.to_numpy()], folder)
    talk, new = open_talk(definition), int((~at_hand).sum())
    asks = list(_asks(definition, shown))
    missing = sum(_missing(talk, model, requests) for model, requests, _ in asks)
    calls = missing + sum(each * new for model, _, each in asks if not model.is_recorded)
    wanted = definition.captions
    captions = len(images) * len(wanted.prompt) * wanted.per_picture
    again = definition.ambiguity.rounds * captions if definition.ambiguity.policy == "recaption" else 0
    return {
        "funnel": ledger.funnel(),
        "pictures": len(images),
        "captions": captions,
        "model_calls": calls,
        "model_calls_again_at_most": again,
        "known_from_before": sum(each * len(images) for _, _, each in asks) - calls,
        "seconds_about": round(calls * _CALL_SECONDS, 1),
        "bytes_about": int(len(images) * definition.render.size**2 * _BYTES_A_PIXEL) if definition.render else 0,
    }


def _pictures(definition: RecallDefinition, ledger: Ledger) -> tuple[pd.DataFrame, Path | None]:
    """The images with the paths that a set gives them, and the folder in which those lie once they are rendered."""
    if definition.gallery is not None:
        gallery = published_gallery(set_files.find(definition.gallery, definition.out))
        ledger.stages.extend(gallery.ledger.stages)
        return gallery.tables.images, gallery.rendered
    described = definition.as_gallery()
    assert described.render is not None
    chosen = choose_pictures(described, ledger).images
    inside, store = rendered_store(chosen["image_id"], described.render, definition.out / definition.name)
    return chosen.rename(columns={"item": "file_name"}).assign(path=inside), store


def _asks(
    definition: RecallDefinition, shown: list[ShownPicture]
) -> Iterator[tuple[ChatModel, list[ChatRequest], int]]:
    """Model, requests about the pictures at hand, and the number of requests a picture."""
    wanted = definition.captions
    yield caption_model(definition), questions(shown, definition)[1], len(wanted.prompt) * wanted.per_picture
    if definition.descriptions is not None:
        for language in wanted.languages:
            prompt = load_prompt(f"{language}/description")
            limits = limits_of(prompt.name, definition.descriptions.max_tokens)
            yield describing_model(definition), [about(picture, prompt, limits) for picture in shown], 1


def _missing(talk: Talk, model: ChatModel, requests: list[ChatRequest]) -> int:
    return 0 if model.is_recorded else asked(talk.store, model, requests, offline=True).missing
