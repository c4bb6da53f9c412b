"""Searching through the store: what was answered is not asked again, and who turns us away stops the run."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from querytruth.backends.web import image_search
from querytruth.backends.web.image_search import ImageSearch, SearchError, SearchResult
from querytruth.backends.web.page_store import PageStore
from querytruth.backends.web.stored_fetches import GIVE_UP_AFTER, SearchPageFetcher, search_queries
from querytruth.errors import UserError
from tests.backends.web.hostile_web import small_web
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback


def query_of(asked: ReceivedRequest) -> str:
    return parse_qs(urlsplit(asked.path).query)["word"][0]


def results(query: str, count: int = 3) -> CannedResponse:
    items = [{"objURL": f"http://A.example/{query}/{n}", "adType": "0"} for n in range(count)]
    return CannedResponse({"listNum": 500, "data": [*items, {}]})


def baidu_like(answer: Callable[[str], LoopbackAnswer] = results) -> Callable[[ReceivedRequest], LoopbackAnswer]:
    return lambda asked: CannedResponse(status=404) if asked.path == "/robots.txt" else answer(query_of(asked))


def service(url: str) -> ImageSearch:
    return image_search.load_image_search("baidu", endpoint=f"{url}/acjson")


def counts(answers: list[SearchResult | SearchError]) -> list[int | str]:
    return [len(one.candidates) if isinstance(one, SearchResult) else one.reason for one in answers]


def test_each_query_has_its_results_with_addresses_in_one_spelling(tmp_path: Path) -> None:
    store, steps = PageStore(tmp_path), list[int]()
    with loopback(baidu_like()) as server:
        found = search_queries(
            service(server.url), ["猫", "a&b"], 24, SearchPageFetcher(store, small_web(store)), steps.append
        )
    assert counts(found) == [3, 3]
    assert isinstance(found[0], SearchResult)
    assert found[0].candidates[0].url == "http://a.example/%E7%8C%AB/0"
    assert sum(steps) == 2


def test_what_was_answered_is_not_asked_again_and_is_there_offline(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    with loopback(baidu_like()) as server:
        search = service(server.url)
        first = search_queries(search, ["a", "b"], 24, SearchPageFetcher(store, small_web(store)))
        again = search_queries(search, ["b", "a", "c"], 24, SearchPageFetcher(store, small_web(store)))
        assert Counter(map(query_of, server.asked[1:])) == {"a": 1, "b": 1, "c": 1}
    assert again[:2] == first[::-1]
    offline = search_queries(search, ["a", "d"], 24, SearchPageFetcher(store, None))
    assert (offline[0], counts(offline)[1]) == (first[0], "not_fetched")


@pytest.mark.parametrize(
    "block",
    [
        CannedResponse({"antiFlag": 1, "message": "Forbid spider access"}),
        CannedResponse("<html><title>百度安全验证</title>"),
        CannedResponse(status=302, headers={"Location": "/captcha?word=x"}),
    ],
)
def test_the_answer_for_those_turned_away_stops_the_run_which_can_go_on(tmp_path: Path, block: CannedResponse) -> None:
    store, blocked = PageStore(tmp_path), {"now": True}

    def answer(query: str) -> LoopbackAnswer:
        if query == "x":
            return CannedResponse("wappass.baidu.com asks for patience")
        return block if blocked["now"] and query == "b" else results(query)

    with loopback(baidu_like(answer)) as server:
        search, queries = service(server.url), ["a", "b", "c"]
        with pytest.raises(UserError, match=r"baidu .*blocked us.*run the same command again later"):
            search_queries(search, queries, 24, SearchPageFetcher(store, small_web(store)))
        assert [query_of(asked) for asked in server.asked[1:3]] == ["a", "b"]
        assert "c" not in map(query_of, server.asked[1:])
        offline = search_queries(search, queries, 24, SearchPageFetcher(store, None))
        assert counts(offline) == [3, "turned_away", "not_fetched"], "from the store it is an answer like others"
        blocked["now"], before = False, len(server.asked)
        assert counts(search_queries(search, queries, 24, SearchPageFetcher(store, small_web(store)))) == [3, 3, 3]
        assert [query_of(asked) for asked in server.asked[before:]] == ["b", "c"], "a block is no answer to keep"


def test_a_page_that_is_no_answer_is_asked_for_again_a_few_times(tmp_path: Path) -> None:
    store, tries = PageStore(tmp_path), Counter[str]()

    def answer(query: str) -> LoopbackAnswer:
        tries[query] += 1
        return CannedResponse("<html>busy") if tries[query] < 3 or query == "never" else results(query)

    with loopback(baidu_like(answer)) as server:
        found = search_queries(service(server.url), ["soon", "never"], 24, SearchPageFetcher(store, small_web(store)))
        assert counts(found) == [3, "not_json"]
        assert tries == {"soon": 3, "never": 3}
        offline = search_queries(service(server.url), ["never"], 24, SearchPageFetcher(store, None))
    assert counts(offline) == ["not_json"], "the same again, without a call"


def test_a_service_that_is_down_stops_the_run(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    with loopback(baidu_like(lambda query: results(query) if query == "5" else CannedResponse(status=500))) as server:
        search = service(server.url)
        with pytest.raises(
            UserError, match=f"did not answer {GIVE_UP_AFTER} queries in a row .server_error: status 500"
        ):
            search_queries(search, [str(n) for n in range(2, 30)], 24, SearchPageFetcher(store, small_web(store)))
        assert len({query_of(asked) for asked in server.asked[1:]}) == 4 + GIVE_UP_AFTER


def test_robots_txt_that_forbids_to_search_says_so(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    with loopback(lambda _asked: CannedResponse("User-agent: *\nDisallow: /")) as server:
        search = service(server.url)
        with pytest.raises(UserError, match=r"forbidden_by_robots.*forbids automated requests"):
            search_queries(search, ["a"], 24, SearchPageFetcher(store, small_web(store)))
    with loopback(baidu_like()) as server:
        found = search_queries(
            service(server.url), ["a"], 24, SearchPageFetcher(store, small_web(store, respect_robots=False))
        )
    assert counts(found) == [3]


def test_a_query_that_the_service_refuses_for_good_is_asked_once(tmp_path: Path) -> None:
    store, asked = PageStore(tmp_path), list[str]()

    def answer(request: ReceivedRequest) -> LoopbackAnswer:
        asked.append(request.path)
        return CannedResponse({"error": {"code": "cirrussearch-query-too-long"}})

    with loopback(answer) as server:
        search = image_search.load_image_search("wikimedia_commons", endpoint=f"{server.url}/w/api.php")
        for _ in range(2):
            found: list[Any] = search_queries(search, ["x" * 300], 24, SearchPageFetcher(store, small_web(store)))
            assert (found[0].reason, found[0].kind) == ("service_error", "final")
    assert len(asked) == 1, "and of an interface for programs no robots.txt"


def test_all_services_are_asked_through_the_same_guarded_way(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    info = {"url": "//up.example/1.jpg", "width": 3, "height": 4}
    wiki = {"query": {"pages": {"1": {"pageid": 1, "imageinfo": [info]}}, "searchinfo": {"totalhits": 7}}}
    openverse = {"result_count": 9, "results": [{"url": "http://x.example/1", "license": "by"}]}

    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        return CannedResponse(json.dumps(wiki if asked.path.startswith("/wiki") else openverse))

    with loopback(answer) as server:
        for name, reported in (("wiki", 7), ("openverse", 9)):
            search = image_search.load_image_search(
                {"wiki": "wikimedia_commons"}.get(name, name), endpoint=f"{server.url}/{name}"
            )
            (found,) = search_queries(search, ["x"], 24, SearchPageFetcher(store, small_web(store)))
            assert isinstance(found, SearchResult) and found.reported == reported
        unreachable = image_search.load_image_search("openverse", endpoint="http://10.0.0.1/")
        assert counts(search_queries(unreachable, ["x"], 24, SearchPageFetcher(store, small_web(store)))) == [
            "address_not_public"
        ]
