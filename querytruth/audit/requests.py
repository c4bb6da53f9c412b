"""What audits and their judges take, the comparison of a set with training data, and what it would notice."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from querytruth.audit.definition import AuditJudgeOptions
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UsageError
from querytruth.requests import ONE_OR_MORE, SET_NAME, ByName, ByPlace, Request, WrongRequestError, parse_model_options


class NoticeRequest(Request):
    """What would a set notice of a search's damages, where is that search blind, and what does nobody ask?"""

    stage: ClassVar[str] = "notice"

    of: Annotated[str, SET_NAME, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    run: Path | None = Field(
        None, description="A run file or a result's folder; none: the best result that is stored beside the set."
    )
    system: Path | None = Field(None, description="A search service, described in YAML, in place of a run.")
    vectors: Path | None = Field(None, description="A folder of vectors, in place of a run: these are damaged, too.")
    model: str | None = Field(None, description="A model's name on the hub, or its folder; its vectors are damaged.")
    metric: str = Field("ndcg@10", description="What the gate compares.")
    margin: float = Field(0.01, gt=0, lt=1, description="The loss that the gate tolerates.")
    size: float = Field(0.05, gt=0, le=0.5, description="Share of images or queries at which a damage counts.")
    draws: int = Field(50, ge=10, le=1000, description="Draws of each damage at each size.")
    to: Path | None = Field(None, description="A folder for notice.json and the page; none: beside the set.")
    page_language: Literal["en", "zh"] = Field("en", description="Language of the page.")
    out: Path = Field(DATASETS_FOLDER, description="Folder that holds the sets.")

    @model_validator(mode="after")
    def _check_system(self) -> Self:
        if sum(one is not None for one in (self.run, self.system, self.vectors, self.model)) > 1:
            raise WrongRequestError("run, system, vectors and model", "exclude each other", "give one of them, or none")
        return self


class OverlapRequest(Request):
    """What does a set share with other collections?"""

    stage: ClassVar[str] = "find overlap"

    of: Annotated[str, SET_NAME, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    against: Annotated[list[Annotated[str, SET_NAME]], ONE_OR_MORE] = Field(
        description="Images (a folder, a list, a table), a table of captions, or a set; repeatable."
    )
    to: Path | None = Field(
        None, description="A folder for the result; none: beside the set, for slices of evaluations."
    )
    drop: bool = Field(False, description="Decide that leaked queries leave the set: the next `apply` drops them.")
    page_language: Literal["en", "zh"] = Field("en", description="Of the page.")
    out: Path = Field(DATASETS_FOLDER, description="Where sets lie.")


class JudgeRequest(Request):
    """What asks a judge, where one is named."""

    judge: str | None = Field(None, description="A chat model that sees images and divides the strata.")
    judge_option: Annotated[list[str], ByName("--judge-option", "KEY=VALUE")] = Field(
        default_factory=list, description="An option of that model."
    )
    allow_contestant: bool = Field(False, description="The judge may be one of the systems.")
    judge_scores: bool = Field(False, description="Ask it for the probability of yes, in place of a grade.")

    judge_samples: int = Field(
        0, ge=0, le=100, description="Ask it so often for a yes or no, where it gives no probabilities."
    )

    def load_judge(self) -> AuditJudgeOptions | None:
        """Return the judge that is named. Raises UsageError for options without one."""
        if self.judge is not None:
            options = parse_model_options(self.judge_option)
            stated = {"allow_contestant": self.allow_contestant, "scores": self.judge_scores}
            return AuditJudgeOptions(model=self.judge, options=options, samples=self.judge_samples, **stated)
        if self.judge_option or self.allow_contestant or self.judge_scores or self.judge_samples:
            raise UsageError("--judge-option, --allow-contestant", "are of a judge", "give --judge")
        return None


class JudgeCheckRequest(JudgeRequest):
    """How well does a judge agree with people?"""

    stage: ClassVar[str] = "check judge"

    of: Annotated[str, SET_NAME, ByPlace("SET")] = Field(description="name, name/v3 or a path")
    judge: str = Field(description="A chat model that sees images.")
    offline: bool = Field(False, description="Connect to nothing: use the replies that are stored.")
    out: Path = Field(DATASETS_FOLDER, description="Where sets lie.")
