"""The reply store in a folder of a bucket: machines share the answers that were paid for, and nothing else.

An answer is one object under the key of its question, which is written on the condition that none is there; a reply is
never replaced. Replies are read once: this machine keeps them in a cache. Packs hold copies of many replies, so that
who has none of them reads thousands with one request.

Leases on questions as one object of a bucket, replaced on the condition that nobody else replaced it meanwhile.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from querytruth.backends.files.bucket import Bucket
from querytruth.backends.files.bucket_urls import BucketFolder, cache_folder
from querytruth.backends.files.text_formats import parse_bounded_json
from querytruth.backends.models import bucket_objects, stored_answers
from querytruth.backends.models.bucket_answers import AnswerCache, BucketAnswers, run_at_once
from querytruth.backends.models.bucket_objects import AnswerPlace, BucketAnswer
from querytruth.backends.models.chat import ChatAnswer, ChatRequest
from querytruth.backends.models.question_leases import QuestionLeases, QuestionPace, is_over, mean_turn_seconds
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError

_MAX_LEASE_BYTES = 64 << 20
_ATTEMPTS = 40
_PAUSE_SECONDS = 0.4  # at most, between two attempts

Leases = dict[str, dict[str, Any]]  # by holder: when they expire, and the keys
_STAGE = "reply store"
_MAX_BYTES = 1 << 20  # of the objects that are no answers
_PACK_AT, _PACK_AT_THE_END = 1024, 64  # replies that are in no pack


class BucketLeases:
    """The leases of all runs, in the object of this key."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket, self._key = bucket, key

    def take(self, keys: Sequence[str], holder: str, expires: float) -> set[str]:
        """Gives those of the keys to the holder that no other one holds (seconds since 1970), and returns them."""
        held: set[str] = set()

        def add(leases: Leases) -> bool:
            taken = {key for other, lease in leases.items() if other != holder for key in lease["keys"]}
            held.clear()
            held.update(key for key in keys if key not in taken)
            if held:
                leases[holder] = {"expires": expires, "keys": sorted(held)}
            return bool(held)

        self._change(add)
        return held

    def renew(self, holder: str, expires: float) -> None:
        """Prolongs all leases of the holder."""

        def prolong(leases: Leases) -> bool:
            if holder in leases:
                leases[holder]["expires"] = expires
            return holder in leases

        self._change(prolong)

    def release(self, holder: str) -> None:
        """Ends all leases of the holder."""
        self._change(lambda leases: leases.pop(holder, None) is not None)

    def _change(self, change: Callable[[Leases], bool]) -> None:
        """Lets `change` change the leases that hold, and stores them where it returns True."""
        for attempt in range(_ATTEMPTS):
            stored = self._bucket.read_tagged(self._key, _MAX_LEASE_BYTES)
            leases = {} if stored is None else self._parse(stored[0])
            holding = {one: lease for one, lease in leases.items() if not is_over(one, lease["expires"])}
            if not change(holding):
                return
            data = stored_answers.canonical_json_text(holding).encode()
            if stored is None:
                is_stored = self._bucket.put_new(self._key, data)
            else:
                is_stored = self._bucket.put_changed(self._key, data, stored[1])
            if is_stored:
                return
            time.sleep(random.uniform(0, min(_PAUSE_SECONDS, 0.02 * 2**attempt)))
        next_step = "run the same command"
        raise UserError("reply store", self._bucket.url_of(self._key), "other runs keep replacing it", next_step)

    def _parse(self, data: bytes) -> Leases:
        try:
            leases: Leases = parse_bounded_json(data)
            for holder, lease in leases.items():
                _machine, process, _start, _run = holder.split(" ")
                if not all(isinstance(key, str) for key in lease["keys"]) or int(process) < 1:
                    raise ValueError("no lease")
                lease["expires"] = float(lease["expires"])
        except (ValueError, KeyError, TypeError, AttributeError):
            next_step = "delete that object while no build runs: it holds no answer"
            raise UserError("reply store", self._bucket.url_of(self._key), "is no list of leases", next_step) from None
        return leases


class BucketReplyStore:
    """Answers by key. Nothing is created before the first answer is stored. Methods raise UserError for errors of the
    service."""

    def __init__(self, folder: BucketFolder) -> None:
        """Connects to nothing yet."""
        self._folder, self._lock = folder, threading.RLock()
        self._connected: Bucket | None = None
        self._opened: tuple[BucketAnswers, AnswerCache] | None = None
        self._known_models: set[str] = set()
        self._is_writer = False

    def find(self, keys: Sequence[str]) -> dict[str, ChatAnswer]:
        """Returns stored replies and final failures by key, without raw replies."""
        if (opened := self._open()) is None:
            return {}
        bucket_answers, cache = opened
        bucket_answers.read_index()
        set_aside, moment = cache.read_set_aside(keys), stored_answers.current_moment()
        candidates = {key: _list_candidates(key, set_aside.get(key, ()), moment) for key in keys}
        known = cache.read(list(candidates))
        known |= bucket_answers.read([one for places in candidates.values() for one in places if one not in known])
        answers: dict[str, ChatAnswer] = {}
        for key, places in candidates.items():
            stored = [known[place] for place in places if place in known]
            held = (one for one in stored if one.place == places[-1] or one.stored_at <= str(moment))
            if (answer := next(held, None)) is not None:
                answers[key] = _as_chat_answer(answer)
        return answers

    def save(
        self, identity: ModelIdentity, answered: Sequence[tuple[str, ChatRequest, ChatAnswer]]
    ) -> dict[str, ChatAnswer]:
        """Stores answers and returns the valid ones by key when the service has confirmed them: where another process
        stored a reply first, its reply. Failures that are neither final nor have a raw reply are not stored."""
        given: dict[str, ChatAnswer] = {key: answer for key, _, answer in answered}
        rows = stored_answers.describe_stored_answers(identity, answered)
        if not rows:
            return given
        bucket_answers, cache = self._create(identity)
        set_aside = cache.read_set_aside(list(given))
        places = [_list_candidates(row["key"], set_aside.get(row["key"], ()), None)[-1] for row in rows]
        results = run_at_once(lambda one: bucket_answers.store(*one), list(zip(rows, places, strict=True)))
        stored = [answer for answer in results if answer is not None]
        cache.add(stored)
        if cache.count_unpacked() >= _PACK_AT:
            bucket_answers.pack()
        return given | {answer.place.key: _as_chat_answer(answer) for answer in stored}

    def create_leases(self) -> QuestionLeases:
        """Returns leases for one run that asks questions."""
        return QuestionLeases(BucketLeases(self._bucket(), self._full_key("leases.json")))

    def refresh(self, identities: Sequence[ModelIdentity], before: str | None = None) -> int:
        """Sets the answers of these models aside, those stored before an ISO time or all, so that they are asked for
        again; returns their number. `replies_as_of` still finds them."""
        if (opened := self._open()) is None:
            return 0
        texts = {stored_answers.canonical_json_text(identity.as_record()) for identity in identities}
        current = [one for one in opened[0].read_all() if one.identity in texts]
        chosen = [one.place for one in current if before is None or one.stored_at < before]
        if chosen:
            # Whole seconds, as a version states when it was made: a version of the same second comes after the refresh.
            now = datetime.now(UTC).isoformat(timespec="seconds")
            name, data = bucket_objects.list_set_aside(now, chosen)
            self._bucket().put(self._full_key(name), data)
        return len(chosen)

    def record_pace(self, identity: ModelIdentity, role: str, pace: QuestionPace) -> None:
        """Stores the measured pace of a run of questions, which has ended, and a pack of its replies."""
        self._pack_rest()
        if row := pace.as_row(stored_answers.canonical_json_text(identity.as_record()), role):
            self._bucket().put(self._full_key(bucket_objects.pace_name(row)), b"")

    def find_turn_seconds(self, identity: ModelIdentity, role: str) -> float | None:
        """Returns the measured seconds of a turn of calls side by side; None where nothing was measured."""
        prefix = bucket_objects.paces_prefix(stored_answers.canonical_json_text(identity.as_record()))
        names = self._bucket().list_sizes(self._full_key(prefix))
        runs = [run for name in sorted(names) if (run := bucket_objects.read_pace(name)) is not None]
        return mean_turn_seconds(runs, role)

    def find_mean_tokens(self, identity: ModelIdentity) -> tuple[float, float] | None:
        """Returns the mean tokens in and out of those of this model's replies that this machine has read, or else of
        all; None where the endpoint counts none."""
        if (opened := self._open()) is None:
            return None
        text = stored_answers.canonical_json_text(identity.as_record())
        opened[0].read_index()
        if (means := opened[1].mean_tokens(text)) is None:
            opened[0].read_all()
            means = opened[1].mean_tokens(text)
        return means

    def raw(self, key: str) -> str | None:
        """Returns the raw reply of a key, also of a transient failure, up to MAX_RAW_CHARACTERS."""
        if (opened := self._open()) is None:
            return None
        bucket_answers, cache = opened
        bucket_answers.read_index()
        place = _list_candidates(key, cache.read_set_aside([key]).get(key, ()), None)[-1]
        for name in (bucket_objects.answer_name(place), bucket_objects.passing_name(place)):
            if (found := bucket_answers.read_one(name, place)) is not None:
                return found.raw
        return None

    def identities(self) -> list[ModelIdentity]:
        """Returns the models with stored answers."""
        bucket = self._bucket()
        names = sorted(bucket.list_sizes(self._full_key("models/")))
        objects = run_at_once(lambda name: bucket.read(name, _MAX_BYTES), names)
        records = [
            bucket_objects.read_model(bucket.url_of(name), data or b"")
            for name, data in zip(names, objects, strict=True)
        ]
        return [ModelIdentity(**record) for record in sorted(records, key=stored_answers.canonical_json_text)]

    def close(self) -> None:
        """Stores a pack of what is in none yet, and closes the cache; the store may be used again."""
        with self._lock:
            self._pack_rest()
            if self._opened is not None:
                self._opened[1].close()
            self._opened, self._connected, self._is_writer = None, None, False

    def __enter__(self) -> BucketReplyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bucket(self) -> Bucket:
        with self._lock:
            if self._connected is None:
                self._connected = Bucket(self._folder)
            return self._connected

    def _full_key(self, name: str) -> str:
        return f"{self._folder.prefix}/{name}".lstrip("/")

    def _open(self) -> tuple[BucketAnswers, AnswerCache] | None:
        """Returns the answers and their cache; None where nothing was stored yet."""
        with self._lock:
            if self._opened is None:
                key, bucket = self._full_key("store.json"), self._bucket()
                if (data := bucket.read(key, _MAX_BYTES)) is not None:
                    store_id = bucket_objects.read_store(bucket.url_of(key), data)
                    cache = AnswerCache(cache_folder() / "replies" / f"{store_id}.sqlite")
                    self._opened = BucketAnswers(bucket, self._full_key, cache), cache
            return self._opened

    def _create(self, identity: ModelIdentity) -> tuple[BucketAnswers, AnswerCache]:
        """Returns the answers and their cache of a store that is there now, and knows this model."""
        text, bucket = stored_answers.canonical_json_text(identity.as_record()), self._bucket()
        with self._lock:
            if not self._is_writer:
                bucket.put_new(self._full_key("store.json"), bucket_objects.write_store(uuid.uuid4().hex))
                self._check_conditions(bucket)
                self._is_writer = True
            if text not in self._known_models:
                bucket.put_new(self._full_key(bucket_objects.model_name(text)), text.encode())
                self._known_models.add(text)
            if (opened := self._open()) is None:
                raise UserError(_STAGE, self._folder, "was created, and is not there", "choose another service")
            return opened

    def _pack_rest(self) -> None:
        if self._is_writer and (opened := self._open()) is not None:
            with suppress(UserError):  # a pack holds copies: the next run that saves stores it
                if opened[1].count_unpacked() >= _PACK_AT_THE_END:
                    opened[0].pack()

    def _check_conditions(self, bucket: Bucket) -> None:
        """Raises UserError for a service that ignores conditions: there a reply could be replaced, or be paid twice."""
        key = self._full_key("conditions.json")
        bucket.put_new(key, b"{}")
        if bucket.put_new(key, b"{}") or bucket.put_changed(key, b"{}", '"0"'):
            reason = "the service ignores the conditions If-None-Match and If-Match; nothing was stored"
            raise UserError(_STAGE, self._folder, reason, "choose another service, or a database")


def _list_candidates(key: str, set_aside: Sequence[tuple[int, str]], moment: str | None) -> list[AnswerPlace]:
    """Returns the answers to a question that may hold at the moment: those set aside later, then the present one."""
    later = [number for number, refreshed_at in set_aside if moment is not None and refreshed_at > moment]
    present = max((number for number, _ in set_aside), default=-1) + 1
    return [AnswerPlace(key, number) for number in (*sorted(later), present)]


def _as_chat_answer(answer: BucketAnswer) -> ChatAnswer:
    return stored_answers.as_answer(*answer.columns)
