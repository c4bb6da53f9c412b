"""The questions of a judge about the images of a set."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import prompts
from backends.chat import ChatImage, ChatModel, ChatRequest, GenerationParameters, Message
from backends.replies.reply_store import ReplyStore, open_reply_store
from backends.sets.image_locations import locate_images
from backends.sets.set_files import StoredSet
from builders.errors import UserError
from builders.records import content_id
from flows.prompt_loading import load_prompt

JUDGE_STAGE = "judge"
_MAX_TOKENS = 200


class JudgeQuestions:
    """Builds the questions about a version's queries and images. `grades`: those that it offers, 0 among them."""

    def __init__(self, stored: StoredSet, image_ids: Iterable[str]) -> None:
        grades = {int(grade): str(text) for grade, text in stored.manifest["grades"].items()}
        self._described = {0: "not relevant", **grades}
        self.grades = sorted(self._described)
        self.stored, self.images = stored, _find_images(stored, set(image_ids))
        queries = stored.tables.queries[["query_id", "text", "language"]].astype("str")
        self.queries = {query: (text, language) for query, text, language in queries.itertuples(index=False, name=None)}
        self._prompts = {language: _load_judge_prompt(language) for language in sorted(set(queries["language"]))}

    def build(
        self, query: str, image: ChatImage, *, text: str | None = None, is_reversed: bool = False, number: int = 0
    ) -> ChatRequest:
        """Returns the question whether the image fits the query. `text` replaces the query's; `is_reversed` lists the
        grades from the highest down; `number` distinguishes several askings."""
        own_text, language = self.queries[query]
        listed = "\n".join(f"{grade}: {self._described[grade]}" for grade in sorted(self.grades, reverse=is_reversed))
        question = self._prompts[language].fill(query=own_text if text is None else text, grades=listed)
        limits = GenerationParameters(max_tokens=_MAX_TOKENS, min_tokens=0, temperature=0.0)
        return ChatRequest((Message("user", question, (image,)),), limits, number=number, language=language)

    def describe_judge(self, judge: ChatModel) -> dict[str, Any]:
        """Returns who judges with what: model, prompts, grades and size of the images, with a digest of these."""
        digests = {f"{language}/judge": prompt.sha256 for language, prompt in self._prompts.items()}
        record = {**judge.identity.as_record(), "prompts": digests, "grades": self.grades}
        record["render"] = self.stored.manifest["notes"].get("render")  # the size of what it saw
        return {**record, "digest": content_id("judge", repr(sorted(record.items())))}


def open_judge_store(stored: StoredSet) -> ReplyStore:
    """Returns the reply store beside the set's versions."""
    return open_reply_store(stored.path.parent / "replies.sqlite")


def _load_judge_prompt(language: str) -> prompts.PromptTemplate:
    return load_prompt(f"{language}/judge")


def _find_images(stored: StoredSet, image_ids: set[str]) -> dict[str, ChatImage]:
    names = dict(zip(stored.tables.images["image_id"], stored.tables.images["file_name"], strict=True))
    found = {}
    for place in locate_images(stored):
        if place.image_id in image_ids:
            if place.location is None or "://" in place.location or place.sha256 is None:
                reason = "is not at hand, so that no judge can see it"
                raise UserError(
                    JUDGE_STAGE, place.image_id, reason, "build the set with `render`, or leave out --judge"
                )
            name = names[place.image_id]
            file_name = name if isinstance(name, str) else ""
            found[place.image_id] = ChatImage(Path(place.location), place.sha256, file_name, place.image_id)
    return found
