"""Pictures put to a chat model: what is asked of each, what came back, and which of it is a caption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
from builders.recall.caption_names import caption_id, caption_item
from builders.recall.caption_rules import CaptionRules, read_rules
from builders.recall.captions import Cleaned, clean, frequent_openings
from builders.recall.rescued_captions import WantedCaptions, wanted_captions
from builders.records import content_id
from builders.rescues import Rescue
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
    query_id = caption_id(picture.image_id, prompt, number)
    item = caption_item(picture.file_name, picture.image_id, prompt, number)
    return query_id, picture.image_id, prompt, language, style, item


@dataclass(frozen=True, slots=True)
class Captioned:
    """A row per question that has a reply, or a caption that a person wrote in its place, and what was answered."""

    rows: pd.DataFrame
    answers: list[Answer]
    wanted: WantedCaptions


@step("caption pictures")
def caption_pictures(
    pictures: Sequence[ShownPicture],
    definition: RecallDefinition,
    talk: Talk,
    rescues: Mapping[str, Rescue],
    ledger: Ledger,
) -> Captioned:
    """Ask about every picture. What failed for good is rejected, what may come yet is pending."""
    rows, requests = questions(pictures, definition)
    wanted = wanted_captions(rows, rescues)
    answers = talk.ask("captions", caption_model(definition), requests)
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    if len(failures) == len(answers):
        reason = f"got no reply to any of {len(rows)} questions ({failures[0].reason}: {failures[0].detail})"
        next_step = "run without --offline" if current().offline else "mend that, then run the same command"
        raise UserError("caption pictures", definition.name, reason, next_step)
    pairs = zip(rows["query_id"], answers, strict=True)
    there = pd.Series([isinstance(answer, Reply) or query_id in wanted.texts for query_id, answer in pairs])
    failed = [None if good or isinstance(one, Reply) else one for one, good in zip(answers, there, strict=True)]
    ledger.close("caption", "caption", len(rows), int(there.sum()), *_failures(rows, failed))
    kept = [answer for answer, good in zip(answers, there, strict=True) if good]
    return Captioned(rows[there].reset_index(drop=True), kept, wanted)


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
def clean_captions(captioned: Captioned, ledger: Ledger, notes: dict[str, Any]) -> pd.DataFrame:
    """The rows with their caption as `text`, without those whose reply holds none; `note`: why a person wrote it. The
    notes get what people should know: what was stripped, rejected, and how captions begin that no rule touched."""
    rows, answers, wanted = captioned.rows, captioned.answers, captioned.wanted
    rules, _ = cleaning_rules()
    templates = {name: prompts.load(name).text for name in rows["prompt"].unique()}
    cleaned = [
        _cleaned(answer, row.language, rules, templates[row.prompt], wanted.texts.get(row.query_id))
        for row, answer in zip(rows.itertuples(index=False), answers, strict=True)
    ]
    notes_of = [wanted.reason(query_id) for query_id in rows["query_id"]]
    texts = rows.assign(text=pd.array([one.text for one in cleaned], dtype="str"), note=pd.array(notes_of, dtype="str"))
    again = _said_again(texts)
    reasons = [one.reason or ("repeated_caption" if twice else "") for one, twice in zip(cleaned, again, strict=True)]
    kept = pd.Series([not reason for reason in reasons], index=rows.index)
    gone = [answer for answer, good in zip(answers, kept, strict=True) if isinstance(answer, Reply) and not good]
    details = [reply.text[:_SHOWN] for reply in gone]
    away = turned_away(list(rows["item"][~kept]), "rejected", [reason for reason in reasons if reason], details)
    ledger.close("clean", "caption", len(rows), int(kept.sum()), away)
    notes["replies"] = sum(isinstance(answer, Reply) for answer in answers)
    notes["rejected"] = dict(sorted(Counter(filter(None, reasons)).items()))
    if wanted.texts:
        notes["written_by_people"] = len(wanted.texts)
    is_replied = texts["note"].isna()
    notes |= _openings(texts[is_replied], [one for one, replied in zip(cleaned, is_replied, strict=True) if replied])
    return texts[kept].reset_index(drop=True)


def _cleaned(answer: Answer, language: str, rules: CaptionRules, template: str, written: str | None) -> Cleaned:
    if written is not None or isinstance(answer, Failure):
        return Cleaned(written or "")
    return clean(answer.text, answer.finish_reason, language, rules, template)


def _said_again(texts: pd.DataFrame) -> pd.Series:
    """Whether a picture was called so already, in the order of the questions; what people wrote comes before them."""
    first = texts.assign(replied=texts["note"].isna()).sort_values("replied", kind="stable")
    again = first.duplicated(["image_id", "language", "style", "text"]) & (first["text"] != "")
    return again.reindex(texts.index)


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
