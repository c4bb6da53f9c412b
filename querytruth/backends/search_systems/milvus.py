"""A collection in Milvus, on a server or in a file (milvus-lite)."""

from __future__ import annotations

import threading
from typing import Any

from querytruth.backends.files.option_paths import PathOrUrl
from querytruth.backends.plugins import ModelIdentity, read_secret
from querytruth.backends.search_systems import (
    SEARCH_SYSTEMS,
    QueryEncoder,
    SearchFailure,
    SearchHit,
    VectorIndexOptions,
)
from querytruth.backends.web.json_calls import check_service_url


class MilvusOptions(VectorIndexOptions):
    """`uri`: of a server, or a local file of milvus-lite. `id_field`: the field with the id; `vector_field`: the field
    with the vectors; `token_env`: the variable with the token. `is_distance`: whether a smaller score is better."""

    uri: PathOrUrl
    collection: str
    id_field: str = "id"
    vector_field: str = "vector"
    token_env: str | None = None
    is_distance: bool = False


def load(options: MilvusOptions) -> MilvusIndex:
    """Return the system. Raises UserError for a bad address, ModuleNotFoundError without pymilvus."""
    if "://" in options.uri:
        check_service_url(options.uri)
    import pymilvus  # noqa: F401 - missing is an error before the first query

    return MilvusIndex(options)


class MilvusIndex:
    """A collection of entities."""

    def __init__(self, options: MilvusOptions) -> None:
        self.options, self._encoder = options, QueryEncoder(options.embedder)
        self._lock = threading.Lock()
        self._client_or_none: Any = None

    @property
    def identity(self) -> ModelIdentity:
        """Return the collection and the embedder."""
        fields = {"uri", "collection", "id_field", "vector_field", "is_distance", "embedder"}
        return ModelIdentity("milvus", "", self.options.model_dump(mode="json", include=fields))

    def search(self, text: str, k: int) -> list[SearchHit]:
        """Return the nearest entities. Raises SearchFailure."""
        options = self.options
        (found,) = self._call(
            "search",
            collection_name=options.collection,
            data=[self._encoder.encode(text).tolist()],
            anns_field=options.vector_field,
            limit=k,
            output_fields=[options.id_field],
            timeout=options.deadline,
        )
        sign = -1 if options.is_distance else 1
        return [SearchHit(str(hit["entity"].get(options.id_field, "")), sign * float(hit["distance"])) for hit in found]

    def count_items(self) -> int | None:
        """Return the number of entities."""
        return int(self._call("get_collection_stats", collection_name=self.options.collection)["row_count"])

    def _call(self, name: str, **arguments: object) -> Any:
        try:
            return getattr(self._open_client(), name)(**arguments)
        except Exception as error:  # the client raises those of gRPC and of its own
            raise SearchFailure("milvus_error", type(error).__name__, 0.0) from None

    def _open_client(self) -> Any:
        with self._lock:
            if self._client_or_none is None:
                from pymilvus import MilvusClient

                token = read_secret(self.options.token_env, SEARCH_SYSTEMS.stage) if self.options.token_env else ""
                self._client_or_none = MilvusClient(uri=self.options.uri, token=token)
            return self._client_or_none
