"""The objects of a reply store, their names and bytes, in a database or a bucket.

    store.json                              the store's id
    answers/<c>/<key>-<generation>          one answer; <c>: the first character of the key
    passing/<c>/<key>-<generation>          what an endpoint sent instead of an answer
    models/<sha256>                         one model with answers
    index/pack-<sha256>                     copies of many replies, to read all of them from a bucket
    index/refresh-<sha256>                  the answers that a refresh has set aside
    paces/<model>/<random>                  the duration of a run of questions
    leases.json                             open questions that a run is asking

A reply is never replaced: a refresh sets generation N of an answer aside, and the next one is N + 1. Nothing is
deleted.
"""

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from querytruth.backends.models import stored_answers
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Failure, Reply
from querytruth.backends.models.stored_answers import canonical_json_text
from querytruth.errors import UserError

R = TypeVar("R")
MAX_ANSWER_BYTES = 16 << 20
MAX_INDEX_BYTES = 64 << 20
_MAX_UNPACKED_BYTES = 512 << 20
LASTING = ("reply", "final")  # kinds of answers, others may pass
STORE, LEASES = "store.json", "leases.json"
_DAMAGED = "delete that object: its question is asked again, or the replies it copies are read one by one"
_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class AnswerPlace(NamedTuple):
    """The identity of an answer: the key of its question, and how many earlier answers were set aside."""

    key: str
    generation: int


class StoredAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored answer: the question, the model and its reply. `request` and `raw` are "" in a copy."""

    key: str
    generation: _Number
    identity: str
    kind: Literal["reply", "final", "transient", "blocked"]
    reason: str
    text: str
    prompt_tokens: _Number | None
    completion_tokens: _Number | None
    stored_at: str
    request: str = ""
    raw: str = ""

    @property
    def place(self) -> AnswerPlace:
        """Return the identity of the answer."""
        return AnswerPlace(self.key, self.generation)

    @property
    def answer(self) -> Reply | Failure:
        """Return the reply or the final failure, without its raw reply."""
        if self.kind == "reply":
            return Reply(self.text, self.reason, self.prompt_tokens, self.completion_tokens)
        return Failure(self.reason, "final", self.text)


class SetAside(msgspec.Struct):
    """The answers that a refresh has set aside, and when."""

    refreshed_at: str
    answers: list[AnswerPlace]


class StoreFile(msgspec.Struct):
    """The content of store.json: the store's id, which names its cache."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    format: Literal["querytruth replies 1"] = "querytruth replies 1"


class _Model(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    revision: str
    parameters: dict[str, Any]


class PastRun(NamedTuple):
    """A run of questions that has ended, and the tokens of those of its replies that count them."""

    role: str
    calls: _Number
    at_once: _Number
    milliseconds: _Number
    prompt_tokens: _Number
    completion_tokens: _Number
    counted: _Number


def describe_answer(identity: str, place: AnswerPlace, request: ChatRequest, answer: ChatAnswer) -> StoredAnswer:
    """Return the stored form of an answer that arrived now; `identity` is the model's, as canonical JSON."""
    kind, reason, text = stored_answers.describe_answer(answer)
    return StoredAnswer(
        *place,
        identity,
        kind,  # type: ignore[arg-type]
        stored_answers.writable(reason),
        text if kind == "reply" else stored_answers.writable(text),
        getattr(answer, "prompt_tokens", None),
        getattr(answer, "completion_tokens", None),
        datetime.now(UTC).isoformat(timespec="seconds"),
        canonical_json_text(request.cache_key_fields()),
        stored_answers.writable(answer.raw),
    )


def answer_name(place: AnswerPlace, folder: str = "answers") -> str:
    """Return the name of an answer's object; in `passing`, of what an endpoint sent in place of one."""
    return f"{folder}/{place.key[:1]}/{place.key}-{place.generation}"


def place_of(name: str) -> AnswerPlace | None:
    """Return which answer an object holds, by its name; None for another object."""
    key, _, generation = name.rpartition("/")[2].rpartition("-")
    return AnswerPlace(key, int(generation)) if key and generation.isascii() and generation.isdigit() else None


def write_answer(answer: StoredAnswer) -> bytes:
    """Return the bytes of an answer's object: a SHA-256 and the answer as JSON."""
    data = msgspec.json.encode(answer)
    return f"{digest(data)} ".encode() + data


def read_answer(url: str, data: bytes, place: AnswerPlace) -> StoredAnswer:
    """Return the answer in an object. Raises UserError with its URL where it is damaged, or that of another place."""

    def parse() -> StoredAnswer:
        checksum, _, rest = data.partition(b" ")
        if checksum != digest(rest).encode():
            raise ValueError("its checksum differs")
        answer = msgspec.json.decode(rest, type=StoredAnswer)
        if answer.place != place:
            raise ValueError("its key differs")
        return answer

    return _named(url, parse)


def decode(url: str, data: bytes, kind: type[R], next_step: str = _DAMAGED) -> R:
    """Return the content of an object. Raises UserError with its URL."""
    return _named(url, lambda: msgspec.json.decode(data, type=kind), next_step)


def model_name(identity: str) -> str:
    """Return the name of a model's object; the object holds its identity as canonical JSON."""
    return f"models/{digest(identity.encode())}"


def read_model(url: str, data: bytes) -> dict[str, Any]:
    """Return the identity in a model's object. Raises UserError."""
    _named(url, lambda: _check_name(url, data))
    return msgspec.structs.asdict(decode(url, data, _Model))


def write_index(kind: str, value: object) -> tuple[str, bytes]:
    """Return name and bytes of a pack (a list of answers) or of a refresh."""
    data = gzip.compress(msgspec.json.encode(value), 6, mtime=0)
    return f"index/{kind}-{digest(data)}", data


def read_index(url: str, data: bytes, kind: type[R]) -> R:
    """Return the content of such an object. Raises UserError."""

    def parse() -> R:
        _check_name(url, data)
        with gzip.open(io.BytesIO(data)) as file:
            text = file.read(_MAX_UNPACKED_BYTES + 1)
        if len(text) > _MAX_UNPACKED_BYTES:
            raise ValueError("it is too large")
        return msgspec.json.decode(text, type=kind)

    return _named(url, parse)


def _check_name(url: str, data: bytes) -> None:
    if digest(data) != url.rpartition("/")[2].rpartition("-")[2]:
        raise ValueError("its checksum differs")


def digest(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _named(url: str, parse: Callable[[], R], next_step: str = _DAMAGED) -> R:
    try:
        return parse()
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, EOFError, OSError, zlib.error) as error:
        detail = str(error)[:80] if type(error) is ValueError else "it cannot be read"
        raise UserError("reply store", url, f"is damaged: {detail}", next_step) from None
