"""Indexes of vectors return what an exact search returns, query by query. The embedder is an endpoint on loopback."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from querytruth.backends.models.embedders import load_image_text_embedder, load_text_embedder
from querytruth.backends.search_systems import SearchFailure, load_system_file
from querytruth.errors import UserError
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback
from tests.postgres import postgres

ITEMS, QUERIES, DIMENSIONS, K = 200, 12, 16, 10


def unit_vectors(seed: int, count: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, DIMENSIONS))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


GALLERY = unit_vectors(1, ITEMS)
# A query lies beside a planted neighbour.
ASKED = GALLERY[:QUERIES] + 0.05 * unit_vectors(2, QUERIES)


def embed(request: ReceivedRequest) -> LoopbackAnswer:
    """Text `q7` is the vector of query 7; everything else is the first one."""
    texts = request.json.get("input", request.json.get("inputs"))
    rows = [ASKED[int(text[1:])] if text[1:].isdigit() else ASKED[0] for text in texts]
    if "inputs" in request.json:
        return CannedResponse(json.dumps([row.tolist() for row in rows]))
    data = [{"index": n, "embedding": row.tolist()} for n, row in enumerate(rows)]
    return CannedResponse({"data": data[::-1]})


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Path]:
    with loopback(embed) as server:
        (tmp_path / "emb.yaml").write_text(
            f"embedder: embeddings\nurl: {server.url}/v1/embeddings\nmodel: tiny\nbatch: 5"
        )
        yield tmp_path


def load(folder: Path, system: str, **options: Any) -> Any:
    (folder / "system.yaml").write_text(json.dumps({"system": system, **options}))
    return load_system_file(folder / "system.yaml").system


def expect_exact(system: Any) -> None:
    cosines = ASKED @ GALLERY.T
    for query in range(QUERIES):
        hits = system.search(f"q{query}", K)
        assert [hit.id for hit in hits] == [str(place) for place in np.argsort(-cosines[query])[:K]]
        assert all(one.score >= other.score for one, other in pairwise(hits))


def test_an_endpoint_is_an_embedder_wherever_one_is_named(endpoint: Path) -> None:
    embedder = load_text_embedder(str(endpoint / "emb.yaml"))
    vectors = embedder.encode_texts([f"q{n}" for n in range(QUERIES)])
    lengths = np.linalg.norm(ASKED, axis=1, keepdims=True)
    assert np.allclose(vectors, ASKED / lengths, atol=1e-6) and embedder.dimensions == DIMENSIONS
    tei = (endpoint / "emb.yaml").read_text().replace("/v1/embeddings", "/embed") + "\nformat: tei\nimages: true"
    (endpoint / "tei.yaml").write_text(tei)
    images = load_image_text_embedder(str(endpoint / "tei.yaml"))
    assert images.encode_images([np.zeros((4, 4, 3), np.uint8)]).shape == (1, DIMENSIONS)
    with pytest.raises(UserError, match="reads texts only, not images"):
        load_image_text_embedder(str(endpoint / "emb.yaml"))


def test_an_endpoint_without_vectors_is_one_line(tmp_path: Path) -> None:
    with loopback(lambda _: CannedResponse({"error": "no"})) as server:
        (tmp_path / "emb.yaml").write_text(f"embedder: embeddings\nurl: {server.url}\nmodel: tiny\ntries: 1")
        with pytest.raises(UserError, match=r"returned no vectors \(no_vectors"):
            load_text_embedder(str(tmp_path / "emb.yaml")).encode_texts(["a"])
    (tmp_path / "bad.yaml").write_text("model: tiny")
    with pytest.raises(UserError, match="the embedder is missing"):
        load_text_embedder(str(tmp_path / "bad.yaml"))


@pytest.mark.slow
def test_qdrant_in_a_folder(endpoint: Path) -> None:
    client_library = pytest.importorskip("qdrant_client")
    client, models = client_library.QdrantClient(path=str(endpoint / "qdrant")), client_library.models
    vectors = models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
    client.create_collection("images", vectors_config=vectors)
    rows = [
        models.PointStruct(id=n + 1, vector=row.tolist(), payload={"image": str(n)}) for n, row in enumerate(GALLERY)
    ]
    client.upsert("images", rows)
    client.close()
    system = load(endpoint, "qdrant", path="qdrant", collection="images", embedder="emb.yaml", id_field="image")
    assert system.count_items() == ITEMS
    expect_exact(system)
    with pytest.raises(SearchFailure, match="qdrant_error"):
        load(endpoint, "qdrant", path="none", collection="x", embedder="emb.yaml").search("q1", 3)


@pytest.mark.slow
def test_milvus_in_a_file(endpoint: Path) -> None:
    library = pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    client = library.MilvusClient(uri=str(endpoint / "milvus.db"))
    client.create_collection("images", dimension=DIMENSIONS, metric_type="COSINE")
    client.insert("images", [{"id": n, "vector": row.tolist()} for n, row in enumerate(GALLERY)])
    system = load(endpoint, "milvus", uri="milvus.db", collection="images", embedder="emb.yaml")
    system._client_or_none = client
    expect_exact(system)


@pytest.mark.slow
def test_vectors_in_a_real_postgresql(endpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extension pgvector is in no package here: the same query in plain SQL, over arrays."""
    psycopg = pytest.importorskip("psycopg")
    with postgres() as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE images (id text, embedding real[])")
            rows = [(str(n), row.tolist()) for n, row in enumerate(GALLERY)]
            connection.cursor().executemany("INSERT INTO images VALUES (%s, %s)", rows)
        monkeypatch.setenv("SEARCH_DSN", url)
        asked = "string_to_array(trim(both '[]' from %(vector)s), ',')::real[]"
        cosine = f"(SELECT sum(a * b) FROM unnest(embedding, {asked}) AS pairs(a, b))"
        sql = f"SELECT id, {cosine} AS score FROM images ORDER BY score DESC LIMIT %(k)s"
        system = load(endpoint, "pgvector", dsn_env="SEARCH_DSN", sql=sql, embedder="emb.yaml")
        expect_exact(system)
        with pytest.raises(SearchFailure, match="database_error: UndefinedTable"):
            load(endpoint, "pgvector", dsn_env="SEARCH_DSN", sql="SELECT id FROM nothing").search("q1", 3)
        with pytest.raises(SearchFailure, match="database_error: ReadOnlySqlTransaction"):
            load(endpoint, "pgvector", dsn_env="SEARCH_DSN", sql="DELETE FROM images").search("q1", 3)
        slow = load(endpoint, "pgvector", dsn_env="SEARCH_DSN", sql="SELECT pg_sleep(5)", deadline=0.2)
        with pytest.raises(SearchFailure, match="timeout"):
            slow.search("q1", 3)


def test_the_statement_for_pgvector(endpoint: Path) -> None:
    system = load(endpoint, "pgvector", dsn_env="X", table="public.images", distance="l2", embedder="emb.yaml")
    assert system.identity.parameters["sql"] == (
        "SELECT id, -(embedding <-> %(vector)s::vector) FROM public.images "
        "ORDER BY embedding <-> %(vector)s::vector LIMIT %(k)s"
    )
    with pytest.raises(UserError, match="is not a table or column name"):
        load(endpoint, "pgvector", dsn_env="X", table="a; drop table b", embedder="emb.yaml")


def test_elasticsearch_and_opensearch_by_their_wire_format(endpoint: Path) -> None:
    """An answer in the form that Elasticsearch 8 documents; no server is started."""
    hits = [{"_index": "images", "_id": "1", "_score": 2.5, "_source": {"file": "a.jpg"}}]
    found = {"took": 3, "timed_out": False, "hits": {"total": {"value": 1}, "max_score": 2.5, "hits": hits}}
    with loopback(lambda request: CannedResponse({"count": 7} if "_count" in request.path else found)) as server:
        texts = load(endpoint, "elasticsearch", url=server.url, index="images", fields=["title^2"], id_field="file")
        assert texts.count_items() == 7 and [hit.id for hit in texts.search('red "car"', 5)] == ["a.jpg"]
        near = {"url": server.url, "index": "images", "vector_field": "v", "embedder": "emb.yaml"}
        assert [(hit.id, hit.score) for hit in load(endpoint, "elasticsearch", **near).search("q3", 5)] == [("1", 2.5)]
        load(endpoint, "elasticsearch", **near, dialect="opensearch").search("q3", 5)
        bodies = [request.json for request in server.asked if "_search" in request.path]
    assert bodies[0]["query"] == {"multi_match": {"query": 'red "car"', "fields": ["title^2"]}}
    assert bodies[1]["knn"]["k"] == 5 and len(bodies[1]["knn"]["query_vector"]) == DIMENSIONS
    assert bodies[2]["query"]["knn"]["v"]["k"] == 5
    with pytest.raises(UserError, match="searches either texts or vectors"):
        load(endpoint, "elasticsearch", url="http://x", index="i")
