"""Captioners beside each other: what each wrote of the same images, and how that suits queries.

A captioner is the model, the options and the prompt of a definition. Its replies are cleaned by the rules of a build,
so that what a build would refuse is refused here; nothing is published.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from builders.recall import caption_cleaning, caption_rules
from builders.recall.captions import build_caption_requests, find_max_lengths, load_caption_model
from builders.recall.definition import RecallDefinition
from querytruth.backends.models.chat import ChatImage, Reply
from querytruth.questions import ChatSession, load_prompt, open_definition_replies, start_spending
from querytruth.review.page_parts import embed_jpeg, render_template

OPENING = 4  # characters (zh) or words (en) by which captions begin alike


@dataclass(frozen=True, slots=True)
class CaptionerFigures:
    """What a captioner came to on the images: `captions` that a build would take of `asked`, why others were refused,
    the median length in characters (zh) or words (en), the share of captions that another image has word for word, and
    of those that begin like the most; tokens of a reply, None where the endpoint counts none."""

    name: str
    model: str
    asked: int
    captions: int
    refused: dict[str, int]
    length: float
    repeated: float
    opening: str
    opening_share: float
    tokens: float | None
    texts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by image: what was read, why it was refused

    def as_row(self) -> dict[str, Any]:
        """Returns the figures without the texts."""
        row = asdict(self)
        del row["texts"]
        return row


def ask_captioner(
    name: str, definition: RecallDefinition, shown: Sequence[ChatImage], kept_by: RecallDefinition
) -> CaptionerFigures:
    """Asks about all images; replies lie in the store of `kept_by`, whose build pays for none of them again."""
    model = load_caption_model(definition)
    rows, requests = build_caption_requests(shown, definition)
    session = ChatSession(open_definition_replies(kept_by), start_spending(definition.budget))
    answers = session.ask(f"captions of {name}", model, requests)
    rules, most = caption_rules.load_cleaning_rules(definition.cleaning_files)[0], find_max_lengths(definition.captions)
    templates = {one: load_prompt(one, definition.prompt_files).text for one in definition.captions.prompt}
    texts: dict[str, list[tuple[str, str]]] = {image.image_id: [] for image in shown}
    for row, answer in zip(rows.itertuples(index=False), answers, strict=True):
        if not isinstance(answer, Reply):
            texts[row.image_id].append((answer.detail, answer.reason))
            continue
        asked = row.language, rules, templates[row.prompt], most.get(row.language)
        read = caption_cleaning.clean_caption(answer.text, answer.finish_reason, *asked)
        texts[row.image_id].append((answer.text if read.reason else read.text, read.reason))
    counted = [one.completion_tokens for one in answers if isinstance(one, Reply) and one.completion_tokens is not None]
    tokens = sum(counted) / len(counted) if counted else None
    return measure_captions(name, model.identity.name, texts, tokens)


def measure_captions(
    name: str, model: str, texts: Mapping[str, list[tuple[str, str]]], tokens: float | None = None
) -> CaptionerFigures:
    """Returns the figures of what was written; `texts`: by image text and reason, '' for a caption."""
    written = [pair for of_image in texts.values() for pair in of_image]
    captions = [text for text, reason in written if not reason]
    holders = Counter(text for of_image in texts.values() for text in {text for text, reason in of_image if not reason})
    openings = Counter(_open(text) for text in captions)
    opening, count = openings.most_common(1)[0] if openings else ("", 0)
    return CaptionerFigures(
        name=name,
        model=model,
        asked=len(written),
        captions=len(captions),
        refused=dict(sorted(Counter(reason for _, reason in written if reason).items())),
        length=float(median(map(_count, captions))) if captions else 0.0,
        repeated=sum(holders[text] > 1 for text in captions) / len(captions) if captions else 0.0,
        opening=opening if count > 1 else "",
        opening_share=count / len(captions) if count > 1 else 0.0,
        tokens=tokens,
        texts=dict(texts),
    )


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def _count(text: str) -> int:
    return len(text) if _is_chinese(text) else len(text.split())


def _open(text: str) -> str:
    return text[:OPENING] if _is_chinese(text) else " ".join(text.casefold().split()[:OPENING])


def render_captioners_page(
    name: str, compared: Sequence[CaptionerFigures], shown: Sequence[ChatImage], thumbnails: Mapping[str, bytes]
) -> str:
    """Returns one HTML document: the figures, and a row for each image with what each captioner wrote of it."""
    images = [
        {
            "name": image.file_name or image.image_id,
            "data": embed_jpeg(thumbnails[image.image_id]) if image.image_id in thumbnails else None,
            "cells": [one.texts.get(image.image_id, []) for one in compared],
        }
        for image in shown
    ]
    return render_template("captioners_page.html", name=name, compared=compared, images=images)
