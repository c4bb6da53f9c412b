"""Asks a chat model about images, within limits of tokens and length, and turns its replies into captions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd

import prompts
from builders.recall import caption_cleaning, caption_rules
from builders.recall.definition import CaptionOptions, RecallDefinition
from querytruth.array_types import FloatArray
from querytruth.backends.images.rendering import PixelsJob, run_pixels_job
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatAnswer, ChatImage, ChatRequest, Failure, GenerationParameters, Reply
from querytruth.backends.steps import step
from querytruth.errors import UserError
from querytruth.questions import ChatSession, choose_ledger_bucket, load_prompt, require_a_reply
from querytruth.sets.decision_records import Override
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.manifest import Threshold, describe_threshold
from querytruth.sets.manifest_notes import Captions, CommonStart
from querytruth.sets.text_sieve import PRIVATE_KINDS, find_private_kind

_ARTICLE_MIN_TOKENS, _ARTICLE_MAX_TOKENS = 46, 48
REFERENCE_CAPTION_PROMPT = "zh/caption"  # whose length the models' own limits are made for: 46 to 48 tokens
_MAX_REPLY_LENGTH, _MAX_QUOTE = 200, 80  # characters of a rejected reply in the ledger, of one in a message
_MAX_OPENINGS = 20  # openings of a kind in the manifest
_FIRST_CHECK = 32  # captions after which shared replies are looked for while the model answers, then at twice as many
_LEAST_SHARED = 4  # images
_COMPARED_IMAGES, _SIDE = 64, 8  # of one reply; px
# Mean difference in grey levels, and correlation, of images of 8 x 8 pixels: 1% of the pairs of 100 photos of COCO are
# as near, and 98% of the photos and their cropped, brightened, shifted or recoloured copies.
_NEAR_COLOURS, _NEAR_SHAPES = 30, 0.9


def limit_caption_tokens(parameters: GenerationParameters, captions: CaptionOptions) -> GenerationParameters:
    """Return the parameters with the limits of the definition; else, for a model without limits of its own and in its
    options, with those of the article, whose minimum is for the reference prompt alone (`min_tokens` None)."""
    min_tokens, max_tokens = captions.min_tokens, captions.max_tokens
    if chat.takes_caption_limits(captions.model) and "max_tokens" not in captions.options:
        max_tokens = _ARTICLE_MAX_TOKENS if max_tokens is None else max_tokens
        if (
            min_tokens is None
            and parameters.min_tokens is None
            and "min_tokens" not in captions.options.get("extra", {})
        ):
            min_tokens = min(_ARTICLE_MIN_TOKENS, max_tokens)
    min_tokens = parameters.min_tokens if min_tokens is None else min_tokens
    return replace(parameters, min_tokens=min_tokens, max_tokens=max_tokens)


def find_max_lengths(captions: CaptionOptions) -> dict[str, int]:
    """Return the maximum of characters (zh) or words (en) of a caption by language; None for captions by people or
    another tool if the definition sets none."""
    if captions.max_length is not None:
        return dict.fromkeys(captions.languages, captions.max_length)
    if chat.has_written_answers(captions.model):
        return {}
    return {language: caption_cleaning.MAX_QUERY_LENGTH[language] for language in captions.languages}


def list_caption_thresholds(captions: CaptionOptions) -> list[Threshold]:
    """Return the most characters or words of a caption as thresholds of the manifest."""
    if captions.max_length is not None:
        return [describe_threshold("captions.max_length", "at most", captions.max_length)]
    lengths = sorted(find_max_lengths(captions).items())
    return [describe_threshold(f"captions.max_length.{language}", "at most", most) for language, most in lengths]


def load_caption_model(definition: RecallDefinition) -> chat.ChatModel:
    """Return the model that writes captions."""
    return chat.load_chat_model(definition.captions.model, **definition.captions.options)


def choose_caption_prompts(definition: RecallDefinition) -> RecallDefinition:
    """Return the definition with the prompt in the language of captions that were written beforehand, where it names
    no prompt."""
    captions = definition.captions
    if "prompt" in captions.model_fields_set or not chat.has_written_answers(captions.model):
        return definition
    languages = set(getattr(load_caption_model(definition), "languages", ())) & {"zh", "en"}
    if not languages:
        return definition
    prompts_in_languages = [f"{language}/caption" for language in sorted(languages, reverse=True)]
    captions = captions.model_copy(update={"prompt": prompts_in_languages})
    return definition.model_copy(update={"captions": captions})


def load_description_model(definition: RecallDefinition) -> chat.ChatModel:
    """Return the model that writes descriptions: one of its own, or that of the captions."""
    wanted = definition.descriptions
    if wanted is None or wanted.model is None:
        return load_caption_model(definition)
    return chat.load_chat_model(wanted.model, **wanted.options)


def build_caption_requests(
    images: Sequence[ChatImage], definition: RecallDefinition
) -> tuple[pd.DataFrame, list[ChatRequest]]:
    """Return the requests, and a row for each (query_id, image_id, prompt, language, style, item)."""
    rows, requests = [], []
    for name in definition.captions.prompt:
        prompt = load_prompt(name, definition.prompt_files)
        limits = limit_caption_tokens(choose_parameters(name), definition.captions)
        for image in images:
            for number in range(definition.captions.per_image):
                query_id = caption_rules.caption_query_id(image.image_id, name, number)
                item = caption_rules.caption_ledger_item(image.file_name, image.image_id, name, number)
                rows.append((query_id, image.image_id, name, prompt.language, name.partition("/")[2], item))
                requests.append(build_image_request(image, prompt, limits, number))
    return pd.DataFrame(rows, columns=["query_id", "image_id", "prompt", "language", "style", "item"]), requests


def build_image_request(
    image: ChatImage, prompt: prompts.PromptTemplate, limits: GenerationParameters, number: int = 0
) -> ChatRequest:
    """Return the request that asks the prompt about one image."""
    return ChatRequest((chat.Message("user", prompt.text, (image,)),), limits, number=number, language=prompt.language)


def choose_parameters(prompt: str, max_tokens: int | None = None) -> GenerationParameters:
    """Return the generation parameters of a prompt. The models' defaults suit the article's prompt; other texts may be
    shorter."""
    if prompt in (REFERENCE_CAPTION_PROMPT, "zh/recaption"):
        return GenerationParameters(max_tokens=max_tokens)
    return GenerationParameters(max_tokens=max_tokens, min_tokens=0)


@step("caption images")
def caption_images(
    images: Sequence[ChatImage],
    definition: RecallDefinition,
    chat_session: ChatSession,
    overrides: Mapping[str, Override],
    ledger: Ledger,
) -> tuple[pd.DataFrame, list[ChatAnswer], caption_rules.CaptionOverrides]:
    """Ask about every image. Return a row per request that has a reply, or a caption that a person wrote instead; the
    answers; and what people wrote. Requests that failed for good are rejected; those that may still be answered are
    pending."""
    rows, requests = build_caption_requests(images, definition)
    wanted = caption_rules.select_caption_overrides(rows, overrides)
    answers = chat_session.ask("captions", load_caption_model(definition), requests, _make_fault_finder(definition))
    require_a_reply("caption images", definition.name, answers)
    pairs = zip(rows["query_id"], answers, strict=True)
    has_caption = pd.Series([isinstance(answer, Reply) or query_id in wanted.texts for query_id, answer in pairs])
    answers_with_caption = [answer for answer, good in zip(answers, has_caption, strict=True) if good]
    pairs = zip(answers, has_caption, strict=True)
    without_caption = [answer for answer, good in pairs if isinstance(answer, Failure) and not good]
    buckets = [choose_ledger_bucket(failure) for failure in without_caption]
    reasons, details = [one.reason for one in without_caption], [one.detail for one in without_caption]
    rejections = _caption_rejections(rows[~has_caption], buckets, reasons, detail=details)
    ledger.record_stage("caption", "caption", len(rows), int(has_caption.sum()), rejections)
    return rows[has_caption].reset_index(drop=True), answers_with_caption, wanted


def _make_fault_finder(definition: RecallDefinition) -> Callable[[ChatRequest, Reply], str]:
    """Return a function that returns why a reply is not a caption, by the rules of cleaning; '' for a caption. Raises
    UserError if unlike images share replies."""
    rules, _ = caption_rules.load_cleaning_rules(definition.cleaning_files)
    max_lengths = find_max_lengths(definition.captions)
    captions: dict[ChatImage, str] = {}

    def find_fault(request: ChatRequest, reply: Reply) -> str:
        language = request.language or ""
        asked = language, rules, request.messages[-1].text, max_lengths.get(language)
        cleaned = caption_cleaning.clean_caption(reply.text, reply.finish_reason, *asked)
        count = len(captions)
        if cleaned.text:
            captions[request.messages[-1].images[0]] = cleaned.text
        if count < len(captions) >= _FIRST_CHECK and len(captions).bit_count() == 1:
            _check_shared_replies(captions, definition)
        return cleaned.reason

    return find_fault


def _check_shared_replies(captions: Mapping[ChatImage, str], definition: RecallDefinition) -> None:
    """Raise UserError if different-looking images share replies, as from a server that answers from another image's
    cache: one reply serves a third of the images, or several, each for two and a tenth of the images, serve half. Two
    photos of one thing may well have one caption."""
    images, counts, text = list(captions), [0], ""
    fewest = max(2, len(images) / 10)
    for group in caption_cleaning.group_near_texts(list(captions.values())):
        compared = group[:_COMPARED_IMAGES] if len(group) >= fewest else []
        unlike = _count_unlike([images[place] for place in compared]) * len(group) // max(len(compared), 1)
        text = captions[images[group[0]]] if unlike > max(counts) else text
        counts += [unlike] if unlike >= fewest else []
    if max(counts) < max(_LEAST_SHARED, len(images) / 3) and sum(counts) < max(_LEAST_SHARED, len(images) / 2):
        return
    options = definition.captions.options
    name = str(options.get("name", definition.captions.model))
    found = f"gives the same reply to images that look different: {len(counts) - 1} replies cover {sum(counts)} of "
    next_step = (
        "make the server read each image and turn off its cache, run `querytruth replies refresh` with the "
        f"definition and --model {name}, then build again; if all images are of one kind, ask for more detail"
    )
    where = f"{name} at {options['base_url']}" if "base_url" in options else name
    raise UserError("caption images", where, f"{found}{len(images)} images ({text[:_MAX_QUOTE]!r})", next_step)


def _count_unlike(images: Sequence[ChatImage]) -> int:
    """Return how many images remain if one of each group of similar-looking images stays."""
    grids: list[FloatArray] = []
    for pixels in map_in_workers(run_pixels_job, [PixelsJob(str(one.path), _SIDE, one.sha256) for one in images]):
        if isinstance(pixels, np.ndarray):
            rows, columns = (np.linspace(0, side - 1, _SIDE).round().astype(int) for side in pixels.shape[:2])
            grid = pixels[rows][:, columns].astype(np.float64)
            grids += [grid] if not any(_look_alike(grid, other) for other in grids) else []
    return len(grids)


def _look_alike(one: FloatArray, other: FloatArray) -> bool:
    first, second = (grid.mean(axis=2).ravel() - grid.mean() for grid in (one, other))
    shapes = first @ second / max(np.linalg.norm(first) * np.linalg.norm(second), 1e-9)
    return bool(np.abs(one - other).mean() < _NEAR_COLOURS or shapes > _NEAR_SHAPES)


def _caption_rejections(
    rows: pd.DataFrame, bucket: str | list[str], reasons: list[str], **columns: list[str]
) -> pd.DataFrame:
    ids = {"item_id": rows["query_id"], "image_id": rows["image_id"], "language": rows["language"]}
    return rejection_rows(rows["item"], bucket, reasons, **ids, **columns)


@step("clean captions")
def clean_captions(
    rows: pd.DataFrame,
    answers: Sequence[ChatAnswer],
    wanted: caption_rules.CaptionOverrides,
    definition: RecallDefinition,
    ledger: Ledger,
    images: Sequence[ChatImage] = (),
) -> tuple[pd.DataFrame, Captions]:
    """Return the rows that have a caption, as `text`, with `note` (why a person wrote it); and for the manifest what
    was rejected, what was stripped, and the frequent openings of captions that no rule changed. Raises UserError if a
    model gave one reply to `images` that look different."""
    rules, _ = caption_rules.load_cleaning_rules(definition.cleaning_files)
    templates = {name: load_prompt(name, definition.prompt_files).text for name in rows["prompt"].unique()}
    max_lengths = find_max_lengths(definition.captions)
    cleaned = []
    for row, answer in zip(rows.itertuples(index=False), answers, strict=True):
        if row.query_id in wanted.texts or isinstance(answer, Failure):
            cleaned.append(caption_cleaning.CleanedCaption(wanted.texts.get(row.query_id, "")))
            continue
        asked = row.language, rules, templates[row.prompt], max_lengths.get(row.language)
        caption = caption_cleaning.clean_caption(answer.text, answer.finish_reason, *asked)
        kind = None if row.query_id in wanted.effective_ids else find_private_kind(caption.text, definition.quarantine)
        cleaned.append(caption_cleaning.CleanedCaption("", kind) if kind else caption)
    if not chat.has_written_answers(definition.captions.model):
        shown = {image.image_id: image for image in images}
        pairs = zip(rows["image_id"], rows["query_id"], cleaned, strict=True)
        replied = {shown[image]: one.text for image, query, one in pairs if one.text and query not in wanted.texts}
        _check_shared_replies(replied, definition)
    notes_of = [wanted.reason(query_id) for query_id in rows["query_id"]]
    texts = rows.assign(text=pd.array([one.text for one in cleaned], dtype="str"), note=pd.array(notes_of, dtype="str"))
    is_repeated = _find_repeated_captions(texts)
    reasons = [
        one.reason or ("repeated_caption" if twice else "") for one, twice in zip(cleaned, is_repeated, strict=True)
    ]
    accepted = pd.Series([not reason for reason in reasons], index=rows.index)
    rejected_replies = [
        answer for answer, good in zip(answers, accepted, strict=True) if isinstance(answer, Reply) and not good
    ]
    is_private = [reason in PRIVATE_KINDS for reason in reasons if reason]
    withheld = zip(rejected_replies, is_private, strict=True)
    replies_text = ["" if private else reply.text[:_MAX_REPLY_LENGTH] for reply, private in withheld]
    buckets = ["quarantined" if private else "rejected" for private in is_private]
    rejections = _caption_rejections(rows[~accepted], buckets, [one for one in reasons if one], text=replies_text)
    ledger.record_stage("clean", "caption", len(rows), int(accepted.sum()), rejections)
    is_replied = texts["note"].isna()
    notes = {
        "asked": ledger.stages[-2].entered,  # also in vain
        "replies": sum(isinstance(answer, Reply) for answer in answers),
        "rejected": dict(sorted(Counter(filter(None, reasons)).items())),
        **({"written_by_people": len(wanted.texts)} if wanted.texts else {}),
        **_openings(texts[is_replied], [one for one, replied in zip(cleaned, is_replied, strict=True) if replied]),
    }
    return texts[accepted].reset_index(drop=True), cast(Captions, notes)


def _find_repeated_captions(texts: pd.DataFrame) -> pd.Series:
    """Return whether an image has the same caption already, in the order of the requests; captions that people wrote
    come first."""
    first = texts.assign(replied=texts["note"].isna()).sort_values("replied", kind="stable")
    again = first.duplicated(["image_id", "language", "style", "text"]) & (first["text"] != "")
    return again.reindex(texts.index)


def _openings(texts: pd.DataFrame, cleaned: list[caption_cleaning.CleanedCaption]) -> dict[str, Any]:
    stripped, openings = {}, {}
    for language in sorted(texts["language"].unique()):
        own = [one for one, of in zip(cleaned, texts["language"], strict=True) if of == language]
        counts = Counter(opening for one in own for opening in one.openings)
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_MAX_OPENINGS]
        stripped[language] = [{"text": text, "count": count} for text, count in ranked]
        openings[language] = frequent_openings(own, language)
    return {"stripped": stripped, "openings": openings}


def frequent_openings(
    captions: Sequence[caption_cleaning.CleanedCaption], language: str, most: int = _MAX_OPENINGS
) -> list[CommonStart]:
    """Return the most frequent openings of the captions from which no opening was stripped (the first 4 characters in
    Chinese, the first 3 casefolded words in English), with their share of these captions and an example."""
    untouched = [caption.text for caption in captions if caption.text and not caption.openings]
    starts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for text in untouched:
        start = text[:4] if language == "zh" else " ".join(text.casefold().split()[:3])
        starts[start] += 1
        examples[start] = min(text, examples.get(start, text), key=lambda e: (len(e), e))
    ranked = sorted(starts.items(), key=lambda item: (-item[1], item[0]))[:most]
    return [
        {"text": start, "count": count, "share": round(count / len(untouched), 4), "example": examples[start]}
        for start, count in ranked
    ]


@step("describe images")
def describe_images(
    images: Sequence[ChatImage], definition: RecallDefinition, chat_session: ChatSession
) -> pd.DataFrame | None:
    """Return a description of each image (image_id, text) for finding confusable images; None where the definition has
    none."""
    wanted = definition.descriptions
    if wanted is None:
        return None
    rules, _ = caption_rules.load_cleaning_rules(definition.cleaning_files)
    descriptions = []
    for language in definition.captions.languages:
        prompt = load_prompt(f"{language}/description", definition.prompt_files)
        limits = choose_parameters(prompt.name, wanted.max_tokens)
        requests = [build_image_request(image, prompt, limits) for image in images]
        answers = chat_session.ask(f"descriptions, {language}", load_description_model(definition), requests)
        for image, answer in zip(images, answers, strict=True):
            if isinstance(answer, Reply):
                text = caption_cleaning.clean_description(
                    answer.text, answer.finish_reason, language, rules, prompt.text
                ).text
                descriptions += [(image.image_id, text)] if text else []
    return pd.DataFrame(descriptions, columns=["image_id", "text"])
