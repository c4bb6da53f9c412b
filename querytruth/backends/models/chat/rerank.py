"""Endpoints that score how well an image fits a text: rerank (vLLM, Jina, and, for captions, text-embeddings-inference
and Cohere) and score (vLLM).

One pair per call. The endpoint's score may have any scale: it orders pairs, and has no meaning until it is calibrated
on people's answers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from querytruth.backends.models import chat, chat_completion
from querytruth.backends.models.chat.cross_encoder import read_captions
from querytruth.backends.models.chat.openai_compatible import (
    OpenAICompatibleModel,
    OpenAICompatibleOptions,
    message_content,
)
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError

TAKES_PAIRS = True
_OF_TEXTS = ("tei", "cohere")  # APIs that take no images


class RerankOptions(OpenAICompatibleOptions):
    """The options of an endpoint. `form`: its API; `captions`: a file of captions to send instead of the images."""

    form: Literal["rerank", "jina", "score", "tei", "cohere"] = "rerank"
    captions: Path | None = None


def load(options: RerankOptions) -> RerankModel:
    """Return the model; sends nothing before the first question. Raises UserError for a bad address, and where an API
    of texts is given no captions."""
    if options.form in _OF_TEXTS and options.captions is None:
        reason, next_step = "accepts texts only, not images", "set captions=FILE, or choose another form"
        raise UserError("load chat model", f"rerank: form {options.form}", reason, next_step)
    return RerankModel(options)


class RerankModel(OpenAICompatibleModel):
    """A model behind such an endpoint."""

    options: RerankOptions

    def __init__(self, options: RerankOptions) -> None:
        self.path = "/score" if options.form == "score" else "/rerank"
        super().__init__(options)
        self._captions = read_captions(options.captions)
        self._texts: dict[chat.ChatRequest, list[str] | chat.Failure] = {}

    @property
    def identity(self) -> ModelIdentity:
        """Return the model's name and parameters, the captions among them."""
        own = super().identity
        digest = {} if self._captions is None else {"captions": self._captions.identity.revision[:12]}
        return ModelIdentity(own.name, own.revision, own.parameters | digest)

    def reply(
        self, requests: Sequence[chat.ChatRequest], on_answers: chat.OnAnswers = chat.always_continue
    ) -> list[chat.ChatAnswer]:
        """Return the scores, after the captions of all images were found."""
        if self._captions is not None:
            self._texts = dict(zip(requests, self._captions.find_texts(requests), strict=True))
        return super().reply(requests, on_answers)

    def body(self, request: chat.ChatRequest) -> bytes | chat.Failure:
        """Return the body to post for a pair, or the failure."""
        document = self._show(request)
        if isinstance(document, chat.Failure):
            return document
        query, model = request.messages[0].text, {"model": self.options.name}
        fields: dict[str, Any] = model | {"query": query, "documents": [document], "top_n": 1}
        if self.options.form == "score":
            fields = model | {"text_1": query, "text_2": document}
        elif self.options.form == "tei":
            fields = {"query": query, "texts": [document], "truncate": True}
        return json.dumps(fields | self.options.extra).encode()

    def _show(self, request: chat.ChatRequest) -> Any:
        """Return the image, or its captions, in the form that the endpoint takes, or why it cannot be shown."""
        if self._captions is not None:
            found = self._texts[request]
            text = found if isinstance(found, chat.Failure) else "\n".join(found)
            return {"text": text} if self.options.form == "jina" and isinstance(text, str) else text
        content = message_content(chat.Message("user", "", request.messages[0].images))
        if isinstance(content, chat.Failure | str):
            return content if isinstance(content, chat.Failure) else chat.Failure("no_image", "final")
        images = [part for part in content if part["type"] == "image_url"]
        return {"image": images[0]["image_url"]["url"]} if self.options.form == "jina" else {"content": images}

    def read_score(self, envelope: object) -> float | None:
        """Return the score of the pair."""
        return chat_completion.read_rank_score(envelope)
