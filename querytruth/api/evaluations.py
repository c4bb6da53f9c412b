"""Evaluations of search systems on a set, and their comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import pandas as pd

from backends.search_systems import load_system_file
from backends.sets import set_files
from backends.sets.trusted_sources import image_roots
from builders.errors import UserError, suggest_choice
from evaluation.comparison import EvaluationWarning
from evaluation.evaluation_result import DIRECTIONS, TEXT_TO_IMAGE, EvaluationResult
from evaluation.metric_names import parse_metric
from evaluation.metric_scores import DEFAULT_METRICS
from flows.evaluation_run import EvaluationOptions, StoredResult, evaluate_systems
from flows.scoring import live_systems, program_systems, systems
from flows.scoring.encoded_sets import encode_set, read_encoded_set
from flows.scoring.judged_sets import JudgedSet, load_judged_qrels, load_judged_set
from flows.scoring.live_systems import AskOptions
from flows.scoring.program_systems import RunTable, SearchFunction
from flows.scoring.systems import EvaluatedSystem
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, LoadedSet, find_version
from review.notebook_views import render_table

_SHOWN = ["metric", "value", "low", "high", "at_most", "chance", "detectable"]
_SOURCE_FIELDS = {
    "run": "runs",
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
    def ranked(self) -> pd.DataFrame:
        """The first 20 results of each query with their relevance; -1 is unjudged."""
        return self.result.ranked

    @property
    def warnings(self) -> list[EvaluationWarning]:
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
    about = result.set
    name = f"{about['name']}/v{about['version']}" if about["version"] else about["title"]
    return f"{result.system['name']} on {name}, {len(result.per_query):,} queries"


@dataclass(frozen=True, slots=True)
class SystemSources:
    """The systems of an evaluation: run files or tables, baselines, folders of vectors, models by name or folder, and
    one matrix with its row and column ids. `index`: exact, ivf or hnsw; `texts`: of the lexical baseline. `systems`:
    files that describe search services, which are asked as `ask` states; `ids`: the column that run files name images
    by. A folder of runs is each of them."""

    runs: Sequence[AnyRun] = ()
    baselines: Sequence[str] = ()
    vectors: Sequence[str | Path] = ()
    models: Sequence[str] = ()
    similarities: tuple[Path, Path, Path] | None = None
    index: str = "exact"
    seed: int = 0
    texts: Path | None = None
    systems: Sequence[str | Path] = ()
    ask: AskOptions = field(default_factory=AskOptions)
    ids: str = "image_id"

    def load_systems(self, judged: JudgedSet) -> list[EvaluatedSystem]:
        """Return the systems in this order. Raises UserError for one that cannot be read."""
        runs = [one for run in self.runs for one in (systems.list_runs(Path(run)) if _is_path(run) else [run])]
        found = [load_run(run, judged) for run in runs]
        if self.ids != "image_id":
            found = [systems.name_images(one, judged, self.ids) for one in found]
        found += [systems.make_baseline(name, self.seed, self.texts) for name in self.baselines]
        found += [systems.load_similarity_system(*self.similarities)] if self.similarities else []
        found += [live_systems.make_live_system(load_system_file(Path(one)), judged, self.ask) for one in self.systems]
        encoded = [read_encoded_set(Path(folder), judged) for folder in self.vectors]
        encoded += [encode_set(name, judged) for name in self.models]
        return found + [systems.make_vector_system(one, self.index) for one in encoded]


def _is_path(run: AnyRun) -> TypeGuard[str | Path]:
    return isinstance(run, str | Path)


def load_run(run: AnyRun, judged: JudgedSet, name: str | None = None) -> EvaluatedSystem:
    """Return the system of a run, under a name where one is given. Raises UserError where it cannot be read."""
    if isinstance(run, str | Path):
        system = systems.load_run_system(Path(run), judged)
    elif isinstance(run, Evaluation):
        table = program_systems.make_table_system(run.run, str(run.result.system["name"]))
        system = EvaluatedSystem(run.result.system, table.produce_run)
    else:
        return program_systems.make_table_system(run, name or "run")
    return system if name is None else systems.rename_system(system, name)


def evaluate_sources(
    judged: JudgedSet,
    sources: SystemSources,
    options: EvaluationOptions,
    directions: Sequence[str] = (TEXT_TO_IMAGE,),
    name: str | None = None,
) -> list[StoredResult]:
    """Evaluate every system in every direction; `name` is that of a single system. Raises UserError."""
    systems.check_index(sources.index)
    evaluated = sources.load_systems(judged)
    if name is not None:
        if len(evaluated) > 1:
            reason = f"is one name for {len(evaluated)} systems"
            raise UserError("evaluate", name, reason, "evaluate them one by one, or leave --name out")
        evaluated = [systems.rename_system(one, name) for one in evaluated]
    return list(evaluate_systems(judged, evaluated, directions, options))


def load_judgments(set_: AnySet | None, qrels: str | Path | None, out: str | Path = DATASETS_FOLDER) -> JudgedSet:
    """Return a set, or the judgments of a TREC file. Raises UserError where it cannot be read, and for none or both."""
    if (set_ is None) == (qrels is None):
        raise UserError("evaluate", str(set_ or qrels), "needs one source of judgments", "give a set, or qrels")
    return load_judged_qrels(Path(qrels)) if qrels is not None else load_judged_set(find_version(set_ or "", out))


def parse_metrics(metrics: Iterable[str]) -> list[str]:
    """Return the names of metrics, or of the usual ones. Raises UserError for an unknown name."""
    return [str(parse_metric(name)) for name in metrics] or list(DEFAULT_METRICS)


def _all_ids(set_: AnySet | None, judged: JudgedSet) -> tuple[Any, Any]:
    """The ids of all queries and images of the set, also of near-duplicates, which `judged` lacks."""
    if isinstance(set_, LoadedSet):
        tables = set_.tables
    elif judged.stored is not None:
        tables = set_files.read_set(judged.stored.path, ("queries", "images")).tables
    else:
        return (), ()
    return tables.queries["query_id"], tables.images["image_id"]


def _make_system(
    given: dict[str, Any], judged: JudgedSet, set_: AnySet | None, name: str | None, index: str, texts: Path | None
) -> EvaluatedSystem:
    """The system of the one argument that is given."""
    (kind, source), *_ = ((key, one) for key, one in given.items() if one is not None)
    if kind == "search":
        return program_systems.make_search_system(source, name or str(getattr(source, "__name__", "search")))
    if kind == "vectors" and isinstance(source, tuple):
        arrays = program_systems.encode_by_arrays(name or "vectors", source, _all_ids(set_, judged), judged)
        return systems.make_vector_system(arrays, index)
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
    index: str = "exact",
    texts: str | Path | None = None,
    qrels: str | Path | None = None,
    store: bool = False,
    report: str | Path | None = None,
    out: str | Path = DATASETS_FOLDER,
    images: Sequence[str | Path] = (),
) -> Evaluation:
    """Measure how well one system finds the images of a set (or of a TREC file `qrels`).

    The system is one of: `run`, a file, a result folder, a data frame (query_id, image_id, score) or scores by query
    and image; `search`, a function of a text and a number k that returns image ids, best first, or pairs of id and
    score; `vectors`, arrays (queries, images) with a row for each of the set's, or a folder; `model`, a name on the
    hub or a folder; `baseline`: random, oracle or lexical; `system`, a
    file that describes a search service. `name` is the system's; `metrics` such as "ndcg@10";
    `store`: write the result beside the set, `report`: into a folder. Raises UserError.
    """
    given: dict[str, Any] = {"run": run, "search": search, "vectors": vectors, "model": model, "baseline": baseline}
    given |= {"system": system}
    if sum(one is not None for one in given.values()) != 1:
        raise UserError("evaluate", str(set_ or qrels), "needs one system", f"give one of {', '.join(given)}")
    if direction not in DIRECTIONS:
        raise UserError("evaluate", direction, "is no direction", suggest_choice(direction, list(DIRECTIONS)))
    systems.check_index(index)
    place = None if report is None else Path(report)
    options = EvaluationOptions(parse_metrics(metrics), k, report=place, is_stored=store)
    with image_roots([str(root) for root in images]):
        judged = load_judgments(set_, qrels, out)
        evaluated = _make_system(given, judged, set_, name, index, None if texts is None else Path(texts))
        if name not in (None, evaluated.description["name"]):
            evaluated = systems.rename_system(evaluated, str(name))
        (stored,) = evaluate_systems(judged, [evaluated], (direction,), options)
    return Evaluation(stored.scored.result, stored.scored.run, stored.folder, stored.page)
