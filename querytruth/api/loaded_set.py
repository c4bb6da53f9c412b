"""A published set as data frames, and its queries with their images in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pandas as pd

from querytruth.backends.files.bucket_urls import SetUrl, join_set_url
from querytruth.errors import UserError
from querytruth.formats.set_card import render_set_card
from querytruth.review.search_views import render_facts, render_query
from querytruth.sets import benchmark_set, published_files, set_files, set_thumbnails
from querytruth.sets import manifest as manifest_reading
from querytruth.sets.ledger import FUNNEL_COLUMNS, tabulate_funnel
from querytruth.sets.set_files import RemoteUse, StoredSet, locate_set_images

DATASETS_FOLDER = Path("datasets")


class _HasVersionFolder(Protocol):
    @property
    def path(self) -> Path: ...


AnySet: TypeAlias = str | Path | _HasVersionFolder  # name, name/v3, a folder, a LoadedSet or a SetBuild


def load(set_: AnySet, *, out: str | Path = DATASETS_FOLDER, images: Sequence[str | Path] = ()) -> LoadedSet:
    """Read a version of a set: `name` (the newest), `name/v3`, its folder or URL. `out`: where sets lie; `images`:
    folders or URLs outside the set in which its images may be read. Raises UserError where it cannot be read."""
    path = find_version(set_, out, remote="whole")
    with published_files.image_roots([str(root) for root in images]):
        return LoadedSet(set_files.read_set(path))


def find_version(set_: AnySet, out: str | Path = DATASETS_FOLDER, *, remote: RemoteUse = "refused") -> Path:
    """Return the folder of a version, as `querytruth.sets.set_files.find_set`. Raises UserError where there is none."""
    if isinstance(set_, str | Path):
        return set_files.find_set(str(set_), Path(out), remote=remote)
    return set_.path


def describe_place(set_: str, out: Path, version: Path) -> str:
    """Return the folder of a version, or its URL where `version` is a copy of one in object storage."""
    url = join_set_url(set_, str(out))
    return str(version) if url is None else str(SetUrl.parse(url).at_version(int(version.name.removeprefix("v"))))


def read_manifest(set_: AnySet, out: str | Path = DATASETS_FOLDER) -> dict[str, Any]:
    """Return the manifest of a version without its tables. Raises UserError where it cannot be read."""
    return manifest_reading.read_manifest(find_version(set_, out, remote="tables"))


@dataclass(frozen=True, slots=True, repr=False)
class LoadedSet:
    """A version of a set. Its tables are pandas data frames with the columns of docs/set-format.md."""

    stored: StoredSet

    @property
    def path(self) -> Path:
        """The folder of the version."""
        return self.stored.path

    @property
    def name(self) -> str:
        """The name and version, such as family-album/v2."""
        return f"{self.manifest['name']}/v{self.manifest['version']}"

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest: definition, inputs, models, prompts, thresholds, funnel, counts and digests."""
        return self.stored.manifest

    @property
    def tables(self) -> benchmark_set.Tables:
        """All tables of the set."""
        return self.stored.tables

    @property
    def queries(self) -> pd.DataFrame:
        """A row per query: query_id, text, language, style, level, labels …"""
        return self.tables.queries

    @property
    def images(self) -> pd.DataFrame:
        """A row per image: image_id, path, file_name, width, height, licence …"""
        return self.tables.images

    @property
    def qrels(self) -> pd.DataFrame:
        """A row per judged pair: query_id, image_id, relevance, judged_by, evidence."""
        return self.tables.qrels

    @property
    def ledger(self) -> pd.DataFrame:
        """A row per item that is not in the set: stage, kind, item, reason …"""
        return self.tables.ledger

    @property
    def funnel(self) -> pd.DataFrame:
        """A row per stage of the build, with the numbers that entered and were accepted."""
        return pd.DataFrame(tabulate_funnel(self.manifest["funnel"]), columns=FUNNEL_COLUMNS)

    @property
    def card(self) -> str:
        """The card of the set, as Markdown."""
        return render_set_card(self.manifest, self.tables)

    def locate_images(self, image_ids: Sequence[str] | None = None) -> dict[str, str]:
        """Return the path or URL of each image that can be read here, by image_id; None: of all."""
        return locate_set_images(self.stored, self.images["image_id"].tolist() if image_ids is None else image_ids)

    def show(self, query: str, *, max_images: int = 24) -> QueryView:
        """Return a query, given by its id or its text, with its judged images: a notebook shows them, the highest
        grade first. Raises UserError for an unknown query."""
        queries = self.queries
        rows = queries[queries["query_id"] == query]
        rows = rows if len(rows) else queries[queries["text"] == query]
        if not len(rows):
            raise UserError("show", query, f"is no query of {self.name}", "give a query_id or a text of its `queries`")
        row = rows.iloc[0]
        judgments = self.qrels[self.qrels["query_id"] == row["query_id"]].drop(columns="query_id")
        judgments = judgments.sort_values(["relevance", "image_id"], ascending=[False, True], kind="stable")
        names = self.images.set_index("image_id")["file_name"]
        judgments = judgments.assign(file_name=judgments["image_id"].astype("str").map(names)).reset_index(drop=True)
        shown = judgments["image_id"].astype("str").head(max_images).tolist()
        return QueryView(row, judgments, set_thumbnails.make_set_thumbnails(self.stored, shown))

    def __repr__(self) -> str:
        """Name, kind and numbers in one line."""
        return f"<{self.manifest['kind']} set {self.name}: {', '.join(f'{n:,} {what}' for what, n in self._counts())}>"

    def _repr_html_(self) -> str:
        facts: list[tuple[str, object]] = [*self._counts(), ("licence", self.manifest["licence"] or "not stated")]
        facts += [("content digest", self.manifest["content_digest"]), ("folder", str(self.path))]
        samples = self.queries["text"].head(5).tolist()
        return render_facts(f"{self.manifest['title']} · {self.manifest['kind']} set {self.name}", facts, samples)

    def _counts(self) -> list[tuple[str, int]]:
        counts = self.manifest["counts"]
        return [(what, counts[what]) for what in ("queries", "images", "judgments") if counts[what]]


@dataclass(frozen=True, slots=True, repr=False)
class QueryView:
    """A query and its judged images. `query`: its row; `judgments`: image_id, relevance, judged_by, evidence and
    file_name, the highest grade first; `thumbnails`: JPEGs of the shown images by image_id."""

    query: pd.Series
    judgments: pd.DataFrame
    thumbnails: dict[str, bytes]

    def __repr__(self) -> str:
        """The text of the query, and a line per image."""
        rows = [f"  {row.relevance}  {row.file_name or row.image_id}" for row in self.judgments.head(24).itertuples()]
        count = "1 judged image" if len(self.judgments) == 1 else f"{len(self.judgments):,} judged images"
        return "\n".join([f"{self.query['text']}  ({count})", *rows])

    def _repr_html_(self) -> str:
        return render_query(self.query, self.judgments, self.thumbnails)
