"""Requests of evaluate, search, compare, gate and plan-size."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UserError
from querytruth.evaluation.evaluation_result import DIRECTIONS, TEXT_TO_IMAGE
from querytruth.evaluation.judged_sets import parse_slices
from querytruth.evaluation.release_gate import GATE_STAGE, GateSpec, parse_latency_budget, parse_margins
from querytruth.evaluation.run_evaluation import choose_metrics
from querytruth.requests import ONE_OR_MORE, SET_NAME, ByPlace, Request, WrongRequestError

PART_COLUMNS = ("language", "level", "topic", "family")  # the columns of queries that choose a part of them
_SYSTEMS = ("model", "run", "baseline", "system", "vectors")


def _split_metrics(value: Any) -> Any:
    """Return the metrics of one text, as a command line has them, or of a list."""
    texts = [value] if isinstance(value, str) else list(value or [])
    return [name for text in texts for name in str(text).replace(",", " ").split()]


def _check_metrics(names: list[str]) -> list[str]:
    try:
        choose_metrics(names)
    except UserError as error:
        raise WrongRequestError(error.item, error.reason, error.next_step) from None
    return names


Metrics = Annotated[list[str], BeforeValidator(_split_metrics), AfterValidator(_check_metrics)]


class JudgedRequest(Request):
    """The judgments of a request: a set, or bare judgments."""

    of: Annotated[str | None, SET_NAME, ByPlace("SET")] = Field(
        None, description="name, name/v3 or a path; not with qrels."
    )
    qrels: Path | None = Field(None, description="Judgments in TREC format, instead of a set.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")

    @property
    def part(self) -> dict[str, str | int]:
        """Return the filters of queries, by column."""
        return {name: value for name in PART_COLUMNS if (value := getattr(self, name, None)) is not None}

    @property
    def label(self) -> str:
        """Return the set, or the file of judgments."""
        return str(self.of or self.qrels)

    @model_validator(mode="after")
    def _check_truth(self) -> Self:
        if (self.of is None) == (self.qrels is None):
            raise WrongRequestError("the set", "must be given, or qrels, but not both", "give one of them")
        return self


class EvaluationOptions(Request):
    """The metrics of an evaluation, and where its result is stored."""

    stage: ClassVar[str] = "evaluate"

    metrics: Metrics = Field(
        default_factory=list, description="Metrics, such as ndcg@10,ap@50(norm=min),p@r (default: the usual ones)."
    )
    k: int | None = Field(None, ge=1, description="Number of results per query (default: as many as the metrics need).")
    precision: Annotated[list[Annotated[float, Field(ge=0, le=1)]], ONE_OR_MORE] = Field(
        default_factory=lambda: [0.9], description="Target precision: report the lowest score that reaches it."
    )
    max_unknown: float | None = Field(
        None, ge=0, le=1, description="Maximum share of unknown ids in a run (default: queries 0.1, results 0.5)."
    )
    outside: Literal["keep", "condense"] | None = Field(
        None, description="Results that the set left out: keep their ranks (default: imported sets), or condense."
    )
    store: bool = Field(True, description="Store the result next to the set.")
    report: Path | None = Field(None, description="Folder for results, instead of the one next to the set.")
    page: bool = Field(True, description="Write report.html into each result folder.")
    page_language: Literal["en", "zh"] = Field("en", description="Language of the page.")

    @property
    def chosen_metrics(self) -> list[str]:
        """Return the canonical names of the metrics; of none those of the usual ones that k results are enough for."""
        return choose_metrics(self.metrics, self.k)


class EvaluationRequest(EvaluationOptions, JudgedRequest):
    """Systems that search a set, or one system evaluated on bare judgments."""

    model: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="Name of a model on the hub, or its folder."
    )
    run: Annotated[list[Path], ONE_OR_MORE] = Field(
        default_factory=list,
        description="Run file (TREC, JSON, JSON lines, Parquet or CSV), result folder, or folder of runs.",
    )
    ids: str = Field(
        "image_id",
        description="How run files identify images: a column (image_id, file_name, path, source_url, source_id), or "
        "a pattern such as 'photo:{stem}.webp'.",
    )
    scores: Literal["likeness", "distance"] | None = Field(
        None, description="Meaning of the scores of run files and of a matrix; distance: the lowest is the best."
    )
    baseline: Annotated[list[str], ONE_OR_MORE] = Field(default_factory=list, description="random, oracle or lexical.")
    system: Annotated[list[Path], ONE_OR_MORE] = Field(
        default_factory=list, description="YAML file that describes a search service."
    )
    offline: bool = Field(False, description="Use recorded answers of services only; connect to nothing.")
    refresh: bool = Field(False, description="Query services again, even if answers are recorded.")
    vectors: Annotated[list[Path], ONE_OR_MORE] = Field(
        default_factory=list, description="Folder with images/ and queries/*.parquet."
    )
    similarities: Path | None = Field(None, description="Matrix (.npy), texts by images or images by texts.")
    rows: Path | None = Field(None, description="Ids of the matrix rows, one per line.")
    columns: Path | None = Field(None, description="Ids of the matrix columns, one per line.")
    direction: Literal["text_to_image", "image_to_text", "both"] = Field(
        "text_to_image", description="Search direction: images by texts, texts by images, or both."
    )
    language: str | None = Field(None, description="Only queries in this language.")
    level: int | None = Field(None, ge=1, description="Only queries with this number of labels or topics.")
    topic: str | None = Field(None, description="Only queries of this topic.")
    family: str | None = Field(None, description="Only queries of this family (count, or count/2).")
    index: Literal["exact", "ivf", "hnsw"] = Field("exact", description="Index for vector search.")
    texts: Path | None = Field(None, description="Texts about the images (CSV), for the lexical baseline.")
    images: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="Folder or URL outside the set where its images can be read."
    )
    seed: int = Field(0, description="Seed of the random baseline.")
    name: str | None = Field(
        None, min_length=1, description="Name of the system and of its result folder (default: name of the file)."
    )

    @property
    def directions(self) -> tuple[str, ...]:
        """Return the directions to evaluate."""
        return DIRECTIONS if self.direction == "both" else (self.direction,)

    @property
    def matrix(self) -> tuple[Path, Path, Path] | None:
        """Return the matrix, and the ids of its rows and columns."""
        return (
            (self.similarities, self.rows, self.columns) if self.similarities and self.rows and self.columns else None
        )

    def count_systems(self) -> int:
        """Return the number of systems in the request; a folder of runs counts once."""
        return sum(len(getattr(self, name)) for name in _SYSTEMS) + (self.matrix is not None)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.matrix is None and any((self.similarities, self.rows, self.columns)):
            raise WrongRequestError("similarities", "needs rows and columns", "give all three files")
        if not self.count_systems():
            raise WrongRequestError("the system", "is missing", f"give one of {', '.join(_SYSTEMS)} or similarities")
        if self.name is not None and self.count_systems() > 1:
            raise WrongRequestError("name", "can name only one system", "evaluate them one by one")
        if self.direction == "both" and self.run:
            raise WrongRequestError(
                "direction", "is both, but a run has one direction", f"choose {' or '.join(DIRECTIONS)}"
            )
        if self.part and self.direction != TEXT_TO_IMAGE:
            raise WrongRequestError("direction", "must be text_to_image when queries are filtered", "remove it")
        if self.max_unknown is not None and self.qrels is not None:
            raise WrongRequestError("max_unknown", "needs a set; qrels know every query", "remove it")
        return self


class SearchRequest(Request):
    """One query on a set, by any system."""

    stage: ClassVar[str] = "search"

    of: Annotated[str, SET_NAME, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    text: Annotated[str, ByPlace("TEXT")] = Field(description="Query text: of the set, or a new one.")
    model: str | None = Field(None, description="Name of a model on the hub, or its folder.")
    system: Path | None = Field(None, description="YAML file that describes a search service.")
    run: Path | None = Field(None, description="Run file, or result folder.")
    ids: str = Field("image_id", description="How a run identifies images: a column or a pattern, as in evaluate.")
    k: int = Field(24, ge=1, le=1000, description="Number of results to show.")
    page: Path | None = Field(None, description="Also write an HTML page with the images.")
    page_language: Literal["en", "zh"] = Field("en", description="Language of the page.")
    images: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="Folder or URL outside the set where its images can be read."
    )
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")

    @model_validator(mode="after")
    def _check_system(self) -> Self:
        if sum(one is not None for one in (self.model, self.system, self.run)) != 1:
            raise WrongRequestError("the system", "must be exactly one", "give one of model, system, run")
        return self


class CompareRequest(JudgedRequest):
    """Two or more systems on the same queries."""

    stage: ClassVar[str] = "compare"

    run: Annotated[list[Path], ONE_OR_MORE, ByPlace("RUN")] = Field(
        default_factory=list,
        description="Two or more files, or names that evaluate prints (default: all evaluated systems).",
    )
    metrics: Metrics = Field(
        default_factory=list, description="Metrics, such as ndcg@10,ap@50(norm=min),p@r (default: the usual ones)."
    )
    direction: Literal["text_to_image", "image_to_text"] = Field("text_to_image", description="Search direction.")
    slice: str | None = Field(None, description="Only these queries, such as overlap=clean.")
    page: Path | None = Field(None, description="Also write an HTML page that compares two runs.")
    page_language: Literal["en", "zh"] = Field("en", description="Language of the page.")


class GateOptions(JudgedRequest):
    """The checks of a gate, and the tolerated losses."""

    stage: ClassVar[str] = GATE_STAGE

    baseline: Path = Field(description="Run to compare with: a file, or a name that evaluate prints.")
    metric: Metrics = Field(default_factory=lambda: ["ndcg@10"], description="Metrics of the gate.")
    margin: Annotated[list[float], ONE_OR_MORE] = Field(
        default_factory=lambda: [0.01], description="Tolerated loss: one for all metrics, or one per metric."
    )
    slice: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="Also check this slice, such as language=zh."
    )
    max_latency: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="Latency budget of the candidate in milliseconds, such as p95=250."
    )
    undecided: Literal["pass", "fail"] | None = Field(None, description="Result if the evidence is insufficient.")
    require_certificate: bool = Field(
        False, description="Reject a set whose certificate is missing or short of its goal."
    )

    @property
    def spec(self) -> GateSpec:
        """Return the checks. Raises UserError for invalid ones."""
        slices, budget = parse_slices(self.slice, GATE_STAGE), parse_latency_budget(self.max_latency)
        return GateSpec(parse_margins(self.metric, self.margin), slices, budget)

    @model_validator(mode="after")
    def _check_spec(self) -> Self:
        try:
            _ = self.spec
        except UserError as error:
            raise WrongRequestError(error.item, error.reason, error.next_step) from None
        return self


class GateRequest(GateOptions):
    """May a candidate replace the baseline?"""

    candidate: Path = Field(description="Run to release: a file, or a name that evaluate prints.")
    report: Path | None = Field(None, description="Write gate.json, gate.md and gate.junit.xml into this folder.")


class SizeRequest(JudgedRequest):
    """The number of queries needed to detect a difference of two systems."""

    stage: ClassVar[str] = "plan size"

    difference: float = Field(description="True difference to detect, such as 0.02.")
    metric: str = Field("hit@1", description="Metric, such as ndcg@10.")
    pilot: tuple[Path, Path] | None = Field(None, description="Two runs that show how much systems differ per query.")
    discordance: float | None = Field(None, description="Share of queries that differ, without a pilot.")
    power: float = Field(0.8, description="Probability of detecting the difference.")
