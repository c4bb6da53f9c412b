"""The keys of the definition of a set of own queries."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from builders.gallery.definition import GallerySource
from querytruth import definitions


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
    """A set of own queries on a gallery. `queries`: the log or list; `sample` null: all queries."""

    kind: Literal["queries"] = "queries"
    queries: Path
    columns: LogColumnOptions = LogColumnOptions()
    sample: QuerySampleOptions | None = QuerySampleOptions()
