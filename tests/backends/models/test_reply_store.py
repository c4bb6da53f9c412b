"""The reply store: what was answered once is known for ever, to every thread and process."""

import multiprocessing
import sqlite3
import threading
from collections.abc import Iterator
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
from querytruth.backends.models.chat import (
    MAX_RAW_CHARACTERS,
    ChatAnswer,
    ChatImage,
    ChatRequest,
    Failure,
    GenerationParameters,
    Message,
    Reply,
)
from querytruth.backends.models.reply_store import ReplyStore, open_reply_store
from querytruth.backends.models.stored_answers import answers_digest, reply_key
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError
from tests.postgres import postgres

MODEL = ModelIdentity("tiny", "r1", {"temperature": 0.0})
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


def keep(store: ReplyStore, answer: ChatAnswer, key: str = "k") -> ChatAnswer:
    return store.save(MODEL, [(key, QUESTION, answer)])[key]


ANSWERS = [
    Reply("一只狗 \U0001f436", "stop", 12, 5, '{"raw": 1}'),
    Reply("cut", "length"),
    Failure("content_filter", "final", "withheld", "<html>"),
]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.thorough
def test_an_answer_is_found_again_by_another_who_opens_the_store(location: str, answer: ChatAnswer) -> None:
    with open_reply_store(location) as store:
        assert store.find(["k"]) == {}
        assert keep(store, answer) == replace(answer, raw="")
    with open_reply_store(location) as store:
        assert store.find(["other", "k"]) == {"k": replace(answer, raw="")}
        assert store.raw("k") == answer.raw
        assert store.raw("other") is None
        assert store.identities() == [MODEL]


def test_a_failure_that_may_pass_is_no_answer_but_what_was_sent_is_kept(location: str) -> None:
    with open_reply_store(location) as store:
        keep(store, Failure("not_json", "transient", "", "<html>"))
        assert store.find(["k"]) == {}
        assert store.raw("k") == "<html>"
        keep(store, Failure("connection_failed", "transient"), "silent")
        assert store.raw("silent") is None


def test_what_lasts_longer_takes_the_place_of_what_does_not(location: str) -> None:
    passing, final = Failure("not_json", "transient", "", "x"), Failure("content_filter", "final", "", "y")
    first, second = Reply("first", "stop"), Reply("second", "stop")
    with open_reply_store(location) as store:
        assert keep(store, passing) == passing
        assert keep(store, final) == replace(final, raw="")
        assert keep(store, passing) == replace(final, raw="")
        assert keep(store, first) == first
        assert keep(store, second) == first, "what was used in one build is not changed under it"
        assert keep(store, final) == first
        assert store.find(["k"]) == {"k": first}


def test_odd_characters_in_what_servers_send_do_no_harm(location: str) -> None:
    odd = Failure(
        "not_json\x00", "final", "half \ud800 a character, a NUL \x00", "\udcff\x00" + "x" * 2 * MAX_RAW_CHARACTERS
    )
    with open_reply_store(location) as store:
        keep(store, odd)
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
        texts = [keep(store, Reply(f"{who}", "stop"), f"key {n}") for n in range(30)]
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


def test_nothing_is_created_for_a_look(tmp_path: Path) -> None:
    with open_reply_store(tmp_path / "replies.sqlite") as store:
        assert store.find(["k"]) == {}
        assert store.identities() == []
        assert store.raw("k") is None
        keep(store, Failure("connection_failed", "transient"))
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
        keep(store, ANSWERS[0])
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


def test_where_an_image_lies_and_what_it_is_called_is_not_in_the_key() -> None:
    keys = {
        reply_key(MODEL, ChatRequest((Message("user", "?", (shown(path, "aa"),)),))) for path in ("a.jpg", "/b/c.jpg")
    }
    assert len(keys) == 1


def test_the_key_is_the_same_tomorrow() -> None:
    """A change here would ask, and pay for, everything again."""
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
        keep(store, ANSWERS[0])
    path.unlink()
    sqlite3.connect(path).close()
    (tmp_path / "file").touch()
    with open_reply_store(tmp_path / "file" / "replies.sqlite") as store, pytest.raises(UserError, match="fix that"):
        keep(store, ANSWERS[0])


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
