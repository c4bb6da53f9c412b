"""Turns with hosts, and which fetch is begun next."""

import threading
import time
from collections import Counter

import pytest

from querytruth.backends.web import host_rules as host_throttle
from querytruth.backends.web.host_rules import HostThrottle
from querytruth.backends.web.image_fetch_pool import FetchQueue
from querytruth.backends.web.web_records import FailedFetch, RefusedFetch

REFUSED = FailedFetch("rate_limited", "transient", "status 429", retry_in=9.0)


def soon() -> float:
    return time.monotonic() + 5


def test_a_slow_host_holds_up_its_own_jobs_only() -> None:
    """One thread: the other host's jobs are all done before the slow one's second."""
    opens = {"slow": time.monotonic() + 0.3, "quick": 0.0}
    queue: FetchQueue[int] = FetchQueue(1, opens.__getitem__)
    for number in range(3):
        queue.put("slow", number)
        queue.put("quick", number)
    done = []
    while (taken := queue.take()) is not None:
        done.append(taken)
        queue.done(taken[0])
    assert done == [("quick", 0), ("quick", 1), ("quick", 2), ("slow", 0), ("slow", 1), ("slow", 2)]


def test_a_host_gets_so_many_at_a_time_and_every_job_once() -> None:
    queue: FetchQueue[int] = FetchQueue(2, lambda _host: 0.0)
    for number in range(60):
        queue.put(f"h{number % 3}", number)
    under_way, most, done, lock = Counter[str](), Counter[str](), list[int](), threading.Lock()

    def work() -> None:
        while (taken := queue.take()) is not None:
            host, job = taken
            with lock:
                under_way[host] += 1
                most[host] = max(most[host], under_way[host])
            time.sleep(0.001)
            with lock:
                under_way[host] -= 1
                done.append(job)
            queue.done(host)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(done) == list(range(60))
    assert max(most.values()) <= 2


def test_a_job_that_is_tried_again_comes_before_the_host_s_others_when_its_pause_is_over() -> None:
    queue: FetchQueue[str] = FetchQueue(1, lambda _host: 0.0)
    for job in ("a", "b", "c"):
        queue.put("h", job)
    order = []
    for number in range(4):
        taken = queue.take()
        assert taken
        order.append(taken[1])
        if number == 0:
            queue.retry_later("h", taken[1], 0.05)
            time.sleep(0.1)
        else:
            queue.done("h")
    assert order == ["a", "a", "b", "c"]
    assert queue.take() is None


def test_a_stopped_queue_lets_everybody_go() -> None:
    queue: FetchQueue[int] = FetchQueue(1, lambda _host: time.monotonic() + 99)
    queue.put("h", 1)
    threading.Timer(0.1, queue.stop).start()
    assert queue.take() is None
    queue.done("h")
    assert queue.take() is None


def test_turns_are_few_and_apart() -> None:
    turns = HostThrottle(per_host=1, interval=0.1)
    start = time.monotonic()
    for _ in range(3):
        with turns.acquire("h", soon()):
            pass
    assert time.monotonic() - start > 0.19
    with (
        turns.acquire("h", soon()),
        turns.acquire("other", soon()),
        pytest.raises(RefusedFetch, match="turn came too late"),
        turns.acquire("h", time.monotonic() + 0.1),
    ):
        pass


def test_one_refused_address_pauses_nobody_and_many_pause_the_host() -> None:
    turns = HostThrottle(per_host=8, interval=0)
    for _ in range(20):
        turns.record_refusal("h", "http://h/1", REFUSED, 0.3)
    assert turns.opens_at("h") <= time.monotonic()
    for number in range(5):
        turns.record_refusal("h", f"http://h/{number}", REFUSED, 0.3)
    start = time.monotonic()
    with turns.acquire("h", soon()):
        assert time.monotonic() - start > 0.25


def test_an_answer_in_between_starts_the_count_anew() -> None:
    turns = HostThrottle(per_host=8, interval=0)
    for number in range(50):
        turns.record_refusal("h", f"http://h/{number}", REFUSED, 60)
        if number % 4 == 3:
            turns.record_answer("h")
    assert turns.opens_at("h") <= time.monotonic()


def test_a_host_that_refuses_everything_for_minutes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_throttle, "_PATIENCE", 0.1)
    turns = HostThrottle(per_host=8, interval=0)
    for number in range(5):
        turns.record_refusal("h", f"http://h/{number}", REFUSED, 0)
    with turns.acquire("h", soon()):
        pass
    time.sleep(0.15)
    turns.record_refusal("h", "http://h/9", REFUSED, 60)
    with pytest.raises(RefusedFetch) as told, turns.acquire("h", soon()):
        pass
    assert (told.value.failure.reason, told.value.failure.retry_in) == ("rate_limited", None)


def test_stopping_lets_those_go_who_wait_for_a_turn() -> None:
    turns = HostThrottle(per_host=1, interval=60)
    with turns.acquire("h", soon()):
        pass
    threading.Timer(0.1, turns.stop).start()
    start = time.monotonic()
    with pytest.raises(RefusedFetch), turns.acquire("h", time.monotonic() + 30):
        pass
    assert time.monotonic() - start < 5
