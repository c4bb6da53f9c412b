"""Several builds on one reply store, in a file or a bucket: each question is paid for once, whoever asks it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from querytruth.backends.environment import process_start
from querytruth.backends.files.object_store import Objects, open_objects
from querytruth.backends.models import question_leases
from querytruth.backends.models.cached_replies import AnsweredRequests, answer_requests
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Failure, Message, OnAnswers, Reply, always_continue
from querytruth.backends.models.question_leases import Lease, QuestionLeases
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError
from tests.loopback import ReceivedRequest, loopback
from tests.object_service import ObjectService, busy, forget_to_answer
from tests.postgres import postgres
from tests.worlds import chat_reply

QUESTIONS = [ChatRequest((Message("user", str(n)),)) for n in range(12)]


@pytest.fixture(params=["sqlite", "postgresql", "bucket"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "replies.sqlite")
        return
    if request.param == "bucket":
        yield f"{request.getfixturevalue('object_service').url}/replies"
        return
    with postgres() as url:
        yield url


class SlowModel:
    """Takes a moment for each question, and remembers what all instances were asked."""

    is_recorded = False
    identity = ModelIdentity("slow", "1")

    def __init__(self, asked: list[str], answer: ChatAnswer | None = None) -> None:
        self.asked, self.answer = asked, answer

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        answers: list[ChatAnswer] = []
        for place, request in enumerate(requests):
            self.asked.append(request.messages[0].text)
            time.sleep(0.03)
            answers.append(self.answer or Reply(f"re {request.messages[0].text}", "stop"))
            if not on_answers([(place, answers[-1])]):
                break
        return answers


def run_at_once(location: str, models: Sequence[SlowModel]) -> list[AnsweredRequests]:
    def build(model: SlowModel) -> AnsweredRequests:
        with open_reply_store(location) as store:
            return answer_requests(store, model, QUESTIONS)

    with ThreadPoolExecutor(len(models)) as pool:
        return list(pool.map(build, models))


@pytest.mark.thorough
def test_two_builds_at_once_on_one_store_ask_each_question_once(location: str) -> None:
    asked: list[str] = []
    results = run_at_once(location, [SlowModel(asked), SlowModel(asked), SlowModel(asked)])
    assert sorted(asked, key=int) == [str(n) for n in range(12)], "nothing is paid for twice"
    assert all(result.answers == results[0].answers and not result.missing for result in results)
    assert sum(result.calls for result in results) == 12 and {r.calls + r.hits for r in results} == {12}


@pytest.mark.thorough
def test_what_the_first_build_fails_at_the_second_asks_for_itself(location: str) -> None:
    asked: list[str] = []
    down = SlowModel(asked, Failure("connection_failed", "transient"))
    up = SlowModel(asked)

    def fail() -> None:
        with pytest.raises(UserError, match="connection_failed"):
            run_at_once(location, [down])

    failing = threading.Thread(target=fail)
    failing.start()
    while not asked:
        time.sleep(0.01)
    [result] = run_at_once(location, [up])
    failing.join()
    assert [getattr(answer, "text", "") for answer in result.answers] == [f"re {n}" for n in range(12)]


CHILD = """
import sys
from querytruth.backends.models import chat
from querytruth.backends.models.cached_replies import answer_requests
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.models.chat import ChatRequest, Message
model = chat.load_chat_model("openai_compatible", base_url=sys.argv[1], name="tiny", concurrency=1)
answer_requests(open_reply_store(sys.argv[2]), model, [ChatRequest((Message("user", str(n)),)) for n in range(12)])
"""


def start_build(url: str, location: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CHILD, url, location], cwd=Path(__file__).parents[3])


@pytest.mark.thorough
def test_a_build_that_is_killed_does_not_hold_the_next_one_up(location: str) -> None:
    reached, resumed = threading.Event(), threading.Event()

    def answer(request: ReceivedRequest) -> Any:
        asked = str(request.json["messages"][0]["content"])
        if asked == "5" and not resumed.is_set():
            reached.set()
            resumed.wait(60)
        return chat_reply(asked)

    with loopback(answer) as server:
        first = start_build(server.url, location)
        assert reached.wait(60)
        second = start_build(server.url, location)
        time.sleep(2)
        assert second.poll() is None and len(server.asked) == 6, "the second one waits"
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        start = time.monotonic()
        resumed.set()
        assert second.wait(60) == 0
        assert time.monotonic() - start < 20, "a dead process holds no lease"
        asked = Counter(str(request.json["messages"][0]["content"]) for request in server.asked)
    assert asked == {str(n): 2 if n == 5 else 1 for n in range(12)}


@pytest.fixture(params=["sqlite", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Objects]:
    bucket = request.param == "bucket" and request.getfixturevalue("object_service")
    opened = open_objects(f"{bucket.url}/replies" if bucket else tmp_path / "replies.sqlite")
    yield opened
    opened.close()


@pytest.mark.thorough
def test_the_lease_of_another_machine_holds_while_renewed(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = {"a 1 1 x": Lease(time.time() + 30, ["k1"]), "b 1 1 y": Lease(time.time() - 1, ["k2"])}
    objects.put({"leases.json": msgspec.json.encode(elsewhere)})
    leases = QuestionLeases(objects)
    with leases.hold(["k1", "k2", "k3"]) as held:
        assert held == {"k2", "k3"}
        with QuestionLeases(objects).hold(["k2", "k4"]) as others:
            assert others == {"k4"}, "a living process of this machine holds its lease"
    monkeypatch.setattr(question_leases, "_SECONDS", 1.2)
    with leases.hold(["k2"]) as held:
        time.sleep(2.5)
        with QuestionLeases(objects).hold(["k2"]) as others:
            assert held == {"k2"} and not others, "it is renewed"
    (kept,) = objects.read(["leases.json"], 1000).values()
    assert json.loads(kept.data).keys() == {"a 1 1 x"}, "only what holds is kept"


KEY = "sets/replies/leases.json"


def leases_in(service: ObjectService, holder: str = "") -> QuestionLeases:
    return QuestionLeases(open_objects(f"{service.url}/replies"), holder)


@pytest.mark.thorough
def test_a_release_that_fails_expires_and_one_whose_answer_is_lost_is_done(object_service: ObjectService) -> None:
    object_service.fault_of = lambda method, _key, number: forget_to_answer if method == "PUT" and number == 2 else None
    with leases_in(object_service).hold(["k"]) as held:
        assert held == {"k"}
    assert json.loads(object_service.ask("GET", KEY)) == {}
    with leases_in(object_service).hold(["k"]):
        object_service.fault_of = lambda method, _key, _number: busy if method == "PUT" else None
    object_service.fault_of = lambda _method, _key, _number: None
    assert json.loads(object_service.ask("GET", KEY))


def test_leases_that_always_change_are_one_line(object_service: ObjectService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_leases, "_ATTEMPTS", 3)
    changing = iter(range(100))

    def change(method: str, _key: str, _number: int) -> None:
        if method == "PUT":
            lease = {"a 1 1 x": {"expires": time.time() + 9 + next(changing), "keys": []}}
            object_service.ask("PUT", KEY, json.dumps(lease).encode())

    object_service.fault_of = change
    with pytest.raises(UserError, match="other runs keep replacing it"):
        leases_in(object_service, "me 1 1 x").take(["k"])


def test_a_lease_far_ahead_is_none(object_service: ObjectService) -> None:
    ahead = {"a 1 1 x": {"expires": time.time() + 9e5, "keys": ["k1"]}, "b 1 1 y": {"expires": 1e300, "keys": ["k2"]}}
    object_service.ask("PUT", KEY, json.dumps(ahead).encode())
    with leases_in(object_service).hold(["k1", "k2"]) as held:
        assert held == {"k1", "k2"}


def test_a_process_that_ended_and_was_not_noticed_is_gone() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie
    try:
        assert process_start(ended.pid) == "" and process_start(os.getpid()).isdigit()
    finally:
        ended.wait()
