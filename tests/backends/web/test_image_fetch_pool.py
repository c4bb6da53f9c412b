"""Turns with hosts, and which fetch is begun next."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest

from querytruth.backends.web import host_rules
from querytruth.backends.web.host_rules import Host
from querytruth.backends.web.image_fetch_pool import ImageFetchPool
from querytruth.backends.web.page_store import PageStore
from querytruth.backends.web.web_records import FailedFetch, FetchResult, RefusedFetch, WebRequest
from tests.backends.web.hostile_web import QUICK_LIMITS, small_web

T = TypeVar("T")
REFUSED = FailedFetch("rate_limited", "transient", "status 429", retry_in=9.0)
GONE = FailedFetch("not_found", "final")


def in_time(work: Coroutine[Any, Any, T], seconds: float = 5.0) -> T:
    return asyncio.run(asyncio.wait_for(work, seconds))


async def take_turn(host: Host) -> None:
    async with host.turn():
        pass


def begun(folder: Path, urls: list[str], answers: Any, **limits: Any) -> list[str]:
    """The addresses in the order in which their fetches are begun; `answers` is a coroutine in place of a fetch."""
    web = small_web(limits=replace(QUICK_LIMITS, **limits))
    order: list[str] = []

    async def answer(request: WebRequest, _out: object, _ends: float) -> FetchResult:
        order.append(request.url)
        return await answers(web, request.url)  # type: ignore[no-any-return]

    with mock.patch.object(web, "try_fetch", answer):
        found = list(ImageFetchPool(PageStore(folder), web).run([WebRequest(url) for url in urls]))
    assert {key for key, _ in found} == {WebRequest(url).key for url in urls}, "each ends, and once"
    return order


def test_a_slow_host_holds_up_its_own_jobs_only(tmp_path: Path) -> None:
    """One at a time: the other host's are all done before the slow one's second."""

    async def answer(web: Any, url: str) -> FetchResult:
        if "slow" in url:
            async with web.hosts["slow"].turn():
                pass
        return GONE

    urls = [f"http://{host}/{number}" for number in range(3) for host in ("slow", "quick")]
    order = begun(tmp_path, urls, answer, concurrency=1, per_host=1, interval=0.2)
    assert order[0] == "http://slow/0"
    assert order[1:] == [f"http://quick/{n}" for n in range(3)] + ["http://slow/1", "http://slow/2"]


def test_a_host_gets_so_many_at_a_time_and_every_job_once(tmp_path: Path) -> None:
    under_way, most = Counter[str](), Counter[str]()

    async def answer(_web: Any, url: str) -> FetchResult:
        host = url[:9]
        under_way[host] += 1
        most[host] = max(most[host], under_way[host])
        await asyncio.sleep(0.001)
        under_way[host] -= 1
        return GONE

    urls = [f"http://h{number % 3}/{number}" for number in range(60)]
    order = begun(tmp_path, urls, answer, concurrency=12, per_host=2)
    assert sorted(order) == sorted(urls)
    assert max(most.values()) == 2


def test_a_job_that_is_tried_again_comes_before_the_host_s_others_when_its_pause_is_over(tmp_path: Path) -> None:
    tried = Counter[str]()

    async def answer(_web: Any, url: str) -> FetchResult:
        tried[url] += 1
        if url.endswith("a") and tried[url] == 1:
            return FailedFetch("server_error", "transient", retry_in=0.0)
        await asyncio.sleep(0.05)
        return GONE

    urls = [f"http://h/{letter}" for letter in "abcd"]
    order = begun(tmp_path, urls, answer, concurrency=4, per_host=1)
    assert [url[-1] for url in order] == ["a", "b", "a", "c", "d"]


def test_turns_are_few_and_apart() -> None:
    async def story() -> None:
        host = Host(per_host=1, interval=0.1)
        start = time.monotonic()
        for _ in range(3):
            await take_turn(host)
        assert time.monotonic() - start > 0.19
        async with host.turn(), Host(1, 0.1).turn():
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(take_turn(host), 0.1)
        await take_turn(host)

    in_time(story())


def test_one_refused_address_pauses_nobody_and_many_pause_the_host() -> None:
    async def story() -> None:
        host = Host(per_host=8, interval=0)
        for _ in range(20):
            host.record_refusal("http://h/1", REFUSED, 0.3)
        await asyncio.wait_for(host.wait_until_open(), 0.1)
        for number in range(5):
            host.record_refusal(f"http://h/{number}", REFUSED, 0.3)
        start = time.monotonic()
        await take_turn(host)
        assert time.monotonic() - start > 0.25

    in_time(story())


def test_an_answer_in_between_starts_the_count_anew() -> None:
    host = Host(per_host=8, interval=0)
    for number in range(50):
        host.record_refusal(f"http://h/{number}", REFUSED, 60)
        if number % 4 == 3:
            host.record_answer()
    in_time(host.wait_until_open(), 0.1)


def test_a_host_that_refuses_everything_is_given_up_and_nobody_waits_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_rules, "_PATIENCE", 0.1)

    async def story() -> None:
        host = Host(per_host=1, interval=0)
        for number in range(5):
            host.record_refusal(f"http://h/{number}", REFUSED, 0)
        await take_turn(host)
        await asyncio.sleep(0.15)
        host.interval = 60
        await take_turn(host)
        waiting = [asyncio.create_task(take_turn(host)) for _ in range(3)]
        await asyncio.sleep(0)
        host.record_refusal("http://h/9", REFUSED, 60)
        for one in waiting:
            with pytest.raises(RefusedFetch) as refused:
                await one
            assert (refused.value.failure.reason, refused.value.failure.retry_in) == ("rate_limited", None)

    in_time(story())


def test_stopping_lets_those_go_who_wait_for_a_turn() -> None:
    web = small_web(limits=replace(QUICK_LIMITS, per_host=1, interval=60, seconds=60))

    async def take_turns() -> None:
        await take_turn(web.hosts["h"])
        await take_turn(web.hosts["h"])

    waiting = web.start(take_turns())
    threading.Timer(0.1, web.stop).start()
    start = time.monotonic()
    with pytest.raises(CancelledError):
        waiting.result(30)
    assert waiting.cancelled() and time.monotonic() - start < 5
