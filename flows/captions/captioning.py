"""Pictures put to a chat model: what is asked of each, what came back, and which of it is a caption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

import prompts
from backends import chat
from backends.chat import Answer, ChatModel, ChatRequest, Failure, Message, Parameters, Reply, ShownPicture
from backends.replies.asking import Asked, asked
from backends.replies.reply_store import ReplyStore
from builders.errors import UserError
from builders.ledger import Ledger, turned_away
from builders.recall.caption_rules import CaptionRules, read_rules
from builders.recall.captions import Cleaned, clean, frequent_openings
from builders.records import content_id
from flows.definitions import RecallDefinition
from flows.steps import current, step

ARTICLES_PROMPT = "zh/caption"  # whose length the models' own limits are made for: 46 to 48 tokens
_SHOWN = 200  # characters of a rejected reply in the ledger
_LISTED = 20  # openings of a kind in the manifest


@dataclass(slots=True)
class Talk:
    """All that a build asks of chat models, and what it came to: models, digests of the answers, calls. `spoken` is
    kept by role; a role that asks several times is counted as one."""

    store: ReplyStore
    spoken: dict[str, list[Asked]] = field(default_factory=dict)
    models: dict[str, ChatModel] = field(default_factory=dict)

    def ask(self, role: str, model: ChatModel, requests: Sequence[ChatRequest]) -> list[Answer]:
        """Answers in the order of the requests; what the store knows costs nothing."""
        run = current()
        with run.reporter.bar(role, len(requests), "replies") as advance:
            found = asked(
                self.store,
                model,
                requests,
                offline=run.offline,
                retry_failures=run.retry_failures,
                advance=advance,
            )
        self.spoken.setdefault(role, []).append(found)
        self.models[role] = model
        return found.answers

    def described(self) -> list[dict[str, Any]]:
        """The models, as the manifest names them."""
        return [{"role": role, **model.identity.described()} for role, model in sorted(self.models.items())]

    def inputs(self) -> list[dict[str, Any]]:
        """The answers as inputs of the build: a digest per role, whatever they cost."""
        return [
            {
                "file": f"replies: {role}",
                "sha256": content_id("replies", *[one.digest for one in rounds]),
                "counts": {"replies": sum(isinstance(a, Reply) for one in rounds for a in one.answers)},
            }
            for role, rounds in sorted(self.spoken.items())
        ]

    def costs(self) -> dict[str, dict[str, int]]:
        """Per role the calls that were made now, and the answers that were known or are still missing."""
        return {
            role: {name: sum(getattr(one, name) for one in rounds) for name in ("calls", "hits", "missing")}
            for role, rounds in sorted(self.spoken.items())
        }


def open_talk(definition: RecallDefinition) -> Talk:
    """With the reply store that the definition names, or the one beside the set's versions."""
    return Talk(ReplyStore(definition.replies or definition.out / definition.name / "replies.sqlite"))


def caption_model(definition: RecallDefinition) -> ChatModel:
    """The model that writes captions."""
    return chat.load(definition.captions.model, **definition.captions.options)


def describing_model(definition: RecallDefinition) -> ChatModel:
    """The model that describes: one of its own, or the captions'."""
    wanted = definition.descriptions
    if wanted is None or wanted.model is None:
        return caption_model(definition)
    return chat.load(wanted.model, **wanted.options)


def load_prompt(name: str) -> prompts.Prompt:
    """A prompt by its name; a UserError where there is none."""
    try:
        return prompts.load(name)
    except OSError:
        raise UserError("read prompt", name, "is no prompt", "choose one of the files below prompts/") from None


def questions(pictures: Sequence[ShownPicture], definition: RecallDefinition) -> tuple[pd.DataFrame, list[ChatRequest]]:
    """What is asked of the pictures: requests, and a row each (query_id, image_id, prompt, language, style, item)."""
    rows, requests = [], []
    for name in definition.captions.prompt:
        prompt, limits = load_prompt(name), limits_of(name)
        for picture in pictures:
            for number in range(definition.captions.per_picture):
                rows.append(_row(picture, name, number))
                requests.append(about(picture, prompt, limits, number))
    return pd.DataFrame(rows, columns=["query_id", "image_id", "prompt", "language", "style", "item"]), requests


def about(picture: ShownPicture, prompt: prompts.Prompt, limits: Parameters, number: int = 0) -> ChatRequest:
    """The prompt as a question about a picture."""
    return ChatRequest((Message("user", prompt.text, (picture,)),), limits, number=number, language=prompt.language)


def limits_of(prompt: str, max_tokens: int | None = None) -> Parameters:
    """The models' own limits suit the article's prompt; other texts may be shorter."""
    if prompt in (ARTICLES_PROMPT, "zh/recaption"):
        return Parameters(max_tokens=max_tokens)
    return Parameters(max_tokens=max_tokens, min_tokens=0)


def _row(picture: ShownPicture, prompt: str, number: int) -> tuple[str, ...]:
    language, _, style = prompt.partition("/")
    query_id = content_id("q", "recall", picture.image_id, prompt, str(number))
    item = f"{picture.file_name or picture.image_id} · {prompt}" + (f" {number + 1}" if number else "")
    return query_id, picture.image_id, prompt, language, style, item


@step("caption pictures")
def caption_pictures(
    pictures: Sequence[ShownPicture], definition: RecallDefinition, talk: Talk, ledger: Ledger
) -> tuple[pd.DataFrame, list[Reply]]:
    """The rows that have a reply, and the replies. What failed for good is rejected, what may come yet is pending."""
    rows, requests = questions(pictures, definition)
    answers = talk.ask("captions", caption_model(definition), requests)
    failed = [answer if isinstance(answer, Failure) else None for answer in answers]
    told = pd.Series([failure is None for failure in failed])
    ledger.close("caption", "caption", len(rows), int(told.sum()), *_failures(rows, failed))
    if not told.any():
        first = next(failure for failure in failed if failure is not None)
        reason = f"got no reply to any of {len(rows)} questions ({first.reason}: {first.detail})"
        next_step = "run without --offline" if current().offline else "mend that, then run the same command"
        raise UserError("caption pictures", definition.name, reason, next_step)
    return rows[told].reset_index(drop=True), [answer for answer in answers if isinstance(answer, Reply)]


def _failures(rows: pd.DataFrame, failed: list[Failure | None]) -> list[pd.DataFrame]:
    frames = []
    for bucket, kinds in (("rejected", ("final",)), ("pending", ("transient", "blocked"))):
        pairs = [(item, f) for item, f in zip(rows["item"], failed, strict=True) if f and f.kind in kinds]
        reasons, details = [f.reason for _, f in pairs], [f.detail for _, f in pairs]
        frames.append(turned_away([item for item, _ in pairs], bucket, reasons, details))
    return frames


def cleaning_rules() -> tuple[CaptionRules, list[prompts.Prompt]]:
    """The rules of both languages, and the files that they stand in."""
    files = [prompts.load(f"{language}/cleaning.yaml") for language in ("en", "zh")]
    return read_rules({file.language: file.text for file in files}), files


@step("clean captions")
def clean_captions(rows: pd.DataFrame, replies: list[Reply], ledger: Ledger, notes: dict[str, Any]) -> pd.DataFrame:
    """The rows with their caption as `text`, without those whose reply holds none; `notes` gets what people should
    know: what was stripped, rejected, and how captions begin that no rule touched."""
    rules, _ = cleaning_rules()
    templates = {name: prompts.load(name).text for name in rows["prompt"].unique()}
    cleaned = [
        clean(reply.text, reply.finish_reason, row.language, rules, templates[row.prompt])
        for row, reply in zip(rows.itertuples(index=False), replies, strict=True)
    ]
    texts = rows.assign(text=pd.array([one.text for one in cleaned], dtype="str"))
    again = texts.duplicated(["image_id", "language", "style", "text"]) & (texts["text"] != "")
    reasons = [one.reason or ("repeated_caption" if twice else "") for one, twice in zip(cleaned, again, strict=True)]
    kept = pd.Series([not reason for reason in reasons], index=rows.index)
    away = turned_away(
        list(rows["item"][~kept]),
        "rejected",
        [reason for reason in reasons if reason],
        [reply.text[:_SHOWN] for reply, good in zip(replies, kept, strict=True) if not good],
    )
    ledger.close("clean", "caption", len(rows), int(kept.sum()), away)
    notes |= {"replies": len(rows), "rejected": dict(sorted(Counter(filter(None, reasons)).items()))}
    notes |= _openings(texts, cleaned)
    return texts[kept].reset_index(drop=True)


def _openings(texts: pd.DataFrame, cleaned: list[Cleaned]) -> dict[str, Any]:
    stripped, openings = {}, {}
    for language in sorted(texts["language"].unique()):
        own = [one for one, of in zip(cleaned, texts["language"], strict=True) if of == language]
        counts = Counter(opening for one in own for opening in one.openings)
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_LISTED]
        stripped[language] = [{"text": text, "count": count} for text, count in ranked]
        openings[language] = [
            {"text": o.text, "count": o.count, "share": round(o.share, 4), "example": o.example}
            for o in frequent_openings(own, language, most=_LISTED)
        ]
    return {"stripped": stripped, "openings": openings}


@step("describe pictures")
def describe_pictures(
    pictures: Sequence[ShownPicture], definition: RecallDefinition, talk: Talk
) -> pd.DataFrame | None:
    """What else is said of each picture (image_id, text), for finding rivals; None where the definition wants none."""
    wanted = definition.descriptions
    if wanted is None:
        return None
    rules, _ = cleaning_rules()
    found = []
    for language in definition.captions.languages:
        prompt = load_prompt(f"{language}/description")
        limits = limits_of(prompt.name, wanted.max_tokens)
        requests = [about(picture, prompt, limits) for picture in pictures]
        answers = talk.ask(f"descriptions, {language}", describing_model(definition), requests)
        for picture, answer in zip(pictures, answers, strict=True):
            if isinstance(answer, Reply):
                text = clean(answer.text, answer.finish_reason, language, rules, prompt.text).text
                found += [(picture.image_id, text)] if text else []
    return pd.DataFrame(found, columns=["image_id", "text"])
