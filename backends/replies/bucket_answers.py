"""The answers in a bucket: stored one by one, read one by one, by a list of their names, or from packs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from backends.object_storage.bucket import Bucket
from backends.replies import bucket_objects
from backends.replies.answer_cache import AnswerCache
from backends.replies.bucket_objects import MAX_ANSWER_BYTES, MAX_INDEX_BYTES, AnswerPlace, BucketAnswer
from builders.errors import UserError

T = TypeVar("T")
R = TypeVar("R")
_REQUESTS_AT_ONCE = 16
_PACK_MOST, _PACK_CHARACTERS = 8192, 32 << 20  # of one pack: replies, and their texts
_FEW = 32  # answers that are read without a list
_LISTED_AT_ONCE = 1000  # names in one answer of the service
_LIST_IN_PARTS = 16 * _LISTED_AT_ONCE
_ANSWERS_TO_A_RACE = 10


class BucketAnswers:
    """The answers below a folder of a bucket, which `full_key` puts before a name, and what the cache has of them. May
    be used by several threads. Methods raise UserError for errors of the service and for damaged objects."""

    def __init__(self, bucket: Bucket, full_key: Callable[[str], str], cache: AnswerCache) -> None:
        self._bucket, self._full_key = bucket, full_key
        self._cache, self._count = cache, cache.count()  # of answers, about

    def read_index(self) -> None:
        """Reads packs and refreshes that the cache lacks."""
        names = {key.rpartition("/")[2]: key for key in self._bucket.list_sizes(self._full_key("index/"))}
        unread = self._cache.list_unread(names)

        def fetch(name: str) -> bytes | None:
            return self._bucket.read(names[name], MAX_INDEX_BYTES)

        for start in range(0, len(unread), _REQUESTS_AT_ONCE):
            part = unread[start : start + _REQUESTS_AT_ONCE]
            for name, data in zip(part, run_at_once(fetch, part), strict=True):
                url = self._bucket.url_of(names[name])
                if name.startswith("pack-"):
                    answers = bucket_objects.unpack_answers(url, data or b"")
                    self._cache.add(answers, is_packed=True, index_object=name)
                elif name.startswith("refresh-"):
                    self._cache.set_aside(*bucket_objects.read_set_aside(url, data or b""), name)

    def read(self, places: Sequence[AnswerPlace]) -> dict[AnswerPlace, BucketAnswer]:
        """Returns those of the answers that are stored, and adds them to the cache."""
        wanted = set(places)
        if len(wanted) > max(_FEW, self._count // _LISTED_AT_ONCE):
            wanted &= self._list({place.key[:1] for place in wanted})
        found = run_at_once(lambda place: self.read_one(bucket_objects.answer_name(place), place), sorted(wanted))
        answers = [answer for answer in found if answer is not None and answer.kind in bucket_objects.LASTING]
        self._cache.add(answers)
        return {answer.place: answer for answer in answers}

    def read_all(self) -> list[BucketAnswer]:
        """Returns all answers that hold."""
        self.read_index()
        places = self._list(None)
        keys = sorted({place.key for place in places})
        set_aside, known = self._cache.read_set_aside(keys), self._cache.read(keys)
        known |= self.read(sorted(places - known.keys()))
        gone = {AnswerPlace(key, number) for key, ended in set_aside.items() for number, _ in ended}
        return [answer for place, answer in known.items() if place not in gone]

    def read_one(self, name: str, place: AnswerPlace) -> BucketAnswer | None:
        """Returns the answer in an object; None where it is not there."""
        key = self._full_key(name)
        data = self._bucket.read(key, MAX_ANSWER_BYTES)
        return None if data is None else bucket_objects.read_answer(self._bucket.url_of(key), data, place)

    def store(self, row: dict[str, Any], place: AnswerPlace) -> BucketAnswer | None:
        """Stores an answer, given as a row of the database. Returns the one that holds now, which may be another
        process's; None where no lasting one is stored."""
        data, name = bucket_objects.write_answer(row, place.generation), bucket_objects.answer_name(place)
        if row["kind"] not in bucket_objects.LASTING:
            self._bucket.put(self._full_key(bucket_objects.passing_name(place)), data)
            return self.read_one(name, place)
        key = self._full_key(name)
        url = self._bucket.url_of(key)
        for _ in range(_ANSWERS_TO_A_RACE):
            if self._bucket.put_new(key, data):
                return bucket_objects.read_answer(url, data, place)
            if (tagged := self._bucket.read_tagged(key, MAX_ANSWER_BYTES)) is None:
                continue
            stored = bucket_objects.read_answer(url, tagged[0], place)
            if stored.kind == "reply" or tagged[0] == data:  # ours: the answer to an earlier attempt was lost
                return stored
            if self._bucket.put_changed(key, data, tagged[1]):
                return bucket_objects.read_answer(url, data, place)
        raise UserError("reply store", url, "other runs keep replacing it", "run the same command")

    def pack(self) -> None:
        """Stores copies of the replies in the cache that are in no pack yet."""
        while replies := self._cache.read_unpacked(_PACK_MOST):
            chosen, characters = list[BucketAnswer](), 0
            for one in replies:
                characters += len(one.text)
                if chosen and characters > _PACK_CHARACTERS:
                    break
                chosen.append(one)
            name, data = bucket_objects.pack_answers(chosen)
            self._bucket.put(self._full_key(name), data)
            self._cache.add(chosen, is_packed=True, index_object=name.rpartition("/")[2])

    def _list(self, first_characters: Iterable[str] | None) -> set[AnswerPlace]:
        """Returns all stored answers, or at least those whose keys begin with one of these characters."""
        if first_characters is None or self._count < _LIST_IN_PARTS:
            prefixes = ["answers/"]
        else:
            prefixes = [f"answers/{one}/" for one in sorted(first_characters)]
        listed = run_at_once(lambda prefix: self._bucket.list_sizes(self._full_key(prefix)), prefixes)
        places = {place for names in listed for name in names if (place := bucket_objects.place_of(name)) is not None}
        self._count = max(self._count, len(places))
        return places


def run_at_once(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Returns the results of several requests at a time, in the order of the items. Raises the first error."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(_REQUESTS_AT_ONCE, len(items)), thread_name_prefix="replies") as pool:
        try:
            return list(pool.map(work, items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
