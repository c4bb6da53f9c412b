"""Endpoints that score how well an image fits a text: rerank (vLLM, Jina and others) and score (vLLM).

One pair a call. The score is what the endpoint says, on whatever scale: it orders pairs, and is calibrated on people's
answers before it means anything.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from querytruth.backends.models import chat, chat_completion
from querytruth.backends.models.chat.openai_compatible import (
    OpenAICompatibleModel,
    OpenAICompatibleOptions,
    message_content,
)

TAKES_PAIRS = True


class RerankOptions(OpenAICompatibleOptions):
    """The options of an endpoint. `form`: which API it has."""

    form: Literal["rerank", "jina", "score"] = "rerank"


def load(options: RerankOptions) -> RerankModel:
    """Returns the model; sends nothing before the first question. Raises UserError for a bad address."""
    return RerankModel(options)


class RerankModel(OpenAICompatibleModel):
    """A model behind such an endpoint."""

    options: RerankOptions

    def __init__(self, options: RerankOptions) -> None:
        self.path = "/score" if options.form == "score" else "/rerank"
        super().__init__(options)

    def body(self, request: chat.ChatRequest) -> bytes | chat.Failure:
        """Returns the body to post for a pair, or why there is none."""
        (message,) = request.messages
        content = message_content(chat.Message("user", "", message.images))
        if isinstance(content, chat.Failure | str):
            return content if isinstance(content, chat.Failure) else chat.Failure("no_image", "final")
        images = [part for part in content if part["type"] == "image_url"]
        document: dict[str, Any] = {"content": images}
        fields: dict[str, Any] = {"model": self.options.name, "query": message.text}
        if self.options.form == "jina":
            document = {"image": images[0]["image_url"]["url"]}
        if self.options.form == "score":
            fields = {"model": self.options.name, "text_1": message.text, "text_2": document}
        else:
            fields |= {"documents": [document], "top_n": 1}
        return json.dumps(fields | self.options.extra).encode()

    def read_score(self, envelope: Any) -> float | None:
        """Returns the score of the pair."""
        return chat_completion.read_rank_score(envelope)
