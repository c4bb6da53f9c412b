"""Who is let in: each guard is met by a request that only it turns away."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

from querytruth.review import server as guards
from querytruth.review.server import PageAccess, create_app
from querytruth.sets.set_files import StoredSet
from tests.review.page_reader import ParsedPage
from tests.review.server.pages import DOOR, HOME, ORIGIN_HEADERS, TOKEN, ReviewClient, open_client
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

DROP = {"query_id": query_id_of("狗"), "text": "沙滩上的狗", "decision": "drop", "view": "queries"}


@pytest.fixture
def stored(tmp_path: Path) -> StoredSet:
    return publish_small_set(tmp_path, small_tables())


@pytest.fixture
def page(stored: StoredSet) -> ReviewClient:
    return open_client(stored)


def test_the_address_lets_a_browser_in_and_leaves_no_token_in_it(stored: StoredSet) -> None:
    page = open_client(stored, enter=False)
    answer = page.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and cookie.startswith("querytruth_4711=")
    assert page.get("/").status_code == 200


PLACES = ["/", "/queries", "/pairs", "/decisions", "/api/queries/queue", "/static/deck.js", "/csv/queries.csv"]


@pytest.mark.parametrize("path", [*PLACES, f"/image/320/{image_id_of('dog')}"])
@pytest.mark.parametrize("given", ["", "wrong", TOKEN[:-1], TOKEN + "x", "é"])
@pytest.mark.thorough
def test_without_the_token_there_is_nothing_to_see(stored: StoredSet, path: str, given: str) -> None:
    page = open_client(stored, enter=False)
    cookie = {"cookie": f"{DOOR.cookie}={given}".encode()}
    for answer in (page.get(path, params={"token": given} if given else {}), page.get(path, headers=cookie)):
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
    answer = page.get(path, headers={"cookie": f"{DOOR.cookie}={TOKEN}"}, follow_redirects=False)
    assert answer.status_code == (303 if path == "/" else 200)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:4711", "127.0.0.1", "127.0.0.1:4712", "127.0.0.1:4711.evil.example", "localhost",
     "[::1]:4711", "0.0.0.0:4711", "127.0.0.1:4711@evil.example", "LOCALHOST:4711 ", ""],
)  # fmt: skip
@pytest.mark.thorough
def test_a_foreign_name_pointed_at_this_machine_is_turned_away(page: ReviewClient, host: str) -> None:
    """DNS rebinding: the browser thinks that it talks to evil.example, and sends what that site says."""
    assert page.get("/queries", headers={"host": host}).status_code == 403
    with_token = page.get("/", params={"token": TOKEN}, headers={"host": host})
    assert with_token.status_code == 403 and "set-cookie" not in with_token.headers
    answer = page.client.post("/api/queries/decide", json=DROP, headers={"host": host, "origin": f"http://{host}"})
    assert answer.status_code == 403 and page.log == []


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", "https://127.0.0.1:4711", "http://127.0.0.1:4712", "http://127.0.0.1",
     "http://127.0.0.1:4711.evil.example", "http://localhost:4711"],
)  # fmt: skip
@pytest.mark.thorough
def test_a_post_from_anywhere_else_is_turned_away(page: ReviewClient, origin: str | None) -> None:
    headers = {} if origin is None else {"origin": origin}
    assert page.client.post("/api/queries/decide", json=DROP, headers=headers).status_code == 403
    assert page.client.post("/api/csv", content=b"x", headers=headers).status_code == 403
    assert page.log == []
    assert (
        page.client.post("/api/queries/decide", json=DROP, headers=ORIGIN_HEADERS).status_code == 200
        and len(page.log) == 1
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_other_page_can_show_or_read_what_is_here(page: ReviewClient, site: str) -> None:
    """Another port of this machine is the same site: its pages come with our cookie."""
    image = f"/image/320/{image_id_of('dog')}"
    for path in (image, "/api/queries/queue", "/csv/queries.csv", "/queries"):
        for mode in ("no-cors", "cors", "same-origin"):
            answer = page.get(path, headers={"sec-fetch-site": site, "sec-fetch-mode": mode})
            assert answer.status_code == 403, (path, mode)
    opened = page.get("/queries", headers={"sec-fetch-site": site, "sec-fetch-mode": "navigate"})
    assert opened.status_code == 200, "a link may open it"
    assert "frame-ancestors 'none'" in opened.headers["content-security-policy"], "but not within another page"
    assert page.get(image, headers={"sec-fetch-site": "same-origin", "sec-fetch-mode": "no-cors"}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
@pytest.mark.thorough
def test_what_a_form_can_send_is_no_decision(page: ReviewClient, kind: str) -> None:
    answer = page.client.post(
        "/api/queries/undo", content=b'{"view":"queries"}', headers={**ORIGIN_HEADERS, "content-type": kind}
    )
    assert answer.status_code == 415


def test_a_large_body_is_not_read_whatever_its_length_says(page: ReviewClient) -> None:
    headers = {**ORIGIN_HEADERS, "content-type": "application/json"}
    large = b'{"note":"' + b"x" * guards.MAX_BODY_BYTES + b'"}'
    assert page.client.post("/api/queries/decide", content=large, headers=headers).status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(9):
            yield b"x" * (guards.MAX_BODY_BYTES // 8)

    assert page.client.post("/api/queries/decide", content=pieces(), headers=headers).status_code == 413
    for length in ("-1", "1e9", "9" * 40, "x"):
        answer = page.client.post("/api/queries/decide", content=b"{}", headers={**headers, "content-length": length})
        assert answer.status_code == 413, length
    assert page.log == []


def test_a_csv_may_be_larger_but_not_endless(page: ReviewClient, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {**ORIGIN_HEADERS, "content-type": "application/octet-stream"}
    body = b"x" * (guards.MAX_BODY_BYTES + 1)
    assert page.client.post("/api/csv", content=body, headers=headers).status_code == 200
    monkeypatch.setattr(guards, "MAX_UPLOAD_BYTES", guards.MAX_BODY_BYTES)
    assert page.client.post("/api/csv", content=body, headers=headers).status_code == 413


def test_every_answer_forbids_scripts_from_elsewhere(page: ReviewClient) -> None:
    for path in [*PLACES, f"/image/320/{image_id_of('dog')}", "/nothing", "/image/320/none"]:
        headers = page.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy and headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"].startswith("private" if path.startswith("/image/320/img") else "no-store")


@pytest.mark.parametrize(
    "image_id",
    ["../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e%2fmanifest.json", "img_", "..", "%00", "/etc/passwd",
     "....//manifest.json", "img_%2e%2e/../x", "\\..\\x", "img_0000000000000000000/../../x"],
)  # fmt: skip
@pytest.mark.thorough
def test_an_image_is_named_by_an_id_of_the_set_and_by_nothing_else(page: ReviewClient, image_id: str) -> None:
    for side in (320, 1280):
        answer = page.get(f"/image/{side}/{image_id}")
        assert answer.status_code in (403, 404) and b"root:" not in answer.content
    for path in (
        "/static/../server/guards.py",
        "/static/%2e%2e/cards.py",
        "/static/..%2fcards.py",
        "/static//etc/passwd",
    ):
        assert page.get(path).status_code in (403, 404)


@pytest.mark.parametrize("side", ["1", "0", "-320", "99999", "x"])
@pytest.mark.thorough
def test_images_come_in_two_sizes(page: ReviewClient, side: str) -> None:
    assert page.get(f"/image/{side}/{image_id_of('dog')}").status_code in (404, 422)


def test_a_set_that_points_out_of_itself_shows_nothing_of_what_lies_there(tmp_path: Path) -> None:
    tables = small_tables()
    stored = publish_small_set(tmp_path, tables)
    secret = tmp_path / "secret.jpg"
    secret.write_bytes((stored.path / stored.tables.images["path"][0]).read_bytes())
    stored.tables.images["path"] = "images/../../../../secret.jpg"
    from querytruth.sets.set_thumbnails import make_set_thumbnail_reader

    assert (stored.path / "images/../../../../secret.jpg").is_file()
    assert make_set_thumbnail_reader(stored)(image_id_of("dog"), 320) is None


def test_a_reviewer_sees_squashed_images_in_their_true_shape(tmp_path: Path) -> None:
    from querytruth.sets.set_thumbnails import make_set_thumbnail_reader, make_set_thumbnails

    stored = publish_small_set(tmp_path, small_tables(), render={"size": 24, "mode": "squash"})
    original = stored.tables.images.set_index("image_id")[["width", "height"]]
    for name in ("dog", "beach", "tree"):
        width, height = original.loc[image_id_of(name)]
        for data in (
            make_set_thumbnail_reader(stored)(image_id_of(name), 320),
            make_set_thumbnails(stored, [image_id_of(name)])[image_id_of(name)],
        ):
            shown = Image.open(io.BytesIO(data or b""))
            assert shown.width / shown.height == pytest.approx(width / height, rel=0.04), name


def test_no_error_repeats_what_was_sent(page: ReviewClient) -> None:
    sent = {**DROP, "note": 7, "extra": "<script>secret</script>"}
    answer = page.post("/api/queries/decide", sent)
    assert answer.status_code == 422 and "secret" not in answer.text and set(answer.json()) == {"error"}
    assert (
        page.client.post(
            "/api/queries/decide", content=b"{", headers={**ORIGIN_HEADERS, "content-type": "application/json"}
        ).status_code
        == 422
    )


def test_nothing_else_is_served(page: ReviewClient) -> None:
    for path in (
        "/docs",
        "/openapi.json",
        "/redoc",
        "/manifest.json",
        "/decisions.jsonl",
        "/static/",
        "/csv/ledger.csv",
    ):
        assert page.get(path).status_code in (404, 422), path
    assert HOME in DOOR.url and TOKEN in DOOR.url


def test_a_page_at_another_address_answers_to_its_name_and_loopback_only() -> None:
    access = PageAccess(8123, "t", "Desk.example")
    assert access.url == "http://desk.example:8123/?token=t"
    client = TestClient(create_app([], access, "/queries"), base_url="http://DESK.example:8123")
    assert client.get("/", follow_redirects=False).status_code == 403
    assert client.get("/", params={"token": "t"}, follow_redirects=False).status_code == 303
    other = client.get("/", params={"token": "t"}, headers={"host": "evil.example:8123"}, follow_redirects=False)
    assert other.status_code == 403
    assert PageAccess(8123, "t", "fe80::1").url == "http://[fe80::1]:8123/?token=t"


@pytest.mark.parametrize("view", ["/queries", "/pairs", "/decisions"])
def test_dialogs_have_names_and_lists_that_scroll_something_to_focus(tmp_path: Path, view: str) -> None:
    html = open_client(publish_small_set(tmp_path, small_tables())).get(view).text
    page = ParsedPage(html)
    ids = {fields["id"] for _, fields in page.tags if "id" in fields}
    dialogs = [fields for tag, fields in page.tags if tag == "dialog"]
    assert all(one["aria-labelledby"] in ids for one in dialogs) and len(dialogs) == (0 if view == "/decisions" else 3)
    keys = html.partition('<dialog id="help"')[2].partition("</dialog>")[0]
    assert "<button" in keys or not dialogs
    assert ("h1" in {tag for tag, _ in page.tags}) == (view == "/decisions"), "cards of queries are titled by the query"
