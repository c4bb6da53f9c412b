"""Evaluated systems: run files of other programs, models, vectors, baselines. Each returns a run."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow as pa

from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.files.safe_paths import contained_path
from querytruth.backends.id_patterns import map_pattern, split_pattern
from querytruth.backends.steps import current_run, step
from querytruth.errors import UsageError, UserError, suggest_choice, translate_read_errors
from querytruth.evaluation import encoded_sets, evaluation_result, ranking, run_files, vector_search
from querytruth.evaluation.baselines import build_lexical_run, build_oracle_run, build_random_run
from querytruth.evaluation.comparison import EvaluationWarning
from querytruth.evaluation.ground_truth import build_run, find_positions, to_id_array
from querytruth.evaluation.judged_sets import EvaluationView, JudgedSet, read_named_images
from querytruth.evaluation.open_set import ReversedScores, find_reversed_matrix, find_reversed_scores
from querytruth.evaluation.result_files import RESULT_FILE, RUN_FILE, check_result_table, read_result
from querytruth.evaluation.result_types import SystemDescription
from querytruth.evaluation.run_formats import read_image_texts, read_similarity_matrix
from querytruth.evaluation.vector_search import INDEXES, search_with_index
from querytruth.sets.ledger import Ledger
from querytruth.sets.published_files import RESULTS_FOLDER

SCORES = ("likeness", "distance")  # of a run or a matrix: the highest, or the lowest, is the best
UNMAPPED = "unmapped:"  # before an id of a search that maps to no image
BASELINES = ("random", "oracle", "lexical")
IMAGE_NAMES = ("image_id", "file_name", "path", "source_url", "source_id")  # columns that a run may name images by
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_LABELS_WARNING = "the texts are the labels of the images, which the truth is made of: a search does not have these"


@dataclass(frozen=True, slots=True)
class SystemRun:
    """A run, its warnings and its counts. `find_reversal` judges whether its scores are distances, None where the order
    is certain."""

    run: pd.DataFrame
    warnings: list[EvaluationWarning] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    find_reversal: Callable[[ranking.RankedRun], ReversedScores | None] | None = None


@dataclass(frozen=True, slots=True)
class EvaluatedSystem:
    """`description`: kind, name and parameters. `produce_run(view, k)` returns the first k results of every query (all
    of a file). `ledger`: items that could not be used. `result_folder`: the folder of the stored result of the run.
    `is_renamed`: whether a user gave the name; `is_of_this_version`: whether the run is made for the evaluated version
    of the set, also where it lacks queries."""

    description: SystemDescription
    produce_run: Callable[[EvaluationView, int], SystemRun]
    ledger: Ledger = field(default_factory=Ledger)
    result_folder: Path | None = None
    is_renamed: bool = False
    is_of_this_version: bool = False

    @property
    def identity(self) -> str:
        """Return the name of the same system on other sets: its name, a model's weights, and its kind of search; the
        name alone where a user gave it."""
        description = self.description
        if self.is_renamed:
            return str(description["name"])
        weights = f"-{description['revision'].removeprefix('files:')[:8]}" if "revision" in description else ""
        index = "" if description.get("index", "exact") == "exact" else f"-{description['index']}"
        return f"{description['name']}{weights if description['kind'] == 'model' else ''}{index}"


def load_run_system(path: Path, judged: JudgedSet | None = None, scores: str | None = None) -> EvaluatedSystem:
    """Load a run as TREC, JSON, Parquet or CSV, or from the folder of a result, which also names the system; its
    description states the set of that result (`run_of`) where it is not `judged`. `scores`: the meaning of a file's
    scores, one of SCORES. Raises UserError for the result of a part of a set that lacks queries of `judged`."""
    path = find_run(path, judged)
    if path.suffix in (".yaml", ".yml"):
        raise UserError(
            "read run", path, "describes a search service, not a run", f"use --system {path}, or system= in Python"
        )
    if not path.is_dir():
        described: SystemDescription = {
            "kind": "run",
            "name": path.name.split(".")[0],
            "file": path.name,
            "sha256": _digest(path),
        }
        if scores is not None:
            described["scores"] = scores
        return EvaluatedSystem(described, lambda _view, _k: _read_run_file(path, scores))
    result = read_result(path)
    described, made_for, run_file = result["system"], result["set"], check_result_table(path, RUN_FILE, result)
    part = made_for.get("part", {})
    if judged is not None and not part.items() <= judged.description.get("part", {}).items():
        next_step = "choose the same queries, or evaluate the whole set (compare: --slice)"
        raise UserError(
            "read run", path, f"answers only a part of the set ({evaluation_result.describe_part(part)})", next_step
        )
    if judged is not None and made_for["content_digest"] != judged.description["content_digest"]:
        described = {"run_of": f"{made_for['name']}/v{made_for['version']}", **described}
    return EvaluatedSystem(described, lambda _view, _k: SystemRun(run_files.read_run(run_file)), result_folder=path)


def list_results(judged: JudgedSet) -> dict[str, Path]:
    """Return the folders of the results that the set's version has, by the names that `evaluate` prints."""
    if judged.stored is None:
        return {}
    version = judged.stored.path
    folder = contained_path(version.parent, f"{RESULTS_FOLDER}/{version.name}", "read run")
    return {file.parent.name: file.parent for file in sorted(folder.glob(f"*/{RESULT_FILE}"))}


def find_run(path: Path, judged: JudgedSet | None) -> Path:
    """Return the file or folder, or the set's result of that name. Raises UserError for an unknown name."""
    known = {} if judged is None or path.exists() or len(path.parts) > 1 else list_results(judged)
    if known and path.name not in known and not path.suffix:
        raise UserError(
            "read run", path, "is neither a file nor a result of this version", suggest_choice(path.name, [*known])
        )
    return known.get(path.name, path)


def _read_run_file(path: Path, scores: str | None) -> SystemRun:
    if scores == "likeness":
        return SystemRun(run_files.read_run_and_order(path, by_scores=True)[0])
    run, contradicted = run_files.read_run_and_order(path)
    if scores is not None:
        return SystemRun(run if contradicted else run.assign(score=-run["score"]))
    if not contradicted:
        return SystemRun(run, find_reversal=find_reversed_scores)
    detail = (
        f"in {contradicted:,} queries the scores of {path.name} increase with the rank, as distances do: its ranks "
        "are used as the order, and the negative rank as the score"
    )
    return SystemRun(run, [EvaluationWarning("order_by_rank", "", detail)], find_reversal=find_reversed_scores)


def list_runs(path: Path) -> list[Path]:
    """Return the runs of a path: itself, or the files and results in a folder that is not a result."""
    if not path.is_dir() or (path / RESULT_FILE).exists():
        return [path]
    found = [one for one in sorted(path.iterdir()) if not one.name.startswith(".")]
    return [one for one in found if one.is_file() or (one / RESULT_FILE).exists()] or [path]


def name_images(system: EvaluatedSystem, judged: JudgedSet, ids: str) -> EvaluatedSystem:
    """Return the system of a run that names images by another column of the set (IMAGE_NAMES), or by a pattern. Raises
    UserError for an unknown column, and for judgments without one."""
    if ids not in IMAGE_NAMES and split_pattern(ids) is None:
        raise UsageError(ids, "is not a column of image names", suggest_choice(ids, list(IMAGE_NAMES)), "evaluate")
    if judged.stored is None:
        raise UserError("evaluate", ids, "needs a set: a file of judgments has only ids", "remove --ids")
    images = read_named_images(judged.stored.path)
    if ids in IMAGE_NAMES:
        names = images[ids].dropna().astype("str")
        known = dict(zip(names, images.loc[names.index, "image_id"], strict=True))
    else:
        known = map_pattern(images, ids)
    if ids == "file_name":  # without its folders, where one image alone has that name
        bare = pd.DataFrame({"name": names.str.rpartition("/")[2], "image_id": images["image_id"]}).dropna()
        alone = bare.drop_duplicates().drop_duplicates("name", keep=False)  # a copy of one name is the same image
        known = dict(zip(alone["name"], alone["image_id"], strict=True)) | known

    def produce_run(view: EvaluationView, k: int) -> SystemRun:
        produced = system.produce_run(view, k)
        named = produced.run["image_id"].astype("str").map(lambda name: known.get(name, name))
        run = produced.run.assign(image_id=named)
        best = run.sort_values("score", ascending=False, kind="stable").drop_duplicates(["query_id", "image_id"])
        run = run.loc[run.index.isin(best.index)] if ids == "file_name" or "{" in ids else run  # copies count once
        return replace(produced, run=run.assign(image_id=run["image_id"].astype("category")))

    return replace(system, produce_run=produce_run)


def rename_system(system: EvaluatedSystem, name: str) -> EvaluatedSystem:
    """Return the system under a user's name; its description keeps the other one under the system's kind."""
    described = system.description
    renamed = cast(SystemDescription, {**described, described["kind"]: described["name"], "name": name})
    return replace(system, description=renamed, is_renamed=True)


def load_similarity_system(matrix: Path, rows: Path, columns: Path, scores: str | None = None) -> EvaluatedSystem:
    """Load a matrix whose rows are texts and columns images, or the reverse: the ids decide. `scores`: what its
    numbers are, one of SCORES."""
    similarities, row_ids, column_ids = read_similarity_matrix(matrix, rows, columns)

    def produce_run(view: EvaluationView, k: int) -> SystemRun:
        sides = similarities, row_ids, column_ids
        if _is_transposed(row_ids, column_ids, view):
            sides = similarities.T, column_ids, row_ids
        copies = view.judged_set.representatives.index  # whose results are folded: the others fill their ranks
        depth, is_distance = k + int(pd.Index(sides[2]).isin(copies).sum()), scores == "distance"
        reversed_scores = find_reversed_matrix(*sides, view.qrels) if scores is None else None
        return SystemRun(
            vector_search.run_from_similarities(*sides, depth, is_distance=is_distance),
            find_reversal=lambda _ranked: reversed_scores,
        )

    described: SystemDescription = {
        "kind": "similarities",
        "name": matrix.stem,
        "file": matrix.name,
        "sha256": _digest(matrix),
        "rows": len(row_ids),
        "columns": len(column_ids),
    }
    if scores is not None:
        described["scores"] = scores
    return EvaluatedSystem(described, produce_run)


def make_baseline(name: str, seed: int = 0, texts: Path | None = None) -> EvaluatedSystem:
    """Return one of BASELINES; `texts` replaces the texts of the set for `lexical`."""
    if name not in BASELINES:
        raise UserError("evaluate", name, "is not a known baseline", suggest_choice(name, list(BASELINES)))
    described: SystemDescription = {"kind": "baseline", "name": name}
    if name == "random":
        return EvaluatedSystem(described | {"seed": seed}, lambda view, k: _random(view, k, seed))
    if name == "oracle":
        return EvaluatedSystem(described, lambda view, _k: SystemRun(build_oracle_run(view.qrels)))
    if texts is not None:
        described |= {"file": texts.name, "sha256": _digest(texts)}
    return EvaluatedSystem(described, lambda view, k: _lexical(view, k, texts))


def make_vector_system(encoded_set: encoded_sets.EncodedSet, index: str = "exact") -> EvaluatedSystem:
    """Return a system that searches vectors exactly or by an approximate index."""
    if index not in INDEXES:
        raise UserError("evaluate", index, "is not a known index", suggest_choice(index, list(INDEXES)))
    warnings = []
    for stage in encoded_set.ledger.stages:
        if lost := stage.entered - stage.accepted:
            reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in stage.quarantined.items())
            detail = f"{lost:,} of {stage.entered:,} {stage.kind} vectors are missing ({reasons})"
            warnings.append(EvaluationWarning("not_encoded", "", detail))

    def produce_run(view: EvaluationView, k: int) -> SystemRun:
        run, counts = _search_vectors(encoded_set, view, k, index)
        return SystemRun(run, warnings, counts)

    return EvaluatedSystem({**encoded_set.description, "index": index}, produce_run, encoded_set.ledger)


@step("search")
def _search_vectors(
    encoded_set: encoded_sets.EncodedSet, view: EvaluationView, k: int, index: str
) -> tuple[pd.DataFrame, dict[str, Any]]:
    query_side, gallery_side = encoded_set.texts, encoded_set.images
    if view.is_image_to_text:
        query_side, gallery_side = gallery_side, query_side
    row = find_positions(query_side.ids, to_id_array(view.asked_ids))
    row = row[row >= 0]
    row = row[query_side.is_known[row]]
    ids = query_side.ids.take(pa.array(row))
    gallery_ids, gallery_vectors, is_known = gallery_side.ids, gallery_side.vectors, gallery_side.is_known
    if not is_known.all():
        gallery_ids, gallery_vectors = gallery_ids.filter(pa.array(is_known)), gallery_vectors[is_known]
    gallery = vector_search.build_vector_gallery(gallery_vectors, gallery_ids)
    with current_run().reporter.bar(f"search among {len(gallery_ids):,}", len(ids), "queries") as advance:
        query_vectors, threads = query_side.vectors[row], current_run().workers
        result, loss = search_with_index(
            index, query_vectors, ids.to_pylist(), gallery, k, threads=threads, advance=advance
        )
    run = build_run(ids, gallery.image_ids, result.places, result.scores)
    measured = {"missed_of_exact": loss.missed_share, "measured_on_queries": loss.query_count}
    return run, {"search": {"index": index, **measured, "results": k}}


def _is_transposed(row_ids: list[str], column_ids: list[str], view: EvaluationView) -> bool:
    """Return whether the columns of a matrix are the queries of this view."""
    rows, columns = (set(ids) & set(view.query_ids.to_pylist()) for ids in (row_ids, column_ids))
    if not rows and not columns:
        what = "text" if view.spec.direction == evaluation_result.TEXT_TO_IMAGE else "image"
        raise UserError("read similarities", what, "is in neither list of ids", "check the two lists of ids")
    return len(columns) > len(rows)


def _random(view: EvaluationView, k: int, seed: int) -> SystemRun:
    if view.gallery_ids is None:
        raise UserError("evaluate", "random", "needs a set: a file of judgments has no gallery", "give the set")
    return SystemRun(build_random_run(view.asked_ids.to_pylist(), view.gallery_ids.to_pylist(), k, seed))


def _lexical(view: EvaluationView, k: int, file: Path | None) -> SystemRun:
    texts, source = _load_image_texts(view.judged_set, file)
    queries = view.judged_set.queries
    assert queries is not None
    if view.is_image_to_text:
        query_texts = texts.groupby("image_id", sort=True)["text"].agg("\n".join).rename_axis("query_id").reset_index()
        texts = queries[["query_id", "text"]].rename(columns={"query_id": "image_id"})
    else:
        query_texts = queries[["query_id", "text"]]
    query_texts = query_texts[query_texts["query_id"].isin(view.asked_ids.to_pylist())]
    warnings = [EvaluationWarning("words_of_the_truth", "", _LABELS_WARNING)] if source == "labels" else []
    return SystemRun(
        build_lexical_run(query_texts, texts, k), warnings, {"texts": {"source": source, "rows": len(texts)}}
    )


def _load_image_texts(judged: JudgedSet, file: Path | None) -> tuple[pd.DataFrame, str]:
    """Return image_id and text, a row each, and their source: `file`; else the captions of the set (`captions`); else
    the labels of each image, from which the truth is made (`labels`); else the file names (`file_names`)."""
    if (images := judged.images) is None:
        raise UserError("evaluate", "lexical", "needs a set: a file of judgments has only ids", "give the set")
    if file is not None:
        return read_image_texts(file, images), file.name
    if "caption" in images and images["caption"].notna().any():
        captions = images.loc[images["caption"].notna(), ["image_id", "caption"]]
        return captions.rename(columns={"caption": "text"}), "captions"
    if len(labels := _label_texts(judged)):
        return labels, "labels"
    names = images.loc[images["file_name"].notna(), ["image_id", "file_name"]]
    texts = names["file_name"].map(lambda name: _BETWEEN_WORDS.sub(" ", name.rsplit(".", 1)[0]))
    return pd.DataFrame({"image_id": names["image_id"], "text": texts}), "file_names"


def _label_texts(judged: JudgedSet) -> pd.DataFrame:
    """Return the texts of queries for one label each, as texts of the images that are relevant for them."""
    queries = judged.queries
    assert queries is not None
    single = queries[queries["labels"].map(lambda row: row is not None and len(row) == 1)]
    if "family" in single:
        single = single[single["family"].isna()]
    relevant = judged.qrels[judged.qrels["relevance"] > 0].astype({"query_id": "str", "image_id": "str"})
    label_texts = relevant.merge(single[["query_id", "text"]], on="query_id")[["image_id", "text"]]
    return label_texts.drop_duplicates(ignore_index=True)


def _digest(path: Path) -> str:
    with translate_read_errors("evaluate", path):
        return file_sha256(path)[0]
