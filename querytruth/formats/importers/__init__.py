"""Import formats: one module each, named as the format, with a `read` for the files as their publisher ships them.

`read(source, split, image_store)` returns the tables with the files' own ids; images inside other files go into
`image_store`. A file with a wrong form is an error with file, line and reason; wrong entries (duplicate, dangling, no
image) go into the ledger.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.backends.files.text_files import source_folder
from querytruth.backends.files.text_formats import detect_language
from querytruth.backends.plugins import PluginPackage
from querytruth.formats.imported_tables import LARGEST_GRADE
from querytruth.formats.set_images import ImageStore
from querytruth.records import are_own_ids, empty_frame

IMPORTERS = PluginPackage(
    "querytruth.formats.importers", "format", "import", {"golden": "querytruth.checks.golden_file"}
)
_FAR = 1 << 31  # more than any grade
ImportRow = tuple[Any, ...]
ImportRejection = tuple[str, str, str, str]  # kind (query, image), item, reason, detail


@dataclass(frozen=True, slots=True)
class ImportedTables:
    """The content of a publisher's files. Ids are the publisher's, as text. `keeps_ids`: the files are our own export
    and have its ids, which `import_tables` accepts only if all have the form of our ids.

    `queries`: query, text, language, style, level, and other columns of QUERIES_SCHEMA. `images`: image, file_name,
    place (in the image store, None for a file of its own), and other columns of IMAGES_SCHEMA. `qrels`: query, image,
    relevance, judged_by, evidence. `rejections`: invalid entries. `files`: all files that were read. `render`: size and
    mode of images that our set rendered.
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
    render: Mapping[str, Any] = field(default_factory=dict)
    keeps_ids: bool = False


def import_tables(name: str, source: Path, split: str | None, image_store: ImageStore) -> ImportedTables:
    """Read a split (None: the one for evaluation) of a file or folder in the format. Raises UserError for an unknown
    format or an invalid file."""
    importer = IMPORTERS.import_plugin(name)
    with source_folder(source):
        imported: ImportedTables = importer.read(source, split, image_store)
    if not imported.keeps_ids or are_own_ids(imported.images["image"], imported.queries["query"]):
        return imported
    foreign = {  # columns with ids in them
        "queries": imported.queries.drop(columns=["source_image_id", "twin"], errors="ignore"),
        "images": imported.images.drop(columns="duplicate_group", errors="ignore"),
    }
    return replace(imported, **foreign, duplicates=empty_frame("duplicates"), keeps_ids=False)


_GRADES_TO_COME = {"2": "relevant, checked by a person", "1": "partly relevant", "0": "not relevant"}


def list_grades(relevances: Iterable[int], name: str) -> dict[str, str]:
    """Return the grades that a set can have, from the highest, each described as `name` and its number; those that
    people may give where nothing is judged yet."""
    grades = sorted({max(relevance, 0) for relevance in relevances if relevance <= LARGEST_GRADE}, reverse=True)
    return {str(grade): f"{name} {grade}" for grade in grades} or _GRADES_TO_COME


def build_query_table(rows: Iterable[ImportRow], style: str, language: str | None = None) -> pd.DataFrame:
    """Return queries from (query, text); without `language`, that of each text is detected."""
    frame = pd.DataFrame(list(rows), columns=["query", "text"], dtype="str")
    languages = [detect_language(text) for text in frame["text"]] if language is None else language
    return frame.assign(language=pd.Series(languages, index=frame.index, dtype="str"), style=style, level=1)


def build_image_table(rows: Iterable[ImportRow], columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return images from (image, file_name, place) and the further `columns`."""
    return pd.DataFrame(list(rows), columns=pd.Index(["image", "file_name", "place", *columns]))


def build_judgment_table(rows: Iterable[ImportRow], judged_by: str) -> pd.DataFrame:
    """Return judgments from (query, image, relevance); a relevance too large for any column becomes another value that
    is refused."""
    frame = pd.DataFrame(list(rows), columns=["query", "image", "relevance"], dtype="object")
    frame["relevance"] = [max(min(relevance, _FAR), -_FAR) for relevance in frame["relevance"]]
    frame = frame.astype({"query": "str", "image": "str", "relevance": "int64"})
    return frame.assign(judged_by=judged_by, evidence=None)
