"""A page on a small set, as a browser talks to it: what the tests of the server share."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from flows.review_site import open_review_site
from querytruth.review.server import PageAccess, create_app
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

    def undo(self) -> Any:
        return self.post("/api/queries/undo", {"view": "queries"})

    def card(self, query_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/api/queries/cards", params={"key": query_id}).json()["cards"][0]
        return found


def open_client(
    stored: StoredSet, reviewer: str = "lin", enter: bool = True, runs: Sequence[Path] = (), depth: int = 10
) -> ReviewClient:
    """The page of a version, served in this process."""
    made = open_review_site(read_set(stored.path), reviewer, runs, depth)
    client = TestClient(create_app(made.routes, DOOR, made.start_path), base_url=HOME, raise_server_exceptions=False)
    if enter:
        client.get("/", params={"token": TOKEN})
    return ReviewClient(client, stored)


def folder_of(stored: StoredSet) -> Path:
    return stored.path.parent
