"""The addresses of a folder's page: who is let in, what is served, and the review of a set inside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from flows.door import Door
from flows.door_site import ReviewMount, door_routes
from querytruth.review.server import create_app
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import QueryDecision
from tests.checks.golden_world import PHOTOS, Search, serve
from tests.review.server.pages import DOOR, HOME, ORIGIN_HEADERS, TOKEN
from tests.small_sets import publish_small_set, query_id_of, small_tables


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    monkeypatch.chdir(tmp_path)
    publish_small_set(tmp_path, small_tables())
    with serve(tmp_path) as running:
        yield running


def open_page(root: str = "photos", *, enter: bool = True) -> TestClient:
    door = Door(Path(root), Path("sets"), "lin")
    app = create_app(door_routes(door), DOOR, "/door", ReviewMount(door))
    client = TestClient(app, base_url=HOME, raise_server_exceptions=False)
    if enter:
        assert client.get("/", params={"token": TOKEN}).url.path == "/door"
    return client


def post(client: TestClient, path: str, body: Any, status: int = 200) -> Any:
    answer = client.post(path, json=body, headers=ORIGIN_HEADERS)
    assert answer.status_code == status, answer.text
    return answer.json()


def find_key(client: TestClient) -> str:
    return client.get("/door").text.partition('href="/door/set/')[2][:12]


@pytest.mark.parametrize("path", ["/door", "/door/photo/320/p01.jpg", "/api/door/jobs", "/review/x/queries"])
def test_without_the_token_there_is_nothing_to_see(search: Search, path: str) -> None:
    assert open_page(enter=False).get(path).status_code == 403


def test_nothing_is_started_or_judged_from_another_site(search: Search) -> None:
    client = open_page()
    for path, body in (("start", {"work": "gallery"}), ("judge", {"text": "red", "image": "p01.jpg", "grade": 1})):
        answer = client.post(f"/api/door/{path}", json=body, headers={"origin": "http://evil.example"})
        assert answer.status_code == 403
    assert not Path("judgments.csv").exists()


def test_a_search_is_asked_judged_and_measured(search: Search) -> None:
    client = open_page()
    search.lists["red"] = ["p03.jpg", "elsewhere.jpg", *PHOTOS[:8]]
    asked = {"text": "red", "systems": ["mine.yaml"]}
    (answer,) = post(client, "/api/door/search", asked)["answers"]
    assert [(hit["name"], hit["is_photo"]) for hit in answer["hits"][:2]] == [
        ("p03.jpg", True),
        ("elsewhere.jpg", False),
    ]
    post(client, "/api/door/judge", {"text": "red", "image": answer["hits"][0]["name"], "grade": 1})
    (answer,) = post(client, "/api/door/search", asked)["answers"]
    assert answer["hits"][0]["grade"] == "1" and answer["hits"][1]["grade"] is None
    figures = client.get("/api/door/figure", params={"system": "mine.yaml"}).json()["figures"]
    assert figures[0]["value"] == pytest.approx(0.1) and figures[1]["value"] == 1
    assert answer["line"].endswith("evaluate sets/my-queries --system mine.yaml")
    both = {"text": "red", "url": yaml.safe_load(Path("mine.yaml").read_text())["url"], "systems": ["mine.yaml"]}
    assert [one["system"] for one in post(client, "/api/door/search", both)["answers"]] == [
        "my-search.yaml",
        "mine.yaml",
    ]
    (answer,) = post(client, "/api/door/search", {"text": "red", "systems": ["/etc/passwd"]})["answers"]
    assert "is not a search" in answer["problem"] and not answer["hits"]


@pytest.mark.parametrize("root", ["photos", "../{here}/photos", "{path}/photos", "elsewhere"])
def test_photos_are_shown_and_no_other_file(search: Search, tmp_path: Path, root: str, monkeypatch: Any) -> None:
    root = root.format(here=tmp_path.name, path=tmp_path)
    if root == "elsewhere":  # a folder that does not lie below the current one
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        root = str(tmp_path / "photos")
    client = open_page(root)
    assert client.get("/door/photo/320/p01.jpg").headers["content-type"] == "image/jpeg"
    for name in ("mine.yaml", "..%2fmine.yaml", "%2e%2e/%2e%2e/etc/passwd", "p99.jpg"):
        assert client.get(f"/door/photo/320/{name}").status_code == 404


def test_a_page_on_disk_runs_apart_and_only_listed_ones_are_served(search: Search) -> None:
    client = open_page()
    shown = client.get(f"/door/set/{find_key(client)}")
    assert shown.status_code == 200 and "small/v1" in shown.text
    policy = shown.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'") and "same-origin" not in policy
    assert client.get("/door/page/0123456789ab").status_code == 404
    client.get("/door", params={"page_language": "zh"})
    assert '<html lang="zh">' in client.get(f"/door/set/{find_key(client)}").text, "made anew in the reader's language"


def test_a_set_is_reviewed_inside_and_its_decisions_are_in_its_log(search: Search) -> None:
    client = open_page()
    base = f"/review/{find_key(client)}"
    html = client.get(f"{base}/").text
    assert f'data-base="{base}"' in html and f'href="{base}/pairs"' in html and 'href="/door"' in html
    assert client.get(f"{base}/api/queries/queue").json()["keys"]
    body = {"query_id": query_id_of("狗"), "text": "沙滩上的狗", "decision": "drop", "view": "queries"}
    post(client, f"{base}/api/queries/decide", body)
    (decision,) = read_decisions(Path("sets/small"), QueryDecision)
    assert (decision.decision, decision.reviewer) == ("drop", "lin")
    assert client.get("/review/0123456789ab/queries").status_code == 404


def test_a_dropped_file_is_recognised(search: Search) -> None:
    headers = {**ORIGIN_HEADERS, "content-type": "application/octet-stream"}
    data = b"image,text\na.jpg,a dog\n"
    answer = open_page().post("/api/door/file", params={"name": "../x.csv"}, content=data, headers=headers).json()
    assert answer["what"] == "texts and their images" and "import pairs x.csv" in answer["lines"][0]
    assert not Path("x.csv").exists()
