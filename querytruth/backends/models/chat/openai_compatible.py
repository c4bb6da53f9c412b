"""Endpoints with OpenAI's chat completions API: vLLM, SGLang, Ollama, DashScope and others.

`key_env` names the environment variable with the key. The key is only sent to the host of `base_url`, in a header,
and is redacted from everything that the endpoint returns.
"""

from __future__ import annotations

import base64
import json
import random
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, JsonValue, model_validator

from querytruth.backends.models import chat, chat_completion
from querytruth.backends.models.chat_completion import explain_failure
from querytruth.backends.models.request_images import encode_for_endpoint, read_image_bytes
from querytruth.backends.plugins import ModelIdentity, PluginOptions, read_secret
from querytruth.backends.web.host_rules import LONGEST_PAUSE, retry_after
from querytruth.backends.web.timed_http import HttpCallError, TimedHttp, parse_address
from querytruth.errors import Redaction, UserError

# Its own limits suit any question: those of captions are sent with each question.
TAKES_CAPTION_LIMITS = True
_REJECTED_STATUSES = frozenset({400, 422})
_SECRET_NAME = re.compile(r"(api_?|access_?|auth_?|secret_?)?(key|token)|.*(secret|password|authorization).*", re.I)
_WAIT_TOO_LONG = chat.Failure("rate_limited", "transient", "the endpoint asked to wait for longer than the deadline")


class OpenAICompatibleOptions(PluginOptions):
    """The options of an endpoint; times in seconds, sizes in bytes."""

    base_url: str
    name: str
    revision: str = ""
    key_env: str | None = None
    key_header: str = "Authorization"  # "Bearer" is put before the key in this one only
    temperature: float | None = Field(0.0, ge=0, allow_inf_nan=False)
    max_tokens: int | None = 256
    extra: dict[str, JsonValue] = Field(default_factory=dict)  # more fields of the body, such as {"min_tokens": 46}
    proxies: bool = False  # whether to use the proxies of the environment
    concurrency: int = Field(8, ge=1, le=256)
    connect_timeout: float = Field(10, gt=0)
    read_timeout: float = Field(120, gt=0)
    deadline: float = Field(180, gt=0)  # for one question, its retries and pauses included
    tries: int = Field(4, ge=1, le=10)
    pause: float = Field(1, ge=0)  # before the first retry; doubled with each
    max_bytes: int = Field(2 << 20, gt=0)
    max_characters: int = Field(20_000, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _reject_secrets(cls, options: dict[str, Any]) -> dict[str, Any]:
        extra = options.get("extra")
        names = [*options, *(extra if isinstance(extra, dict) else {})]
        if secret := next((name for name in names if _SECRET_NAME.fullmatch(str(name))), None):
            reason = "a key in a definition would be published with the set"
            next_step = "put it into an environment variable and set key_env to the variable's name"
            raise UserError("load chat model", f"openai_compatible: {secret}", reason, next_step)
        return options


def load(options: OpenAICompatibleOptions) -> OpenAICompatibleModel:
    """Return the model; sends nothing before the first question. Raises UserError for a bad address."""
    return OpenAICompatibleModel(options)


class OpenAICompatibleModel:
    """A model behind an endpoint."""

    is_recorded = False
    path = "/chat/completions"

    def __init__(self, options: OpenAICompatibleOptions) -> None:
        self.options = options
        self._url = _checked_url(options.base_url) + self.path
        self._http = TimedHttp(
            connections=options.concurrency, max_bytes=options.max_bytes, with_proxies=options.proxies
        )
        self._takes_min_tokens = True  # until the endpoint rejects that parameter, which not all know

    def check_access(self) -> None:
        """Raise UserError where the key is missing. Stored replies are read without it."""
        _ = self._key

    def check_endpoint(self) -> str:
        """Return the address and the model after a call that lists the endpoint's models. Raises UserError, with the
        likely cause, where the endpoint does not answer or lists other models."""
        url, wait_for = self._url.removesuffix(self.path), self.options.connect_timeout
        waits, ends = (wait_for, wait_for), time.monotonic() + wait_for
        try:
            answer = self._http.request("GET", f"{url}/models", b"", self._headers, waits, ends)
            failure = chat_completion.check_model_list(answer, self.options.name, self._redaction)
        except HttpCallError as failed:
            failure = chat.Failure(failed.reason, "blocked", self._redaction(failed.detail))
        if failure is not None:
            reason = f"{failure.reason} {self.explain_failure(failure)} ({failure.detail})".removesuffix(" ()")
            raise UserError("check endpoint", self.options.name, reason, "fix the model's options in the definition")
        return f"{url} serves {self.options.name}"

    def explain_failure(self, failure: chat.Failure) -> str:
        """Return the address and the likely cause of a failure."""
        options = self.options
        return explain_failure(options.base_url, options.name, options.key_env, failure)

    @cached_property
    def _key(self) -> str:
        return "" if self.options.key_env is None else read_secret(self.options.key_env, "load chat model")

    @cached_property
    def _redaction(self) -> Redaction:
        return Redaction([self._key] if self._key else [])

    @cached_property
    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "querytruth"}
        headers["Accept-Encoding"] = "gzip"
        if self._key:
            is_bearer = self.options.key_header.lower() == "authorization"
            headers[self.options.key_header] = f"Bearer {self._key}" if is_bearer else self._key
        return headers

    @property
    def identity(self) -> ModelIdentity:
        """Return the model's name and parameters, without the address."""
        sent = {"temperature": self.options.temperature, "max_tokens": self.options.max_tokens, **self.options.extra}
        parameters = {name: value for name, value in sent.items() if value is not None}
        return ModelIdentity(self.options.name, self.options.revision, parameters)

    def reply(
        self, requests: Sequence[chat.ChatRequest], on_answers: chat.OnAnswers = chat.always_continue
    ) -> list[chat.ChatAnswer]:
        """Ask `concurrency` questions at a time. When `on_answers` returns False, no further call starts, and running
        calls, which cost money, are completed; an exception (Ctrl-C) ends them at once."""
        self.check_access()
        run = _Run(self)
        answers: list[chat.ChatAnswer] = [chat.NOT_ASKED] * len(requests)
        waiting = iter(enumerate(requests))
        running: dict[Future[chat.ChatAnswer], int] = {}
        pool = ThreadPoolExecutor(self.options.concurrency, thread_name_prefix="chat")
        try:
            while True:
                while not run.stopped.is_set() and len(running) < self.options.concurrency:
                    if (following := next(waiting, None)) is None:
                        break
                    running[pool.submit(run.answer, following[1])] = following[0]
                if not running:
                    return answers
                done = [(running.pop(f), f.result()) for f in wait(running, return_when=FIRST_COMPLETED).done]
                for place, answer in done:
                    answers[place] = answer
                if not on_answers(done):
                    run.stopped.set()
        except BaseException:
            run.stopped.set()
            self._http.abort()
            while wait(running, timeout=0.1).not_done:  # a call that was about to connect is ended next time
                self._http.abort()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def body(self, request: chat.ChatRequest) -> bytes | chat.Failure:
        """Return the body to post for a request, or the failure."""
        messages = []
        for message in request.messages:
            content = message_content(message)
            if isinstance(content, chat.Failure):
                return content
            messages.append({"role": message.role, "content": content})
        fields: dict[str, Any] = {"model": self.options.name, "messages": messages, "stream": False}
        request_parameters = request.parameters.explicit_values()
        if "min_tokens" not in self.options.extra and not (self._takes_min_tokens and request.parameters.min_tokens):
            request_parameters.pop("min_tokens", None)
        fields |= self.identity.parameters | request_parameters
        if request.response_format is not None:
            schema = {"name": "answer", "schema": request.response_format.model_json_schema(), "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.is_scored:
            fields |= {"logprobs": True, "top_logprobs": 20}
        return json.dumps(fields).encode()

    def read_score(self, envelope: object) -> float | None:
        """Return the number in an answer to a question that is scored."""
        return chat_completion.read_yes_share(envelope)

    def ask_once(self, body: bytes, ends: float) -> tuple[chat.ChatAnswer, float | None]:
        """Make one call that ends by `ends` (monotonic clock). Return the answer and the shortest pause before a retry
        in seconds (None: do not retry)."""
        options = self.options
        try:
            waits = (options.connect_timeout, options.read_timeout)
            answer = self._http.request("POST", self._url, body, self._headers, waits, ends)
        except HttpCallError as failed:
            kind: Literal["blocked", "transient"] = "blocked" if failed.reason == "tls_error" else "transient"
            is_retried = failed.reason in ("connection_failed", "proxy_error")
            raw = chat_completion.decode_redacted(failed.received, self._redaction)
            return chat.Failure(failed.reason, kind, self._redaction(failed.detail), raw), 0.0 if is_retried else None
        if answer.status in _REJECTED_STATUSES and b"min_tokens" in body and b"min_tokens" in answer.body:
            self._takes_min_tokens = False
        read = self.read_score if b'"top_logprobs"' in body or self.path != "/chat/completions" else None
        parsed = chat_completion.parse_chat_completion(answer, options.max_characters, self._redaction, read)
        is_retried = answer.status in chat_completion.RETRIED_STATUSES or answer.status >= 500
        if isinstance(parsed, chat.Failure) and is_retried and parsed.kind == "transient":
            return parsed, retry_after(answer.headers)
        return parsed, None


class _Run:
    """State that the calls of one `reply` share: whether to go on, and when the endpoint accepts the next call."""

    def __init__(self, model: OpenAICompatibleModel) -> None:
        self.stopped = threading.Event()
        self._model, self._options = model, model.options
        self._not_before = 0.0

    def answer(self, request: chat.ChatRequest) -> chat.ChatAnswer:
        body = self._model.body(request)
        if isinstance(body, chat.Failure):
            return body
        ends = time.monotonic() + self._options.deadline
        answer: chat.ChatAnswer = chat.NOT_ASKED
        for attempt in range(self._options.tries):
            if not self._pause(self._not_before - time.monotonic(), ends):
                return answer if attempt or self.stopped.is_set() else _WAIT_TOO_LONG
            answer, pause = self._model.ask_once(body, ends)
            if isinstance(answer, chat.Failure) and pause is None and (fewer := self._model.body(request)) != body:
                assert isinstance(fewer, bytes)  # as the first time, less the parameter that was rejected
                body = fewer
                answer, pause = self._model.ask_once(body, ends)
            if pause is None:
                return chat.check_reply(request, answer) if isinstance(answer, chat.Reply) else answer
            if pause:
                self._not_before = max(self._not_before, time.monotonic() + pause)
            backing_off = min(self._options.pause * 2**attempt * random.uniform(0.5, 1.5), LONGEST_PAUSE)
            if attempt + 1 == self._options.tries or not self._pause(backing_off, ends):
                return answer
        return answer

    def _pause(self, seconds: float, ends: float) -> bool:
        """Wait. Return False where the call's time would be over, or the run has stopped."""
        if time.monotonic() + seconds >= ends:
            return False
        return not self.stopped.wait(max(0.0, seconds))


def message_content(message: chat.Message) -> str | list[dict[str, Any]] | chat.Failure:
    """Return the content of a message in the form of the endpoint, or the failure."""
    if not message.images:
        return message.text
    parts: list[dict[str, Any]] = []
    for image in message.images:
        data = read_image_bytes(image)
        encoded = encode_for_endpoint(data) if isinstance(data, bytes) else data
        if isinstance(encoded, chat.Failure):
            return encoded
        url = f"data:{encoded[0]};base64,{base64.b64encode(encoded[1]).decode('ascii')}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return [*parts, {"type": "text", "text": message.text}]


def _checked_url(base_url: str) -> str:
    """Return the address without its last slash. Raises UserError for one that could contain a key."""
    item = "openai_compatible: base_url"
    if (parts := parse_address(base_url)) is None:
        raise UserError("load chat model", item, "is not an http address", "write it as http://host:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        reason = "has a user name, a query or a fragment, which would be published with the set"
        raise UserError("load chat model", item, reason, "give the address alone, and the key through key_env")
    return base_url.rstrip("/")
