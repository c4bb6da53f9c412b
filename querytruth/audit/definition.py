"""The keys of an audit's definition."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from querytruth.definitions import ChatModelOptions, Definition, OneOrMore, OutputFolder, SetPathOrName, StrictModel


class StrataOptions(StrictModel):
    """Where people look. `floor`: pairs of each stratum, where it has so many; `judged_relevant`: the share of the
    judgments on pairs that the set calls relevant; `outside`: the share on pairs outside the pool."""

    floor: int = Field(15, ge=2)
    judged_relevant: float = Field(0.2, ge=0.05, le=0.8)
    outside: float = Field(0.1, ge=0, le=0.5)


class JudgeOptions(StrictModel):
    """A chat model that sees images and divides the strata, with its options. `allow_contestant`: it may be one of the
    systems."""

    model: str
    options: ChatModelOptions = Field(default_factory=dict)
    allow_contestant: bool = False


class AuditDefinition(Definition):
    """An audit. `set`: name, name/v3 or folder; `runs`: run files of systems, or folders of their results; `depth`:
    results of each query and run that are pooled; `judgments`: pairs that people judge, or with `width` as many as an
    interval of that width needs, or with `queries` all pairs of so many whole queries; `people`: how many people judge
    each pair; `out`: the folder of all sets."""

    kind: Literal["audit"] = "audit"
    name: str = Field("audit", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    set: SetPathOrName
    runs: Annotated[list[Path], OneOrMore] = Field(default_factory=list)
    depth: int = Field(20, ge=1, le=1000)
    judgments: int = Field(300, ge=20, le=100_000)
    width: float | None = Field(None, ge=0.001, le=1)
    queries: int | None = Field(None, ge=5)
    strata: StrataOptions = StrataOptions()
    judge: JudgeOptions | None = None
    people: int = Field(1, ge=1, le=5)
    seed: int = 0
    out: OutputFolder = Path("datasets")

    @model_validator(mode="after")
    def _pairs_or_queries(self) -> AuditDefinition:
        if self.width is not None and self.queries is not None:
            raise ValueError("width is about single pairs, leave out queries")
        return self
