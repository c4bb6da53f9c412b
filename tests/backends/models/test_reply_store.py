"""The reply store: what was answered once is known for ever, to every thread, process and machine."""

import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from sqlalchemy.exc import OperationalError

from querytruth.backends.files.object_store import DatabaseObjects
from querytruth.backends.models import reply_objects, reply_store
from querytruth.backends.models.chat import (
    MAX_RAW_CHARACTERS,
    ChatAnswer,
    ChatImage,
    ChatRequest,
    Failure,
    GenerationParameters,
    Message,
    Reply,
    load_chat_model,
)
from querytruth.backends.models.reply_store import ReplyStore, open_reply_store
from querytruth.backends.models.stored_answers import answers_digest, canonical_json_text, replies_as_of, reply_key
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError
from tests.bucket_stores import MODEL, found, keep, keep_many, key_of, objects, question
from tests.object_service import ObjectService
from tests.postgres import postgres

Move = Callable[[str], None]

QUESTION = ChatRequest((Message("user", "?"),))
SECRET = "pass-word/123"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql", "bucket"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store's file, or its URL on a real server."""
    if request.param == "sqlite":
        return str(tmp_path / "deep" / "replies.sqlite")
    if request.param == "bucket":
        return f"{request.getfixturevalue('object_service').url}/replies"
    import psycopg

    url: str = request.getfixturevalue("server")
    home = url.partition("host=")[2]
    with psycopg.connect(f"host={home} user=tester dbname=postgres", autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS querytruth_objects")
    return url


def keep_in(store: ReplyStore, answer: ChatAnswer, key: str = "k") -> ChatAnswer:
    return store.save(MODEL, [(key, QUESTION, answer)])[key]


FINAL = Failure("content_filter", "final", "withheld", "<html>")
ANSWERS = [
    Reply("一只狗 \U0001f436", "stop", 12, 5, '{"raw": 1}'),
    Reply("cut", "length"),
    FINAL,
]


def test_a_failure_that_may_pass_is_no_answer_but_what_was_sent_is_kept(location: str) -> None:
    with open_reply_store(location) as store:
        keep_in(store, Failure("not_json", "transient", "", "<html>"))
        assert store.find(["k"]) == {}
        assert store.raw("k") == "<html>"
        keep_in(store, Failure("connection_failed", "transient"), "silent")
        assert store.raw("silent") is None


def test_what_lasts_longer_takes_the_place_of_what_does_not(location: str) -> None:
    passing, final = Failure("not_json", "transient", "", "x"), Failure("content_filter", "final", "", "y")
    first, second = Reply("first", "stop"), Reply("second", "stop")
    with open_reply_store(location) as store:
        assert keep_in(store, passing) == passing
        assert keep_in(store, final) == replace(final, raw="")
        assert keep_in(store, passing) == replace(final, raw="")
        assert keep_in(store, first) == first
        assert keep_in(store, second) == first, "what was used in one build is not changed under it"
        assert keep_in(store, final) == first
        assert store.find(["k"]) == {"k": first}


def test_odd_characters_in_what_servers_send_do_no_harm(location: str) -> None:
    odd = Failure(
        "not_json\x00", "final", "half \ud800 a character, a NUL \x00", "\udcff\x00" + "x" * 2 * MAX_RAW_CHARACTERS
    )
    with open_reply_store(location) as store:
        keep_in(store, odd)
        found = store.find(["k"])["k"]
        assert isinstance(found, Failure)
        assert found.detail == "half \\ud800 a character, a NUL \\x00"
        assert len(store.raw("k") or "") == MAX_RAW_CHARACTERS


@pytest.mark.thorough
def test_thousands_are_found_at_once(location: str) -> None:
    keys = [f"key {n}" for n in range(1700)]
    with open_reply_store(location) as store:
        store.save(MODEL, [(key, QUESTION, Reply(key, "stop")) for key in keys])
        found = store.find([*keys, "unknown"])
    assert {key: answer.text for key, answer in found.items() if isinstance(answer, Reply)} == {k: k for k in keys}


def _write(location: str, who: int, start: Any, told: Any) -> None:
    start.wait()
    with open_reply_store(location) as store:
        texts = [keep_in(store, Reply(f"{who}", "stop"), f"key {n}") for n in range(30)]
    told.put([answer.text for answer in texts if isinstance(answer, Reply)])


@pytest.mark.thorough
def test_processes_and_threads_that_answer_the_same_agree_on_the_first_reply(location: str) -> None:
    context = multiprocessing.get_context("spawn")
    start, told = context.Event(), context.Queue()
    processes = [context.Process(target=_write, args=(location, n, start, told)) for n in range(4)]
    for process in processes:
        process.start()
    threads = [threading.Thread(target=_write, args=(location, n, start, told)) for n in range(4, 6)]
    for thread in threads:
        thread.start()
    start.set()
    texts = [told.get(timeout=60) for _ in range(6)]
    for worker in (*processes, *threads):
        worker.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(texts[0]) == 30
    assert all(others == texts[0] for others in texts)


def test_an_answer_is_found_again_by_another_who_opens_the_store(location: str) -> None:
    answer = ANSWERS[0]
    with open_reply_store(location) as store:
        assert store.find(["k"]) == {}
        assert keep_in(store, answer) == replace(answer, raw="")
    with open_reply_store(location) as store:
        assert store.find(["other", "k"]) == {"k": replace(answer, raw="")}
        assert store.raw("k") == answer.raw and store.raw("other") is None
        assert store.identities() == [MODEL]


def test_nothing_is_created_for_a_look(tmp_path: Path) -> None:
    with open_reply_store(tmp_path / "replies.sqlite") as store:
        assert store.find(["k"]) == {}
        assert store.identities() == []
        assert store.raw("k") is None
        keep_in(store, Failure("connection_failed", "transient"))
    assert not list(tmp_path.iterdir())


def test_a_row_larger_than_a_reader_takes_is_refused(tmp_path: Path) -> None:
    objects = DatabaseObjects(tmp_path / "replies.sqlite")
    objects.put({"a": b"123"})
    assert objects.read(["a"], 3)["a"].data == b"123"
    with pytest.raises(UserError, match="is larger than 2 bytes"):
        objects.read(["a"], 2)
    objects.close()


def test_what_is_kept_survives_the_machines_stop(tmp_path: Path) -> None:
    with open_reply_store(tmp_path / "replies.sqlite") as store:
        keep_in(store, ANSWERS[0])
        assert isinstance(store._objects, DatabaseObjects)
        with store._objects._opened().connect() as connection:  # the setting is the connection's own
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


# --- keys and digests ------------------------------------------------------------------------------------------------


class Form(BaseModel):
    caption: str


def shown(path: str, digest: str) -> ChatImage:
    return ChatImage(Path(path), digest, file_name=path, image_id=path)


def test_every_part_of_the_question_and_the_model_is_in_the_key() -> None:
    one, other = shown("a.jpg", "aa"), shown("b.jpg", "bb")
    questions = [
        QUESTION,
        ChatRequest((Message("system", "?"),)),
        ChatRequest((Message("user", "? "),)),
        ChatRequest((Message("user", "?"), Message("user", ""))),
        ChatRequest((Message("user", "?", (one,)),)),
        ChatRequest((Message("user", "?", (other,)),)),
        ChatRequest((Message("user", "?", (one, other)),)),
        ChatRequest((Message("user", "?", (other, one)),)),
        replace(QUESTION, parameters=GenerationParameters(max_tokens=9)),
        replace(QUESTION, parameters=GenerationParameters(min_tokens=9)),
        replace(QUESTION, response_format=Form),
        replace(QUESTION, number=1),
    ]
    models = [MODEL, replace(MODEL, name="other"), replace(MODEL, revision="r2"), replace(MODEL, parameters={})]
    keys = [reply_key(MODEL, question) for question in questions] + [reply_key(model, QUESTION) for model in models[1:]]
    assert all(first != second for first, second in combinations(keys, 2))


def test_the_key_is_the_same_tomorrow() -> None:
    """A change here would ask, and pay for, everything again; the place and the name of an image are not in it."""
    question = ChatRequest(
        (Message("user", "描述\ud800", (shown("a", "aa"),)),), GenerationParameters(max_tokens=48), number=2
    )
    assert reply_key(MODEL, question) == "dfa04b0a02b3f5308057bb4cacfe329bc0aa9d5c42b85d2ad4d98a35b19bba94"


@given(st.permutations([(str(n), answer) for n, answer in enumerate(ANSWERS)]))
def test_the_digest_of_answers_knows_no_order(keyed: list[tuple[str, ChatAnswer]]) -> None:
    again = [*keyed, keyed[0], ("9", Failure("connection_failed", "transient", "now and then"))]
    assert answers_digest(again) == answers_digest([(str(n), answer) for n, answer in enumerate(ANSWERS)])


def test_the_digest_of_answers_changes_with_every_text_and_not_with_what_was_counted() -> None:
    digests = [
        answers_digest([]),
        *(answers_digest([("k", answer)]) for answer in ANSWERS),
        answers_digest([("other", ANSWERS[0])]),
        answers_digest([("k", Reply("cut", "stop"))]),
    ]
    assert len(set(digests)) == len(digests)
    assert answers_digest([("k", Reply("cut", "length", 3, 4, "raw"))]) == answers_digest([("k", ANSWERS[1])])


# --- what the user is told -------------------------------------------------------------------------------------------


def test_a_store_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"no database, but long enough to be taken for one" * 40)
    with open_reply_store(path) as store, pytest.raises(UserError, match=r"replies\.sqlite.*not a database"):
        keep_in(store, ANSWERS[0])
    path.unlink()
    sqlite3.connect(path).close()
    (tmp_path / "file").touch()
    with open_reply_store(tmp_path / "file" / "replies.sqlite") as store, pytest.raises(UserError, match="fix that"):
        keep_in(store, ANSWERS[0])


def test_a_password_that_the_driver_repeats_is_struck_out() -> None:
    url = f"postgresql://me:{SECRET.replace('/', '%2F')}@127.0.0.1:1/db?sslpassword=other-word"
    with (
        pytest.raises(UserError, match=r"refused \[redacted\] and \[redacted\]") as error,
        DatabaseObjects(url)._translated(),
    ):
        raise OperationalError("SELECT", {}, Exception(f"refused {SECRET} and other-word"))
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET.replace('/', '%2F')}@127.0.0.1:1/db",
        f"postgres://me@127.0.0.1:1/db?password={SECRET}",
        f"postgresql://me:{SECRET.replace('/', '%2F')}@127.0.0.1:port/db",
        f"mysql://me:{SECRET}@127.0.0.1/db",
    ],
)
def test_the_password_of_a_database_is_in_no_error(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(UserError) as error, open_reply_store(url) as store:
        store.find(["k"])
    assert SECRET not in str(error.value)
    assert "pass-word" not in str(error.value)
    assert "\n" not in str(error.value)


def test_another_machine_finds_answers_by_few_asked(url: str, service: ObjectService, move: Move) -> None:
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
    url: str, service: ObjectService, move: Move, monkeypatch: pytest.MonkeyPatch
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


def test_what_is_cached_is_not_read_again_and_a_new_store_there_is_another(url: str, service: ObjectService) -> None:
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


@pytest.mark.thorough
def test_a_refresh_holds_on_all_machines_and_the_past_is_still_known(url: str, move: Move) -> None:
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


def test_a_final_failure_gives_way_to_a_reply_and_no_reply_to_anything(url: str, move: Move) -> None:
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
