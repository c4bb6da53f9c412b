"""What a reply store in a bucket consists of: names and bytes of its objects.

    <folder>/store.json                              the store's id
    <folder>/answers/<c>/<key>-<generation>          one answer; <c>: the first character of the key
    <folder>/passing/<c>/<key>-<generation>          what an endpoint sent in place of an answer
    <folder>/models/<sha256>                         one model with answers
    <folder>/index/pack-<sha256>                     copies of many replies, for those who need them all
    <folder>/index/refresh-<sha256>                  the answers that a refresh has set aside
    <folder>/paces/<model>/role-<role>/<calls>-<at once>-<milliseconds>-<random>
    <folder>/leases.json                             open questions that a run is asking

A reply is never replaced: a refresh sets generation N of an answer aside, and the next one is N + 1. Nothing is
deleted.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from querytruth.backends.files.text_formats import parse_bounded_json
from querytruth.backends.models.stored_answers import canonical_json_text
from querytruth.errors import UserError

R = TypeVar("R")
MAX_ANSWER_BYTES = 16 << 20
MAX_INDEX_BYTES = 64 << 20
_MAX_UNPACKED_BYTES = 512 << 20
LASTING = ("reply", "final")  # kinds of answers, others may pass
_COLUMNS = ("identity", "kind", "reason", "text", "prompt_tokens", "completion_tokens", "stored_at", "raw")
_FORMAT = "querytruth replies 1"
_DAMAGED = "delete that object: the question is asked again, or its copies are read one by one"


class AnswerPlace(NamedTuple):
    """Which answer: the key of its question, and how many answers to it were set aside before."""

    key: str
    generation: int


class BucketAnswer(NamedTuple):
    """A stored answer, with the columns of the database. `raw` is "" where it comes from a pack."""

    place: AnswerPlace
    identity: str
    kind: str
    reason: str
    text: str
    prompt_tokens: int | None
    completion_tokens: int | None
    stored_at: str
    raw: str = ""

    @property
    def columns(self) -> tuple[str, str, str, int | None, int | None]:
        """Returns what the answer says: kind, reason, text and numbers of tokens."""
        return self.kind, self.reason, self.text, self.prompt_tokens, self.completion_tokens


def answer_name(place: AnswerPlace) -> str:
    """Returns the name of an answer's object."""
    return f"answers/{place.key[:1]}/{place.key}-{place.generation}"


def passing_name(place: AnswerPlace) -> str:
    """Returns the name of the object with what an endpoint sent in place of an answer."""
    return f"passing/{place.key[:1]}/{place.key}-{place.generation}"


def place_of(name: str) -> AnswerPlace | None:
    """Returns which answer an object holds, by its name; None for another object."""
    key, _, generation = name.rpartition("/")[2].rpartition("-")
    return AnswerPlace(key, int(generation)) if key and generation.isascii() and generation.isdigit() else None


def write_answer(row: dict[str, Any], generation: int) -> bytes:
    """Returns the bytes of an answer's object: a SHA-256 and a row of the database, with its generation, as JSON."""
    return _sealed(canonical_json_text({"generation": generation, **row}).encode())


def read_answer(url: str, data: bytes, place: AnswerPlace) -> BucketAnswer:
    """Returns the answer in an object. Raises UserError with its URL where it is damaged, or that of another place."""

    def parse() -> BucketAnswer:
        row = parse_bounded_json(_unsealed(data))
        found = AnswerPlace(row["key"], row["generation"])
        if found != place:
            raise ValueError("the key in it is another")
        return _checked(found, *(row[name] for name in _COLUMNS))

    return _named(url, parse)


def write_store(store_id: str) -> bytes:
    """Returns the bytes of store.json."""
    return canonical_json_text({"format": _FORMAT, "id": store_id}).encode()


def read_store(url: str, data: bytes) -> str:
    """Returns the id in store.json, 32 hexadecimal digits. Raises UserError."""

    def parse() -> str:
        value = parse_bounded_json(data)
        if value["format"] != _FORMAT or len(value["id"]) != 32 or set(value["id"]) - set("0123456789abcdef"):
            raise ValueError("it is none of this format")
        return str(value["id"])

    return _named(url, parse, "give another folder, or the version of querytruth that wrote it")


def model_name(identity: str) -> str:
    """Returns the name of a model's object, which holds its identity as canonical JSON."""
    return f"models/{_sha256(identity.encode())}"


def read_model(url: str, data: bytes) -> dict[str, Any]:
    """Returns the identity in a model's object. Raises UserError."""

    def parse() -> dict[str, Any]:
        _check_name(url, data)
        value = parse_bounded_json(data)
        if set(value) != {"name", "revision", "parameters"} or not isinstance(value["parameters"], dict):
            raise ValueError("it describes no model")
        return dict(value)

    return _named(url, parse)


def pack_answers(answers: Sequence[BucketAnswer]) -> tuple[str, bytes]:
    """Returns name and bytes of a pack."""
    identities = sorted({one.identity for one in answers})
    numbers = {identity: number for number, identity in enumerate(identities)}
    rows = [[*one.place, numbers[one.identity], *one.columns, one.stored_at] for one in answers]
    return _index_object("pack", {"identities": identities, "answers": rows})


def unpack_answers(url: str, data: bytes) -> list[BucketAnswer]:
    """Returns the replies in a pack. Raises UserError."""

    def parse() -> list[BucketAnswer]:
        value = _read_index_object(url, data)
        identities = value["identities"]
        return [
            _checked(AnswerPlace(key, generation), identities[number], *rest)
            for key, generation, number, *rest in value["answers"]
        ]

    return _named(url, parse)


def list_set_aside(refreshed_at: str, places: Iterable[AnswerPlace]) -> tuple[str, bytes]:
    """Returns name and bytes of the object of a refresh."""
    return _index_object("refresh", {"refreshed_at": refreshed_at, "answers": sorted(places)})


def read_set_aside(url: str, data: bytes) -> tuple[str, list[AnswerPlace]]:
    """Returns the time of a refresh and the answers that it set aside. Raises UserError."""

    def parse() -> tuple[str, list[AnswerPlace]]:
        value = _read_index_object(url, data)
        places = [AnswerPlace(key, generation) for key, generation in value["answers"]]
        if not all(isinstance(one.key, str) and isinstance(one.generation, int) for one in places):
            raise ValueError("it lists no answers")
        return str(value["refreshed_at"]), places

    return _named(url, parse)


_ROLE = "role-"  # a name must not be empty


def pace_name(row: dict[str, Any]) -> str:
    """Returns the name of a pace's object, which says it all."""
    numbers = f"{row['calls']}-{row['at_once']}-{round(row['seconds'] * 1000)}-{row['pace_id']}"
    return f"{paces_prefix(row['identity'])}{_ROLE}{quote(row['role'], safe='')}/{numbers}"


def paces_prefix(identity: str) -> str:
    """Returns what the names of a model's paces begin with."""
    return f"paces/{_sha256(identity.encode())[:32]}/"


def read_pace(name: str) -> tuple[str, int, int, float] | None:
    """Returns role, calls, calls at a time and seconds; None for another object."""
    role, _, numbers = name.rpartition("/")
    parts = numbers.split("-")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts[:3]):
        return None
    calls, at_once, milliseconds = map(int, parts[:3])
    return unquote(role.rpartition("/")[2].removeprefix(_ROLE)), calls, at_once, milliseconds / 1000


def _index_object(kind: str, value: dict[str, Any]) -> tuple[str, bytes]:
    data = gzip.compress(canonical_json_text(value).encode(), 6, mtime=0)
    return f"index/{kind}-{_sha256(data)}", data


def _read_index_object(url: str, data: bytes) -> Any:
    _check_name(url, data)
    with gzip.open(io.BytesIO(data)) as file:
        text = file.read(_MAX_UNPACKED_BYTES + 1)
    if len(text) > _MAX_UNPACKED_BYTES:
        raise ValueError("it is too large")
    return json.loads(text)  # its bytes are those that its name says


def _check_name(url: str, data: bytes) -> None:
    if _sha256(data) != url.rpartition("/")[2].rpartition("-")[2]:
        raise ValueError("its checksum is another")


def _checked(place: AnswerPlace, *fields: Any) -> BucketAnswer:
    answer = BucketAnswer(place, *fields)
    texts = (place.key, answer.identity, answer.reason, answer.text, answer.stored_at, answer.raw)
    numbers = (place.generation, answer.prompt_tokens or 0, answer.completion_tokens or 0)
    if not all(isinstance(text, str) for text in texts) or answer.kind not in (
        "reply",
        "final",
        "transient",
        "blocked",
    ):
        raise ValueError("it is no answer")
    if not all(type(number) is int and 0 <= number < 1 << 53 for number in numbers):
        raise ValueError("a number in it is none")
    answer.text.encode()
    return answer


def _sealed(data: bytes) -> bytes:
    return f"{_sha256(data)} ".encode() + data


def _unsealed(data: bytes) -> bytes:
    checksum, _, rest = data.partition(b" ")
    if checksum != _sha256(rest).encode():
        raise ValueError("its checksum is another")
    return rest


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _named(url: str, parse: Callable[[], R], next_step: str = _DAMAGED) -> R:
    try:
        return parse()
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, EOFError, OSError, zlib.error) as error:
        detail = str(error)[:80] if type(error) is ValueError else "it cannot be read"
        raise UserError("reply store", url, f"is not what was stored there: {detail}", next_step) from None
