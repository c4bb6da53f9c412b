"""What systems are evaluated on: a published set, a part of it, or the judgments of a file, in either direction.

A part is its queries of one language, level, style, topic or family, and all its images; a slice is named by
aspect=value. Other programs may name images in their own way, copies included.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from querytruth.array_types import BoolArray
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.steps import step
from querytruth.errors import UserError, suggest_choice
from querytruth.evaluation.evaluation_result import IMAGE_TO_TEXT, describe_part
from querytruth.evaluation.ground_truth import find_representatives, fold_tables, index_qrels, to_id_array
from querytruth.evaluation.metric_scores import transpose_qrels
from querytruth.evaluation.result_types import EvaluatedSet
from querytruth.evaluation.run_evaluation import EvaluationSpec, find_query_aspects
from querytruth.evaluation.run_files import read_trec_qrels
from querytruth.evaluation.traffic import select_log_sample
from querytruth.sets import set_files
from querytruth.sets.absent_queries import list_absent
from querytruth.sets.leaked_queries import read_overlap
from querytruth.sets.set_files import StoredSet, read_set

PART_COLUMNS = ("language", "level", "style", "topic", "family")
_STAGE = "choose part"


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Judgments with their metadata. `description`: what a result states about the set; `stored`: None for judgments
    from a file, which have neither texts nor images. The images of a duplicate group are one image of `stored`;
    `representatives` maps the others to its id. `overlap`: leaked or clean by query id, where `querytruth overlap`
    compared this version. `outside_queries`: queries of the set that do not count, where only a part of it is
    evaluated."""

    description: EvaluatedSet
    qrels: pd.DataFrame
    stored: StoredSet | None = None
    representatives: pd.Series = field(default_factory=lambda: pd.Series(dtype="str"))
    overlap: pd.Series | None = None
    outside_queries: frozenset[str] = frozenset()

    @property
    def queries(self) -> pd.DataFrame | None:
        """Return the set's queries, with `overlap` where that is known."""
        queries = None if self.stored is None else self.stored.tables.queries
        if queries is None or self.overlap is None:
            return queries
        return queries.assign(overlap=queries["query_id"].map(self.overlap))

    @property
    def images(self) -> pd.DataFrame | None:
        """Return the set's images."""
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
        """Return the ids of the queries that count, in order."""
        return self.spec.truth.query_ids

    @property
    def all_query_ids(self) -> pa.Array:
        """Return the ids of all queries, also of those without a relevant image."""
        return pa.concat_arrays([self.query_ids, to_id_array(sorted(self.spec.truth.queries_without_relevant))])

    @property
    def asked_ids(self) -> pa.Array:
        """Return the ids of the queries that a system is asked: of texts all, since those that do not count show, too,
        what a system returns where nothing is right or nothing judged."""
        return self.query_ids if self.is_image_to_text else self.all_query_ids

    @property
    def gallery_ids(self) -> pa.Array | None:
        """Return the ids of what can be found, in the set's order."""
        return self.spec.truth.image_ids if self.spec.truth.is_gallery else None

    @property
    def is_image_to_text(self) -> bool:
        """Return whether images are the queries."""
        return self.spec.direction == IMAGE_TO_TEXT

    def list_absent(self) -> list[str]:
        """Return the ids of this view's own queries that the gallery has no answer to (`absent_queries`)."""
        queries = self.spec.queries
        if queries is None or self.gallery_ids is None or self.is_image_to_text:
            return []
        here = queries[queries["query_id"].isin(self.spec.truth.queries_without_relevant)]
        return list_absent(here, self.qrels, len(self.gallery_ids)) if len(here) else []

    def list_waiting(self) -> list[str]:
        """Return the ids of the set's other queries without a relevant image: they wait for judgments."""
        if self.judged_set.stored is None or self.is_image_to_text:
            return []
        return sorted(self.spec.truth.queries_without_relevant.difference(self.list_absent()))


@step("read set")
def load_judged_set(path: Path, *, needs_judgments: bool = True) -> JudgedSet:
    """Load a version of a set. Raises UserError if it has no queries, or no judgment where one is needed."""
    names = ("queries", "images", "qrels", "duplicates", "candidate_judgments", "query_aliases")
    stored = set_files.read_set(path, names)
    manifest = stored.manifest
    name = f"{manifest['name']}/v{manifest['version']}"
    if needs_judgments and len(stored.tables.queries) and not len(stored.tables.qrels):
        next_step = f"judge results of systems: querytruth review {manifest['name']} --run RUN, then querytruth apply"
        raise UserError("evaluate", name, "has no judgments yet", f"{next_step} {manifest['name']}")
    if not len(stored.tables.queries):
        raise UserError("evaluate", name, "has no queries", "give a recall, precision or generated set")
    described: EvaluatedSet = {
        "name": manifest["name"],
        "version": manifest["version"],
        "content_digest": manifest["content_digest"],
        "kind": manifest["kind"],
        "title": manifest["title"],
    }
    if certificate := manifest["notes"].get("certificate"):
        described["certificate"] = certificate
    tables = stored.tables
    representatives = find_representatives(tables.duplicates, tables.images["image_id"])
    tables = fold_tables(tables, representatives)
    overlap = read_overlap(path, manifest["content_digest"], tables.queries["query_id"])
    return JudgedSet(described, tables.qrels, replace(stored, tables=tables), representatives, overlap)


@step("read qrels")
def load_judged_qrels(path: Path) -> JudgedSet:
    """Load judgments in TREC's form alone."""
    qrels = read_trec_qrels(path)
    described: EvaluatedSet = {"name": path.name.split(".")[0], "version": 0, "content_digest": file_sha256(path)[0]}
    return JudgedSet({**described, "kind": "qrels", "title": path.name}, qrels)


@step("number judgments")
def build_evaluation_view(
    judged: JudgedSet, direction: str, metrics: Sequence[str], precisions: Sequence[float]
) -> EvaluationView:
    """Return the judgments for one direction."""
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
    view = EvaluationView(judged, spec, qrels)
    # A part of a set has other totals than the log.
    drawn = (
        None if judged.stored is None or "part" in judged.description else judged.stored.manifest["notes"].get("log")
    )
    counted = [*view.query_ids.to_pylist(), *view.list_absent()]
    sample = select_log_sample(spec.queries, counted, drawn["strata"] if drawn else ())
    return replace(view, spec=replace(spec, log_sample=sample))


def exclude_queries(view: EvaluationView, query_ids: frozenset[str]) -> EvaluationView:
    """Return the view without some of its queries. Raises UserError where no other query has a relevant image."""
    if not query_ids:
        return view
    qrels = view.qrels[~view.qrels["query_id"].isin(query_ids)].reset_index(drop=True)
    queries = [name for name in view.all_query_ids.to_pylist() if name not in query_ids]
    sample = view.spec.log_sample
    sample = sample if sample is None else sample[~sample.index.isin(query_ids)]
    truth = index_qrels(qrels, view.gallery_ids, queries)
    return replace(view, qrels=qrels, spec=replace(view.spec, truth=truth, log_sample=sample))


def is_pooled(qrels: pd.DataFrame) -> bool:
    """Return whether people judged what searches returned: only then is a result that nobody judged an open question,
    and not one that the set holds to be wrong."""
    by_people = qrels["judged_by"].astype("str").isin(("human", "table", "publisher"))
    return bool((by_people & (qrels["relevance"] == 0)).any())


def cluster_queries(queries: pd.DataFrame | None) -> pd.Series | None:
    """Return per query id what it shares with others: its topic, else its source image, else its labels (in several
    styles and languages). Such queries are not independent evidence."""
    if queries is None:
        return None
    labels = queries["labels"].map(lambda row: "&".join(sorted(row)) if row is not None and len(row) else None)
    shared = queries["topic"].fillna(queries["source_image_id"]).fillna(labels)
    shared.index = pd.Index(queries["query_id"])
    return shared.dropna() if shared.notna().any() else None


def parse_slices(slices: Iterable[str], stage: str) -> list[tuple[str, str]]:
    """Return aspect and value of texts like language=zh. Raises UserError."""
    parts = [text.partition("=") for text in slices]
    if wrong := [text for text, equals, value in parts if not equals or not value]:
        raise UserError(stage, f"--slice {wrong[0]}", "is not aspect=value", "write it as in language=zh")
    return [(aspect, value) for aspect, _, value in parts]


def is_in_slice(queries: pd.DataFrame | None, query_ids: pd.Index, aspect: str, value: str, stage: str) -> BoolArray:
    """Return whether each query belongs to the slice. Raises UserError for an unknown aspect and an empty slice."""
    aspects, name = find_query_aspects(queries, query_ids), f"{aspect}={value}" if value else aspect
    if aspect not in aspects:
        next_step = (
            suggest_choice(aspect, list(aspects)) if aspects else (f"{stage} needs a set: judgments have no texts")
        )
        if aspect == "overlap" and aspects:
            next_step = "run `querytruth overlap` on this version of the set first"
        raise UserError(stage, name, "is not a slice of this set", next_step)
    values = aspects[aspect].explode().dropna().astype(str)
    rows: BoolArray = query_ids.isin(values.index[(values == value).to_numpy()])
    if not rows.any():
        known = sorted(values.unique())[:20]
        raise UserError(stage, name, "has no judged queries", f"choose from {', '.join(known) or 'none'}")
    return rows


def select_slices(slices: pd.DataFrame, wanted: Iterable[str]) -> pd.DataFrame:
    """Return the rows of a result's slices that are named by aspect, or by aspect=value, in that order."""
    parts = [text.partition("=") for text in wanted]
    found = [
        slices[(slices["slice"] == aspect) & (slices["value"].isin([value]) | (value == ""))]
        for aspect, _, value in parts
    ]
    return pd.concat(found, ignore_index=True)


def check_slices(judged: JudgedSet, wanted: Iterable[str], stage: str) -> None:
    """Raise UserError for an aspect, or aspect=value, that no query of the set has."""
    for text in wanted:
        query_ids = pd.Index([] if judged.queries is None else judged.queries["query_id"])
        aspect, _, value = text.partition("=")
        known = find_query_aspects(judged.queries, query_ids).get(aspect, pd.Series(dtype="str"))
        first = value or next(iter(known.explode().dropna().astype(str)), "")
        is_in_slice(judged.queries, query_ids, aspect, first, stage)


def select_part(judged: JudgedSet, part: Mapping[str, str | int]) -> JudgedSet:
    """Return the set with only those queries that have all the values, by column; the gallery stays whole. A family is
    given alone ("count") or with its kind ("count/2"). The description of the set states the part. Raises
    UserError for an unknown column or value, for bare judgments, and where no query has all the values."""
    if not part:
        return judged
    stored = judged.stored
    if stored is None:
        raise UserError(_STAGE, describe_part(part), "needs a set: a file of judgments has only ids", "give the set")
    queries = stored.tables.queries
    in_part = pd.Series(True, index=queries.index)
    for column, value in part.items():
        in_part &= _has_value(queries, column, str(value))
    if not in_part.any():
        name = f"{judged.description['name']}/v{judged.description['version']}"
        raise UserError(_STAGE, describe_part(part), f"is not a query of {name}", "give fewer values")
    inside = queries[in_part].reset_index(drop=True)
    qrels = stored.tables.qrels[stored.tables.qrels["query_id"].isin(inside["query_id"])].reset_index(drop=True)
    tables = replace(stored.tables, queries=inside, qrels=qrels)
    title = f"{judged.description['title'] or judged.description['name']} ({describe_part(part)})"
    return replace(
        judged,
        description={**judged.description, "title": title, "part": {key: str(value) for key, value in part.items()}},
        qrels=qrels,
        stored=replace(stored, tables=tables),
        outside_queries=frozenset(queries.loc[~in_part, "query_id"]),
    )


def _has_value(queries: pd.DataFrame, column: str, value: str) -> "pd.Series[bool]":
    if column not in PART_COLUMNS:
        raise UserError(_STAGE, column, "is not a column to filter by", suggest_choice(column, list(PART_COLUMNS)))
    names = (queries[column].dropna() if column in queries else pd.Series(dtype="str")).astype("str")
    families = names.str.split("/").str[0] if column == "family" else names
    found = (names == value) | (families == value)
    if not found.any():
        choices = sorted({*names, *families})
        next_step = suggest_choice(value, choices) if choices else f"remove {column}"
        raise UserError(_STAGE, f"{column}={value}", "matches no query", next_step)
    return found.reindex(queries.index, fill_value=False)


def read_named_images(path: Path) -> pd.DataFrame:
    """Return the images of a version, and a row for each copy that its gallery lists once: with the copy's file name
    and the id of the image that it counts as. An index that holds all files answers with any of the names."""
    tables = read_set(path, ("images", "duplicates")).tables
    return add_copies(tables.images, tables.duplicates)


def add_copies(images: pd.DataFrame, duplicates: pd.DataFrame) -> pd.DataFrame:
    """Return the images and a row (image_id, file_name) for each copy of one of them."""
    if duplicates.empty:
        return images
    represented = find_representatives(duplicates, images["image_id"])
    counts_as = duplicates["image_id"].astype("str").replace(represented.to_dict())
    copies = pd.DataFrame({"image_id": counts_as, "file_name": duplicates["item"].astype("str")})
    is_new = counts_as.isin(images["image_id"]) & ~copies["file_name"].isin(images["file_name"])
    return pd.concat([images, copies[is_new]], ignore_index=True)
