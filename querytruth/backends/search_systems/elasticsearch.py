"""An index in Elasticsearch or OpenSearch, searched by texts (`fields`) or by vectors (`vector_field`)."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

import jmespath
from pydantic import Field

from querytruth.backends.files.option_paths import PathOrName
from querytruth.backends.plugins import ModelIdentity
from querytruth.backends.search_systems import SEARCH_SYSTEMS, QueryEncoder, SearchHit, SearchSystemOptions
from querytruth.backends.search_systems.http import read_hits
from querytruth.backends.web.json_calls import JsonService, check_service_url
from querytruth.errors import UserError

_CANDIDATES = 10  # per result, of each shard's approximate search


class ElasticsearchOptions(SearchSystemOptions):
    """`fields`: text fields with their weights, such as "title^2"; `vector_field` and `embedder`: a search by vectors.
    `id_field`: a field with the id; without it the document's `_id`. `header_env`: as of `http`."""

    url: str
    index: str
    dialect: Literal["elasticsearch", "opensearch"] = "elasticsearch"
    fields: list[str] = Field(default_factory=list)
    vector_field: str | None = None
    embedder: PathOrName | None = None
    id_field: str | None = None
    header_env: dict[str, str] = Field(default_factory=dict)


def load(options: ElasticsearchOptions) -> ElasticsearchIndex:
    """Return the system; it opens no connection. Raises UserError for options that do not fit together."""
    return ElasticsearchIndex(options)


class ElasticsearchIndex:
    """An index behind its REST interface."""

    def __init__(self, options: ElasticsearchOptions) -> None:
        check_service_url(options.url)
        if bool(options.fields) == bool(options.vector_field) or bool(options.vector_field) != bool(options.embedder):
            next_step = "give either fields, or vector_field and embedder"
            raise UserError(SEARCH_SYSTEMS.stage, "elasticsearch", "searches either texts or vectors", next_step)
        self.options = options
        self._encoder = None if options.embedder is None else QueryEncoder(options.embedder)
        self._id = jmespath.compile("_id" if options.id_field is None else f'_source."{options.id_field}"')
        self._service = JsonService({}, options.header_env, connections=options.concurrency, deadline=options.deadline)
        self._address = f"{options.url.rstrip('/')}/{quote(options.index, safe='')}"

    @property
    def identity(self) -> ModelIdentity:
        """Return the index and the fields that are searched."""
        fields = {"url", "index", "dialect", "fields", "vector_field", "embedder", "id_field"}
        return ModelIdentity("elasticsearch", "", self.options.model_dump(mode="json", include=fields))

    def search(self, text: str, k: int) -> list[SearchHit]:
        """Return the hits in the answer's order. Raises SearchFailure."""
        answer = self._service.call("POST", f"{self._address}/_search", self._body(text, k))
        return read_hits(answer, jmespath.compile("hits.hits"), self._id, jmespath.compile("_score"))[:k]

    def count_items(self) -> int | None:
        """Return the number of documents."""
        found = self._service.call("GET", f"{self._address}/_count")
        count = found.get("count") if isinstance(found, dict) else None
        return count if isinstance(count, int) else None

    def _body(self, text: str, k: int) -> dict[str, Any]:
        options, source = self.options, [self.options.id_field] if self.options.id_field else False
        body: dict[str, Any] = {"size": k, "_source": source}
        if self._encoder is None:
            return {**body, "query": {"multi_match": {"query": text, "fields": options.fields}}}
        vector = self._encoder.encode(text).tolist()
        if options.dialect == "opensearch":
            return {**body, "query": {"knn": {str(options.vector_field): {"vector": vector, "k": k}}}}
        found = {"field": options.vector_field, "query_vector": vector, "k": k, "num_candidates": k * _CANDIDATES}
        return {**body, "knn": found}
