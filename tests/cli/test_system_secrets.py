"""The key of a service, of each kind, is in no file, page, log, error or store, even where the service repeats it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.small_sets import image_id_of, publish_small_set, small_tables

Run = Callable[..., tuple[str, str]]
KEY = "sk-very-secret-0123456789"
VECTOR = [1.0, 0.0]
HITS = {
    "http": {"results": [{"id": image_id_of("dog")}]},
    "elasticsearch": {"hits": {"hits": [{"_id": image_id_of("dog"), "_score": 1.0}], "total": {"value": 1}}},
    "qdrant": {"result": {"points": [{"id": 1, "version": 1, "score": 1.0, "payload": {"name": image_id_of("dog")}}]}},
}


class Service:
    """A service of a kind, and an endpoint of embeddings beside it. `is_bad`: answers with an error that repeats all
    headers and the key."""

    def __init__(self, kind: str) -> None:
        self.kind, self.is_bad, self.keys = kind, False, 0

    def answer(self, request: ReceivedRequest) -> CannedResponse:
        self.keys += any(KEY in value for value in request.headers.values())
        if self.is_bad:
            return CannedResponse(f"refused {KEY}: {json.dumps(dict(request.headers))} {request.path}", status=403)
        if request.path.startswith("/v1/embeddings"):
            rows = [{"index": n, "embedding": VECTOR} for n in range(len(request.json["input"]))]
            return CannedResponse({"data": rows})
        return CannedResponse(HITS.get(self.kind, {}))


def describe(kind: str, server: Loopback) -> dict[str, Any]:
    key, embedder = {"Authorization": "SERVICE_AUTHORIZATION"}, {"embedder": "emb.yaml"}
    kinds: dict[str, dict[str, Any]] = {
        "http": {"url": f"{server.url}/?q={{query}}", "header_env": key},
        "elasticsearch": {"url": server.url, "index": "images", "fields": ["title"], "header_env": key},
        "qdrant": {"url": server.url, "collection": "images", "key_env": "SERVICE_KEY", "id_field": "name", **embedder},
        "pgvector": {"dsn_env": "SERVICE_DSN", "table": "images", "vector_column": "v", "deadline": 2, **embedder},
    }
    return {"system": kind, "tries": 1, **kinds[kind]}


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    running = Service(request.param)
    publish_small_set(tmp_path, small_tables(graded=False))
    with loopback(running.answer) as server:
        monkeypatch.setenv("SERVICE_AUTHORIZATION", f"Bearer {KEY}")
        monkeypatch.setenv("SERVICE_KEY", KEY)
        monkeypatch.setenv("SERVICE_DSN", f"postgresql://me:{KEY}@127.0.0.1:{server.url.rpartition(':')[2]}/images")
        (tmp_path / "emb.yaml").write_text(
            f"embedder: embeddings\nurl: {server.url}/v1/embeddings\nmodel: tiny\ntries: 1\n"
            "header_env: {Authorization: SERVICE_AUTHORIZATION}"
        )
        (tmp_path / "mine.yaml").write_text(json.dumps(describe(request.param, server)))
        yield running


def expect_no_key(folder: Path, *printed: str) -> None:
    assert not [text for text in printed if KEY in text or KEY[3:] in text]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5 and not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
@pytest.mark.parametrize("service", ["http", "elasticsearch", "qdrant"], indirect=True)
def test_a_key_is_sent_and_left_nowhere(run: Run, service: Service, tmp_path: Path) -> None:
    printed = list(run("evaluate", "small", "--out", "sets", "--system", "mine.yaml", "--metrics", "hit@1"))
    assert service.keys >= 4, "the key was sent"
    printed += run("search", "--trial", "--system", "mine.yaml", "small", "a dog", "--out", "sets")
    printed += run("leaderboard", "small", "--out", "sets", "--to", "board.html")
    assert (tmp_path / "sets/.systems/answers.sqlite").is_file()
    expect_no_key(tmp_path, *printed)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
@pytest.mark.parametrize("service", ["http", "elasticsearch", "qdrant", "pgvector"], indirect=True)
def test_a_refusal_that_repeats_the_key_does_not_show_it(run: Run, service: Service, tmp_path: Path) -> None:
    service.is_bad = True
    printed = list(run("evaluate", "small", "--out", "sets", "--system", "mine.yaml", "--metrics", "hit@1", code=1))
    printed += run("search", "--trial", "--system", "mine.yaml", "a dog", code=1)
    assert all("error" in text for text in printed[1::2])
    expect_no_key(tmp_path, *printed)


@pytest.mark.parametrize("kind", ["http", "elasticsearch", "qdrant", "milvus"])
def test_a_password_in_an_address_is_refused_and_not_repeated(run: Run, tmp_path: Path, kind: str) -> None:
    address = f"http://me:{KEY}@127.0.0.1:1/?q={{query}}"
    more = {"elasticsearch": {"index": "i", "fields": ["t"]}, "http": {}}.get(
        kind, {"collection": "c", "embedder": "e"}
    )
    given = {"system": kind, "uri" if kind == "milvus" else "url": address, **more}
    (tmp_path / "mine.yaml").write_text(json.dumps(given))
    out, err = run("search", "--trial", "--system", "mine.yaml", "a dog", code=1)
    assert "password or a key" in err and KEY not in out + err
