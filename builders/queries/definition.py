"""The keys of the definition of a set of own queries."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from builders.gallery.definition import GallerySource
from builders.queries.log_texts import PRIVATE_KINDS
from querytruth import definitions

PrivateKind = Literal["email", "card_number", "id_number", "telephone", "secret", "long_number"]
assert PrivateKind.__args__ == PRIVATE_KINDS  # type: ignore[attr-defined]


class LogColumnOptions(definitions.StrictModel):
    """The columns of the log by name; null: by the usual names (query, keyword, 搜索词 …), where one is there."""

    text: str | None = None
    id: str | None = None
    count: str | None = None
    language: str | None = None
    topic: str | None = None


class QuerySampleOptions(definitions.StrictModel):
    """Which queries are drawn. `by`: `frequency`: as many from those that make up the first third of all searches
    (head) as from the second (torso) and the last (tail); `question`: each question with the same chance."""

    count: int = Field(200, ge=1)
    by: Literal["frequency", "question"] = "frequency"


class QueriesDefinition(GallerySource):
    """A set of own queries on a gallery. `queries`: the log or list; `sample` null: all queries; `quarantine`: what
    looks private and is kept out."""

    kind: Literal["queries"] = "queries"
    queries: Path
    columns: LogColumnOptions = LogColumnOptions()
    sample: QuerySampleOptions | None = QuerySampleOptions()
    quarantine: list[PrivateKind] = Field(default_factory=lambda: list(PrivateKind.__args__))  # type: ignore[attr-defined]
