"""Evaluations of search systems on a set, and their comparison.

One query, tried on a system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from flows.evaluation import SystemSources, evaluate_systems
from flows.search import (
    QueryResults,
    check_page_language,
    search_by_model,
    search_by_system,
    search_in_run,
    write_search_page,
)
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, LoadedSet, find_version
from querytruth.errors import UserError, suggest_choice
from querytruth.evaluation import comparison, judged_sets, program_systems, run_evaluation, steps, systems
from querytruth.evaluation.evaluation_result import DIRECTIONS, TEXT_TO_IMAGE, EvaluationResult
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.program_systems import RunTable, SearchFunction
from querytruth.evaluation.systems import EvaluatedSystem
from querytruth.review.search_views import render_table
from querytruth.sets import set_files
from querytruth.sets.published_files import image_roots

_SHOWN = ["metric", "value", "low", "high", "at_most", "chance", "detectable"]
_SOURCE_FIELDS = {
    "baseline": "baselines",
    "vectors": "vectors",
    "model": "models",
    "system": "systems",
}
AnyRun: TypeAlias = "str | Path | RunTable | Evaluation"
AnyVectors: TypeAlias = "str | Path | tuple[Any, Any]"


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """The result of one system. `evaluation["ndcg@10"]` is a figure; `run`: query_id, image_id, score, rank of every
    result; `folder`, `page`: where it was stored, None if it was not."""

    result: EvaluationResult
    run: pd.DataFrame
    folder: Path | None = None
    page: Path | None = None

    def __getitem__(self, metric: str) -> float:
        """Return the figure of a metric. Raises UserError for one that was not evaluated."""
        name = str(parse_metric(metric))
        if name not in self.result.metrics:
            raise UserError("evaluate", metric, "was not evaluated", suggest_choice(name, self.result.metrics))
        return float(self.figures.set_index("metric")["value"][name])

    @property
    def figures(self) -> pd.DataFrame:
        """A row per metric: value, interval (low, high), bounds by unjudged results, chance, detectable difference."""
        return self.result.figures

    @property
    def per_query(self) -> pd.DataFrame:
        """A row per query, a column per metric."""
        return self.result.per_query

    @property
    def slices(self) -> pd.DataFrame:
        """The metrics by level, style, language, topic and length of the queries."""
        return self.result.slices

    @property
    def phrasings(self) -> pd.DataFrame:
        """By metric the worst, the mean and the best wording of a question, and their spread with its interval; no row
        where no question has two."""
        return self.result.phrasings

    @property
    def ranked(self) -> pd.DataFrame:
        """The first 20 results of each query with their relevance; -1 is unjudged."""
        return self.result.ranked

    @property
    def warnings(self) -> list[comparison.EvaluationWarning]:
        """What makes a figure doubtful."""
        return self.result.warnings

    def __repr__(self) -> str:
        """The system, the set and the first figures in one line."""
        shown = ", ".join(f"{row.metric} {row.value:.3f}" for row in self.figures.head(4).itertuples())
        return f"<{_title(self.result)}: {shown}>"

    def _repr_html_(self) -> str:
        details = dict.fromkeys(f"warning: {w.code.replace('_', ' ')} {w.metric}: {w.detail}" for w in self.warnings)
        return render_table(_title(self.result), self.figures[_SHOWN], list(details))


def _title(result: EvaluationResult) -> str:
    return f"{result.system['name']} on {result.set_name}, {len(result.per_query):,} queries"


def load_run(
    run: AnyRun, judged: judged_sets.JudgedSet, name: str | None = None, scores: str | None = None
) -> EvaluatedSystem:
    """Return the system of a run, under a name where one is given. `scores`: what those of a file are, likeness or
    distance. Raises UserError where it cannot be read."""
    if isinstance(run, str | Path):
        system = systems.load_run_system(Path(run), judged, scores)
    elif isinstance(run, Evaluation):
        table = program_systems.make_table_system(run.run, str(run.result.system["name"]))
        system = EvaluatedSystem(run.result.system, table.produce_run)
    else:
        return program_systems.make_table_system(run, name or "run")
    return system if name is None else systems.rename_system(system, name)


def load_judgments(
    set_: AnySet | None,
    qrels: str | Path | None,
    out: str | Path = DATASETS_FOLDER,
    part: Mapping[str, str | int] | None = None,
) -> judged_sets.JudgedSet:
    """Return a set, or a part of it, or the judgments of a TREC file. Raises UserError where it cannot be read, and for
    none or both."""
    if (set_ is None) == (qrels is None):
        raise UserError("evaluate", str(set_ or qrels), "needs one source of judgments", "give a set, or qrels")
    if qrels is not None:
        return judged_sets.select_part(judged_sets.load_judged_qrels(Path(qrels)), part or {})
    return judged_sets.select_part(
        judged_sets.load_judged_set(find_version(set_ or "", out, remote="whole")), part or {}
    )


def _all_ids(set_: AnySet | None, judged: judged_sets.JudgedSet) -> tuple[Any, Any]:
    """The ids of all queries and images of the set, also of near-duplicates, which `judged` lacks."""
    if isinstance(set_, LoadedSet):
        tables = set_.tables
    elif judged.stored is not None:
        tables = set_files.read_set(judged.stored.path, ("queries", "images")).tables
    else:
        return (), ()
    return tables.queries["query_id"], tables.images["image_id"]


def _make_system(
    given: dict[str, Any],
    judged: judged_sets.JudgedSet,
    set_: AnySet | None,
    name: str | None,
    index: str,
    texts: Path | None,
    scores: str | None,
) -> EvaluatedSystem:
    """The system of the one argument that is given."""
    (kind, source), *_ = ((key, one) for key, one in given.items() if one is not None)
    if kind == "search":
        return program_systems.make_search_system(source, name or str(getattr(source, "__name__", "search")))
    if kind == "vectors" and isinstance(source, tuple):
        arrays = program_systems.encode_by_arrays(name or "vectors", source, _all_ids(set_, judged), judged)
        return systems.make_vector_system(arrays, index)
    if kind == "run":
        return load_run(source, judged, None if isinstance(source, str | Path) else name, scores)
    one: Any = {_SOURCE_FIELDS[kind]: [source]}
    sources = SystemSources(**one, index=index, texts=texts)
    return sources.load_systems(judged)[0]


def evaluate(
    set_: AnySet | None = None,
    *,
    run: AnyRun | None = None,
    search: SearchFunction | None = None,
    vectors: AnyVectors | None = None,
    model: str | None = None,
    baseline: str | None = None,
    system: str | Path | None = None,
    name: str | None = None,
    metrics: Iterable[str] = (),
    k: int | None = None,
    direction: str = TEXT_TO_IMAGE,
    part: Mapping[str, str | int] | None = None,
    index: str = "exact",
    texts: str | Path | None = None,
    qrels: str | Path | None = None,
    store: bool = False,
    report: str | Path | None = None,
    out: str | Path = DATASETS_FOLDER,
    images: Sequence[str | Path] = (),
    scores: str | None = None,
) -> Evaluation:
    """Measure how well one system finds the images of a set (or of a TREC file `qrels`).

    The system is one of: `run`, a file, a result folder, a data frame (query_id, image_id, score) or scores by query
    and image; `search`, a function of a text and a number k that returns image ids, best first, or pairs of id and
    score; `vectors`, arrays (queries, images) with a row for each of the set's, or a folder; `model`, a name on the
    hub or a folder; `baseline`: random, oracle or lexical; `system`, a
    file that describes a search service. `name` is the system's; `metrics` such as "ndcg@10"; `part`: only the queries
    with these values, such as {"language": "en", "level": 2}, on the whole gallery;
    `store`: write the result beside the set, `report`: into a folder; `scores`: what those of a run file are, likeness
    or distance (the lowest is the best). Raises UserError.
    """
    if scores not in (None, *systems.SCORES):
        raise UserError(
            "evaluate", str(scores), "is no kind of score", suggest_choice(str(scores), list(systems.SCORES))
        )
    given: dict[str, Any] = {"run": run, "search": search, "vectors": vectors, "model": model, "baseline": baseline}
    given |= {"system": system}
    if sum(one is not None for one in given.values()) != 1:
        raise UserError("evaluate", str(set_ or qrels), "needs one system", f"give one of {', '.join(given)}")
    if direction not in DIRECTIONS:
        raise UserError("evaluate", direction, "is no direction", suggest_choice(direction, list(DIRECTIONS)))
    systems.check_index(index)
    place = None if report is None else Path(report)
    options = steps.EvaluationOptions(run_evaluation.choose_metrics(metrics, k), k, report=place, is_stored=store)
    with image_roots([str(root) for root in images]):
        judged = load_judgments(set_, qrels, out, part)
        evaluated = _make_system(given, judged, set_, name, index, None if texts is None else Path(texts), scores)
        if name not in (None, evaluated.description["name"]):
            evaluated = systems.rename_system(evaluated, str(name))
        (stored,) = evaluate_systems(judged, [evaluated], (direction,), options)
    return Evaluation(stored.scored.result, stored.scored.run, stored.folder, stored.page)


def search(
    set_: AnySet,
    text: str,
    *,
    model: str | None = None,
    system: str | Path | None = None,
    run: str | Path | None = None,
    ids: str = "image_id",
    k: int = 20,
    page: str | Path | None = None,
    page_language: str = "en",
    out: str | Path = DATASETS_FOLDER,
) -> QueryResults:
    """Try one query, of the set or a new one, on a model, a search service (YAML) or a run file: the result has `hits`
    with rank, id, score and grade (None: not judged), and `missed`, the relevant images that are not among them.
    `page`: an HTML page with the images. Raises UserError."""
    if sum(one is not None for one in (model, system, run)) != 1:
        raise UserError("search", text, "needs one system", "name one: model, system or run")
    check_page_language(page_language)
    judged = judged_sets.load_judged_set(find_version(set_, out, remote="whole"))
    if model is not None:
        results = search_by_model(judged, model, text, k)
    elif run is not None:
        results = search_in_run(judged, Path(run), text, k, ids)
    else:
        assert system is not None and judged.stored is not None
        results = search_by_system(judged, Path(system), text, k, judged_sets.read_named_images(judged.stored.path))
    if page is not None:
        write_search_page(results, judged, Path(page), page_language)
    return results
