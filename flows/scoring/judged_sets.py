"""What systems are evaluated on: a published set, or the judgments of a file, either way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backends.durable_files import file_sha256
from backends.run_files.trec_files import read_trec_qrels
from backends.sets import set_files
from backends.sets.set_files import StoredSet
from builders.errors import UserError
from evaluation.evaluated import IMAGE_TO_TEXT
from evaluation.evaluating import Asked
from evaluation.identifiers import ids_of
from evaluation.scoring import turned
from evaluation.truth import number_truth
from flows.steps import step


@dataclass(frozen=True, slots=True)
class Judged:
    """Judgments with all that is known around them. `described` is what a result says of the set; `stored` is None for
    a file's judgments, of which neither texts nor pictures are known."""

    described: dict[str, Any]
    qrels: pd.DataFrame
    stored: StoredSet | None = None

    @property
    def queries(self) -> pd.DataFrame | None:
        """The set's queries."""
        return None if self.stored is None else self.stored.tables.queries

    @property
    def images(self) -> pd.DataFrame | None:
        """The set's pictures."""
        return None if self.stored is None else self.stored.tables.images


@dataclass(frozen=True, slots=True)
class View:
    """Judgments as one direction sees them: `asked` has the truth, `gallery_ids` is what can be found (None where
    nobody knows), `qrels` stand as they are searched."""

    judged: Judged
    asked: Asked
    qrels: pd.DataFrame

    @property
    def query_ids(self) -> pa.Array:
        """The queries that count, in order."""
        return self.asked.truth.query_ids

    @property
    def gallery_ids(self) -> pa.Array | None:
        """What can be found, in the set's order."""
        return self.asked.truth.image_ids if self.asked.truth.is_gallery else None

    @property
    def is_turned(self) -> bool:
        """Whether pictures ask for texts."""
        return self.asked.direction == IMAGE_TO_TEXT


@step("read set")
def judged_set(path: Path) -> Judged:
    """A version of a set; one without queries, or of which no picture is judged, is refused."""
    stored = set_files.read(path, ("queries", "images", "qrels", "duplicates", "suspicions"))
    manifest = stored.manifest
    name = f"{manifest['name']}/v{manifest['version']}"
    if not len(stored.tables.queries) or not len(stored.tables.qrels):
        raise UserError("evaluate", name, "holds no judged queries", "name a recall, precision or generated set")
    described = {key: manifest[key] for key in ("name", "version", "content_digest", "kind", "title")}
    return Judged(described, stored.tables.qrels, stored)


@step("read qrels")
def judged_file(path: Path) -> Judged:
    """Judgments in TREC's form alone."""
    qrels = read_trec_qrels(path)
    described = {"name": path.name.split(".")[0], "version": 0, "content_digest": file_sha256(path)[0]}
    return Judged({**described, "kind": "qrels", "title": path.name}, qrels)


@step("number judgments")
def view_of(judged: Judged, direction: str, metrics: Sequence[str], precisions: Sequence[float]) -> View:
    """The judgments for one direction."""
    is_turned = direction == IMAGE_TO_TEXT
    qrels = turned(judged.qrels) if is_turned else judged.qrels
    queries, images = judged.queries, judged.images
    asking: Any = None
    gallery: Any = None
    if queries is not None and images is not None:
        asking, gallery = ids_of(queries["query_id"]), ids_of(images["image_id"])
        asking, gallery = (gallery, asking) if is_turned else (asking, gallery)
    asked = Asked(
        set=judged.described,
        truth=number_truth(qrels, gallery, asking),
        direction=direction,
        queries=None if is_turned else queries,
        clusters=None if is_turned else clusters_of(queries),
        metrics=metrics,
        precisions=precisions,
    )
    return View(judged, asked, qrels)


def clusters_of(queries: pd.DataFrame | None) -> pd.Series | None:
    """Per query id what it shares with others: its topic, else the picture that it was written of, else its labels (the
    same ones are asked for in several styles and languages). Such queries are no independent evidence."""
    if queries is None:
        return None
    labels = queries["labels"].map(lambda row: "&".join(sorted(row)) if row is not None and len(row) else None)
    shared = queries["topic"].fillna(queries["source_image_id"]).fillna(labels)
    shared.index = pd.Index(queries["query_id"])
    return shared.dropna() if shared.notna().any() else None
