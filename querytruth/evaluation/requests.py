"""What an evaluation takes_request, and what a gate takes."""

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
    """Metrics in one text, as a command line has them, or in a list."""
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
    """What results are judged by: a set, or bare judgments."""

    of: Annotated[str | None, SET_NAME, ByPlace("SET")] = Field(
        None, description="name, name/v3 or a path; none with qrels."
    )
    qrels: Path | None = Field(None, description="Judgments in TREC's form, in place of a set.")
    out: Path = Field(DATASETS_FOLDER, description="Where sets lie.")

    @property
    def part(self) -> dict[str, str | int]:
        """Return the values by which queries are chosen, by column."""
        return {name: value for name in PART_COLUMNS if (value := getattr(self, name, None)) is not None}

    @property
    def label(self) -> str:
        """Return the set, or the file of judgments."""
        return str(self.of or self.qrels)

    @model_validator(mode="after")
    def _check_truth(self) -> Self:
        if (self.of is None) == (self.qrels is None):
            raise WrongRequestError("the set", "is missing, or is there beside qrels", "name a set, or give qrels")
        return self


class EvaluationOptions(Request):
    """What is measured, and where it is stored."""

    stage: ClassVar[str] = "evaluate"

    metrics: Metrics = Field(
        default_factory=list, description="Such as ndcg@10,ap@50(norm=min),p@r; none: the usual ones."
    )
    k: int | None = Field(None, ge=1, description="Results that a search gives; none: what the metrics look at.")
    precision: Annotated[list[Annotated[float, Field(ge=0, le=1)]], ONE_OR_MORE] = Field(
        default_factory=lambda: [0.9], description="Find the lowest score with it."
    )
    max_unknown: float | None = Field(
        None, ge=0, le=1, description="Share of a run that the set need not know: its queries (0.1), its results (0.5)."
    )
    outside: Literal["keep", "condense"] | None = Field(
        None, description="Results that the set listed and left out: at their ranks (imported sets), or none (others)."
    )
    store: bool = Field(True, description="Store the result beside the set.")
    report: Path | None = Field(None, description="A folder for results, in place of the one beside the set.")
    page: bool = Field(True, description="Write report.html into each result's folder.")
    page_language: Literal["en", "zh"] = Field("en", description="Of the page.")

    @property
    def chosen_metrics(self) -> list[str]:
        """Return the canonical names of the metrics; of none those of the usual ones that k results are enough for."""
        return choose_metrics(self.metrics, self.k)


class EvaluationRequest(EvaluationOptions, JudgedRequest):
    """Systems that search a set, or one that bare judgments stand for."""

    model: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="A model's name on the hub, or its folder."
    )
    run: Annotated[list[Path], ONE_OR_MORE] = Field(
        default_factory=list,
        description="TREC, JSON, JSON lines, Parquet, CSV, a result's folder, or a folder of runs.",
    )
    ids: str = Field(
        "image_id",
        description="What run files name images by: a column (image_id, file_name, path, source_url, source_id), or a "
        "pattern such as 'photo:{stem}.webp'.",
    )
    scores: Literal["likeness", "distance"] | None = Field(
        None, description="What the scores of run files and of a matrix are; distance: the lowest is the best."
    )
    baseline: Annotated[list[str], ONE_OR_MORE] = Field(default_factory=list, description="random, oracle or lexical.")
    system: Annotated[list[Path], ONE_OR_MORE] = Field(
        default_factory=list, description="A search service, described in YAML."
    )
    offline: bool = Field(False, description="Use recorded answers of services only; connect to nothing.")
    refresh: bool = Field(False, description="Ask services again, also what is recorded.")
    vectors: Annotated[list[Path], ONE_OR_MORE] = Field(
        default_factory=list, description="A folder with images/ and queries/*.parquet."
    )
    similarities: Path | None = Field(None, description="A matrix (.npy), texts by images or turned.")
    rows: Path | None = Field(None, description="The ids of the matrix's rows, one a line.")
    columns: Path | None = Field(None, description="The ids of its columns, one a line.")
    direction: Literal["text_to_image", "image_to_text", "both"] = Field(
        "text_to_image", description="Which side is searched: images by texts, texts by images, or both."
    )
    language: str | None = Field(None, description="Only the queries in this language.")
    level: int | None = Field(None, ge=1, description="Only the queries with so many labels or topics.")
    topic: str | None = Field(None, description="Only the queries of this topic.")
    family: str | None = Field(None, description="Only the queries of this family (count, or count/2).")
    index: Literal["exact", "ivf", "hnsw"] = Field("exact", description="How vectors are searched.")
    texts: Path | None = Field(None, description="Words about the images (CSV), for the lexical baseline.")
    images: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="A folder or URL outside the set in which its images may be read."
    )
    seed: int = Field(0, description="Of the random baseline.")
    name: str | None = Field(
        None,
        min_length=1,
        description="The name of the system, and of its result's folder; none: that of the file.",
    )

    @property
    def directions(self) -> tuple[str, ...]:
        """Those that are evaluated."""
        return DIRECTIONS if self.direction == "both" else (self.direction,)

    @property
    def matrix(self) -> tuple[Path, Path, Path] | None:
        """Return the matrix, and the ids of its rows and columns."""
        return (
            (self.similarities, self.rows, self.columns) if self.similarities and self.rows and self.columns else None
        )

    def count_systems(self) -> int:
        """Return how many systems are named; a folder of runs is one here."""
        return sum(len(getattr(self, name)) for name in _SYSTEMS) + (self.matrix is not None)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.matrix is None and any((self.similarities, self.rows, self.columns)):
            raise WrongRequestError("similarities", "goes with rows and columns", "give all three files")
        if not self.count_systems():
            raise WrongRequestError("the system", "is missing", f"name one: {', '.join(_SYSTEMS)} or similarities")
        if self.name is not None and self.count_systems() > 1:
            raise WrongRequestError("name", "is the name of one system", "evaluate them one by one")
        if self.direction == "both" and self.run:
            raise WrongRequestError("direction", "is both, and a run answers one way", f"say {' or '.join(DIRECTIONS)}")
        if self.part and self.direction != TEXT_TO_IMAGE:
            raise WrongRequestError(
                "direction", "is of all queries: a part of them searches text to image", "leave it out"
            )
        if self.max_unknown is not None and self.qrels is not None:
            raise WrongRequestError("max_unknown", "goes with a set: qrels have every query of a run", "leave it out")
        return self


class SearchRequest(Request):
    """One query on a set, by any system."""

    stage: ClassVar[str] = "search"

    of: Annotated[str, SET_NAME, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    text: Annotated[str, ByPlace("TEXT")] = Field(description="A query: one of the set, or a new one.")
    model: str | None = Field(None, description="A model's name on the hub, or its folder.")
    system: Path | None = Field(None, description="A search service, described in YAML.")
    run: Path | None = Field(None, description="A run file, or the folder of a result.")
    ids: str = Field("image_id", description="What a run names images by: a column, or a pattern, as in evaluate.")
    k: int = Field(24, ge=1, le=1000, description="Results to show.")
    page: Path | None = Field(None, description="Also write an HTML page with the images.")
    page_language: Literal["en", "zh"] = Field("en", description="Of the page.")
    images: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="A folder or URL outside the set in which its images may be read."
    )
    out: Path = Field(DATASETS_FOLDER, description="Where sets lie.")

    @model_validator(mode="after")
    def _check_system(self) -> Self:
        if sum(one is not None for one in (self.model, self.system, self.run)) != 1:
            raise WrongRequestError("the system", "is not one", "name one: model, system or run")
        return self


class CompareRequest(JudgedRequest):
    """Two or more systems on the same queries."""

    stage: ClassVar[str] = "compare"

    run: Annotated[list[Path], ONE_OR_MORE, ByPlace("RUN")] = Field(
        default_factory=list,
        description="Two or more: files, or names that evaluate prints; none: all that was evaluated.",
    )
    metrics: Metrics = Field(
        default_factory=list, description="Such as ndcg@10,ap@50(norm=min),p@r; none: the usual ones."
    )
    direction: Literal["text_to_image", "image_to_text"] = Field("text_to_image", description="Who searched whom.")
    slice: str | None = Field(None, description="Only these queries, such as overlap=clean.")
    page: Path | None = Field(None, description="Also write an HTML page of two runs.")
    page_language: Literal["en", "zh"] = Field("en", description="Of the page.")


class GateOptions(JudgedRequest):
    """What is gated, and what is tolerated."""

    stage: ClassVar[str] = GATE_STAGE

    baseline: Path = Field(description="The run to compare with: a file, or a name that evaluate prints.")
    metric: Metrics = Field(default_factory=lambda: ["ndcg@10"], description="What is gated.")
    margin: Annotated[list[float], ONE_OR_MORE] = Field(
        default_factory=lambda: [0.01], description="The loss that is tolerated: one for all, or one per metric."
    )
    slice: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="Gated besides all queries, such as language=zh."
    )
    max_latency: Annotated[list[str], ONE_OR_MORE] = Field(
        default_factory=list, description="A budget of the candidate in milliseconds, such as p95=250."
    )
    undecided: Literal["pass", "fail"] | None = Field(None, description="What too little evidence counts as.")
    require_certificate: bool = Field(
        False, description="Refuse a set whose certificate is missing or short of its goal."
    )

    @property
    def spec(self) -> GateSpec:
        """What is checked. Raises UserError where it cannot be."""
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

    candidate: Path = Field(description="The run that is to go out: a file, or a name that evaluate prints.")
    report: Path | None = Field(None, description="Write gate.json, gate.md and gate.junit.xml into this folder.")


class SizeRequest(JudgedRequest):
    """How many queries find a difference of two systems?"""

    stage: ClassVar[str] = "plan size"

    difference: float = Field(description="The true difference that is to be found, such as 0.02.")
    metric: str = Field("hit@1", description="Such as ndcg@10.")
    pilot: tuple[Path, Path] | None = Field(None, description="Two runs: how much systems differ by query.")
    discordance: float | None = Field(None, description="Share of queries that differ, without a pilot.")
    power: float = Field(0.8, description="The chance to find the difference.")
