"""Import formats: one file each, whose name is the format's and whose `read` reads the files as their publisher ships
them.

`read(source, split, unpack)` returns what the files say in their own ids; it writes nothing but pictures that come
inside other files, which go to `unpack`. What is wrong with the form of a file is refused with file, line and reason;
what is wrong with single entries (doubled, dangling, no picture) is for the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from backends.interchange.image_store import ImageStore
from backends.interchange.text_files import detect_language
from backends.plugin_loader import PluginPackage
from builders.records import empty_frame

IMPORTERS = PluginPackage("backends.importers", "format", "import")
ImportRow = tuple[Any, ...]
ImportRejection = tuple[str, str, str, str]  # kind (query, picture), item, reason, detail


@dataclass(frozen=True, slots=True)
class ImportedTables:
    """What a publisher's files say. Ids are the publisher's own, as text, unless `keeps_ids`: then they are ours.

    `queries`: query, text, language, style, level, and what else records.QUERIES has. `images`: image, file_name, place
    (of an unpacked picture below `unpack`, else None), and what else records.IMAGES has. `qrels`: query, image,
    relevance, judged_by, evidence. `rejections`: kind (query, picture), item, reason, detail of entries that never were
    any. `files`: all that was read.
    """

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    files: Sequence[Path]
    grades: dict[str, str]
    title: str = ""
    licence: str = ""
    known_limitations: Sequence[str] = ()
    rejections: Sequence[ImportRejection] = ()
    duplicates: pd.DataFrame = field(default_factory=lambda: empty_frame("duplicates"))
    keeps_ids: bool = False


class Importer(Protocol):
    """What `load` gives."""

    def __call__(self, source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
        """Read the split (None: the one that is evaluated on) of the files in, or at, `source`."""
        ...


def load_importer(name: str) -> Importer:
    """The importer of a format."""
    importer: Importer = IMPORTERS.import_plugin(name).read
    return importer


def build_query_table(rows: Iterable[ImportRow], style: str, language: str | None = None) -> pd.DataFrame:
    """Queries from (query, text); where no language is given, that of each text."""
    frame = pd.DataFrame(list(rows), columns=["query", "text"], dtype="str")
    languages = [detect_language(text) for text in frame["text"]] if language is None else language
    return frame.assign(language=pd.Series(languages, index=frame.index, dtype="str"), style=style, level=1)


def build_image_table(rows: Iterable[ImportRow], columns: Sequence[str] = ()) -> pd.DataFrame:
    """Pictures from (image, file_name, place) and further columns of records.IMAGES."""
    return pd.DataFrame(list(rows), columns=pd.Index(["image", "file_name", "place", *columns]))


def build_judgment_table(rows: Iterable[ImportRow], judged_by: str, relevance: int | None = 1) -> pd.DataFrame:
    """Judgments from (query, image), or with relevance None from (query, image, relevance)."""
    if relevance is not None:
        rows = ((query, image, relevance) for query, image in rows)
    frame = pd.DataFrame(list(rows), columns=["query", "image", "relevance"])
    return frame.astype({"query": "str", "image": "str", "relevance": "int64"}).assign(
        judged_by=judged_by, evidence=None
    )
