"""Replies in a bucket: what machines that share nothing else find there."""

import time
from collections.abc import Callable

import pytest

from querytruth.backends.models import reply_objects, reply_store
from querytruth.backends.models.chat import Failure, Reply, load_chat_model
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.models.stored_answers import canonical_json_text, replies_as_of
from querytruth.backends.plugins import ModelIdentity
from tests.bucket_stores import MODEL, found, keep, keep_many, key_of, objects, question
from tests.object_service import ObjectService

FINAL = Failure("content_filter", "final", "withheld", "<html>")


def test_another_machine_finds_many_answers_with_few_requests(
    url: str, service: ObjectService, move: Callable[[str], None]
) -> None:
    with open_reply_store(url) as store:
        keep_many(store, 150)
    assert len(objects(service, "answers/")) == 150 and len(objects(service, "index/pack-")) == 1
    move("another")
    service.asked.clear()
    with open_reply_store(url) as store:
        assert found(store, range(150)) == set(range(150))
        assert len(service.asked) == 3, "the store, the list of packs, the pack"
        service.asked.clear()
        assert store.find([key_of(number) for number in range(150, 400)]) == {}
        assert len(service.asked) == 2, "what is not there is not asked for one by one"


def test_answers_that_are_in_no_pack_are_found_and_packed_by_the_next_who_saves(
    url: str, service: ObjectService, move: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(reply_store, "_PACK_AT_THE_END", 1000)  # as if it were killed
        with open_reply_store(url) as store:
            keep_many(store, 70)
    assert not objects(service, "index/")
    move("another")
    with open_reply_store(url) as store:
        assert found(store, range(70)) == set(range(70))
    assert not objects(service, "index/"), "who only reads writes nothing"
    with open_reply_store(url) as store:
        keep(store, 70)
    move("a third")
    service.asked.clear()
    with open_reply_store(url) as store:
        assert found(store, range(71)) == set(range(71)) and len(service.asked) == 3


def test_what_is_cached_is_not_read_again_and_a_new_store_at_the_place_is_another(
    url: str, service: ObjectService
) -> None:
    with open_reply_store(url) as store:
        keep(store)
    service.asked.clear()
    with open_reply_store(url) as store:
        assert found(store, range(1)) == {0}
    assert not any("answers" in key for _, key in service.asked)
    for key in service.list_keys():
        service.ask("DELETE", key)
    with open_reply_store(url) as store:
        assert store.find([key_of(0)]) == {}
        keep(store, 1)
        assert found(store, range(2)) == {1}


def test_a_refresh_on_one_machine_holds_on_all_and_the_time_before_it_is_still_known(
    url: str, move: Callable[[str], None]
) -> None:
    with open_reply_store(url) as store, open_reply_store(url) as unaware:
        keep(store)
        keep(store, 1, FINAL)
        assert set(unaware.find([key_of(0), key_of(1)])) == {key_of(0), key_of(1)}
        before = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        time.sleep(1.1)
        move("another")
        with open_reply_store(url) as elsewhere:
            assert elsewhere.refresh([ModelIdentity("other")]) == 0
            assert elsewhere.refresh([MODEL]) == 2 and elsewhere.refresh([MODEL]) == 0
        assert keep(unaware, 0, Reply("late", "stop")) == Reply("answer 0", "stop", 12, 5), "as if it came before"
        assert unaware.find([key_of(0), key_of(1)]) == {} and unaware.raw(key_of(0)) is None
        keep(unaware, 0, Reply("new", "stop"))
        move("a third")
        with open_reply_store(url) as third:
            assert third.find([key_of(0), key_of(1)]) == {key_of(0): Reply("new", "stop")}
            with replies_as_of(before):
                assert found(third, range(1)) == {0}
                assert third.find([key_of(1)]) == {key_of(1): Failure("content_filter", "final", "withheld")}


def test_a_final_failure_gives_way_to_a_reply_and_no_reply_to_anything(
    url: str, service: ObjectService, move: Callable[[str], None]
) -> None:
    with open_reply_store(url) as store:
        keep(store, 0, FINAL)
        assert store.find([key_of(0)])
        move("another")
        with open_reply_store(url) as elsewhere:
            keep(elsewhere)
        assert found(store, range(1)) == {0}, "a failure is not cached"
        assert keep(store, 0, FINAL) == Reply("answer 0", "stop", 12, 5)


def test_a_reply_that_arrives_between_two_steps_of_another_is_not_replaced(url: str, service: ObjectService) -> None:
    with open_reply_store(url) as store:
        keep(store, 0, FINAL)
        (key,) = objects(service, "answers/")
        identity = canonical_json_text(MODEL.as_record())
        first = reply_objects.StoredAnswer(key_of(0), 0, identity, "reply", "stop", "first", 1, 1, "2026")
        rival = reply_objects.write_answer(first)

        def intrude(method: str, asked: str, number: int) -> None:
            if (method, asked, number) == ("PUT", key, 3):  # the condition is that of what was read before
                service.ask("PUT", key, rival)

        service.fault_of = intrude
        assert keep(store) == Reply("first", "stop", 1, 1)
    assert service.ask("GET", key) == rival


def test_recorded_answers_are_replayed_from_a_bucket(url: str) -> None:
    with open_reply_store(url) as store:
        keep(store)
    model = load_chat_model("replay", replies=url)
    assert model.identity == MODEL and model.reply([question(0)]) == [Reply("answer 0", "stop", 12, 5)]
