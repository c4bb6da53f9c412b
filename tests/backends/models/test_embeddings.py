"""An OpenAI-compatible endpoint as an embedder: asked once, in batches, with retries; its key is in no file."""

import base64
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import querytruth as qt
from querytruth.backends.models.embedders.embeddings import EmbeddingsOptions, load
from tests.loopback import CannedResponse, Loopback, ReceivedRequest
from tests.small_sets import publish_small_set, small_tables

KEY = "sk-very-secret-0123456789"
BATCH = 3


class Endpoint:
    """Vectors of texts by their digest, of images by their bytes. It is busy at the first request."""

    def __init__(self) -> None:
        self.inputs, self._is_busy = list[str](), True
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
        seed = int(hashlib.sha256(given.encode()).hexdigest()[:8], 16)
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
