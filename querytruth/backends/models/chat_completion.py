"""Responses of OpenAI-compatible endpoints, parsed to a reply or a failure with its likely cause.

Endpoints differ, and gateways and proxies change answers: only a complete, unambiguous answer is a reply. A failure has
the endpoint's address and what a user can correct.
"""

import math
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from querytruth.backends.files.text_formats import parse_json
from querytruth.backends.models.chat import MAX_RAW_CHARACTERS, ChatAnswer, Failure, Reply, write_score
from querytruth.backends.web.timed_http import HttpResponse
from querytruth.errors import Redaction

RETRIED_STATUSES = frozenset({408, 409, 425, 429})  # and 5xx: the same request may succeed later
_KINDS: dict[int, tuple[str, str]] = {
    401: ("unauthorized", "blocked"),
    402: ("payment_required", "blocked"),
    403: ("forbidden", "transient"),  # some send it for a filtered image, some for a wrong key
    404: ("not_found", "blocked"),
    405: ("not_found", "blocked"),
    407: ("proxy_unauthorized", "blocked"),
    413: ("too_large", "final"),
    429: ("rate_limited", "transient"),
    451: ("content_filter", "final"),
}
_FILTERED = ("content_filter", "content_policy", "data_inspection", "responsibleai", "moderation")
_SPENT = ("insufficient_quota", "insufficient_balance", "arrearage", "billing")
_THOUGHT_PARTS = frozenset({"thinking", "reasoning", "thought", "redacted_thinking"})  # parts of a content
_NO_ANSWER = "the model reasoned but did not answer; a higher token limit may help"
_DETAIL = 300
_API_FOLDERS = ("/v1", "/compatible-mode/v1", "/v1beta/openai", "/api/v3", "/v4")  # of the usual services
_ANSWERS_OF_OTHER_PATHS = frozenset({"not_found", "not_json", "not_an_answer", "redirected"})


def parse_chat_completion(
    answer: HttpResponse,
    max_characters: int,
    redaction: Redaction,
    read: Callable[[Any], float | None] | None = None,
) -> ChatAnswer:
    """Return the reply in an answer with status 200, or a failure for any other status, body or text. The text is
    verbatim; missing or invalid token counts are None. With `read`, the reply is the number that `read` finds in the
    answer, or a failure if it finds none."""
    raw = decode_redacted(answer.body, redaction)
    try:
        if answer.status != 200:
            raise _from_status(answer)
        try:
            envelope = _strict_json(answer.body)
        except (ValueError, RecursionError) as error:
            kind = answer.headers.get("content-type", "no content type")
            raise _NotAReply("not_json", "transient", f"{kind}, {len(answer.body)} bytes: {error}") from None
        reply = _reply(envelope, raw, max_characters) if read is None else _read_number(envelope, raw, read)
        if redaction.contains_secret(reply.text):
            raise _NotAReply("echoes_the_key", "final", "the text contains the key that was sent")
        return reply
    except _NotAReply as odd:
        return Failure(odd.reason, odd.kind, redaction(_one_line(odd.detail))[:_DETAIL], raw)


def check_model_list(answer: HttpResponse, name: str, redaction: Redaction) -> Failure | None:
    """Return why an answer to GET /models shows that the endpoint cannot be used, or None. A service without that
    list is not refused: status 404 with a JSON body, as of some gateways."""
    try:
        listed = _strict_json(answer.body)
    except (ValueError, RecursionError):
        listed = None
    if answer.status != 200:
        if answer.status == 404 and isinstance(listed, dict):
            return None
        odd = _from_status(answer)
        return Failure(odd.reason, "blocked", redaction(_one_line(odd.detail))[:_DETAIL])
    models = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(models, list):
        return Failure("not_json", "blocked", "the address answers, but not with a list of models")
    names = [str(model.get("id")) for model in models if isinstance(model, dict)]
    if names and name not in names and f"{name}:latest" not in names:
        return Failure("not_found", "blocked", redaction(_one_line("its models: " + ", ".join(names[:10])))[:_DETAIL])
    return None


def decode_redacted(body: bytes, redaction: Redaction) -> str:
    """Return bytes as text that every database accepts, at most MAX_RAW_CHARACTERS; invalid UTF-8 is escaped."""
    return redaction(body.decode("utf-8", "backslashreplace").replace("\x00", "\\x00"))[:MAX_RAW_CHARACTERS]


class _NotAReply(Exception):
    def __init__(self, reason: str, kind: Any, detail: str = "") -> None:
        self.reason, self.kind, self.detail = reason, kind, detail


def _reply(envelope: Any, raw: str, max_characters: int) -> Reply:
    if not isinstance(envelope, dict):
        raise _NotAReply("not_an_answer", "transient", f"JSON of type {type(envelope).__name__}")
    if envelope.get("error"):
        raise _from_error(envelope["error"], "error_object", "transient")
    choices = envelope.get("choices")
    if not isinstance(choices, list) or not choices:
        raise _NotAReply("no_choices", "transient", "the answer has no choice")
    if len(choices) > 1:
        raise _NotAReply("several_choices", "transient", f"{len(choices)} choices instead of one")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict) or message.get("role", "assistant") != "assistant":
        raise _NotAReply("no_message", "transient", "the choice has no assistant message")
    finish = choice.get("finish_reason")
    text = _text(message, finish)
    if len(text) > max_characters:
        raise _NotAReply("too_long", "final", f"{len(text)} characters, more than {max_characters}")
    usage = envelope.get("usage")
    tokens = [_count(usage, name) for name in ("prompt_tokens", "completion_tokens")]
    return Reply(text, finish if isinstance(finish, str) and finish else "unknown", tokens[0], tokens[1], raw)


def _read_number(envelope: Any, raw: str, read: Callable[[Any], float | None]) -> Reply:
    if isinstance(envelope, dict) and envelope.get("error"):
        raise _from_error(envelope["error"], "error_object", "transient")
    try:
        score = read(envelope)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
        score = None
    if score is None or not math.isfinite(score):
        raise _NotAReply("no_score", "final", "the answer has no reliable score")
    return Reply(write_score(score), "stop", raw=raw)


_YES, _NO = frozenset(["yes", "是", "是的", "对", "符合"]), frozenset(["no", "否", "不", "不是", "不对", "不符合"])
_MARKS = " \t\r\n▁ĠĊ\"'“”‘’.,。，!！:：*"  # around a word in a token
_END_OF_WORD = re.compile(r"[,.，。!！:：;；\n*]")
_PLACES, _DOUBT = 4, 0.05  # tokens that may come before the answer; share that may be unknown


def read_yes_or_no(token: str) -> bool | None:
    """Return whether a token is a yes or a no, in English or Chinese; None for any other."""
    word = token.strip(_MARKS).casefold()
    return True if word in _YES else False if word in _NO else None


def read_yes_reply(text: str) -> bool | None:
    """Return True for yes and False for no, if the reply starts with that word ("Yes, it does", "是的。"), else None:
    "no image", "对不起" (sorry) and "不确定" (not sure) are neither."""
    first, *_ = _END_OF_WORD.split(text.strip().strip(_MARKS), maxsplit=1)
    return read_yes_or_no(first)


def read_yes_share(envelope: Any) -> float | None:
    """Return the probability of yes among yes and no, in English or Chinese, of a completion with `logprobs`; None
    where these are missing, no probabilities, or cut off so that the share is not known to within 0.05."""
    for position in envelope["choices"][0]["logprobs"]["content"][:_PLACES]:
        stated = [(str(one["token"]), float(one["logprob"])) for one in [*position["top_logprobs"], position]]
        listed = dict(stated)
        if any(not value <= 1e-6 or abs(listed[token] - value) > 0.01 for token, value in stated):  # also NaN
            return None
        shares = {token: math.exp(value) for token, value in listed.items()}
        if sum(shares.values()) > 1.01:
            return None
        yes, no = (sum(shares[token] for token in shares if read_yes_or_no(token) is word) for word in (True, False))
        if yes + no >= 0.5:
            # A word that is not listed is no likelier than the last that is, nor than all that is left.
            hidden = max(min(min(shares.values()), 1 - sum(shares.values())), 0.0) if not (yes and no) else 0.0
            return yes / (yes + no) if hidden / (yes + no + hidden) <= _DOUBT else None
        if str(position["token"]).strip(_MARKS):
            return None  # it began to say something else
    return None


def read_rank_score(envelope: Any) -> float | None:
    """Return the score of the one document in an answer of a rerank or score endpoint: `results` (Jina, Cohere, vLLM),
    `data` (scores of vLLM) or a bare list (text-embeddings-inference); None where it is missing or there twice."""
    rows = envelope if isinstance(envelope, list) else envelope.get("results", envelope.get("data"))
    found = [row.get("relevance_score", row.get("score")) for row in rows if row.get("index", 0) == 0]
    is_number = len(found) == 1 and isinstance(found[0], int | float) and not isinstance(found[0], bool)
    return float(found[0]) if is_number else None


def _text(message: dict[str, Any], finish: Any) -> str:
    """Return the text of the answer. Raises _NotAReply for a refusal, a tool call or reasoning alone."""
    if finish == "content_filter":
        raise _NotAReply("content_filter", "final", "the endpoint withheld the text")
    if message.get("refusal"):
        raise _NotAReply("refused", "final", str(message["refusal"]))
    content = message.get("content")
    if isinstance(content, list):
        answered = [part for part in content if not (isinstance(part, dict) and part.get("type") in _THOUGHT_PARTS)]
        if content and not answered:
            raise _NotAReply("only_reasoning", "final", _NO_ANSWER)
        parts = [part.get("text") if isinstance(part, dict) else None for part in answered]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise _NotAReply("odd_content", "transient", "a part of the content is not text")
        content = "".join(texts)
    if content is not None and not isinstance(content, str):
        raise _NotAReply("odd_content", "transient", f"content of type {type(content).__name__}")
    if content and content.strip():
        return content
    if message.get("tool_calls") or message.get("function_call"):
        raise _NotAReply("tool_call", "final", "the model called a tool instead of answering")
    if message.get("reasoning_content") or message.get("reasoning"):
        raise _NotAReply("only_reasoning", "final", _NO_ANSWER)
    raise _NotAReply("empty_content", "final", "the text is empty")


def _from_status(answer: HttpResponse) -> _NotAReply:
    status = answer.status
    if 300 <= status < 400:
        return _NotAReply("redirected", "blocked", f"status {status}: redirects are not followed")
    if status >= 500:
        reason, kind = "server_error", "transient"
    elif status in RETRIED_STATUSES - {429}:
        reason, kind = "busy", "transient"
    elif status < 300:
        reason, kind = "no_answer", "transient"
    else:
        reason, kind = _KINDS.get(status, ("invalid_request", "final"))
    try:
        error = _strict_json(answer.body)
    except (ValueError, RecursionError):
        error = None
    error = error.get("error", error) if isinstance(error, dict) else error
    odd = _from_error(error, reason, kind)
    odd.detail = f"status {status}" + (f": {odd.detail}" if odd.detail else "")
    return odd


def _from_error(error: Any, reason: str, kind: str) -> _NotAReply:
    """Classify an error object by its code, where that is more precise than the status."""
    fields = error if isinstance(error, dict) else {}
    codes = " ".join(str(fields.get(name, "")) for name in ("code", "type")).lower()
    message = str(fields.get("message") or (error if isinstance(error, str) else ""))
    if any(marker in codes for marker in _FILTERED):
        return _NotAReply("content_filter", "final", message)
    if any(marker in codes for marker in _SPENT):
        return _NotAReply("quota_spent", "blocked", message)
    return _NotAReply(reason, kind, message)


def _strict_json(body: bytes) -> Any:
    """Parse standard JSON: UTF-8 (with or without BOM), no NaN, no name twice in an object."""
    return parse_json(body.decode("utf-8-sig"), parse_constant=_no_number)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def _one_line(text: str) -> str:
    plain = text.encode("utf-8", "backslashreplace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())


def explain_failure(base_url: str, name: str, key_env: str | None, failure: Failure) -> str:
    """Return the address and, where the failure has a likely cause, that cause; "" where it is about one question."""
    cause = _find_cause(base_url, name, key_env, failure)
    return f"at {base_url}" + (f": {cause}" if cause else "")


def _find_cause(base_url: str, name: str, key_env: str | None, failure: Failure) -> str:
    address = urlsplit(base_url)
    has_api_folder = address.path.rstrip("/").endswith(_API_FOLDERS)
    if failure.reason in _ANSWERS_OF_OTHER_PATHS and not has_api_folder:
        return f"the address may lack /v1: try base_url: {base_url.rstrip('/')}/v1"
    if failure.reason == "not_found":
        return f"the server may not have a model {name!r}: {base_url.rstrip('/')}/models lists its models"
    if failure.reason == "tls_error":
        return "the server may use plain http://, or this machine does not trust its certificate"
    if failure.reason in ("unauthorized", "forbidden"):
        return f"the key in {key_env} may be wrong" if key_env else "it may need a key: set key_env to its variable"
    if failure.reason == "connection_failed":
        if "NameResolution" in failure.detail or "gaierror" in failure.detail:
            return f"the host {address.hostname!r} does not exist, or its name server does not answer"
        return "no server seems to listen there: start the server, or correct host and port"
    return ""
