"""Stored searches and the images they name: fetched once, kept whole, and told where not."""

import hashlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from querytruth.backends.web import image_fetch_pool as decoded_images
from querytruth.backends.web import image_search
from querytruth.backends.web import stored_fetches as fetched_images
from querytruth.backends.web.image_fetch_pool import FetchedImage
from querytruth.backends.web.image_search import ImageSearch, SearchError, SearchResult
from querytruth.backends.web.page_store import PageStore
from querytruth.backends.web.stored_fetches import (
    GIVE_UP_AFTER,
    SearchPageFetcher,
    WantedImage,
    fetch_images,
    search_queries,
)
from querytruth.backends.web.web_records import StoreWriteError
from querytruth.errors import UserError
from tests.backends.web.hostile_web import QUICK_LIMITS, draw_image, small_web, stored_files
from tests.loopback import (
    CannedResponse,
    LoopbackAnswer,
    ReceivedRequest,
    loopback,
    stay_silent,
)

GIF_BOMB = b"GIF89a" + (60_000).to_bytes(2, "little") * 2 + b"\x80\0\0" + b"\0" * 6 + b"," + b"\0" * 20 + b";"


@pytest.fixture
def store(tmp_path: Path) -> PageStore:
    return PageStore(tmp_path)


def number_of(path: str) -> int:
    return int(path.rpartition("/")[2])


def good(asked: ReceivedRequest) -> LoopbackAnswer:
    """An image of its own at every number; no robots.txt."""
    if asked.path == "/robots.txt":
        return CannedResponse(status=404)
    return CannedResponse(draw_image(number_of(asked.path)), headers={"Content-Type": "image/jpeg"})


def wanted(url: str, numbers: Any) -> list[WantedImage]:
    return [WantedImage((f"{url}/{n}",)) for n in numbers]


def fetch(store: PageStore, images: list[WantedImage], **options: Any) -> list[FetchedImage]:
    return fetch_images(store, small_web(store, **options), images)


def told(images: list[FetchedImage]) -> list[str]:
    return [image.reason or image.sha256 for image in images]


def test_images_come_in_order_with_what_is_to_be_seen(store: PageStore) -> None:
    done: list[FetchedImage] = []
    with loopback(good) as server:
        found = fetch_images(store, small_web(store), wanted(server.url, range(20)), done.append)
    assert told(found) == [hashlib.sha256(draw_image(n)).hexdigest() for n in range(20)]
    first = found[0]
    assert (first.width, first.height, first.format, first.size) == (160, 120, "JPEG", len(draw_image(0)))
    assert first.views is not None and first.thumbnail is not None
    assert Path(first.path).read_bytes() == draw_image(0)
    assert first.fetched_at and first.final_url == f"{server.url}/0"
    assert Counter(map(id, done)) == Counter(map(id, found)), "each is told of once"


def test_images_are_read_after_a_change_of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        store = PageStore(Path("pages"))
        with loopback(good) as server:
            (found,) = fetch(store, wanted(server.url, [3]))
        assert not found.reason and Path(found.path).is_relative_to(tmp_path / name)


def test_a_second_run_and_a_replay_give_the_same_and_fetch_nothing(tmp_path: Path) -> None:
    def mixed(asked: ReceivedRequest) -> LoopbackAnswer:
        is_image = "robots" not in asked.path
        return CannedResponse(status=404) if is_image and number_of(asked.path) % 3 == 2 else good(asked)

    with loopback(mixed) as server:
        images = wanted(server.url, range(12))
        first = fetch_images(PageStore(tmp_path), small_web(PageStore(tmp_path)), images)
        count = len(server.asked)
        assert fetch_images(PageStore(tmp_path), small_web(PageStore(tmp_path)), images) == first
        assert len(server.asked) == count
    assert fetch_images(PageStore(tmp_path), None, images) == first
    assert Counter(map(bool, told(first))) and Counter(p.reason for p in first) == {"": 8, "not_found": 4}


def test_what_may_pass_is_fetched_by_the_next_run_and_replayed_as_it_was(store: PageStore) -> None:
    down = {"now": True}

    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        return CannedResponse(status=503) if down["now"] and "7" in asked.path else good(asked)

    with loopback(answer) as server:
        images = wanted(server.url, range(6, 9))
        first = fetch(store, images)
        assert [p.reason for p in first] == ["", "server_error", ""]
        assert fetch_images(store, None, images) == first, "offline it is what it was"
        down["now"] = False
        again = fetch(store, images)
        assert [p.reason for p in again] == ["", "", ""]
    assert again[0] == first[0]


def test_without_the_web_what_was_never_fetched_says_so(tmp_path: Path) -> None:
    (missing,) = fetch_images(PageStore(tmp_path), None, wanted("http://a.example", [1]))
    assert (missing.reason, missing.kind) == ("not_fetched", "transient")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty_file"),
        (draw_image(1)[:-900], "cannot_be_decoded"),
        (GIF_BOMB, "too_many_pixels"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not_an_image"),
    ],
)
def test_only_what_is_decoded_is_kept(store: PageStore, tmp_path: Path, body: bytes, reason: str) -> None:
    with loopback(lambda asked: CannedResponse(body) if "1" in asked.path else CannedResponse(status=404)) as server:
        (found,) = fetch(store, wanted(server.url, [1]))
    assert (found.reason, found.kind) == (reason, "final")
    assert not stored_files(tmp_path / "bodies") and not stored_files(tmp_path / "incoming")


@pytest.mark.thorough
def test_a_decoder_that_dies_costs_an_image_for_this_time(store: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_images, "read_image", _dies_of_a_large_one)
    size = {"now": (300, 200)}
    with loopback(lambda a: CannedResponse(draw_image(3, size["now"])) if a.path == "/3" else good(a)) as server:
        found = fetch(store, wanted(server.url, range(6)))
        assert [p.reason for p in found] == ["", "", "", "worker_crashed", "", ""]
        size["now"] = (160, 120)
        assert not fetch(store, wanted(server.url, range(6)))[3].reason


def _dies_of_a_large_one(location: str) -> Any:
    from querytruth.backends.images.image_reading import read_image

    image = read_image(location)
    if image.width == 300:
        os.kill(os.getpid(), signal.SIGKILL)
    return image


def test_the_first_address_that_gives_the_image_counts(store: PageStore) -> None:

    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        return good(asked) if asked.path in ("/robots.txt", "/2", "/3") else CannedResponse(status=404)

    with loopback(answer) as server:
        urls = tuple(f"{server.url}/{n}" for n in range(4))
        none = (f"{server.url}/8", "file:///etc/passwd")
        found = fetch(store, [WantedImage(urls), WantedImage(none), WantedImage()])
    assert (found[0].url, found[0].sha256) == (urls[2], hashlib.sha256(draw_image(2)).hexdigest())
    assert [p.reason for p in found[1:]] == ["scheme_not_allowed", "no_image_url"]
    assert "/3" not in {asked.path for asked in server.asked}


def test_an_address_that_is_wanted_often_is_fetched_once(store: PageStore) -> None:
    with loopback(good) as server:
        same = [WantedImage((url,)) for url in (f"{server.url}/1", f"{server.url}/./1", f"{server.url}/1#x")]
        found = fetch(store, same)
        assert [asked.path for asked in server.asked] == ["/robots.txt", "/1"]
    assert len(set(told(found))) == 1


def test_local_images_are_read_where_they_lie(tmp_path: Path) -> None:
    path, broken = tmp_path / "a.jpg", tmp_path / "b.jpg"
    path.write_bytes(draw_image(1))
    broken.write_bytes(draw_image(1)[:-900])
    here = [WantedImage(path=path), WantedImage(path=broken), WantedImage(path=tmp_path / "none.jpg")]
    found = fetch_images(PageStore(tmp_path / "store"), None, here)
    assert [p.reason for p in found] == ["", "cannot_be_decoded", "unreadable"]
    assert (found[0].path, found[0].sha256) == (str(path), hashlib.sha256(draw_image(1)).hexdigest())
    assert not (tmp_path / "store").exists()


def test_a_new_reader_looks_again_at_what_is_there(store: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback(good) as server:
        images = wanted(server.url, range(3))
        first = fetch(store, images)
    monkeypatch.setattr(fetched_images.image_fetch_pool, "READER_VERSION", "another")
    assert fetch_images(store, None, images) == first
    assert len(store.read_image_facts([p.sha256 for p in first], "another")) == 3


def test_a_full_disk_stops_the_run(store: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with loopback(good) as server:
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(StoreWriteError, match="No space left"):
            fetch(store, wanted(server.url, range(30)))
    assert threading.active_count() < 40


def test_robots_txt_is_not_fetched_twice_either(store: PageStore) -> None:
    with loopback(good) as server:
        for number in range(3):
            fetch(store, wanted(server.url, [number]))
        assert Counter(asked.path for asked in server.asked)["/robots.txt"] == 1


# --- whatever the hosts do --------------------------------------------------------------------------------------------


def test_ctrl_c_ends_at_once_and_the_next_run_goes_on(store: PageStore, tmp_path: Path) -> None:
    """What was kept is there, and the half-finished is nowhere."""
    stuck = {"now": True}

    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        return stay_silent() if stuck["now"] and number_of(asked.path.replace("robots.txt", "0")) > 9 else good(asked)

    def interrupted(image: FetchedImage) -> None:
        done.append(image)
        if len(done) == 10:
            raise KeyboardInterrupt

    done: list[FetchedImage] = []
    with loopback(answer) as server:
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            slow = replace(QUICK_LIMITS, seconds=60, silence=60)
            fetch_images(store, small_web(store, limits=slow), wanted(server.url, range(30)), interrupted)
        assert time.monotonic() - start < 20
        assert not stored_files(tmp_path / "incoming")
        stuck["now"], before = False, len(server.asked)
        found = fetch(store, wanted(server.url, range(30)))
        later = {asked.path for asked in server.asked[before:]}
    assert later == {f"/{n}" for n in range(10, 30)}
    assert not any(p.reason for p in found)


def query_of(asked: ReceivedRequest) -> str:
    return parse_qs(urlsplit(asked.path).query)["word"][0]


def results(query: str, count: int = 3) -> CannedResponse:
    items = [{"objURL": f"http://A.example/{query}/{n}", "adType": "0"} for n in range(count)]
    return CannedResponse({"listNum": 500, "data": [*items, {}]})


def baidu_like(answer: Callable[[str], LoopbackAnswer] = results) -> Callable[[ReceivedRequest], LoopbackAnswer]:
    return lambda asked: CannedResponse(status=404) if asked.path == "/robots.txt" else answer(query_of(asked))


def service(url: str) -> ImageSearch:
    return image_search.load_image_search("baidu", endpoint=f"{url}/acjson")


def ask(store: PageStore, search: ImageSearch, queries: list[str], **options: Any) -> list[SearchResult | SearchError]:
    return search_queries(search, queries, 24, SearchPageFetcher(store, small_web(store, **options)))


def ask_offline(store: PageStore, search: ImageSearch, queries: list[str]) -> list[SearchResult | SearchError]:
    return search_queries(search, queries, 24, SearchPageFetcher(store, None))


def counts(answers: list[SearchResult | SearchError]) -> list[int | str]:
    return [len(one.candidates) if isinstance(one, SearchResult) else one.reason for one in answers]


def test_each_query_has_its_results_with_addresses_in_one_spelling(store: PageStore) -> None:
    steps = list[int]()
    with loopback(baidu_like()) as server:
        found = search_queries(
            service(server.url), ["猫", "a&b"], 24, SearchPageFetcher(store, small_web(store)), steps.append
        )
    assert counts(found) == [3, 3]
    assert isinstance(found[0], SearchResult)
    assert found[0].candidates[0].url == "http://a.example/%E7%8C%AB/0"
    assert sum(steps) == 2


def test_what_was_answered_is_not_asked_again_and_is_there_offline(store: PageStore) -> None:
    with loopback(baidu_like()) as server:
        search = service(server.url)
        first = ask(store, search, ["a", "b"])
        again = ask(store, search, ["b", "a", "c"])
        assert Counter(map(query_of, server.asked[1:])) == {"a": 1, "b": 1, "c": 1}
    assert again[:2] == first[::-1]
    offline = ask_offline(store, search, ["a", "d"])
    assert (offline[0], counts(offline)[1]) == (first[0], "not_fetched")


@pytest.mark.parametrize(
    "block",
    [
        CannedResponse({"antiFlag": 1, "message": "Forbid spider access"}),
        CannedResponse(status=302, headers={"Location": "/captcha?word=x"}),
    ],
)
def test_the_answer_for_those_turned_away_stops_the_run_which_can_go_on(
    store: PageStore, block: CannedResponse
) -> None:
    blocked = {"now": True}

    def answer(query: str) -> LoopbackAnswer:
        if query == "x":
            return CannedResponse("wappass.baidu.com asks for patience")
        return block if blocked["now"] and query == "b" else results(query)

    with loopback(baidu_like(answer)) as server:
        search, queries = service(server.url), ["a", "b", "c"]
        with pytest.raises(UserError, match=r"baidu .*blocked us.*run the same command again later"):
            ask(store, search, queries)
        assert [query_of(asked) for asked in server.asked[1:3]] == ["a", "b"]
        assert "c" not in map(query_of, server.asked[1:])
        offline = ask_offline(store, search, queries)
        assert counts(offline) == [3, "turned_away", "not_fetched"], "from the store it is an answer like others"
        blocked["now"], before = False, len(server.asked)
        assert counts(ask(store, search, queries)) == [3, 3, 3]
        assert [query_of(asked) for asked in server.asked[before:]] == ["b", "c"], "a block is no answer to keep"


def test_a_page_that_is_no_answer_is_asked_for_again_a_few_times(store: PageStore) -> None:
    tries = Counter[str]()

    def answer(query: str) -> LoopbackAnswer:
        tries[query] += 1
        return CannedResponse("<html>busy") if tries[query] < 3 or query == "never" else results(query)

    with loopback(baidu_like(answer)) as server:
        found = ask(store, service(server.url), ["soon", "never"])
        assert counts(found) == [3, "not_json"]
        assert tries == {"soon": 3, "never": 3}
        offline = ask_offline(store, service(server.url), ["never"])
    assert counts(offline) == ["not_json"], "the same again, without a call"


def test_a_service_that_is_down_stops_the_run(store: PageStore) -> None:
    with loopback(baidu_like(lambda query: results(query) if query == "5" else CannedResponse(status=500))) as server:
        search = service(server.url)
        with pytest.raises(
            UserError, match=f"did not answer {GIVE_UP_AFTER} queries in a row .server_error: status 500"
        ):
            ask(store, search, [str(n) for n in range(2, 30)])
        assert len({query_of(asked) for asked in server.asked[1:]}) == 4 + GIVE_UP_AFTER


def test_robots_txt_that_forbids_to_search_says_so(store: PageStore) -> None:
    with loopback(lambda _asked: CannedResponse("User-agent: *\nDisallow: /")) as server:
        search = service(server.url)
        with pytest.raises(UserError, match=r"forbidden_by_robots.*forbids automated requests"):
            ask(store, search, ["a"])
    with loopback(baidu_like()) as server:
        assert counts(ask(store, service(server.url), ["a"], respect_robots=False)) == [3]


def test_a_query_that_the_service_refuses_for_good_is_asked_once(store: PageStore) -> None:
    asked = list[str]()

    def answer(request: ReceivedRequest) -> LoopbackAnswer:
        asked.append(request.path)
        return CannedResponse({"error": {"code": "cirrussearch-query-too-long"}})

    with loopback(answer) as server:
        search = image_search.load_image_search("wikimedia_commons", endpoint=f"{server.url}/w/api.php")
        for _ in range(2):
            found: list[Any] = ask(store, search, ["x" * 300])
            assert (found[0].reason, found[0].kind) == ("service_error", "final")
    assert len(asked) == 1, "and of an interface for programs no robots.txt"
