"""What systems are evaluated on: a published set or the judgments of a file, in either direction."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backends.durable_files import file_sha256
from backends.run_files.run_reader import read_trec_qrels
from backends.sets import set_files
from backends.sets.overlap_files import read_overlap
from backends.sets.set_files import StoredSet
from builders.errors import UserError
from evaluation.duplicate_folding import find_representatives, fold_tables
from evaluation.evaluation_result import IMAGE_TO_TEXT
from evaluation.ground_truth import index_qrels
from evaluation.identifiers import to_id_array
from evaluation.metric_scores import transpose_qrels
from evaluation.run_evaluation import EvaluationSpec
from flows.steps import step


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Judgments with what is known about them. `description` is what a result states about the set; `stored` is None
    for judgments from a file, of which neither texts nor images are known. The images of a duplicate group are one
    image of `stored`; `representatives` has its id by those of the others. `overlap`: leaked or clean by query id,
    where `querytruth overlap` compared this version. `outside_queries`: those of the set that do not count, where only
    a part of it is evaluated."""

    description: dict[str, Any]
    qrels: pd.DataFrame
    stored: StoredSet | None = None
    representatives: pd.Series = field(default_factory=lambda: pd.Series(dtype="str"))
    overlap: pd.Series | None = None
    outside_queries: frozenset[str] = frozenset()

    @property
    def queries(self) -> pd.DataFrame | None:
        """The set's queries, with `overlap` where that is known."""
        queries = None if self.stored is None else self.stored.tables.queries
        if queries is None or self.overlap is None:
            return queries
        return queries.assign(overlap=queries["query_id"].map(self.overlap))

    @property
    def images(self) -> pd.DataFrame | None:
        """The set's images."""
        return None if self.stored is None else self.stored.tables.images


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """Judgments in one direction of search: `spec` has the truth, `gallery_ids` what can be found (None if unknown),
    and `qrels` the judgments in that direction."""

    judged_set: JudgedSet
    spec: EvaluationSpec
    qrels: pd.DataFrame

    @property
    def query_ids(self) -> pa.Array:
        """The ids of the queries that count, in order."""
        return self.spec.truth.query_ids

    @property
    def all_query_ids(self) -> pa.Array:
        """The ids of all queries, also of those without a relevant image."""
        return pa.concat_arrays([self.query_ids, to_id_array(sorted(self.spec.truth.queries_without_relevant))])

    @property
    def gallery_ids(self) -> pa.Array | None:
        """The ids of what can be found, in the set's order."""
        return self.spec.truth.image_ids if self.spec.truth.is_gallery else None

    @property
    def is_image_to_text(self) -> bool:
        """Whether images are the queries."""
        return self.spec.direction == IMAGE_TO_TEXT


@step("read set")
def load_judged_set(path: Path) -> JudgedSet:
    """Loads a version of a set. Raises UserError if it has no queries or no image is judged."""
    stored = set_files.read_set(path, ("queries", "images", "qrels", "duplicates", "candidate_judgments"))
    manifest = stored.manifest
    name = f"{manifest['name']}/v{manifest['version']}"
    if not len(stored.tables.queries) or not len(stored.tables.qrels):
        raise UserError("evaluate", name, "holds no judged queries", "name a recall, precision or generated set")
    described = {key: manifest[key] for key in ("name", "version", "content_digest", "kind", "title")}
    tables = stored.tables
    representatives = find_representatives(tables.duplicates, tables.images["image_id"])
    tables = fold_tables(tables, representatives)
    overlap = read_overlap(path, manifest["content_digest"], tables.queries["query_id"])
    return JudgedSet(described, tables.qrels, replace(stored, tables=tables), representatives, overlap)


@step("read qrels")
def load_judged_qrels(path: Path) -> JudgedSet:
    """Loads judgments in TREC's form alone."""
    qrels = read_trec_qrels(path)
    described = {"name": path.name.split(".")[0], "version": 0, "content_digest": file_sha256(path)[0]}
    return JudgedSet({**described, "kind": "qrels", "title": path.name}, qrels)


@step("number judgments")
def build_evaluation_view(
    judged: JudgedSet, direction: str, metrics: Sequence[str], precisions: Sequence[float]
) -> EvaluationView:
    """Returns the judgments for one direction."""
    is_image_to_text = direction == IMAGE_TO_TEXT
    qrels = transpose_qrels(judged.qrels) if is_image_to_text else judged.qrels
    queries, images = judged.queries, judged.images
    query_ids: Any = None
    gallery_ids: Any = None
    if queries is not None and images is not None:
        query_ids, gallery_ids = to_id_array(queries["query_id"]), to_id_array(images["image_id"])
        query_ids, gallery_ids = (gallery_ids, query_ids) if is_image_to_text else (query_ids, gallery_ids)
    spec = EvaluationSpec(
        set=judged.description,
        truth=index_qrels(qrels, gallery_ids, query_ids),
        direction=direction,
        queries=None if is_image_to_text else queries,
        clusters=None if is_image_to_text else cluster_queries(queries),
        metrics=metrics,
        precisions=precisions,
    )
    return EvaluationView(judged, spec, qrels)


def exclude_queries(view: EvaluationView, query_ids: frozenset[str]) -> EvaluationView:
    """Returns the view without some of its queries. Raises UserError where no other query has a relevant image."""
    if not query_ids:
        return view
    qrels = view.qrels[~view.qrels["query_id"].isin(query_ids)].reset_index(drop=True)
    queries = [name for name in view.all_query_ids.to_pylist() if name not in query_ids]
    return replace(view, qrels=qrels, spec=replace(view.spec, truth=index_qrels(qrels, view.gallery_ids, queries)))


def cluster_queries(queries: pd.DataFrame | None) -> pd.Series | None:
    """Returns per query id what it shares with others: its topic, else its source image, else its labels (asked in
    several styles and languages). Such queries are not independent evidence."""
    if queries is None:
        return None
    labels = queries["labels"].map(lambda row: "&".join(sorted(row)) if row is not None and len(row) else None)
    shared = queries["topic"].fillna(queries["source_image_id"]).fillna(labels)
    shared.index = pd.Index(queries["query_id"])
    return shared.dropna() if shared.notna().any() else None
