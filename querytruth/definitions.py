"""Shared parts of definitions: types, options, and the first defect that pydantic finds as a UserError."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from querytruth.backends.files import option_paths
from querytruth.backends.files.bucket_urls import BucketFolder, is_object_url
from querytruth.backends.files.column_profile import ReadingOptions
from querytruth.backends.models.chat import CHAT_MODELS
from querytruth.backends.web.image_search import IMAGE_SEARCHES
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UserError, suggest_choice
from querytruth.sets.published_files import newest_version
from querytruth.sets.text_sieve import PRIVATE_KINDS

READ_STAGE = "read definition"
URL_CREDENTIALS = re.compile(r"://[^/]*@")
_PROMPT_NAME = re.compile(r"(zh|en)/[a-z0-9_-]+")


def describe_definition_error(model: type[BaseModel], error: ValidationError, source: str) -> UserError:
    """Return the error of the first defect; `source` is the file or the class of the definition."""
    reason, next_step = _describe_defect(model, error)
    return UserError(READ_STAGE, source, reason, next_step)


def _describe_defect(model: type[BaseModel], error: ValidationError) -> tuple[str, str]:
    """Return reason and next step of the first defect."""
    defect = error.errors()[0]
    key = ".".join(str(part) for part in defect["loc"])
    if defect["type"] == "extra_forbidden":
        return f"key {key!r} is unknown", suggest_choice(str(defect["loc"][-1]), _keys_beside(model, defect["loc"]))
    if defect["type"] == "missing":
        return f"key {key!r} is missing", f"add it, or give --set {key}=…"
    given = f", given {defect['input']!r}" if not isinstance(defect["input"], dict) else ""
    message = defect["msg"].removeprefix("Value error, ")
    if defect["type"] in ("model_type", "model_attributes_type", "dict_type"):  # pydantic's text names a Python class
        message = "needs a mapping of keys, such as {key: value}"
        if defect["input"] is None:
            return f"key {key!r}: {message}, and cannot be null", ("remove it to use its defaults, or give its keys")
    if not key:
        return message, "fix the definition"
    return f"key {key!r}: {message}{URL_CREDENTIALS.sub('://…@', given)}", "fix the value"


def _keys_beside(model: type[BaseModel], where: tuple[Any, ...]) -> list[str]:
    """Return the known keys at the place of an unknown one."""
    for part in where[:-1]:
        inner = option_paths.submodel_of(model.model_fields[part]) if part in model.model_fields else None
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


class StrictModel(BaseModel):
    """A frozen model that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _reject_url_credentials(value: str) -> str:
    if URL_CREDENTIALS.search(value):
        raise ValueError("contains a user or password, which every manifest would record; use the environment")
    return value


def _check_prompt_name(name: str) -> str:
    if not _PROMPT_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a prompt name; write language/name, such as zh/caption or en/topics")
    return name


def check_prompt_files(files: Mapping[str, str], usable: Iterable[str]) -> None:
    """Raise ValueError for a file of a prompt that is not asked."""
    if unused := sorted(files.keys() - set(usable)):
        raise ValueError(f"prompt_files has {unused[0]}, but the definition uses no prompt of that name")


def reject_repetition(values: list[str]) -> list[str]:
    """Return the values themselves. Raises ValueError where one occurs twice."""
    if len(set(values)) < len(values):
        raise ValueError("contains a value twice")
    return values


def _check_bucket_url(url: str) -> str:
    try:
        return str(BucketFolder.parse(url))
    except UserError as error:
        raise ValueError(error.reason) from None


def _resolve_set(text: str, folder: option_paths.BaseFolder) -> str:
    """Return the absolute path where a set or a version exists there; else the name of a set, even if a folder
    has the same name."""
    path = Path(text) if folder is None else folder / text
    is_set = (path / "manifest.json").is_file() or newest_version(path) is not None
    return option_paths.resolve_if_exists(text, folder) if is_set else text


def _check_private_kind(kind: str) -> str:
    if kind not in PRIVATE_KINDS:
        raise ValueError(f"unknown kind {kind!r}; known kinds: {', '.join(PRIVATE_KINDS)}")
    return kind


BucketUrl = Annotated[str, AfterValidator(_check_bucket_url)]  # s3://bucket/folder
# A path or a URL without user or password, as every manifest has it.
Location = Annotated[option_paths.PathOrUrl, AfterValidator(_reject_url_credentials)]
SetPathOrName = Annotated[str, option_paths.PathRule(_resolve_set)]
OutputFolder = Annotated[
    Path, option_paths.PathRule(lambda text, _folder: text)
]  # below the working directory, if relative
PromptName = Annotated[str, AfterValidator(_check_prompt_name)]
PromptFiles = Annotated[
    dict[PromptName, str], option_paths.PathRule(option_paths.resolve_path)
]  # the user's own, by the name they get
ChatModelOptions = Annotated[dict[str, Any], option_paths.OptionsOf(CHAT_MODELS, "model")]
ImageSearchOptions = Annotated[dict[str, Any], option_paths.OptionsOf(IMAGE_SEARCHES, "search")]
# A list of one entry may be written as that entry.
OneOrMore = BeforeValidator(lambda value: [value] if isinstance(value, str | Path) else value)


class Definition(StrictModel):
    """A definition that is checked as if its keys were in a file of the working directory."""

    def __init__(self, **keys: object) -> None:
        """Check the keys. Raises UserError for a wrong one."""
        try:
            super().__init__(**option_paths.resolve_paths(type(self), keys, lambda _key: None))
        except ValidationError as error:
            raise describe_definition_error(type(self), error, type(self).__name__) from None

    # Only a call of the class goes through __init__: what reads files calls model_validate, and names the file.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class SetDefinition(Definition):
    """The keys of every kind of set. `out`: the folder of all sets, relative to the working directory. `publish_to`: a
    folder in object storage that gets each version, too (with `publish_places` also one with the places where images
    were taken, with `publish_names` one that names people, places or texts of an album); an `out` that is such a URL is
    this key, with the work in `s3-work/`. `work`: a folder in object storage that keeps what was read from images,
    rendered and encoded: workers, and builds on other machines, need to share nothing else. `lose_at_most`: the share
    of the last version's queries (of its images, if it has no queries) that a build may lose without being stopped,
    besides those that people dropped; null: all of them. `page_language`: of the page next to each version. `tables`:
    options for reading the files that the definition names. `quarantine`: the kinds of private texts that become no
    query unless a person overrides it."""

    kind: str
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    title: str = ""
    licence: str = ""
    seed: int = 0
    out: OutputFolder = DATASETS_FOLDER
    publish_to: BucketUrl | None = None
    publish_places: bool = False
    publish_names: bool = False
    work: BucketUrl | None = None
    lose_at_most: float | None = Field(0.2, ge=0, le=1, allow_inf_nan=False)
    page_language: Literal["en", "zh"] = "en"
    tables: ReadingOptions = ReadingOptions()
    quarantine: list[Annotated[str, AfterValidator(_check_private_kind)]] = Field(list(PRIVATE_KINDS))

    @model_validator(mode="before")
    @classmethod
    def _split_bucket_output(cls, keys: object) -> Any:
        if not isinstance(keys, dict) or not is_object_url(str(keys.get("out", ""))):
            return keys
        if keys.get("publish_to") is not None:
            raise ValueError("out and publish_to are both buckets; only one can be")
        url = _check_bucket_url(str(keys["out"]))
        return {**keys, "out": str(Path(url.replace("://", "-work/", 1))), "publish_to": url}


class PriceOptions(StrictModel, allow_inf_nan=False):
    """The price of an endpoint per million tokens, for plans; it affects no digest of a set."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    currency: str = Field("USD", pattern=r"^[A-Z]{3}$")


class BudgetOptions(StrictModel, allow_inf_nan=False):
    """What one run may spend on questions to chat models, null: no limit. A run that has spent it stops in order, and
    the next one goes on from there with a budget of its own. No set's digest depends on it."""

    calls: int | None = Field(None, ge=0)
    tokens: int | None = Field(None, ge=0)
    hours: float | None = Field(None, gt=0)


class NearDuplicateOptions(StrictModel):
    """Which images count as the same besides those with the same bytes or pixels: images with views that differ in at
    most `distance` bits (null: none), also mirrored or rotated, that agree once they are aligned; and image embeddings
    with at least `cosine` (null: 0.95, or higher where the embedder finds random images alike)."""

    distance: int | None = Field(8, ge=0, le=16)  # as in four of datasets/starters, docs/gallery.md, docs/zh/gallery.md
    flips: bool = False
    rotations: bool = False
    embedder: option_paths.PathOrName | None = None
    cosine: float | None = Field(None, gt=0, le=1)


class RenderOptions(StrictModel):
    """How images are rendered. `longer_side`: in their own shape, the longer side `size` pixels, or fewer where the
    image has fewer; squares of `size` x `size`: `squash` as in the seed article, `fit` with padding, `crop`."""

    size: int = Field(512, ge=16, le=4096)
    mode: Literal["longer_side", "squash", "fit", "crop"] = "longer_side"
