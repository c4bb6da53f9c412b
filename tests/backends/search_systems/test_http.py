"""A search behind HTTP: what is sent, and how each kind of answer is read."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.backends.search_systems import SearchFailure, SearchHit, load_system_file
from querytruth.backends.search_systems.http import read_hits
from querytruth.errors import UserError
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback, send_raw, stay_silent

KEY = "sk-very-secret-0123456789"
NASTY = 'red "car" & {k} #1 \n 汽车'


def load(folder: Path, **options: Any) -> Any:
    file = folder / "mine.yaml"
    file.write_text(json.dumps({"system": "http", "tries": 1, "deadline": 5, **options}))
    return load_system_file(file).system


def find_failure(folder: Path, answer: LoopbackAnswer, **options: Any) -> SearchFailure:
    with loopback(lambda _: answer) as server:
        system = load(folder, url=f"{server.url}/?q={{query}}", **options)
        with pytest.raises(SearchFailure) as failed:
            system.search("a", 3)
    return failed.value


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "a b", "x"]), inner, max_size=2),
    max_leaves=6,
)


@given(st.lists(_VALUES, max_size=5), st.sampled_from(["id", '"a b"', "x.id", "@", "id || x"]))
def test_an_entry_has_the_id_and_the_score_that_jmespath_finds_in_it(entries: list[Any], path: str) -> None:
    hits = read_hits({"hits": entries}, *map(jmespath.compile, ("hits", path, path)))
    for hit, entry in zip(hits, entries, strict=True):
        found = jmespath.search(path, entry)
        assert hit.id == (str(found) if isinstance(found, str | int) and not isinstance(found, bool) else "")
        assert math.isnan(hit.score or 0.0) or float(hit.score or 0.0) == float(found)


def test_the_query_is_encoded_for_its_place(tmp_path: Path) -> None:
    found = CannedResponse({"hits": [{"doc": {"id": 7}, "s": 0.5}, {"doc": {"id": "b"}, "s": 0.25}]})
    read = {"results": "hits", "id": "doc.id", "score": "s"}
    with loopback(lambda _: found) as server:
        url = f"{server.url}/find/{{query}}"
        hits = load(tmp_path, url=url, query={"q": "{query}", "n": "{k}"}, **read).search(NASTY, 2)
        body = {"text": "find {query}", "top": "{k}", "also": ["{k} of {query}"]}
        load(tmp_path, url=server.url, method="POST", body=body, **read).search(NASTY, 2)
        got, posted = server.asked
    assert hits == [SearchHit("7", 0.5), SearchHit("b", 0.25)]
    assert parse_qs(urlsplit(got.path).query) == {"q": [NASTY], "n": ["2"]}
    assert posted.json == {"text": f"find {NASTY}", "top": 2, "also": [f"2 of {NASTY}"]}


def test_a_key_is_sent_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", f"Bearer {KEY}")

    def repeat(request: Any) -> CannedResponse:
        return CannedResponse(f"no: {request.headers['authorization']} or {KEY}", status=403)

    with loopback(repeat) as server:
        system = load(tmp_path, url=f"{server.url}/?q={{query}}", header_env={"Authorization": "SEARCH_KEY"})
        with pytest.raises(SearchFailure) as failed:
            system.search("a", 1)
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert failed.value.reason == "http_403" and "redacted" in failed.value.detail
    assert KEY not in str(failed.value) and KEY not in str(system.identity)


def test_a_key_that_comes_back_as_an_id_is_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be in the recorded answers, in the result and in left_out.csv."""
    monkeypatch.setenv("SEARCH_KEY", f"Bearer {KEY}")
    with loopback(lambda _: CannedResponse({"results": [{"id": KEY}, {"id": f"x/{KEY}.jpg"}]})) as server:
        system = load(tmp_path, url=f"{server.url}/?q={{query}}", header_env={"Authorization": "SEARCH_KEY"})
        assert [hit.id for hit in system.search("a", 2)] == ["[redacted]", "x/[redacted].jpg"]


def test_a_score_may_be_written_as_a_text(tmp_path: Path) -> None:
    scores = ["0.42", "4.2e-1", "much", "", None]
    answer = CannedResponse({"results": [{"id": str(n), "s": score} for n, score in enumerate(scores)]})
    with loopback(lambda _: answer) as server:
        hits = load(tmp_path, url=f"{server.url}/?q={{query}}", score="s").search("a", 9)
    assert [hit.score for hit in hits[:2]] == [0.42, 0.42]
    assert all(hit.score is not None and math.isnan(hit.score) for hit in hits[2:])


@pytest.mark.parametrize(("method", "status"), [("GET", 301), ("GET", 302), ("GET", 308), ("POST", 307), ("POST", 308)])
def test_a_redirect_within_the_origin_is_followed_with_the_key(
    method: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", KEY)

    def answer(request: ReceivedRequest) -> CannedResponse:
        if request.path.startswith("/old"):
            return CannedResponse("", status, {"Location": request.path.replace("/old", "/new/")})
        return CannedResponse({"results": [{"id": "a"}]})

    with loopback(answer) as server:
        options = {"body": {"q": "{query}"}} if method == "POST" else {"query": {"q": "{query}"}}
        keys = {"header_env": {"X-Key": "SEARCH_KEY"}, "method": method}
        assert load(tmp_path, url=f"{server.url}/old", **keys, **options).search("a car", 1) == [SearchHit("a")]
        first, second = server.asked
    assert second.headers["x-key"] == KEY and (first.method, first.body) == (second.method, second.body)
    assert second.path == first.path.replace("/old", "/new/")


@pytest.mark.parametrize(
    ("options", "status", "location"),
    [
        ({}, 302, "http://other.example/?q=a"),
        ({}, 302, "/?again"),
        ({"method": "POST", "body": {"q": "{query}"}}, 302, "/new"),
    ],
    ids=["another origin", "for ever", "a POST that would lose its query"],
)
def test_other_redirects_fail_by_name(options: dict[str, Any], status: int, location: str, tmp_path: Path) -> None:
    failed = find_failure(tmp_path, CannedResponse("", status, {"Location": location}), **options)
    assert (failed.reason, failed.detail) == (f"http_{status}", f"redirects to {location}")
    assert failed.retry_after is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"url": "ftp://x/{query}"}, "is not an http address"),
        ({"url": "http://me:pw@x/{query}"}, "contains a password or a key"),
        ({"url": "http://x/?api_key=1&q={query}"}, "contains a password or a key"),
        ({"url": "http://x/"}, "sends no query"),
        ({"url": "http://x/{query}", "headers": {"X-Api-Key": "1"}}, "would store a key"),
        ({"url": "http://x/{query}", "query": {"token": "1"}}, "would store a key"),
        ({"url": "http://x/{query}", "results": "a["}, "is not a JMESPath expression"),
        ({"url": "http://x/{query}", "result": "a"}, "unknown option"),
        ({"url": "http://x/{query}", "ids": "name"}, "is neither one of image_id"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        load(tmp_path, **options)


@pytest.mark.parametrize(
    ("answer", "reason", "is_retried"),
    [
        (CannedResponse("<html>busy</html>"), "not_json", True),
        (CannedResponse('{"results": [{"id": "a"'), "not_json", True),
        (CannedResponse({"items": []}), "no_results_list", False),
        (CannedResponse("", status=404), "http_404", False),
        (CannedResponse("", status=429, headers={"Retry-After": "7"}), "http_429", True),
        (CannedResponse("", status=500), "http_500", True),
        (send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), "connection_failed", True),
    ],
)
def test_a_bad_answer_has_a_code(tmp_path: Path, answer: LoopbackAnswer, reason: str, is_retried: bool) -> None:
    failure = find_failure(tmp_path, answer)
    assert (failure.reason, failure.retry_after is not None) == (reason, is_retried)
    assert failure.retry_after == (7 if reason == "http_429" else 0 if is_retried else None)


def test_a_silent_service_is_left_at_the_deadline(tmp_path: Path) -> None:
    assert find_failure(tmp_path, stay_silent(), deadline=0.2).reason == "timeout"


def test_odd_entries_are_read_as_what_they_are(tmp_path: Path, respond: Callable[[str], Any] = str) -> None:
    text = '{"results": [{"id": "a", "s": NaN}, {"s": 1}, {"id": null, "s": "x"}, {"id": true}, {"id": 5, "s": 1e999}]}'
    with loopback(lambda _: CannedResponse(text)) as server:
        hits = load(tmp_path, url=f"{server.url}/{{query}}", score="s").search("a", 9)
    assert [hit.id for hit in hits] == ["a", "", "", "", "5"]
    assert [str(hit.score) for hit in hits] == ["nan", "1.0", "nan", "nan", "inf"]
