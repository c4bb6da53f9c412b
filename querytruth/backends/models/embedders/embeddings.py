"""Embeddings of an endpoint: OpenAI-compatible (`/v1/embeddings`) or like TEI (`/embed`), described by a YAML file.

embedder: embeddings
url: http://localhost:8080/v1/embeddings
model: bge-m3
"""

from __future__ import annotations

import base64
import hashlib
import io
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from PIL import Image
from pydantic import Field

from querytruth.array_types import Vectors
from querytruth.backends.models.embedders import EMBEDDERS, encode_in_batches
from querytruth.backends.plugins import PluginOptions
from querytruth.backends.search_systems import SearchFailure
from querytruth.backends.web.json_calls import JsonService, check_service_url
from querytruth.errors import UserError


class EmbeddingsOptions(PluginOptions):
    """`revision`: of the model's weights; '': vectors are kept by the endpoint's address. `header_env`: by header the
    environment variable with its value. `images`: whether the endpoint takes images, as data URIs."""

    url: str
    model: str
    revision: str = ""
    format: Literal["openai", "tei"] = "openai"
    header_env: dict[str, str] = Field(default_factory=dict)
    images: bool = False
    dimensions: int | None = Field(None, ge=1)
    batch: int = Field(32, ge=1, le=2048)
    deadline: float = Field(60, gt=0)
    tries: int = Field(4, ge=1, le=10)
    pause: float = Field(1, ge=0)


def load(options: EmbeddingsOptions) -> EndpointEmbedder:
    """Return the embedder; it sends nothing before the first text."""
    check_service_url(options.url)
    return EndpointImageEmbedder(options) if options.images else EndpointEmbedder(options)


class EndpointEmbedder:
    """Texts as vectors of length one. Raises UserError where the endpoint gives none."""

    compares_spelling = False

    def __init__(self, options: EmbeddingsOptions) -> None:
        self.options, self.name = options, options.model
        # Endpoints may serve different models under one name.
        place = hashlib.sha256(f"{options.url} {options.format} {options.dimensions}".encode()).hexdigest()[:12]
        self.revision = options.revision or f"endpoint-{place}"
        self.fingerprint = f"{self.name}@{self.revision}"
        self._service = JsonService({}, options.header_env, connections=1, deadline=options.deadline)

    @cached_property
    def dimensions(self) -> int:
        """Return the length of a vector; one call finds it if the options do not state it."""
        return self.options.dimensions or len(self._ask(["a"])[0])

    def check_language(self, texts: Iterable[str]) -> None:
        """Accept every language: an endpoint does not state which ones it knows."""

    def encode_texts(self, texts: Iterable[str]) -> Vectors:
        """Return (n, dimensions)."""
        return encode_in_batches(texts, self.options.batch, self._encode, self.dimensions)

    def _encode(self, inputs: Sequence[str]) -> Vectors:
        vectors = np.asarray(self._ask(inputs), dtype=np.float32)
        if vectors.shape != (len(inputs), self.dimensions) or not np.isfinite(vectors).all():
            reason = f"returned vectors of the shape {vectors.shape} for {len(inputs)} inputs"
            raise UserError(EMBEDDERS.stage, self.name, reason, f"set `dimensions`, which is {self.dimensions} now")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = vectors / np.maximum(lengths, 1e-12)
        return unit

    def _ask(self, inputs: Sequence[str]) -> list[Any]:
        options, given = self.options, list(inputs)
        is_openai = options.format == "openai"
        body = {"model": options.model, "input": given} if is_openai else {"inputs": given}
        for attempt in range(options.tries):
            try:
                return _read_vectors(self._service.call("POST", options.url, body), is_openai, len(given))
            except SearchFailure as failed:
                if failed.retry_after is None or attempt + 1 == options.tries:
                    reason = f"returned no vectors ({failed.reason}{': ' if failed.detail else ''}{failed.detail})"
                    raise UserError(EMBEDDERS.stage, self.name, reason, "check the endpoint") from None
                time.sleep(max(failed.retry_after, options.pause * 2**attempt))
        raise AssertionError("the last attempt returns or raises")


class EndpointImageEmbedder(EndpointEmbedder):
    """Texts and images in one space."""

    def encode_images(self, images: Iterable[Any]) -> Vectors:
        """Return (n, dimensions) of RGB images, or of arrays (height, width, 3)."""
        return encode_in_batches(map(_to_data_uri, images), self.options.batch, self._encode, self.dimensions)


def _to_data_uri(image: Any) -> str:
    out = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(out, "JPEG", quality=95)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode("ascii")


def _read_vectors(answer: Any, is_openai: bool, count: int) -> list[Any]:
    """Return the vectors in the order of the inputs (numbered in OpenAI's form). Raises SearchFailure."""
    try:
        if is_openai:
            answer = [row["embedding"] for row in sorted(answer["data"], key=lambda row: row.get("index", 0))]
        vectors = [[float(number) for number in vector] for vector in answer]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SearchFailure("no_vectors", "the answer has an unexpected form") from None
    if len(vectors) != count or len({len(vector) for vector in vectors}) > 1:
        raise SearchFailure("no_vectors", f"{len(vectors)} vectors for {count} inputs")
    return vectors
