"""Evaluations of search systems on a set, whole or of one query."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import pandas as pd
from pydantic import ConfigDict, Field

from flows.evaluation import evaluate_systems, load_judgments, load_systems
from flows.search import QueryResults, search_by_model, search_by_system, search_in_run, write_search_page
from querytruth.errors import UsageError, UserError, suggest_choice
from querytruth.evaluation import comparison, judged_sets, program_systems, systems
from querytruth.evaluation.evaluation_result import EvaluationResult, describe_queries
from querytruth.evaluation.metrics import parse_metric
from querytruth.evaluation.program_systems import RunTable, SearchFunction
from querytruth.evaluation.requests import EvaluationRequest, SearchRequest
from querytruth.evaluation.systems import EvaluatedSystem
from querytruth.requests import ONE_OR_MORE, takes_request
from querytruth.review.search_views import render_table
from querytruth.sets import set_files
from querytruth.sets.published_files import image_roots

_SHOWN = ["metric", "value", "low", "high", "at_least", "at_most", "chance", "detectable"]
AnyRun: TypeAlias = "str | Path | RunTable | Evaluation"


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
        """Return a row per metric: value, interval (low, high), bounds by unjudged results, chance, detectable
        difference."""
        return self.result.figures

    @property
    def per_query(self) -> pd.DataFrame:
        """Return a row per query, a column per metric."""
        return self.result.per_query

    @property
    def slices(self) -> pd.DataFrame:
        """Return the metrics by level, style, language, topic and length of the queries."""
        return self.result.slices

    @property
    def phrasings(self) -> pd.DataFrame:
        """Return the worst, mean and best wording of a question per metric, and their spread with its interval; empty
        where no question has two wordings."""
        return self.result.phrasings

    @property
    def weighted(self) -> pd.DataFrame:
        """Return the means over the questions and the searches of the sampled log, per metric with intervals; empty for
        other sets."""
        return self.result.traffic

    @property
    def ranked(self) -> pd.DataFrame:
        """Return the first 20 results of each query with their relevance; -1 is unjudged."""
        return self.result.ranked

    @property
    def warnings(self) -> list[comparison.EvaluationWarning]:
        """Return the warnings about figures: metric, code, detail."""
        return self.result.warnings

    def __repr__(self) -> str:
        """Return the system, the set and the first figures in one line."""
        shown = ", ".join(f"{row.metric} {row.value:.3f}" for row in self.figures.head(4).itertuples())
        return f"<{_title(self.result)}: {shown}>"

    def _repr_html_(self) -> str:
        details = dict.fromkeys(f"warning: {w.code.replace('_', ' ')} {w.metric}: {w.detail}" for w in self.warnings)
        return render_table(_title(self.result), self.figures[_SHOWN], list(details))


def _title(result: EvaluationResult) -> str:
    return f"{result.system['name']} on {result.set_name}, {describe_queries(result.counts, len(result.per_query))}"


def load_run(run: AnyRun, judged: judged_sets.JudgedSet, name: str | None = None) -> EvaluatedSystem:
    """Return the system of a run, under a name where one is given. Raises UserError where it cannot be read."""
    if isinstance(run, str | Path):
        system = systems.load_run_system(Path(run), judged)
    elif isinstance(run, Evaluation):
        table = program_systems.make_table_system(run.run, str(run.result.system["name"]))
        system = EvaluatedSystem(run.result.system, table.produce_run)
    else:
        return program_systems.make_table_system(run, name or "run")
    return system if name is None else systems.rename_system(system, name)


def _all_ids(judged: judged_sets.JudgedSet) -> tuple[Any, Any]:
    """Return the ids of all queries and images of the set, including near-duplicates, which `judged` lacks."""
    if judged.stored is None:
        return (), ()
    tables = set_files.read_set(judged.stored.path, ("queries", "images")).tables
    return tables.queries["query_id"], tables.images["image_id"]


class ProgramEvaluation(EvaluationRequest):
    """An evaluation request from Python: runs, vectors in memory and search functions can be systems."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    run: Annotated[list[Any], ONE_OR_MORE] = Field(
        default_factory=list,
        description="A file, a result folder, a data frame (query_id, image_id, score), scores by query and image, "
        "or another evaluation.",
    )
    vectors: Annotated[list[Any], ONE_OR_MORE] = Field(
        default_factory=list, description="Two arrays (queries, images), one row per item of the set; or a folder."
    )
    search: SearchFunction | None = Field(
        None, description="A function of a text and a number k; it returns image ids, best first, or (id, score) pairs."
    )
    store: bool = Field(False, description="Store the result next to the set.")

    def count_systems(self) -> int:
        return super().count_systems() + (self.search is not None)


def _load_system(request: ProgramEvaluation, judged: judged_sets.JudgedSet) -> EvaluatedSystem:
    """Return the one system of the request, under its name."""
    name = request.name
    if request.search is not None:
        named = name or str(getattr(request.search, "__name__", "search"))
        return program_systems.make_search_system(request.search, named)
    if request.vectors and isinstance(request.vectors[0], tuple):
        ids = _all_ids(judged)
        arrays = program_systems.encode_by_arrays(name or "vectors", request.vectors[0], ids, judged)
        return systems.make_vector_system(arrays, request.index)
    if request.run and not isinstance(request.run[0], str | Path):
        if request.scores is not None:
            raise UsageError(
                "scores", "applies to run files only", "change the table so that the highest is the best", "evaluate"
            )
        system = load_run(request.run[0], judged, name)
        return system if request.ids == "image_id" else systems.name_images(system, judged, request.ids)
    found = load_systems(request, judged)
    if len(found) != 1:
        raise UsageError("the system", f"is a folder of {len(found)} runs", "evaluate them one by one", "evaluate")
    return found[0] if name is None else systems.rename_system(found[0], name)


@takes_request(ProgramEvaluation)
def evaluate(request: ProgramEvaluation) -> Evaluation:
    """Measure how well one system finds the images of a set, or of bare judgments. Raises UserError."""
    if request.count_systems() > 1 or request.direction == "both":
        raise UsageError("the system", "must be one, in one direction", "evaluate them one by one", "evaluate")
    with image_roots([str(root) for root in request.images]):
        judged = load_judgments(request)
        (stored,) = evaluate_systems(judged, [_load_system(request, judged)], request.directions, request)
    return Evaluation(stored.scored.result, stored.scored.run, stored.folder, stored.page)


def search_set(request: SearchRequest) -> QueryResults:
    """Try one query, of the set or a new one, on a model, a search service or a run file: the result has `hits` with
    rank, id, score and grade (None: not judged), and `missed`, the relevant images that are not among them. Raises
    UserError."""
    with image_roots([str(root) for root in request.images]):
        judged = judged_sets.load_judged_set(set_files.find_set(request.of, request.out, remote="whole"))
        if request.model is not None:
            results = search_by_model(judged, request.model, request.text, request.k)
        elif request.run is not None:
            results = search_in_run(judged, request.run, request.text, request.k, request.ids)
        else:
            assert request.system is not None and judged.stored is not None
            named = judged_sets.read_named_images(judged.stored.path)
            results = search_by_system(judged, request.system, request.text, request.k, named)
        if request.page is not None:
            write_search_page(results, judged, request.page, request.page_language)
    return results
