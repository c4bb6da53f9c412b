"""Leases in a bucket: of several machines that need one reply, one asks for it."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from querytruth.backends.environment import process_start
from querytruth.backends.files.object_store import open_objects
from querytruth.backends.models import question_leases
from querytruth.backends.models.question_leases import QuestionLeases
from querytruth.errors import UserError
from tests.object_service import ObjectService, busy, forget_to_answer

KEY = "sets/replies/leases.json"


def leases_in(service: ObjectService, holder: str = "") -> QuestionLeases:
    return QuestionLeases(open_objects(f"{service.url}/replies"), holder)


def test_the_lease_of_another_machine_holds_until_it_was_not_renewed(
    object_service: ObjectService, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    elsewhere = {"a 1 1 x": {"expires": now + 30, "keys": ["k1"]}, "b 1 1 y": {"expires": now - 1, "keys": ["k2"]}}
    object_service.ask("PUT", KEY, json.dumps(elsewhere).encode())
    leases = leases_in(object_service)
    with leases.hold(["k1", "k2", "k3"]) as held:
        assert held == {"k2", "k3"}
        with leases_in(object_service).hold(["k2", "k4"]) as others:
            assert others == {"k4"}, "a living process of this machine holds its lease"
    monkeypatch.setattr(question_leases, "_SECONDS", 1.2)
    with leases.hold(["k2"]) as held:
        time.sleep(2.5)
        with leases_in(object_service).hold(["k2"]) as others:
            assert held == {"k2"} and not others, "it is renewed"
    assert json.loads(object_service.ask("GET", KEY)).keys() == {"a 1 1 x"}, "only what holds is kept"


@pytest.mark.thorough
def test_of_many_who_want_a_question_at_the_same_moment_one_gets_it(object_service: ObjectService) -> None:
    keys, start = [f"k{number}" for number in range(20)], threading.Barrier(6)

    def take(number: int) -> set[str]:
        start.wait(30)
        return leases_in(object_service, f"m{number} 1 1 x").take(keys[number : number + 10])

    with ThreadPoolExecutor(6) as pool:
        taken = Counter(key for held in pool.map(take, range(0, 12, 2)) for key in held)
    assert set(taken) == set(keys) and set(taken.values()) == {1}


def test_a_release_that_fails_is_left_to_expire_and_one_whose_answer_is_lost_is_done(
    object_service: ObjectService,
) -> None:
    object_service.fault_of = lambda method, _key, number: forget_to_answer if method == "PUT" and number == 2 else None
    with leases_in(object_service).hold(["k"]) as held:
        assert held == {"k"}
    assert json.loads(object_service.ask("GET", KEY)) == {}
    with leases_in(object_service).hold(["k"]):
        object_service.fault_of = lambda method, _key, _number: busy if method == "PUT" else None
    object_service.fault_of = lambda _method, _key, _number: None
    assert json.loads(object_service.ask("GET", KEY))


def test_a_service_whose_object_always_changes_is_one_line(
    object_service: ObjectService, monkeypatch: pytest.MonkeyPatch
) -> None:
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
