"""The keys of a recall set's definition."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from builders.gallery.definition import GallerySource
from querytruth import definitions
from querytruth.audit.definition import JudgeOptions, PairJudgeOptions
from querytruth.backends.files.option_paths import PathOrName, PathRule, resolve_path


class CaptionOptions(definitions.StrictModel):
    """The chat model that writes the captions, its prompts (`language/style`), and captions per image and prompt.
    `min_tokens`, `max_tokens` of a reply, null: the article's 46 (zh/caption alone) and 48; `max_length` of a caption:
    characters (zh) or words (en), null: 80 or 50, and no limit for captions that people or another tool wrote."""

    model: str = "qwen_vl"
    options: definitions.ChatModelOptions = Field(default_factory=dict)
    prompt: Annotated[list[definitions.PromptName], definitions.OneOrMore] = Field(["zh/caption"], min_length=1)
    per_image: int = Field(1, ge=1, le=20)
    min_tokens: int | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    max_length: int | None = Field(None, ge=1)
    price: definitions.PriceOptions | None = Field(None, exclude=True)

    @field_validator("prompt")
    @classmethod
    def _check_prompts(cls, value: list[str]) -> list[str]:
        if any(name.endswith("/recaption") for name in value):
            raise ValueError("recaption is the prompt for ambiguous captions only: choose another, such as zh/caption")
        return definitions.reject_repetition(value)

    @property
    def languages(self) -> list[str]:
        """Return the languages of the prompts, each once."""
        return sorted({name.partition("/")[0] for name in self.prompt})


class DescriptionOptions(definitions.StrictModel):
    """The chat model of long descriptions, used to find confusable images only. model null: the captions' model,
    and its price."""

    model: str | None = None
    options: definitions.ChatModelOptions = Field(default_factory=dict)
    max_tokens: int = Field(256, ge=1)
    price: definitions.PriceOptions | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _options_are_somebodys(self) -> DescriptionOptions:
        if self.options and self.model is None:
            raise ValueError("options need a model: remove them, or name the model")
        return self


class CandidateOptions(definitions.StrictModel, allow_inf_nan=False):
    """Which unjudged pairs of a caption and an image people should judge: of each caption the first `rivals` of at
    least the probability `at_least`, and the `nearest` first."""

    at_least: float = Field(0.5, gt=0, le=1)
    nearest: int = Field(0, ge=0, le=50)


JUDGED_NEAREST = 10  # images of each caption, of which 73% of what a crowd holds to fit are


class AmbiguityOptions(definitions.StrictModel, allow_inf_nan=False):
    """How captions that fit several images are found and resolved. `at_least`: the probability from which a caption
    counts as ambiguous, or a judge's pair as relevant; `rivals`: maximum of confusable images per caption; `rounds`,
    `then`: rounds of recaption, and the policy after; `judge`: the model of `policy: judge`, which is asked about the
    candidates, of each caption the nearest ten where `candidates.nearest` says no other number."""

    policy: Literal["drop", "merge", "recaption", "review", "judge"] = "merge"
    judge: JudgeOptions | None = None
    rivals: int = Field(5, ge=1, le=50)
    text_embedder: PathOrName = "BAAI/bge-small-zh-v1.5"
    image_embedder: PathOrName | None = None
    at_least: float = Field(0.9, gt=0, le=1)
    candidates: CandidateOptions = CandidateOptions()
    rounds: int = Field(2, ge=1, le=5)
    then: Literal["drop", "merge", "review"] = "drop"

    @model_validator(mode="after")
    def _judge_is_asked(self) -> AmbiguityOptions:
        if (self.policy == "judge") != (self.judge is not None):
            raise ValueError("policy: judge needs the key judge, such as {model: embedder, options: {name: MODEL}}")
        return self

    @property
    def pair_judge(self) -> PairJudgeOptions | None:
        """Return the judge of the candidates, whose scores count from `at_least` on; None for another policy."""
        if self.judge is None:
            return None
        return PairJudgeOptions(**self.judge.model_dump(), at_least=self.at_least)

    @model_validator(mode="before")
    @classmethod
    def _ask_about_the_nearest(cls, given: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(given, dict) or given.get("policy") != "judge":
            return given
        chosen = given.get("candidates") or {}
        return {**given, "candidates": {"nearest": JUDGED_NEAREST, **chosen} if isinstance(chosen, dict) else chosen}


class RecallDefinition(GallerySource):
    """A recall set: each query is the caption of one image. The images are those of `gallery`, a published set with its
    own rules, or of `images` by the rules here. `select` also chooses the images of the nested sets, one for each of
    `sizes`. `prompt_files`: the user's own prompts, by the names that `captions.prompt` has for them; `cleaning_files`:
    own rules of cleaning, by language."""

    kind: Literal["recall"] = "recall"
    captions: CaptionOptions = CaptionOptions()
    descriptions: DescriptionOptions | None = None
    ambiguity: AmbiguityOptions = AmbiguityOptions()
    sizes: list[int] = Field(default_factory=list)
    replies: definitions.Location | None = None
    prompt_files: definitions.PromptFiles = Field(default_factory=dict)
    cleaning_files: Annotated[dict[Literal["zh", "en"], str], PathRule(resolve_path)] = Field(default_factory=dict)
    budget: definitions.BudgetOptions | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _own_prompts_are_asked(self) -> RecallDefinition:
        wanted = [("description", self.descriptions is not None), ("recaption", self.ambiguity.policy == "recaption")]
        others = [f"{language}/{name}" for language in ("zh", "en") for name, is_asked in wanted if is_asked]
        definitions.check_prompt_files(self.prompt_files, [*self.captions.prompt, *others])
        return self

    @field_validator("sizes")
    @classmethod
    def _rising(cls, value: list[int]) -> list[int]:
        if any(size < 1 for size in value) or len(set(value)) < len(value):
            raise ValueError("must be different whole numbers above 0")
        return sorted(value)
