"""A page on a small set, as a browser talks to it: what the tests of the server share."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from builders.publication import publish_decisions
from flows.review_site import open_review_site
from querytruth.review.server import MAX_BODY_BYTES, PageAccess, create_app
from querytruth.sets.decision_log import read_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import StoredSet, read_set

PORT, TOKEN = 4711, "token-of-the-test"
DOOR = PageAccess(PORT, TOKEN)
HOME = f"http://127.0.0.1:{PORT}"
ORIGIN_HEADERS = {"origin": HOME}


@dataclass
class ReviewClient:
    """A client that has come in by the address, and the log of its set."""

    client: TestClient
    stored: StoredSet

    @property
    def log(self) -> list[QueryDecision]:
        return read_decisions(self.stored.path.parent, QueryDecision)

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(path, **more)

    def post(self, path: str, body: Any, **more: Any) -> Any:
        return self.client.post(path, json=body, headers=ORIGIN_HEADERS, **more)

    def decide(self, query_id: str, text: str, decision: str, **more: Any) -> Any:
        body = {"query_id": query_id, "text": text, "decision": decision, "view": "queries", **more}
        return self.post("/api/queries/decide", body)

    def undo(self, view: str = "queries") -> Any:
        return self.post(f"/api/{view}/undo", {"view": view})

    def queue(self, view: str, **filters: Any) -> dict[str, Any]:
        return self.get(f"/api/{view}/queue", params=filters).json()

    def keys(self, view: str, **filters: Any) -> list[str]:
        return self.queue(view, **filters)["keys"]

    def cards(self, view: str, *keys: str) -> list[dict[str, Any]]:
        return self.get(f"/api/{view}/cards", params={"key": keys}).json()["cards"]

    def card(self, key: str, view: str = "queries") -> dict[str, Any]:
        return self.cards(view, key)[0]

    def publish(self) -> StoredSet:
        """The next version, with what was decided."""
        return read_set(publish_decisions(self.stored.path).path)


def open_client(
    stored: StoredSet, reviewer: str = "lin", enter: bool = True, runs: Sequence[Path] = (), depth: int = 10
) -> ReviewClient:
    """The page of a version, served in this process."""
    made = open_review_site(read_set(stored.path), reviewer, runs, depth)
    client = TestClient(create_app(made.routes, DOOR, made.start_path), base_url=HOME, raise_server_exceptions=False)
    if enter:
        client.get("/", params={"token": TOKEN})
    return ReviewClient(client, stored)


def check_guards(
    page: TestClient, stranger: TestClient, reads: Sequence[str], posts: Sequence[str], body: dict[str, Any]
) -> None:
    """Each guard is met by a request that only it turns away; a stranger has no token."""
    body_as_json = {**ORIGIN_HEADERS, "content-type": "application/json"}
    foreign = ({"host": "evil.example"}, {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"})
    for path in reads:
        assert stranger.get(path).status_code == 403, path
        assert [page.get(path, headers=one).status_code for one in foreign] == [403, 403], path
        answer = page.get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200 and "default-src 'none'" in policy and "unsafe" not in policy, path
    for path in posts:
        for headers in ({}, {"origin": "http://evil.example"}, {**ORIGIN_HEADERS, "host": "evil.example"}):
            assert page.post(path, json=body, headers=headers).status_code == 403, (path, headers)
        for cookie in ({}, {"cookie": f"{DOOR.cookie}={TOKEN}x"}):
            assert stranger.post(path, json=body, headers=ORIGIN_HEADERS | cookie).status_code == 403, path
        large = b'{"note":"' + b"x" * MAX_BODY_BYTES + b'"}'
        assert page.post(path, content=large, headers=body_as_json).status_code == 413, path
        form = {**ORIGIN_HEADERS, "content-type": "text/plain"}
        assert page.post(path, content=b"{}", headers=form).status_code == 415, path
