"""A search service is evaluated, recorded and replayed; every fault is counted exactly."""

import base64
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

import querytruth as qt
from querytruth.backends.id_patterns import map_ids
from querytruth.review.result_pool import read_result_pool
from querytruth.sets.set_files import locate_images, read_set
from tests.loopback import CannedResponse, Loopback, LoopbackAnswer, ReceivedRequest, send_raw, stay_silent
from tests.small_sets import image_id_of, publish_small_set, small_tables

Run = Callable[..., tuple[str, str]]
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
    found = json.loads(run("search", "--trial", "--system", "mine.yaml", "dogs", "--json")[0])
    assert [hit["id"] for hit in found["hits"]] == ["holiday/dog 1.jpg", "holiday/nowhere 1.jpg"]
    service.odd["dogs"] = CannedResponse("", status=500)
    assert "did not answer (http_500" in run("search", "--trial", "--system", "mine.yaml", "dogs", code=1)[1]


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
    assert (
        f"http (load search system): {reason}. Next: "
        in run("search", "--trial", "--system", "mine.yaml", "x", code=1)[1]
    )
