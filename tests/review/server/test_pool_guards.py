"""Who is let in at the page of a table: each guard is met by a request that only it turns away."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from querytruth.review import server as guards
from tests.review.pool_tables import topic_table, write_export
from tests.review.server.pages import DOOR, ORIGIN_HEADERS, TOKEN
from tests.review.server.test_pool_views import PoolPage

PLACES = ["/", "/topics", "/api/pools/queue", "/static/pools.js", "/static/deck.js"]
Make = Callable[..., PoolPage]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    export = topic_table()
    table = write_export(tmp_path, "topics", export)
    return lambda **how: PoolPage(table, export, **how)


@pytest.fixture
def page(make: Make) -> PoolPage:
    return make()


def drop(page: PoolPage, **more: Any) -> dict[str, Any]:
    row = page.export.rows["query_id"][1]
    return {"view": "pools", "epoch": page.epoch, "rows": [row], "decision": "drop", **more}


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("given", ["", "wrong", TOKEN[:-1], TOKEN + "x"])
@pytest.mark.thorough
def test_without_the_token_there_is_nothing_to_see(make: Make, path: str, given: str) -> None:
    page = make(enter=False)
    cookie = {"cookie": f"{DOOR.cookie}={given}"}
    for answer in (
        page.client.get(path, params={"token": given} if given else {}),
        page.client.get(path, headers=cookie),
    ):
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
    answer = page.client.get(path, headers={"cookie": f"{DOOR.cookie}={TOKEN}"}, follow_redirects=False)
    assert answer.status_code == (303 if path == "/" else 200)


@pytest.mark.parametrize("path", ["/api/pools/decide", "/api/pools/undo"])
def test_without_the_token_nothing_is_decided(page: PoolPage, make: Make, path: str) -> None:
    stranger = make(enter=False)
    assert stranger.client.post(path, json=drop(page), headers=ORIGIN_HEADERS).status_code == 403 and page.words() == {}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4711", "127.0.0.1:4712", "localhost", ""])
def test_a_foreign_name_pointed_at_this_machine_is_turned_away(page: PoolPage, host: str) -> None:
    assert page.client.get("/topics", headers={"host": host}).status_code == 403
    answer = page.client.post("/api/pools/decide", json=drop(page), headers={"host": host, "origin": f"http://{host}"})
    assert answer.status_code == 403 and page.words() == {}


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:4712"])
def test_a_post_from_anywhere_else_is_turned_away(page: PoolPage, origin: str | None) -> None:
    headers = {} if origin is None else {"origin": origin}
    for path in ("/api/pools/decide", "/api/pools/undo"):
        assert page.client.post(path, json=drop(page), headers=headers).status_code == 403
    assert page.words() == {}
    assert (
        page.client.post("/api/pools/decide", json=drop(page), headers=ORIGIN_HEADERS).status_code == 200
        and len(page.words()) == 1
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_other_page_can_read_what_is_here(page: PoolPage, site: str) -> None:
    for path in ("/topics", "/api/pools/queue", "/static/pools.js"):
        for mode in ("no-cors", "cors"):
            headers = {"sec-fetch-site": site, "sec-fetch-mode": mode}
            assert page.client.get(path, headers=headers).status_code == 403, (path, mode)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_can_send_is_no_decision(page: PoolPage, kind: str) -> None:
    answer = page.client.post(
        "/api/pools/undo", content=b'{"view":"pools"}', headers={**ORIGIN_HEADERS, "content-type": kind}
    )
    assert answer.status_code == 415


def test_a_large_body_is_not_read(page: PoolPage) -> None:
    headers = {**ORIGIN_HEADERS, "content-type": "application/json"}
    large = b'{"note":"' + b"x" * guards.MAX_BODY_BYTES + b'"}'
    assert page.client.post("/api/pools/decide", content=large, headers=headers).status_code == 413
    many = drop(page, rows=["x"] * 5001)
    assert page.client.post("/api/pools/decide", json=many, headers=ORIGIN_HEADERS).status_code == 422


def test_every_answer_forbids_scripts_from_elsewhere(page: PoolPage) -> None:
    for path in [*PLACES, "/nothing"]:
        headers = page.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"


def test_no_error_repeats_what_was_sent(page: PoolPage) -> None:
    answer = page.client.post(
        "/api/pools/decide", json=drop(page, note=7, extra="<script>secret</script>"), headers=ORIGIN_HEADERS
    )
    assert answer.status_code == 422 and "secret" not in answer.text and set(answer.json()) == {"error"}
    half = drop(page, note="x").__repr__().replace("'", '"').replace('"x"', r'"\ud800"')
    answer = page.client.post(
        "/api/pools/decide", content=half.encode(), headers={**ORIGIN_HEADERS, "content-type": "application/json"}
    )
    assert answer.status_code == 422 and page.words() == {}, "half a character is no text"


def test_nothing_else_is_served(page: PoolPage) -> None:
    for path in ("/queries", "/objects", "/decisions", "/csv/queries.csv", "/topics.csv", "/image/320/x", "/docs"):
        assert page.client.get(path).status_code == 404, path
