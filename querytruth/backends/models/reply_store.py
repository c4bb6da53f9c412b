"""The reply store: every answer is stored before it is used, so that no paid request is repeated.

A file (SQLite), a database (PostgreSQL) or a folder of a bucket. Several threads and processes, and machines where the
place allows it, may use one store at a time. Of a bucket, whose replies never change, a file on this machine keeps what
was read, and packs hold copies of many replies, so that who has none of them reads thousands with one request.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from querytruth.backends.files.bucket import BucketObjects, Stored
from querytruth.backends.files.bucket_urls import cache_folder
from querytruth.backends.models import reply_objects, stored_answers
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Reply
from querytruth.backends.models.question_leases import QuestionLeases, QuestionPace, mean_turn_seconds
from querytruth.backends.models.reply_objects import MAX_ANSWER_BYTES, AnswerPlace, SetAside, StoredAnswer, answer_name
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError

if TYPE_CHECKING:
    from querytruth.backends.files.object_store import DatabaseObjects, Objects

_STAGE = "reply store"
_MAX_BYTES = 1 << 20  # of the objects that are no answers
_PACK_AT, _PACK_AT_THE_END = 1024, 64  # replies that are in no pack
_PACK_MOST, _PACK_CHARACTERS = 8192, 32 << 20  # of one pack: replies, and their texts
_FEW = 32  # answers that are read from a bucket without a list
_LISTED_AT_ONCE = 1000  # names in one answer of the service, and answers that are read at once
_ANSWERS_TO_A_RACE = 10
_UNPACKED = "unpacked/"  # in the cache: names of replies that are in no pack
_OTHER_STORE = "give another folder, or use the version of querytruth that wrote it"
_CACHE = "delete it (the bucket has all its data), or set XDG_CACHE_HOME to a writable folder"


def open_reply_store(location: str | Path, others: Sequence[Path] = ()) -> ReplyStore:
    """Return the store in a file, a database or a folder of a bucket, by its path, SQLAlchemy URL or `s3://` URL.
    Connects to nothing yet. Raises UserError for another URL."""
    from querytruth.backends.files.object_store import open_objects  # a build that asks nothing needs no database

    return ReplyStore(open_objects(location), others)


class ReplyStore:
    """Answers by key. Nothing is created before the first answer is stored. Methods raise UserError for errors of the
    place and for damaged objects."""

    def __init__(self, objects: Objects, others: Sequence[Path] = ()) -> None:
        """`others`: stores of other sets, whose replies need not be paid for again."""
        self._others = others
        self._objects, self._lock = objects, threading.RLock()
        self._cache: DatabaseObjects | None = None  # of a bucket
        self._cached = 0  # answers, about
        self._is_there = self._is_writer = self._has_read_index = False
        self._known_models, self._read_names = set[str](), set[str]()
        self._ended: dict[str, dict[int, str]] = {}  # by key: the generations that were set aside, each with its time

    def find(self, keys: Sequence[str]) -> dict[str, ChatAnswer]:
        """Return stored replies and final failures by key, without raw replies."""
        if not self._open():
            return {}
        self._read_index()
        moment = stored_answers.current_moment()
        candidates = {key: self._list_candidates(key, moment) for key in keys}
        known = self._read([place for places in candidates.values() for place in places])
        answers: dict[str, ChatAnswer] = {}
        for key, places in candidates.items():
            stored = [known[place] for place in places if place in known]
            held = (one for one in stored if one.place == places[-1] or one.stored_at <= str(moment))
            if (answer := next(held, None)) is not None:
                answers[key] = answer.answer
        return answers

    def find_elsewhere(self, keys: Iterable[str]) -> dict[str, Reply]:
        """Return the replies of other sets, except for questions whose replies were set aside here."""
        found, left = dict[str, Reply](), {key for key in keys if key not in self._ended}
        for path in self._others if left else ():
            with suppress(UserError), open_reply_store(path) as other:
                found |= {key: one for key, one in other.find(sorted(left)).items() if isinstance(one, Reply)}
                left -= found.keys()
        return found

    def save(
        self, identity: ModelIdentity, answered: Sequence[tuple[str, ChatRequest, ChatAnswer]]
    ) -> dict[str, ChatAnswer]:
        """Store answers and return the valid ones by key when they are durable: where another process stored a reply
        first, its reply. Failures that are neither final nor have a raw reply are not stored."""
        given: dict[str, ChatAnswer] = {key: answer for key, _, answer in answered}
        kept = [one for one in answered if isinstance(one[2], Reply) or one[2].kind == "final" or one[2].raw]
        if not kept:
            return given
        text, described = self._create(identity), dict[AnswerPlace, StoredAnswer]()
        for key, request, answer in kept:
            place = self._list_candidates(key, None)[-1]
            described[place] = reply_objects.describe_answer(text, place, request, answer)
        lasting = {place: one for place, one in described.items() if one.kind in reply_objects.LASTING}
        data = {place: reply_objects.write_answer(one) for place, one in described.items()}
        self._objects.put({answer_name(place, "passing"): data[place] for place in data.keys() - lasting.keys()})
        new = self._objects.put_new({answer_name(place): data[place] for place in lasting})
        stored = [one for place, one in lasting.items() if answer_name(place) in new]
        others = {answer_name(place): one for place, one in described.items() if answer_name(place) not in new}
        known = self._objects.read(list(others), MAX_ANSWER_BYTES)
        for name, one in others.items():
            if one.place in lasting:
                stored.append(self._store_after_another(name, one, known.get(name)))
            elif name in known:
                stored.append(self._parse(name, known[name].data))
        self._keep(stored)
        if self._cache is not None and len(self._cache.list_below(_UNPACKED)) >= _PACK_AT:
            self._pack()
        return given | {one.key: one.answer for one in stored}

    def create_leases(self) -> QuestionLeases:
        """Return leases for one run that asks questions."""
        return QuestionLeases(self._objects)

    def refresh(self, identities: Sequence[ModelIdentity]) -> int:
        """Set the answers of these models aside, so that they are asked for again; return their number.
        `replies_as_of` still finds them."""
        if not self._open():
            return 0
        texts = {stored_answers.canonical_json_text(identity.as_record()) for identity in identities}
        self._read_index()
        named = map(reply_objects.place_of, self._objects.list_below("answers/"))
        places = [one for one in named if one is not None and one.generation not in self._ended.get(one.key, ())]
        chosen: list[AnswerPlace] = []
        for start in range(0, len(places), _LISTED_AT_ONCE):
            part = self._read(places[start : start + _LISTED_AT_ONCE], are_there=True).values()
            chosen += [one.place for one in part if one.identity in texts]
        if chosen:
            # Whole seconds, as a version states when it was made: a version of the same second comes after the refresh.
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._objects.put(dict([reply_objects.write_index("refresh", SetAside(now, sorted(chosen)))]))
        return len(chosen)

    def record_pace(self, identity: ModelIdentity, role: str, pace: QuestionPace) -> None:
        """Store the measured pace of a finished run of questions and a pack of its replies."""
        self._pack_rest()
        if (run := pace.as_run(role)) is not None:
            self._objects.put({f"{_paces_of(identity)}{uuid.uuid4().hex}": msgspec.json.encode(run)})

    def find_turn_seconds(self, identity: ModelIdentity, role: str) -> float | None:
        """Return the measured seconds of a turn of calls side by side; None where nothing was measured."""
        return mean_turn_seconds(self._list_runs(identity), role)

    def find_mean_tokens(self, identity: ModelIdentity) -> tuple[float, float] | None:
        """Return the mean tokens in and out of this model's replies in the runs that were measured; None where the
        endpoint counts none."""
        runs = self._list_runs(identity)
        counted = sum(run.counted for run in runs)
        sums = sum(run.prompt_tokens for run in runs), sum(run.completion_tokens for run in runs)
        return (sums[0] / counted, sums[1] / counted) if counted else None

    def raw(self, key: str) -> str | None:
        """Return the raw reply of a key, also of a transient failure, up to MAX_RAW_CHARACTERS."""
        if not self._open():
            return None
        self._read_index()
        place = self._list_candidates(key, None)[-1]
        names = answer_name(place), answer_name(place, "passing")
        found = self._objects.read(names, MAX_ANSWER_BYTES)
        return next((self._parse(name, found[name].data).raw for name in names if name in found), None)

    def identities(self) -> list[ModelIdentity]:
        """Return the models with stored answers."""
        found = self._objects.read(self._objects.list_below("models/"), _MAX_BYTES)
        records = [reply_objects.read_model(self._objects.url_of(name), one.data) for name, one in found.items()]
        return [ModelIdentity(**record) for record in sorted(records, key=stored_answers.canonical_json_text)]

    def close(self) -> None:
        """Store a pack of what is in none yet, and close the place; the store may be used again."""
        with self._lock:
            self._pack_rest()
            if self._cache is not None:
                self._cache.close()
            self._objects.close()
            self._cache, self._is_there, self._is_writer = None, False, False

    def __enter__(self) -> ReplyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> bool:
        """Return whether something was stored; opens the cache of a bucket then."""
        with self._lock:
            if not self._is_there and (found := self._objects.read([reply_objects.STORE], _MAX_BYTES)):
                url, data = self._objects.url_of(reply_objects.STORE), found[reply_objects.STORE].data
                store_id = reply_objects.decode(url, data, reply_objects.StoreFile, _OTHER_STORE).id
                if isinstance(self._objects, BucketObjects):
                    from querytruth.backends.files.object_store import DatabaseObjects

                    place = cache_folder() / "replies" / f"{store_id}.sqlite"
                    self._cache = DatabaseObjects(place, _STAGE, _CACHE)
                    self._cached = len(self._cache.list_below("answers/"))
                self._is_there = True
            return self._is_there

    def _create(self, identity: ModelIdentity) -> str:
        """Make the store know this model, and return it as canonical JSON."""
        text = stored_answers.canonical_json_text(identity.as_record())
        with self._lock:
            if not self._is_writer:
                self._objects.put_new(
                    {reply_objects.STORE: msgspec.json.encode(reply_objects.StoreFile(uuid.uuid4().hex))}
                )
                self._check_conditions()
                self._is_writer = True
            if text not in self._known_models:
                self._objects.put_new({reply_objects.model_name(text): text.encode()})
                self._known_models.add(text)
            if not self._open():
                next_step = "choose another service"
                raise UserError(_STAGE, self._objects.url_of(""), "was written, but cannot be read back", next_step)
            if not self._has_read_index:
                self._read_index()
        return text

    def _check_conditions(self) -> None:
        """Raise UserError for a service that ignores conditions: there a reply could be replaced, or be paid twice."""
        probe = {"conditions.json": b"{}"}
        self._objects.put_new(probe)
        if self._objects.put_new(probe) or self._objects.put_changed("conditions.json", b"{}", '"0"'):
            reason = "the service ignores the conditions If-None-Match and If-Match; nothing was stored"
            raise UserError(_STAGE, self._objects.url_of(""), reason, "choose another service, or a database")

    def _read_index(self) -> None:
        """Read the refreshes that this store has not read, and the packs that the cache lacks."""
        names = [name for name in self._objects.list_below("index/") if name not in self._read_names]
        self._has_read_index = True
        for start in range(0, len(names), 16):
            part = names[start : start + 16]
            known = {} if self._cache is None else self._cache.read(part, reply_objects.MAX_INDEX_BYTES)
            found = self._objects.read([one for one in part if one not in known], reply_objects.MAX_INDEX_BYTES)
            for name, one in (known | found).items():
                url = self._objects.url_of(name)
                if name.startswith("index/refresh-"):
                    refresh = reply_objects.read_index(url, one.data, SetAside)
                    for key, number in refresh.answers:  # of two refreshes of one answer, the earlier one
                        ended = self._ended.setdefault(key, {})
                        ended[number] = min(refresh.refreshed_at, ended.get(number, refresh.refreshed_at))
                elif name.startswith("index/pack-") and name in found:
                    self._keep(reply_objects.read_index(url, one.data, list[StoredAnswer]), are_packed=True)
                    found[name] = Stored(b"", "")
            if self._cache is not None:
                self._cache.put({name: one.data for name, one in found.items()})
            self._read_names.update(part)

    def _list_candidates(self, key: str, moment: str | None) -> list[AnswerPlace]:
        """Return the answers to a question that may hold at the moment: those set aside later, then the present
        one."""
        ended = self._ended.get(key, {})
        later = [number for number, refreshed_at in ended.items() if moment is not None and refreshed_at > moment]
        return [AnswerPlace(key, number) for number in (*sorted(later), max(ended, default=-1) + 1)]

    def _read(self, places: Sequence[AnswerPlace], *, are_there: bool = False) -> dict[AnswerPlace, StoredAnswer]:
        """Return those of the answers that are stored and last."""
        names = {answer_name(place): place for place in places}
        known = {} if self._cache is None else self._cache.read(list(names), MAX_ANSWER_BYTES)
        missing = names.keys() - known.keys()
        if self._cache is not None and not are_there and len(missing) > max(_FEW, self._cached // _LISTED_AT_ONCE):
            listed = self._objects.list_below("answers/")
            self._cached = max(self._cached, len(listed))
            missing &= set(listed)
        found = self._objects.read(sorted(missing), MAX_ANSWER_BYTES)
        answers = {names[name]: self._parse(name, one.data) for name, one in (known | found).items()}
        lasting = {place: one for place, one in answers.items() if one.kind in reply_objects.LASTING}
        self._keep(one for place, one in lasting.items() if answer_name(place) in found)
        return lasting

    def _parse(self, name: str, data: bytes) -> StoredAnswer:
        place = reply_objects.place_of(name)
        assert place is not None
        return reply_objects.read_answer(self._objects.url_of(name), data, place)

    def _store_after_another(self, name: str, answer: StoredAnswer, stored: Stored | None) -> StoredAnswer:
        """Store an answer where another was first, and return the one that holds: a reply is never replaced."""
        data = reply_objects.write_answer(answer)
        for _ in range(_ANSWERS_TO_A_RACE):
            if stored is None and self._objects.put_new({name: data}):
                return answer
            if stored is not None:
                known = self._parse(name, stored.data)
                if known.kind == "reply" or stored.data == data:  # ours: the answer to an earlier attempt was lost
                    return known
                if self._objects.put_changed(name, data, stored.tag):
                    return answer
            stored = self._objects.read([name], MAX_ANSWER_BYTES).get(name)
        raise UserError(_STAGE, self._objects.url_of(name), "other runs keep replacing it", "run the same command")

    def _keep(self, answers: Iterable[StoredAnswer], *, are_packed: bool = False) -> None:
        """Keep copies of replies in the cache of a bucket."""
        if self._cache is None:
            return
        replies = (one for one in answers if one.kind == "reply")
        texts = [msgspec.structs.replace(one, request="", raw="") for one in replies]
        copies = {answer_name(one.place): reply_objects.write_answer(one) for one in texts}
        if are_packed:
            self._cache.put(copies)
            self._cache.remove([f"{_UNPACKED}{name}" for name in copies])
        else:
            known = self._cache.read(list(copies), MAX_ANSWER_BYTES)
            new = {name: data for name, data in copies.items() if name not in known}
            self._cache.put(new | {f"{_UNPACKED}{name}": b"" for name in new})

    def _pack(self) -> None:
        """Store copies of the replies in the cache that are in no pack yet."""
        assert self._cache is not None
        while names := self._cache.list_below(_UNPACKED)[:_PACK_MOST]:
            found = self._cache.read([name.removeprefix(_UNPACKED) for name in names], MAX_ANSWER_BYTES)
            chosen, characters = list[StoredAnswer](), 0
            for name, one in found.items():
                answer = self._parse(name, one.data)
                characters += len(answer.text)
                if chosen and characters > _PACK_CHARACTERS:
                    break
                chosen.append(answer)
            index_name, data = reply_objects.write_index("pack", chosen)
            self._objects.put({index_name: data})
            self._cache.put({index_name: b""})
            self._cache.remove([f"{_UNPACKED}{answer_name(one.place)}" for one in chosen])

    def _pack_rest(self) -> None:
        if self._is_writer and self._cache is not None:
            with suppress(UserError):  # a pack holds copies: the next run that saves stores it
                if len(self._cache.list_below(_UNPACKED)) >= _PACK_AT_THE_END:
                    self._pack()

    def _list_runs(self, identity: ModelIdentity) -> list[reply_objects.PastRun]:
        names = [name for name in self._objects.list_below(_paces_of(identity)) if "/role-" not in name]  # of 0.2
        found = self._objects.read(names, _MAX_BYTES)
        return [
            reply_objects.decode(self._objects.url_of(name), one.data, reply_objects.PastRun)
            for name, one in found.items()
        ]


def _paces_of(identity: ModelIdentity) -> str:
    """Return the prefix of the names of a model's runs."""
    return f"paces/{reply_objects.digest(stored_answers.canonical_json_text(identity.as_record()).encode())[:32]}/"
