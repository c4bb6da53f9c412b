"""The requests of audits, judges, overlaps, and of what a set would notice."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from querytruth.audit.definition import AuditJudgeOptions
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UsageError
from querytruth.requests import ONE_OR_MORE, SET_NAME, ByName, ByPlace, Request, WrongRequestError, parse_model_options


class NoticeRequest(Request):
    """Measure which damages of a search a set would notice, where that search is blind, and what nobody asks."""

    stage: ClassVar[str] = "notice"

    of: Annotated[str, SET_NAME, ByPlace("SET")] = Field(description="Set: name, name/v3 or a path.")
    run: Path | None = Field(
        None, description="Run file or result folder (default: the best result stored beside the set)."
    )
    system: Path | None = Field(None, description="Search service described in YAML, in place of a run.")
    vectors: Path | None = Field(
        None, description="Folder of vectors, in place of a run; the vectors are damaged, too."
    )
    model: str | None = Field(None, description="Model name on the hub, or its folder; its vectors are damaged.")
    metric: str = Field("ndcg@10", description="Metric that the gate compares.")
    margin: float = Field(0.01, gt=0, lt=1, description="Loss that the gate tolerates.")
    size: float = Field(0.05, gt=0, le=0.5, description="Share of images or queries that a damage must hit to count.")
    draws: int = Field(50, ge=10, le=1000, description="Number of draws of each damage at each size.")
    to: Path | None = Field(None, description="Folder for notice.json and the page (default: beside the set).")
    page_language: Literal["en", "zh"] = Field("en", description="Language of the page.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")

    @model_validator(mode="after")
    def _check_system(self) -> Self:
        if sum(one is not None for one in (self.run, self.system, self.vectors, self.model)) > 1:
            raise WrongRequestError("run, system, vectors and model", "exclude each other", "give at most one of them")
        return self


class OverlapRequest(Request):
    """Measure what a set shares with other collections."""

    stage: ClassVar[str] = "find overlap"

    of: Annotated[str, SET_NAME, ByPlace("SET")] = Field(description="Set: name, name/v3 or a path.")
    against: Annotated[list[Annotated[str, SET_NAME]], ONE_OR_MORE] = Field(
        description="Images (a folder, a list or a table), a table of captions, or a set; repeatable."
    )
    to: Path | None = Field(
        None, description="Folder for the result (default: beside the set, for slices of evaluations)."
    )
    drop: bool = Field(False, description="Mark leaked queries for removal: the next `apply` drops them.")
    page_language: Literal["en", "zh"] = Field("en", description="Language of the page.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")


class JudgeRequest(Request):
    """The model and options of a judge."""

    judge: str | None = Field(None, description="Chat model that accepts images; its grades divide the strata.")
    judge_option: Annotated[list[str], ByName("--judge-option", "KEY=VALUE")] = Field(
        default_factory=list, description="Option of the judge's model."
    )
    allow_contestant: bool = Field(False, description="Allow a judge that is one of the systems.")
    judge_scores: bool = Field(False, description="Ask the judge for the probability of yes instead of a grade.")

    judge_samples: int = Field(
        0, ge=0, le=100, description="Number of yes-or-no samples per pair, for a judge without probabilities."
    )

    def load_judge(self) -> AuditJudgeOptions | None:
        """Return the judge that is named. Raises UsageError for options without one."""
        if self.judge is not None:
            options = parse_model_options(self.judge_option)
            stated = {"allow_contestant": self.allow_contestant, "scores": self.judge_scores}
            return AuditJudgeOptions(model=self.judge, options=options, samples=self.judge_samples, **stated)
        if self.judge_option or self.allow_contestant or self.judge_scores or self.judge_samples:
            raise UsageError("--judge-option, --allow-contestant", "need a judge", "give --judge")
        return None


class JudgeCheckRequest(JudgeRequest):
    """Measure how well a judge agrees with people."""

    stage: ClassVar[str] = "check judge"

    of: Annotated[str, SET_NAME, ByPlace("SET")] = Field(description="Set: name, name/v3 or a path.")
    judge: str = Field(description="Chat model that accepts images.")
    offline: bool = Field(False, description="Work offline: use stored replies only.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")
