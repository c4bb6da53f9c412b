"""An OpenAI-compatible endpoint as the embedder of every place that takes one: asked once, in batches, with retries;
its key is in no file."""

import base64
import csv
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import querytruth as qt
from querytruth.backends.models.embedders.embeddings import EmbeddingsOptions, load
from querytruth.sets import set_files
from tests.flows.stub_generator import StubGenerator, answering, define_stages, run_both_stages
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.small_sets import publish_small_set, small_tables
from tests.worlds import CAPTIONS, build_of, draw_album

KEY = "sk-very-secret-0123456789"
BATCH = 3


class Endpoint:
    """Vectors of texts by their digest, of images by their bytes; `are_alike`: one vector for everything. It is busy at
    the first request."""

    def __init__(self) -> None:
        self.are_alike, self.inputs, self._is_busy = False, list[str](), True
        self.server = Loopback(self.answer)

    def answer(self, request: ReceivedRequest) -> CannedResponse:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return CannedResponse("no", status=401)
        if self._is_busy:
            self._is_busy = False
            return CannedResponse(f"busy, {KEY}", status=429, headers={"Retry-After": "0"})
        given = request.json["input"]
        assert len(given) <= BATCH and request.json["model"] == "tiny"
        self.inputs += given
        rows = [{"index": n, "embedding": self.embed(one)} for n, one in enumerate(given)]
        return CannedResponse({"data": rows[::-1]})

    def embed(self, given: str) -> list[float]:
        if given.startswith("data:"):
            Image.open(io.BytesIO(base64.b64decode(given.partition(",")[2]))).verify()
        seed = 0 if self.are_alike else int(hashlib.sha256(given.encode()).hexdigest()[:8], 16)
        return [float(number) for number in np.random.default_rng(seed).normal(size=24)]

    @property
    def images(self) -> int:
        return sum(one.startswith("data:image/jpeg;base64,") for one in self.inputs)


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("EMBEDDINGS_AUTHORIZATION", f"Bearer {KEY}")
    running = Endpoint()
    lines = ["embedder: embeddings", f"url: {running.server.url}/v1/embeddings", "model: tiny", f"batch: {BATCH}"]
    lines += ["images: true", "pause: 0.001", "header_env: {Authorization: EMBEDDINGS_AUTHORIZATION}"]
    (tmp_path / "emb.yaml").write_text("\n".join(lines))
    yield running
    running.server.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3 and not [path for path in files if KEY.encode() in path.read_bytes()]


def test_two_endpoints_with_one_model_name_share_no_vectors_unless_a_revision_says_so() -> None:
    def fingerprint(url: str, **more: object) -> str:
        return load(EmbeddingsOptions.model_validate({"url": url, "model": "bge-m3", **more})).fingerprint

    first, other = "http://localhost:8080/v1/embeddings", "http://localhost:8081/v1/embeddings"
    assert fingerprint(first) == fingerprint(first) != fingerprint(other)
    assert fingerprint(first) != fingerprint(first, dimensions=256), "a truncated vector is another one"
    assert fingerprint(first, revision="5617a9f") == fingerprint(other, revision="5617a9f") == "bge-m3@5617a9f"


@pytest.mark.thorough
def test_texts_and_images_of_an_evaluation_are_sent_once(endpoint: Endpoint, tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables(graded=False))
    model = str(tmp_path / "emb.yaml")
    first = qt.evaluate(stored.path, model=model, metrics=["hit@1"], store=True)
    assert set(stored.tables.queries["text"]) <= set(endpoint.inputs) and endpoint.images == 4
    sent = len(endpoint.inputs)
    again = qt.evaluate(stored.path, model=model, metrics=["hit@1"])
    assert len(endpoint.inputs) - sent <= 1 and endpoint.images == 4  # at most the question for the vectors' length
    assert again["hit@1"] == first["hit@1"] and len(first.run) > 0


@pytest.mark.thorough
def test_near_duplicates_are_what_the_endpoint_calls_alike(endpoint: Endpoint, tmp_path: Path) -> None:
    draw_album(tmp_path / "album", list(CAPTIONS))
    given = [f"images={tmp_path / 'album'}", f"out={tmp_path / 'sets'}", "render.size=64"]
    given += [f"near_duplicates.embedder={tmp_path / 'emb.yaml'}"]
    apart = build_of("gallery", ["name=apart", *given])
    assert len(set_files.read_set(apart.path).tables.images) == len(CAPTIONS) == endpoint.images
    assert [one["name"] for one in set_files.read_set(apart.path).manifest["models"]] == ["tiny"]
    endpoint.are_alike = True
    alike = build_of("gallery", ["name=alike", *given])
    kept = set_files.read_set(alike.path).tables.images
    assert len(kept) == 1 and endpoint.images == 2 * len(CAPTIONS)


@pytest.mark.thorough
def test_captions_are_compared_by_the_endpoint(endpoint: Endpoint, tmp_path: Path) -> None:
    draw_album(tmp_path / "album", list(CAPTIONS))
    rows = ["file_name,language,caption", *[f"{name}.png,zh,{text}" for name, text in CAPTIONS.items()]]
    (tmp_path / "captions.csv").write_text("\n".join(rows), encoding="utf-8")
    given = [f"images={tmp_path / 'album'}", "name=captions", f"out={tmp_path / 'sets'}", "render.size=64"]
    given += ["captions.model=captions_file", f"captions.options.path={tmp_path / 'captions.csv'}"]
    given += [f"ambiguity.text_embedder={tmp_path / 'emb.yaml'}"]
    result = build_of("recall", given)
    sent = [one for one in endpoint.inputs if one in CAPTIONS.values()]
    assert sorted(sent) == sorted(CAPTIONS.values())
    assert "tiny" in [one["name"] for one in set_files.read_set(result.path).manifest["models"]]
    assert not build_of("recall", given).is_new
    assert sorted(one for one in endpoint.inputs if one in CAPTIONS.values()) == sorted(sent)


@pytest.mark.thorough
def test_the_novelty_of_objects_is_judged_by_the_endpoint(endpoint: Endpoint, tmp_path: Path) -> None:
    with loopback(answering(StubGenerator())) as generator:
        objects = {"embedder": str(tmp_path / "emb.yaml"), "rounds": 2}
        done = run_both_stages(define_stages(tmp_path / "sets", generator.url, objects=objects))[1]
    found = {row["text"] for row in csv.DictReader(io.StringIO(done.file.read_text("utf-8-sig")))}
    assert done.health.accepted > 5 and found and found <= set(endpoint.inputs)
