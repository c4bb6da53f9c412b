"""Any endpoint that speaks OpenAI's chat completions: vLLM, SGLang, Ollama, DashScope and others, over HTTP.

The key is named, never written: `key_env` is the environment variable that holds it. It goes to `base_url`'s host in
a header, nowhere else, and whatever the endpoint echoes of it is struck out.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from backends.chat import (
    Answer,
    Arrived,
    ChatRequest,
    Failure,
    Message,
    ModelIdentity,
    checked_options,
    go_on,
)
from backends.redaction import Redaction
from backends.replies import chat_envelope
from backends.replies.shown_pictures import as_sent, picture_bytes
from backends.web import retried_calls
from backends.web.timed_http import CallFailed, TimedHttp
from builders.errors import UserError

_SECRET_NAME = re.compile(r"(api_?|access_?|auth_?|secret_?)?(key|token)|.*(secret|password|authorization).*", re.I)


class Options(BaseModel):
    """What a definition may say; seconds, bytes and counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str
    name: str
    revision: str = ""
    key_env: str | None = None
    key_header: str = "Authorization"  # "Bearer" is put before the key in this one only
    temperature: float | None = Field(0.0, ge=0, allow_inf_nan=False)
    max_tokens: int | None = 256
    extra: dict[str, JsonValue] = {}  # more fields of the body, such as {"min_tokens": 46}
    proxies: bool = False  # whether those of the environment are used
    concurrency: int = Field(8, ge=1, le=256)
    connect_timeout: float = Field(10, gt=0)
    read_timeout: float = Field(120, gt=0)
    deadline: float = Field(180, gt=0)  # for one question, its retries and pauses included
    tries: int = Field(4, ge=1, le=10)
    pause: float = Field(1, ge=0)  # before the first retry; doubled with each
    max_bytes: int = Field(2 << 20, gt=0)
    max_characters: int = Field(20_000, gt=0)


def load(**options: Any) -> OpenAICompatible:
    """The endpoint; nothing is sent before the first question."""
    extra = options.get("extra")
    names = [*options, *(extra if isinstance(extra, dict) else {})]
    if secret := next((name for name in names if _SECRET_NAME.fullmatch(str(name))), None):
        raise UserError(
            "load chat model",
            f"openai_compatible: {secret}",
            "a key in a definition would be published with the set",
            "put it into an environment variable and give that one's name as key_env",
        )
    return OpenAICompatible(checked_options(Options, "openai_compatible", options))


class OpenAICompatible:
    """A model behind an endpoint."""

    is_recorded = False

    def __init__(self, options: Options) -> None:
        self.options = options
        self._url = _checked_url(options.base_url) + "/chat/completions"
        key = _key(options.key_env)
        self._redaction = Redaction([key] if key else [])
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "querytruth"}
        self._headers["Accept-Encoding"] = "gzip"
        if key:
            is_bearer = options.key_header.lower() == "authorization"
            self._headers[options.key_header] = f"Bearer {key}" if is_bearer else key
        self._http = TimedHttp(
            connections=options.concurrency, max_bytes=options.max_bytes, with_proxies=options.proxies
        )

    @property
    def identity(self) -> ModelIdentity:
        """By the model's name; where it is served does not matter to its answers."""
        sent = {"temperature": self.options.temperature, "max_tokens": self.options.max_tokens, **self.options.extra}
        given = {name: value for name, value in sent.items() if value is not None}
        return ModelIdentity(self.options.name, self.options.revision, given)

    def reply(self, requests: Sequence[ChatRequest], arrived: Arrived = go_on) -> list[Answer]:
        """Ask `concurrency` questions at a time."""
        return retried_calls.ask_all(self, requests, arrived)

    def body(self, request: ChatRequest) -> bytes | Failure:
        """What is posted for a request."""
        messages = []
        for message in request.messages:
            content = _content(message)
            if isinstance(content, Failure):
                return content
            messages.append({"role": message.role, "content": content})
        fields: dict[str, Any] = {"model": self.options.name, "messages": messages, "stream": False}
        asked = request.parameters.given()
        if "min_tokens" not in self.options.extra:
            asked.pop("min_tokens", None)  # not every endpoint knows it, and some refuse what they do not know
        fields |= self.identity.parameters | asked
        if request.answer is not None:
            schema = {"name": "answer", "schema": request.answer.model_json_schema(), "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        return json.dumps(fields).encode()

    def ask_once(self, body: bytes, ends: float) -> tuple[Answer, float | None]:
        """One call, and the least pause before it may be repeated; None where repeating is of no use."""
        options = self.options
        try:
            answer = self._http.post(
                self._url,
                body,
                self._headers,
                connect=options.connect_timeout,
                read=options.read_timeout,
                ends=ends,
            )
        except CallFailed as failed:
            kind: Literal["blocked", "transient"] = "blocked" if failed.reason == "tls_error" else "transient"
            is_retried = failed.reason in ("connection_failed", "proxy_error")
            raw = chat_envelope.readable(failed.received, self._redaction)
            return Failure(failed.reason, kind, self._redaction(failed.detail), raw), 0.0 if is_retried else None
        read = chat_envelope.read_answer(answer, options.max_characters, self._redaction)
        is_retried = answer.status in chat_envelope.RETRIED or answer.status >= 500
        if isinstance(read, Failure) and is_retried and read.kind == "transient":
            return read, retried_calls.retry_after(answer.headers)
        return read, None

    def stop(self) -> None:
        """End the calls that are under way."""
        self._http.abort()


def _content(message: Message) -> str | list[dict[str, Any]] | Failure:
    if not message.pictures:
        return message.text
    parts: list[dict[str, Any]] = []
    for picture in message.pictures:
        data = picture_bytes(picture)
        sent = as_sent(data) if isinstance(data, bytes) else data
        if isinstance(sent, Failure):
            return sent
        url = f"data:{sent[0]};base64,{base64.b64encode(sent[1]).decode('ascii')}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return [*parts, {"type": "text", "text": message.text}]


def _checked_url(base_url: str) -> str:
    """The address without its last slash; one that could carry a key is refused, for it would be published."""
    try:
        parts = urlsplit(base_url)
        _ = parts.port
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise UserError(
            "load chat model", "openai_compatible: base_url", "is no http address", "give one like http://host:8000/v1"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            "load chat model",
            "openai_compatible: base_url",
            "has a user name, a query or a fragment, which would be published with the set",
            "give the bare address, and the key by key_env",
        )
    return base_url.rstrip("/")


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        reason = "is empty or not set" if not key else "holds characters that no header may have"
        raise UserError("load chat model", f"environment variable {variable}", reason, "set it to the endpoint's key")
    return key
