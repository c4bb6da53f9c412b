"""The keys of a generated set's definition."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from querytruth import definitions
from querytruth.audit.definition import PairJudgeOptions
from querytruth.backends.files.option_paths import PathOrName, PathOrUrl
from querytruth.formats.set_card import licence_family

_TEMPERATURE = 1.0  # of an endpoint that is asked for new ideas


class TopicOptions(definitions.StrictModel):
    """The first stage. `samples`: a YAML file of topics with their objects, null: the shipped ones; `rounds`: maximum
    of questions, of which `parallel_questions` use the same state of the pools; `calls`, `tokens`: budgets;
    `max_length`: characters (zh) or words (en) of a topic and of an object, null: 10 or 5; `price`: the endpoint's."""

    model: str = "qwen"
    options: definitions.ChatModelOptions = Field(default_factory=dict)
    prompt: definitions.PromptName = "zh/topics"
    samples: PathOrUrl | None = None
    rounds: int = Field(200, ge=1, le=100_000)
    parallel_questions: int = Field(4, ge=1, le=256)
    max_tokens: int = Field(256, ge=1)
    max_length: int | None = Field(None, ge=1, le=60)
    calls: int | None = Field(None, ge=0)
    tokens: int | None = Field(None, ge=0)
    price: definitions.PriceOptions | None = Field(None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _sample_replies(cls, data: object) -> Any:
        # At an endpoint's own default here, 0, a model answers the same prompt with the same words.
        if not isinstance(data, dict) or data.get("model") != "openai_compatible":
            return data
        return {**data, "options": {"temperature": _TEMPERATURE, **(data.get("options") or {})}}


class ObjectOptions(definitions.StrictModel, allow_inf_nan=False):
    """The second stage, with the same model. `prompt`: null: the strategy's own. Each prompt shows objects that people
    chose and objects that the model found. A topic stops after `rounds`, or after `barren` rounds in a row without a
    new object. `novelty`: the similarity above which an object is rejected, null: the embedder's own threshold;
    `embedder`: char_ngrams, or the name or folder of a model of sentence-transformers."""

    prompt: definitions.PromptName | None = None
    per_prompt: int = Field(5, ge=1, le=50)
    from_people: int = Field(7, ge=1, le=50)
    from_model: int = Field(3, ge=0, le=50)
    rounds: int = Field(50, ge=1, le=100_000)
    barren: int = Field(10, ge=1)
    novelty: float | None = Field(None, gt=0, le=1)
    embedder: PathOrName = "BAAI/bge-small-zh-v1.5"
    max_tokens: int = Field(256, ge=1)
    max_length: int | None = Field(None, ge=1, le=60)
    calls: int | None = Field(None, ge=0)
    tokens: int | None = Field(None, ge=0)


class FetchLimitOptions(definitions.StrictModel, allow_inf_nan=False):
    """Limits of a fetch: `seconds` in total, `max_bytes` as sent and as unpacked; `concurrency` fetches at a time,
    `per_host` of them from one host, `interval` seconds apart there."""

    seconds: float = Field(60, gt=0, le=3600)
    max_bytes: int = Field(20_000_000, ge=1000)
    redirects: int = Field(5, ge=0, le=20)
    tries: int = Field(3, ge=1, le=10)
    concurrency: int = Field(16, ge=1, le=256)
    per_host: int = Field(2, ge=1, le=64)
    interval: float = Field(0.2, ge=0, le=3600)


class CollectOptions(definitions.StrictModel, allow_inf_nan=False):
    """The third stage, by the seed article's rules. `search`: an image search, with its `options`. A query needs
    `min_results` reported results; of its `first` results those under `min_side` pixels or over `max_ratio` (long to
    short side) are rejected; it gets `keep` images or none. `same_url`, `same_image`: the policy for a query that
    shares a URL or an image with an earlier one. `licences`: families such as cc-by, null: any. `contact`: an address
    for complaints of hosts, sent to them and not stored in the set."""

    search: str = "baidu"
    options: definitions.ImageSearchOptions = Field(default_factory=dict)
    min_results: int = Field(100, ge=0)
    first: int = Field(24, ge=1, le=500)
    keep: int = Field(12, ge=1)
    min_side: int = Field(112, ge=1)
    max_ratio: float = Field(2, ge=1)
    same_url: Literal["drop", "merge"] = "drop"
    same_image: Literal["drop", "merge"] = "merge"
    licences: list[str] | None = Field(None, min_length=1)
    respect_robots: bool = True
    contact: str = Field("", max_length=200, pattern=r"^[ -~]*$", exclude=True)
    limits: FetchLimitOptions = FetchLimitOptions()

    @model_validator(mode="before")
    @classmethod
    def _keep_queries_of_own_images(cls, data: Any) -> Any:
        # In a folder of one's own an image has one place, and several queries that it answers.
        is_own = isinstance(data, dict) and data.get("search") == "folder"
        return {"same_url": "merge", **data} if is_own else data

    @field_validator("licences")
    @classmethod
    def _families(cls, value: list[str] | None) -> list[str] | None:
        for licence in value or ():
            if licence_family(licence) != licence:
                raise ValueError(f"unknown licence family {licence!r}: write {licence_family(licence)!r}")
        return value if value is None else sorted(set(value))

    @model_validator(mode="after")
    def _enough(self) -> CollectOptions:
        if self.keep > self.first:
            raise ValueError(f"keep ({self.keep}) must not exceed first ({self.first})")
        return self


class GeneratedDefinition(definitions.SetDefinition):
    """A generated set: a chat model proposes topics and objects, the web provides their images. `strategy`:
    self_instruct; by_topic: people's topics only; visual_elements: no topics, the model thinks first. `judge`: is asked
    whether the images of the web fit; those of which it is not sure wait for people. `replies`: the
    file or URL of the reply store, null: beside the set; `prompt_files`: the user's own prompts, by the names that
    `topics.prompt` and `objects.prompt` have for them."""

    kind: Literal["generated"] = "generated"
    strategy: Literal["self_instruct", "by_topic", "visual_elements"] = "self_instruct"
    topics: TopicOptions = TopicOptions()
    objects: ObjectOptions = ObjectOptions()
    collect: CollectOptions = CollectOptions()
    judge: PairJudgeOptions | None = None
    near_duplicates: definitions.NearDuplicateOptions = definitions.NearDuplicateOptions()
    render: definitions.RenderOptions = definitions.RenderOptions()
    replies: definitions.Location | None = None
    prompt_files: definitions.PromptFiles = Field(default_factory=dict)
    budget: definitions.BudgetOptions | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _one_language(self) -> GeneratedDefinition:
        if self.objects.prompt is not None and self.topics.prompt[:2] != self.objects.prompt[:2]:
            raise ValueError("topics.prompt and objects.prompt must be in the same language")
        return self

    @model_validator(mode="after")
    def _own_prompts_are_asked(self) -> GeneratedDefinition:
        definitions.check_prompt_files(self.prompt_files, [self.topics.prompt, self.objects.prompt or ""])
        return self

    @property
    def language(self) -> str:
        """Return the language of the prompts: zh or en."""
        return self.topics.prompt[:2]
