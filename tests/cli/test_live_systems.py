"""A search service is evaluated, recorded and replayed; every fault is counted exactly."""

import base64
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest

import querytruth as qt
from querytruth.api.evaluations import Evaluation
from querytruth.backends.id_patterns import map_ids
from querytruth.backends.search_systems import SearchHit
from querytruth.evaluation.ground_truth import index_qrels
from querytruth.evaluation.live_systems import build_system_run
from querytruth.evaluation.ranking import rank_run
from querytruth.evaluation.system_answers import IndexCheck, SystemAnswer
from querytruth.review.result_pool import read_result_pool
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.set_files import locate_images, read_set
from tests.cli.conftest import Run
from tests.loopback import CannedResponse, Loopback, LoopbackAnswer, ReceivedRequest, loopback, send_raw, stay_silent
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables

KEY = "sk-very-secret-0123456789"
RIGHT = {"a dog, wet": "dog", "沙滩上的狗": "beach", "'cat'\nasleep": "cat", "-1": "dog"}


class Service:
    """Answers each query with the right image first; `odd` has other answers by query."""

    def __init__(self) -> None:
        self.odd: dict[str, LoopbackAnswer] = {}
        self.server = Loopback(self.answer)

    def answer(self, request: ReceivedRequest) -> LoopbackAnswer:
        text = parse_qs(urlsplit(request.path).query)["q"][0]
        return self.odd.get(text) or answer_with([RIGHT[text], *sorted({*RIGHT.values(), "tree"} - {RIGHT[text]})])


def answer_with(names: list[str], scores: list[Any] | None = None) -> CannedResponse:
    hits = [{"name": f"holiday/{name} 1.jpg", "s": 1 / (n + 1)} for n, name in enumerate(names)]
    for hit, score in zip(hits, scores or [], strict=False):
        hit["s"] = score
    return CannedResponse(json.dumps({"results": hits}))


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("SEARCH_KEY", KEY)
    publish_small_set(tmp_path, small_tables(graded=False))
    running = Service()
    options = {"url": f"{running.server.url}/?q={{query}}", "ids": "file_name", "id": "name", "score": "s"}
    options |= {"header_env": {"X-Key": "SEARCH_KEY"}, "deadline": 0.5, "tries": 2, "pause": 0.01, "system": "http"}
    (tmp_path / "mine.yaml").write_text(json.dumps(options))
    yield running
    running.server.close()


def test_a_service_is_asked_for_the_pool_of_a_review(tmp_path: Path, service: Service) -> None:
    stored = read_set(tmp_path / "sets/small/v1")
    service.odd["-1"] = answer_with(["cat", "dog"])

    pool = read_result_pool(stored, [], 10, [tmp_path / "mine.yaml"])

    judged = set(zip(stored.tables.qrels["query_id"], stored.tables.qrels["image_id"], strict=True))
    asked = {
        (query, image) for query in stored.tables.queries["query_id"] for image in stored.tables.images["image_id"]
    }
    assert pool.pairs and set(pool.pairs) <= asked - judged
    assert not any("left out" in note for note in pool.notes)


EVALUATE = ("evaluate", "small", "--out", "sets", "--system", "mine.yaml", "--metrics", "hit@1", "--json", "--no-page")


def evaluate(run: Run, *more: str, code: int = 0) -> Any:
    out, err = run(*EVALUATE, *more, code=code)
    return json.loads(out)["results"][0] if code == 0 else err


def test_a_service_is_asked_once_and_replayed_bit_for_bit(run: Run, service: Service, tmp_path: Path) -> None:
    first = evaluate(run)
    assert first["figures"][0]["value"] == 1.0
    assert first["counts"]["search_system"]["answers"] == 4 and first["counts"]["search_system"]["order"] == "score"
    assert 0 < first["counts"]["latency_ms"]["p50"] <= first["counts"]["latency_ms"]["p99"]
    asked = len(service.server.asked)
    folder = tmp_path / "sets/small/evaluations/v1/mine"
    files = {name: (folder / name).read_bytes() for name in ("run.parquet", "per_query.parquet")}
    shutil.rmtree(folder)
    service.server.close()
    assert evaluate(run, "--offline") == first and evaluate(run) == first
    assert {name: (folder / name).read_bytes() for name in files} == files
    assert len(service.server.asked) == asked


@pytest.mark.thorough
def test_refresh_asks_again_and_a_changed_index_is_noticed(run: Run, service: Service) -> None:
    evaluate(run)
    asked = len(service.server.asked)
    service.odd["a dog, wet"] = answer_with(["cat"])
    assert evaluate(run)["figures"][0]["value"] == 1.0 and len(service.server.asked) == asked
    assert evaluate(run, "--refresh")["figures"][0]["value"] == 0.75
    changing = iter([answer_with(["dog"]), answer_with(["dog"]), answer_with(["cat"]), answer_with(["tree"])])
    first = next(iter(sorted(RIGHT)))
    for text in RIGHT:
        service.odd[text] = lambda connection: send_text(connection, next(changing, answer_with([first])))
    result = evaluate(run, "--refresh", "--max-unknown", "1")
    assert "index_changed" in [warning["code"] for warning in result["warnings"]]


def send_text(connection: Any, answer: CannedResponse) -> None:
    data = answer.data
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(data) + data)


@pytest.mark.thorough
def test_every_fault_is_counted_exactly(run: Run, service: Service) -> None:
    service.odd = {
        "a dog, wet": answer_with(["dog", "dog", "nowhere", "cat"], [1, 1, 0.5, "NaN"]),
        "沙滩上的狗": CannedResponse("<html>login</html>"),
        "'cat'\nasleep": stay_silent(2),
        "-1": CannedResponse({"results": [{"name": "holiday/dog 1.jpg", "s": 0.1}, {"s": 1}]}),
    }
    result = evaluate(run, "--max-unknown", "0.5")
    assert result["counts"]["search_system"] == {
        "answers": 2,
        "answers_out_of_order": 1,
        "answers_with_fewer_results": 1,
        "duplicate_results": 1,
        "failures": {"not_json": 1, "timeout": 1},
        "index_items": None,
        "order": "rank",
        "results_without_id": 1,
        "results_without_score": 1,
        "unmapped_results": 1,
    }
    assert result["counts"]["unknown_results"] == 1 and result["counts"]["queries_missing"] == 2
    assert result["figures"][0]["value"] == 0.5
    warnings = {warning["code"]: warning["detail"] for warning in result["warnings"]}
    assert warnings["failed_queries"].startswith("2 of 4 queries got no answer and count as 0: 1 not_json, 1 timeout")
    assert evaluate(run, "--offline", "--max-unknown", "0.5") == result


def test_an_answer_after_429_and_a_broken_connection(run: Run, service: Service) -> None:
    bad: dict[str, LoopbackAnswer] = {"-1": CannedResponse("", 429, {"Retry-After": "0"})}
    bad["a dog, wet"] = send_raw(b"HTTP/1.1 200 OK\r\n")

    def answer(request: ReceivedRequest, whole: Callable[[ReceivedRequest], Any] = service.answer) -> Any:
        return bad.pop(parse_qs(urlsplit(request.path).query)["q"][0], None) or whole(request)

    service.server.answer = answer
    assert evaluate(run)["figures"][0]["value"] == 1.0


def test_what_cannot_be_evaluated_is_one_line(run: Run, service: Service) -> None:
    assert "has no recorded answer for 4 of 4 queries" in evaluate(run, "--offline", code=1)
    assert "cannot be asked again offline" in evaluate(run, "--offline", "--refresh", code=1)
    service.server.close()
    assert "answered none of the 4 queries (connection_failed" in evaluate(run, code=1)


@pytest.mark.thorough
def test_the_key_is_in_no_file(run: Run, service: Service, tmp_path: Path) -> None:
    service.odd["a dog, wet"] = CannedResponse(f"bad key {KEY}", status=401)
    run(*EVALUATE[:-2])
    _, err = run("search", "--trial", "--system", "mine.yaml", "a dog, wet", code=1)
    assert "http_401" in err and KEY not in err
    held = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert not held and list((tmp_path / "sets/.systems").iterdir())


def test_a_trial_shows_what_answers_map_to(run: Run, service: Service) -> None:
    service.odd["dogs"] = answer_with(["dog", "nowhere"])
    out, _ = run("search", "--trial", "--system", "mine.yaml", "small", "dogs", "--out", "sets")
    assert "holiday/dog 1.jpg" in out and "no image of the set" in out and "1 match nothing in small" in out
    found = run.json("search", "--trial", "--system", "mine.yaml", "dogs")
    assert [hit["id"] for hit in found["hits"]] == ["holiday/dog 1.jpg", "holiday/nowhere 1.jpg"]
    service.odd["dogs"] = CannedResponse("", status=500)
    assert "did not answer (http_500" in run.error("search", "--trial", "--system", "mine.yaml", "dogs")


@pytest.mark.thorough
def test_the_latency_is_gated(run: Run, service: Service) -> None:
    run(*EVALUATE)
    folder = "sets/small/evaluations/v1/mine"
    gated = ("gate", "small", "--out", "sets", "--candidate", folder, "--baseline", folder, "--metric", "hit@1")
    gated += ("--margin", "0.1", "--undecided", "pass", "--json", "--max-latency")
    fast = json.loads(run(*gated, "p95=100000")[0])
    assert fast["latency"][0]["verdict"] == "PASS"
    assert json.loads(run(*gated, "p50=0.0001", code=1)[0])["latency"][0]["verdict"] == "FAIL"


def test_ids_of_images_map_to_themselves_and_shared_names_to_none() -> None:
    images = pd.DataFrame(
        {"image_id": ["i1", "i2", "i3"], "file_name": ["a", "a", "b"], "source_url": ["u", "", None]}, dtype=object
    )
    assert map_ids(images, "image_id") == {"i1": "i1", "i2": "i2", "i3": "i3"}
    assert map_ids(images, "file_name") == {"b": "i3"} and map_ids(images, "source_url") == {"u": "i1"}


def test_the_same_from_python(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = qt.evaluate("small", system="mine.yaml", metrics=["hit@1"], out="sets")
    assert found["hit@1"] == 1.0 and image_id_of("dog") in set(found.run["image_id"].astype(str))


class ImageService:
    """Knows what each image is of: the one request has it as base64 in JSON, the other as a part of a form."""

    def __init__(self, folder: Path) -> None:
        stored = publish_small_set(folder, small_tables(graded=False))
        self.names = {place.sha256: NAMES[place.image_id] for place in locate_images(stored)}
        self.server = Loopback(self.answer)

    def answer(self, request: ReceivedRequest) -> LoopbackAnswer:
        if request.path == "/json":
            image = base64.b64decode(request.json["photo"])
        else:
            image = request.body.split(b"application/octet-stream\r\n\r\n")[1].rpartition(b"\r\n--")[0]
        name = self.names[hashlib.sha256(image).hexdigest()]
        texts = [text for text, right in RIGHT.items() if right == name] or ["nothing of the set"]
        return CannedResponse({"results": [{"name": text} for text in texts]})


NAMES = {image_id_of(name): name for name in ("dog", "beach", "cat", "tree")}


@pytest.mark.parametrize(
    "form",
    [
        {"path": "json", "body": {"photo": "{image}", "top": "{k}"}},
        {"path": "form", "body": {"top": "{k}"}, "image_part": "file"},
    ],
    ids=["base64", "form"],
)
def test_images_find_texts(run: Run, tmp_path: Path, form: dict[str, Any]) -> None:
    service = ImageService(tmp_path)
    options = {"system": "http", "method": "POST", "id": "name", "url": f"{service.server.url}/{form.pop('path')}"}
    (tmp_path / "mine.yaml").write_text(json.dumps(options | form))
    command = [*EVALUATE, "--direction", "image_to_text", "--max-unknown", "1"]
    (found,) = json.loads(run(*command)[0])["results"]
    assert found["direction"] == "image_to_text" and found["figures"][0]["value"] == 1.0
    assert found["counts"]["search_system"]["answers"] == 4
    service.server.close()
    assert json.loads(run(*command, "--offline")[0])["results"] == [found], "recorded by the digest of each image"
    _, told = run(*EVALUATE, code=1)
    assert "mine (evaluate): searches by images. Next: choose the direction image_to_text" in told


def test_one_image_is_tried(run: Run, tmp_path: Path) -> None:
    service = ImageService(tmp_path)
    options = {"system": "http", "method": "POST", "id": "name", "url": f"{service.server.url}/json"}
    (tmp_path / "mine.yaml").write_text(json.dumps(options | {"body": {"photo": "{image}"}}))
    dog = next(path for path in tmp_path.glob("sets/small/v1/images/*/*.jpg") if NAMES[path.stem] == "dog")
    shown, _ = run("search", "--trial", "--system", "mine.yaml", "small", dog, "--out", "sets")
    assert "a dog, wet" in shown and "0 match nothing in small" in shown
    _, told = run("search", "--trial", "--system", "mine.yaml", "a dog", code=1)
    assert "a dog (try system): cannot be read" in told and "give the file of an image" in told
    service.server.close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"body": {"q": "{query}", "i": "{image}"}, "method": "POST"}, "sends both texts and images"),
        ({"body": {"i": "{image}"}}, "sends an image with GET"),
        ({"image_part": "file", "body": ["a"], "method": "POST"}, "has a body that is not a form"),
    ],
)
def test_a_search_is_by_texts_or_by_images(run: Run, tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    (tmp_path / "mine.yaml").write_text(json.dumps({"system": "http", "url": "http://127.0.0.1:9/", **options}))
    assert f"http (load search system): {reason}. Next: " in run.error(
        "search", "--trial", "--system", "mine.yaml", "x"
    )


MANY = 200


@pytest.fixture
def many_queries(tmp_path: Path) -> None:
    """A set of 200 queries for one image."""
    ids = [query_id_of(str(number)) for number in range(MANY)]
    texts = [f"dog {number}" for number in range(MANY)]
    queries = pd.DataFrame({"query_id": ids, "text": texts, "language": "en", "style": "word", "level": 1})
    qrels = pd.DataFrame({"query_id": ids, "image_id": image_id_of("dog"), "judged_by": "human", "evidence": None})
    qrels = qrels.assign(relevance=pd.array([1] * MANY, dtype="int8"))
    qrels = qrels.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    tables = replace(small_tables(), queries=queries.sort_values("query_id", ignore_index=True), qrels=qrels)
    publish_small_set(tmp_path, tables)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (stay_silent(1), "timeout"),
        (CannedResponse("later", 503, {"Retry-After": "0.02"}), "http_503: later"),
        (CannedResponse("who are you?", 401), "http_401: who are you?"),
    ],
    ids=["hangs", "asks for patience", "refuses"],
)
def test_a_service_that_never_answers_stops_the_run_after_the_first_dozen(
    answer: LoopbackAnswer, reason: str, run: Run, many_queries: None, tmp_path: Path
) -> None:
    with loopback(lambda _: answer) as server:
        options = {"system": "http", "url": f"{server.url}/?q={{query}}", "deadline": 0.05, "tries": 2, "pause": 0.01}
        (tmp_path / "mine.yaml").write_text(json.dumps(options))
        start = time.monotonic()
        _, told = run("evaluate", "small", "--out", "sets", "--system", "mine.yaml", code=1)
        assert f"answered none of the first 12 queries ({reason}" in " ".join(told.split())
        assert "--trial" in told and time.monotonic() - start < 10
        assert len(server.asked) < 2 * MANY / 4


def test_a_service_that_fails_at_some_queries_goes_on_and_is_asked_those_again(
    run: Run, many_queries: None, tmp_path: Path
) -> None:
    """Also where more than a dozen have failed before, and are all that is left to ask."""
    found = CannedResponse({"results": [{"id": image_id_of("dog")}]})
    with loopback(lambda request: CannedResponse("", 400) if "9" in request.path else found) as server:
        options = {"system": "http", "url": f"{server.url}/?q={{query}}", "tries": 1, "concurrency": 1}
        (tmp_path / "mine.yaml").write_text(json.dumps(options))
        for _ in range(2):
            shown, _ = run("evaluate", "small", "--out", "sets", "--system", "mine.yaml", "--json", "--no-page")
            (result,) = json.loads(shown)["results"]
            assert result["counts"]["search_system"]["failures"] == {"http_400": 38}


def test_of_equal_scores_the_services_own_order_counts() -> None:
    """By our rule for run files the highest id would be first."""
    hits = [SearchHit(name, score) for name, score in (("a", 1.0), ("c", 0.5), ("b", 0.5), ("d", 0.5), ("e", 0.0))]
    found = build_system_run(["q1"], [SystemAnswer(tuple(hits), 1.0)], {}, 5, IndexCheck(None, None, None))
    table = found.run.assign(image_id=found.run["image_id"].str.removeprefix("unmapped:"))
    truth = index_qrels(
        pd.DataFrame({"query_id": ["q1"], "image_id": ["c"], "relevance": [1]}), pd.Series(list("abcde"))
    )
    ranked = rank_run(table, truth)
    assert ranked.image_ids.take(ranked.image_code).to_pylist() == list("acbde")
    assert found.counts["search_system"]["order"] == "score"
    assert table["score"].round(9).tolist() == [1.0, 0.5, 0.5, 0.5, 0.0]


VECTOR = [1.0, 0.0]
HITS = {
    "http": {"results": [{"id": image_id_of("dog")}]},
    "elasticsearch": {"hits": {"hits": [{"_id": image_id_of("dog"), "_score": 1.0}], "total": {"value": 1}}},
    "qdrant": {"result": {"points": [{"id": 1, "version": 1, "score": 1.0, "payload": {"name": image_id_of("dog")}}]}},
}


class KeyedService:
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
def keyed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyedService]:
    running = KeyedService(request.param)
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
@pytest.mark.parametrize("keyed", ["http", "elasticsearch", "qdrant"], indirect=True)
def test_a_key_is_sent_and_left_nowhere(run: Run, keyed: KeyedService, tmp_path: Path) -> None:
    printed = list(run("evaluate", "small", "--out", "sets", "--system", "mine.yaml", "--metrics", "hit@1"))
    assert keyed.keys >= 4, "the key was sent"
    printed += run("search", "--trial", "--system", "mine.yaml", "small", "a dog", "--out", "sets")
    printed += run("leaderboard", "small", "--out", "sets", "--to", "board.html")
    assert (tmp_path / "sets/.systems/answers.sqlite").is_file()
    expect_no_key(tmp_path, *printed)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
@pytest.mark.parametrize("keyed", ["http", "elasticsearch", "qdrant", "pgvector"], indirect=True)
def test_a_refusal_that_repeats_the_key_does_not_show_it(run: Run, keyed: KeyedService, tmp_path: Path) -> None:
    keyed.is_bad = True
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


IMAGES, QUERIES, DIMENSIONS = 1500, 400, 32
RNG = np.random.default_rng(5)


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


GALLERY = unit(RNG.normal(size=(IMAGES, DIMENSIONS)))
ASKED = unit(GALLERY[:QUERIES] + 0.15 * RNG.normal(size=(QUERIES, DIMENSIONS)))
LENGTHS = RNG.lognormal(0, 0.15, size=(IMAGES, 1))  # of vectors that nobody normalised
IDS = [image_id_of(str(number)) for number in range(IMAGES)]


def int8(rows: Any, largest: float) -> Any:
    return np.clip(np.round(rows / largest * 127), -128, 127)


INDEXES: dict[str, Callable[[Any], Any]] = {
    "exact": lambda asked: GALLERY @ asked,
    "int8": lambda asked: int8(GALLERY, 1) @ int8(asked, 1),
    "int8_of_too_small_a_range": lambda asked: int8(GALLERY, 0.15) @ int8(asked, 0.15),
    "inner_product_without_normalising": lambda asked: (GALLERY * LENGTHS) @ asked,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set with one image for each query; no files of images."""
    folder, tables = tmp_path_factory.mktemp("vectors"), small_tables(graded=False)
    image = tables.images.iloc[:1].assign(duplicate_group=None)
    images = pd.concat([image] * IMAGES, ignore_index=True).assign(image_id=IDS)
    names = [f"q{number}" for number in range(QUERIES)]
    ids = [query_id_of(name) for name in names]
    queries = pd.concat([tables.queries.iloc[:1]] * QUERIES, ignore_index=True).assign(query_id=ids, text=names)
    qrels = pd.DataFrame({"query_id": ids, "image_id": IDS[:QUERIES]})
    qrels = qrels.assign(relevance=pd.array([1] * QUERIES, dtype="int8"), judged_by="human", evidence=None)
    qrels = qrels.astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    whole = Tables(
        queries.sort_values("query_id", ignore_index=True),
        images.sort_values("image_id", ignore_index=True),
        qrels.sort_values(["query_id", "image_id"], ignore_index=True),
    )
    return publish_small_set(folder, whole, images=False).path


@pytest.fixture(scope="module")
def results(world: Path) -> Iterator[dict[str, Evaluation]]:
    """Each index behind HTTP, evaluated as a live system."""

    def answer(request: ReceivedRequest) -> LoopbackAnswer:
        asked = request.json
        number = asked["text"][1:]
        scores = INDEXES[asked["index"]](ASKED[int(number) if number.isdigit() else 0])  # or the index's probe
        best = np.argsort(-scores, kind="stable")[: asked["k"]]
        return CannedResponse({"results": [{"id": IDS[place], "score": float(scores[place])} for place in best]})

    with loopback(answer) as server:
        found = {}
        for index in INDEXES:
            file = world.parents[2] / f"{index}.yaml"
            body = f'{{"index": "{index}", "text": "{{query}}", "k": "{{k}}"}}'
            file.write_text(f"system: http\nurl: {server.url}\nmethod: POST\nbody: {body}\nscore: score\n")
            found[index] = qt.evaluate(world, system=file, k=20, metrics=["hit@1", "rr@10"])
        yield found


@pytest.mark.thorough
def test_an_exact_index_behind_http_returns_what_our_own_search_returns(
    world: Path, results: dict[str, Evaluation]
) -> None:
    queries = np.stack([ASKED[int(text[1:])] for text in qt.load(world).queries["text"]])
    images = np.stack([GALLERY[IDS.index(image)] for image in qt.load(world).images["image_id"]])
    ours = qt.evaluate(world, vectors=(queries, images), k=20, metrics=["hit@1", "rr@10"]).ranked
    columns = ["query_id", "image_id", "rank"]
    theirs = results["exact"].ranked
    keys = ["query_id", "rank"]
    assert ours[columns].sort_values(keys).to_numpy().tolist() == theirs[columns].sort_values(keys).to_numpy().tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("index", list(INDEXES)[2:])
def test_a_damaged_index_is_found(world: Path, results: dict[str, Evaluation], index: str) -> None:
    exact, damaged = results["exact"], results[index]
    (row,) = qt.compare(world, {"exact": exact, "damaged": damaged}, metrics=["hit@1"]).table.to_dict("records")
    assert row["p_holm"] < 0.001 and row["wins"] > 5 * row["losses"]
    gated = qt.gate(world, candidate=damaged, baseline=exact, metric="hit@1", margin=0.01)
    assert gated.verdict == "FAIL"


@pytest.mark.thorough
def test_whole_int8_is_no_damage(world: Path, results: dict[str, Evaluation]) -> None:
    exact, quantized = results["exact"], results["int8"]
    (row,) = qt.compare(world, {"exact": exact, "int8": quantized}, metrics=["hit@1"]).table.to_dict("records")
    assert row["p_holm"] > 0.05 and abs(row["difference"]) < 0.01
    assert qt.gate(world, candidate=quantized, baseline=exact, metric="hit@1", margin=0.02).verdict == "PASS"
