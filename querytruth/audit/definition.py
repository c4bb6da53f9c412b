"""The keys of an audit's definition."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from querytruth import definitions
from querytruth.defaults import DATASETS_FOLDER
from querytruth.requests import IN_FORMS, ByName


class StrataOptions(definitions.StrictModel):
    """How judgments are divided. `floor`: pairs of each stratum, if it has so many; `judged_relevant`: the share of
    judgments on pairs that the set calls relevant; `outside`: the share on pairs outside the pool."""

    floor: int = Field(15, ge=2)
    judged_relevant: float = Field(0.2, ge=0.05, le=0.8)
    outside: float = Field(0.1, ge=0, le=0.5)


class JudgeOptions(definitions.StrictModel):
    """A chat model that sees images and divides the strata, with its options. `allow_contestant`: it may be one of the
    systems; `scores`: it is asked for the probability of yes, in place of a grade (always of a model of pairs);
    `samples`: it is asked so often for a yes or no, where its endpoint gives no probabilities."""

    model: str
    options: definitions.ChatModelOptions = Field(default_factory=dict)
    allow_contestant: bool = False
    scores: bool = False
    samples: int = Field(0, ge=0, le=100)

    @property
    def calls_per_pair(self) -> int:
        """Return the number of questions that each pair needs."""
        return max(self.samples, 1)


class AuditJudgeOptions(JudgeOptions):
    """The judge of an audit. `price`: the endpoint's, for plans."""

    price: definitions.PriceOptions | None = Field(None, exclude=True)


class PairJudgeOptions(JudgeOptions, allow_inf_nan=False):
    """A judge that decides the pairs that a build proposes, once people's answers calibrate it. `at_least`: the
    probability from which a pair counts as relevant."""

    at_least: float = Field(0.9, gt=0, le=1)


class AuditKeys(definitions.StrictModel):
    """The settings that a definition of an audit and the options of its commands share. People judge a fixed number of
    pairs or, card by card, until a share of the relevant pairs is certified. `strata`: how judgments are divided."""

    judgments: int = Field(300, ge=20, le=100_000, description="Number of pairs that people judge.")
    until: Annotated[str | None, ByName("--until", "recall=SHARE")] = Field(
        None,
        pattern=r"^recall=(0?\.\d+|1(\.0*)?)$",
        description="Show the most informative card next until this share of the pool's relevant pairs is certified.",
    )
    strata: Annotated[StrataOptions, IN_FORMS] = StrataOptions()
    people: int = Field(1, ge=1, le=5, description="Number of people who judge each pair.")
    name: str = Field("audit", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$", description="Name of the audit.")
    runs: Annotated[list[Path], definitions.OneOrMore, ByName("--run", "RUN")] = Field(
        default_factory=list, description="Run file of a system, or the folder of its result."
    )
    depth: int = Field(20, ge=1, le=1000, description="Number of results per query and run that are pooled.")
    seed: int = Field(0, description="Seed of the draw.")
    out: definitions.OutputFolder = Field(DATASETS_FOLDER, description="Folder that holds the sets.")

    @property
    def goal(self) -> float | None:
        """Return the share of the relevant pairs that is to be certified."""
        return None if self.until is None else float(self.until.partition("=")[2])


class AuditDefinition(definitions.Definition, AuditKeys):
    """An audit of `set`: name, name/v3 or folder."""

    kind: Literal["audit"] = "audit"
    set: definitions.SetPathOrName
    judge: AuditJudgeOptions | None = None
