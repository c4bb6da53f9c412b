"""Search systems under test: one module each, named as the value of `system` in a file, with `load(options)`.

A system answers with the ids of its index; `ids` states which column of a set's images they match. The addresses are
those of the user's own services, so private addresses are allowed, unlike for the crawler.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import Field, field_validator

from querytruth.backends.files.option_paths import PathOrName, read_plugin_file
from querytruth.backends.id_patterns import ID_COLUMNS, ID_PARTS, split_pattern
from querytruth.backends.plugins import ModelIdentity, PluginOptions, PluginPackage

if TYPE_CHECKING:
    from querytruth.array_types import Vectors

SEARCH_SYSTEMS = PluginPackage("querytruth.backends.search_systems", "search system", "load search system")


class SearchSystemOptions(PluginOptions):
    """The options of every system. `ids`: which column of the set's images the answers name, the `sha1` of their
    files, in hex or base64, or a pattern such as `photo:{stem}.webp`; times in seconds."""

    ids: str = "image_id"
    concurrency: int = Field(4, ge=1, le=256)
    deadline: float = Field(10, gt=0, le=600)  # of one attempt
    tries: int = Field(3, ge=1, le=10)
    pause: float = Field(0.5, ge=0, le=60)  # before the first retry; doubled with each

    @field_validator("ids")
    @classmethod
    def _check_ids(cls, value: str) -> str:
        if value not in ID_COLUMNS and split_pattern(value) is None:
            parts = ", ".join(f"{{{part}}}" for part in ID_PARTS)
            raise ValueError(f"{value!r} is neither one of {', '.join(ID_COLUMNS)} nor a pattern with one of {parts}")
        return value


class VectorIndexOptions(SearchSystemOptions):
    """The options of an index of vectors: `embedder` turns the texts of queries into vectors, and is a name, a folder
    or a file as everywhere."""

    embedder: PathOrName


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result: the id in the system's index, and its score, None where the system gives none."""

    id: str
    score: float | None = None


class SearchFailure(Exception):
    """A query without an answer. `reason` is a code; `retry_after` is the shortest pause before a retry in seconds
    (None: do not retry)."""

    def __init__(self, reason: str, detail: str = "", retry_after: float | None = None) -> None:
        self.reason, self.detail, self.retry_after = reason, detail, retry_after
        super().__init__(f"{reason}: {detail}")


class SearchSystem(Protocol):
    """The interface that `load` returns. The identity is what recorded answers depend on; it has no secret."""

    @property
    def options(self) -> SearchSystemOptions: ...

    @property
    def identity(self) -> ModelIdentity: ...

    def search(self, text: str, k: int) -> list[SearchHit]:
        """Return at most k hits, the best first; called by several threads. Raises SearchFailure."""

    def count_items(self) -> int | None:
        """Return the number of items in the index, None where that is unknown. Raises SearchFailure."""


@runtime_checkable
class ImageSearchSystem(SearchSystem, Protocol):
    """A system that also finds texts by images."""

    @property
    def takes_images(self) -> bool:
        """Return whether the file describes a search by images, and so not by texts."""

    def search_image(self, image: bytes, k: int) -> list[SearchHit]:
        """Return at most k hits for the bytes of an image, the best first; called by several threads. The ids are
        those of queries, or their texts. Raises SearchFailure."""


@dataclass(frozen=True, slots=True)
class SystemFile:
    """A system and its name, as a file describes them."""

    name: str
    type: str
    system: SearchSystem


def load_system_file(path: Path) -> SystemFile:
    """Return the system that a YAML file describes: `system` is its type, `name` its name (the file's without one),
    and all other keys are the options of the type. Relative paths are below the file's folder. Raises UserError."""
    plugin, options = read_plugin_file(SEARCH_SYSTEMS, "system", path)
    name = str(options.pop("name", None) or path.stem)
    return SystemFile(name, plugin, SEARCH_SYSTEMS.load_plugin(plugin, options))


class QueryEncoder:
    """Turn texts into vectors with an embedder, which is loaded at the first text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._embedder: Any = None

    def encode(self, text: str) -> "Vectors":
        """Return the vector of a text, (dimensions,)."""
        from querytruth.backends.models.embedders import load_query_embedder

        if self._embedder is None:
            self._embedder = load_query_embedder(self.name)
        vector: Vectors = self._embedder.encode_texts([text])[0]
        return vector
