"""What is evaluated: files that other programs wrote, models, vectors, baselines. Each answers with a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from backends.durable_files import file_sha256
from backends.run_files.result_files import RUN, read_result
from backends.run_files.run_reading import read_run
from backends.run_files.similarities import Similarities, read_similarities
from baselines.simple import lexical_run, oracle_run, random_run
from builders.errors import UserError, nearest
from builders.ledger import Ledger
from evaluation.approximate_search import INDEXES, search
from evaluation.comparison import Warned
from evaluation.evaluated import TEXT_TO_IMAGE
from evaluation.identifiers import ids_of, places_in, table_of
from evaluation.search import number_gallery
from evaluation.similarity import run_of
from flows.scoring.encoded_sets import EncodedSet
from flows.scoring.judged_sets import View
from flows.scoring.picture_texts import texts_of_pictures
from flows.steps import current, step

BASELINES = ("random", "oracle", "lexical")


@dataclass(frozen=True, slots=True)
class Answer:
    """A run, what its system says against it, and what it counted."""

    run: pd.DataFrame
    warnings: list[Warned] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class System:
    """`described`: kind, name and parameters. `answer(view, k)`: the first k results of every query (a file's are all
    that it has). `ledger`: what it could not take in."""

    described: dict[str, Any]
    answer: Callable[[View, int], Answer]
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def identity(self) -> str:
        """What the same system is called on other sets: its name, of a model also the weights, and how it searches."""
        told = self.described
        weights = f"-{told['revision'].removeprefix('files:')[:8]}" if "revision" in told else ""
        index = "" if told.get("index", "exact") == "exact" else f"-{told['index']}"
        return f"{told['name']}{weights if told['kind'] == 'model' else ''}{index}"


def run_file(path: Path) -> System:
    """A run as TREC, JSON, Parquet or CSV, or the folder of a result, of which the system is known."""
    described = {"kind": "run", "name": path.name.split(".")[0], "file": path.name}
    if path.is_dir():
        described, path = read_result(path)["system"], path / RUN
    else:
        described["sha256"] = _digest(path)
    return System(described, lambda _view, _k: Answer(read_run(path)))


def similarity_file(matrix: Path, rows: Path, columns: Path) -> System:
    """A matrix of which the rows are texts and the columns pictures, or the other way round: its ids tell."""
    read = read_similarities(matrix, rows, columns)

    def answer(view: View, k: int) -> Answer:
        turned = _is_turned(read, view)
        asked, found = (read.column_ids, read.row_ids) if turned else (read.row_ids, read.column_ids)
        return Answer(run_of(read.matrix.T if turned else read.matrix, asked, found, k))

    shape = {"rows": len(read.row_ids), "columns": len(read.column_ids)}
    described = {"kind": "similarities", "name": matrix.stem, "file": matrix.name, "sha256": _digest(matrix)}
    return System({**described, **shape}, answer)


def baseline(name: str, seed: int = 0, texts: Path | None = None) -> System:
    """One of BASELINES; `texts`: what `lexical` goes by, where the set itself should not say it."""
    if name not in BASELINES:
        raise UserError("evaluate", name, "is no baseline", nearest(name, list(BASELINES)))
    if name == "random":
        return System({"kind": "baseline", "name": name, "seed": seed}, lambda view, k: Answer(_random(view, k, seed)))
    if name == "oracle":
        return System({"kind": "baseline", "name": name}, lambda view, _k: Answer(oracle_run(view.qrels)))
    described: dict[str, Any] = {"kind": "baseline", "name": name}
    return System(described, lambda view, k: _lexical(view, k, texts))


def check_index(index: str) -> None:
    """A UserError for an unknown one: before hours of encoding."""
    if index not in INDEXES:
        raise UserError("evaluate", index, "is no index", nearest(index, list(INDEXES)))


def encoded(found: EncodedSet, index: str = "exact") -> System:
    """Vectors, searched exactly or by an index that does not look at every picture."""
    check_index(index)
    warnings = [
        Warned("not_encoded", "", f"{lost:,} of {stage.entered:,} {stage.kind} vectors are missing ({_reasons(stage)})")
        for stage in found.ledger.stages
        if (lost := stage.entered - stage.accepted)
    ]

    def answer(view: View, k: int) -> Answer:
        run, counts = _searched(found, view, k, index)
        return Answer(run, warnings, counts)

    return System({**found.described, "index": index}, answer, found.ledger)


@step("search")
def _searched(found: EncodedSet, view: View, k: int, index: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    asking, answering = (found.pictures, found.texts) if view.is_turned else (found.texts, found.pictures)
    row = places_in(asking.ids, ids_of(view.query_ids))
    row = row[asking.known[row]]
    ids = asking.ids.take(pa.array(row))
    whole = answering.known.all()
    among = answering.ids if whole else answering.ids.filter(pa.array(answering.known))
    gallery = number_gallery(answering.vectors if whole else answering.vectors[answering.known], among)
    with current().reporter.bar(f"search among {len(among):,}", len(ids), "queries") as advance:
        asked, threads = asking.vectors[row], current().workers
        result, loss = search(index, asked, ids.to_pylist(), gallery, k, threads=threads, advance=advance)
    run = table_of(ids, gallery.image_ids, result.places, result.scores)
    told = {"index": index, "missed_of_exact": loss.missed, "measured_on_queries": loss.queries, "results": k}
    return run, {"search": told}


def _is_turned(read: Similarities, view: View) -> bool:
    """Whether the columns of a matrix are what asks in this view."""
    rows, columns = (set(ids) & set(view.query_ids.to_pylist()) for ids in (read.row_ids, read.column_ids))
    if not rows and not columns:
        what = "text" if view.asked.direction == TEXT_TO_IMAGE else "picture"
        raise UserError("read similarities", what, "is named by neither rows nor columns", "check the two lists of ids")
    return len(columns) > len(rows)


def _random(view: View, k: int, seed: int) -> pd.DataFrame:
    if view.gallery_ids is None:
        raise UserError("evaluate", "random", "needs a gallery, which bare judgments lack", "name a set")
    return random_run(view.query_ids.to_pylist(), view.gallery_ids.to_pylist(), k, seed)


def _lexical(view: View, k: int, file: Path | None) -> Answer:
    texts, source = texts_of_pictures(view.judged, file)
    queries = view.judged.queries
    assert queries is not None
    if view.is_turned:
        asked = texts.groupby("image_id", sort=True)["text"].agg("\n".join).rename_axis("query_id").reset_index()
        texts = queries[["query_id", "text"]].rename(columns={"query_id": "image_id"})
    else:
        asked = queries[["query_id", "text"]]
    asked = asked[asked["query_id"].isin(view.query_ids.to_pylist())]
    warnings = [Warned("words_of_the_truth", "", _FROM_TRUTH)] if source == "labels" else []
    return Answer(lexical_run(asked, texts, k), warnings, {"texts": {"source": source, "rows": len(texts)}})


_FROM_TRUTH = "the pictures' words are their labels, which the truth is made of: a search does not have these"


def _reasons(stage: Any) -> str:
    return ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in stage.quarantined.items())


def _digest(path: Path) -> str:
    try:
        return file_sha256(path)[0]
    except OSError as error:
        raise UserError("evaluate", path, f"cannot be read ({error.strerror})", "check the path") from None
