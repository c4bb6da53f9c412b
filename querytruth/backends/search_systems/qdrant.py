"""A collection in Qdrant, on a server or in a folder (its local mode)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from pydantic import model_validator

from querytruth.backends.plugins import ModelIdentity, read_secret
from querytruth.backends.search_systems import (
    SEARCH_SYSTEMS,
    QueryEncoder,
    SearchFailure,
    SearchHit,
    VectorIndexOptions,
)
from querytruth.backends.web.json_calls import check_service_url


class QdrantOptions(VectorIndexOptions):
    """`url` of a server, or `path` of a local folder. `vector`: the name of the vector, where points have several.
    `id_field`: a field of the payload; without it the point's id. `key_env`: the variable with the API key."""

    collection: str
    url: str | None = None
    path: Path | None = None
    vector: str | None = None
    id_field: str | None = None
    key_env: str | None = None

    @model_validator(mode="after")
    def _check_place(self) -> QdrantOptions:
        if (self.url is None) == (self.path is None):
            raise ValueError("give either url or path")
        return self


def load(options: QdrantOptions) -> QdrantIndex:
    """Return the system. Raises UserError for a bad address, ModuleNotFoundError without qdrant-client."""
    if options.url is not None:
        check_service_url(options.url)
    import qdrant_client  # noqa: F401 - missing is an error before the first query

    return QdrantIndex(options)


class QdrantIndex:
    """A collection of points."""

    def __init__(self, options: QdrantOptions) -> None:
        self.options, self._encoder = options, QueryEncoder(options.embedder)
        self._lock = threading.RLock()
        self._client: Any = None
        self._is_local = options.path is not None

    @property
    def identity(self) -> ModelIdentity:
        """Return the collection and the embedder."""
        fields = {"collection", "url", "path", "vector", "id_field", "embedder"}
        return ModelIdentity("qdrant", "", self.options.model_dump(mode="json", include=fields))

    def search(self, text: str, k: int) -> list[SearchHit]:
        """Return the nearest points. Raises SearchFailure."""
        options = self.options
        found = self._call(
            "query_points",
            collection_name=options.collection,
            query=self._encoder.encode(text).tolist(),
            using=options.vector,
            limit=k,
            with_payload=[options.id_field] if options.id_field else False,
        )
        return [SearchHit(_find_id(point, options.id_field), float(point.score)) for point in found.points]

    def count_items(self) -> int | None:
        """Return the number of points."""
        return int(self._call("count", collection_name=self.options.collection).count)

    def _call(self, name: str, **arguments: object) -> Any:
        try:
            with self._lock:  # the local mode is for one thread
                client = self._open_client()
                if self._is_local:
                    return getattr(client, name)(**arguments)
            return getattr(client, name)(**arguments)
        except Exception as error:  # the client raises those of HTTP, of gRPC and of its own
            raise SearchFailure("qdrant_error", type(error).__name__, 0.0) from None

    def _open_client(self) -> Any:
        if self._client is None:
            from qdrant_client import QdrantClient

            options = self.options
            if options.path is not None:
                self._client = QdrantClient(path=str(options.path))
            else:
                key = read_secret(options.key_env, SEARCH_SYSTEMS.stage) if options.key_env else None
                seconds = max(1, round(options.deadline))
                self._client = QdrantClient(url=options.url, api_key=key, timeout=seconds)
        return self._client


def _find_id(point: Any, field: str | None) -> str:
    value = point.id if field is None else (point.payload or {}).get(field)
    return "" if value is None else str(value)
