"""Definitions: the YAML that says what to build, checked key by key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from backends.label_tables import shipped
from builders.errors import UserError, nearest

STAGE = "read definition"
_SECRET = re.compile(r"://[^/]*@")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Searchable(_Strict):
    """When a label can be searched for: `any`: enough images bear it, and on one at least it is prominent;
    `prominent`: it is prominent on enough images. Prominent: a box strictly over the area ratio."""

    area_ratio: float = Field(0.10, ge=0, lt=1)
    min_images: int = Field(10, ge=1)
    count: Literal["any", "prominent"] = "any"


class Mixes(_Strict):
    """Queries for several labels at once. `draws`: other labels drawn per seed; `cap`: mixes kept a level;
    `near_misses`: judged zeros a mix gets at most."""

    levels: int = Field(3, ge=1, le=5)
    mode: Literal["sampled", "exhaustive"] = "sampled"
    draws: int = Field(5, ge=1)
    cap: int | None = Field(None, ge=0)
    min_images: int = Field(10, ge=1)
    near_misses: int = Field(100, ge=0)


class Boxes(_Strict):
    """Whether boxes count that mark a crowd, or a picture or a toy of the thing (Objects365's isfake)."""

    crowd: bool = True
    fake: bool = True


class Filter(_Strict, allow_inf_nan=False):
    """Which pictures go on. Sides in pixels (under max_side), ratio is width to height; the scores, 0 to 1, are
    measured at every scan and cut only where a number is given."""

    min_side: int = Field(1, ge=1)
    max_side: int = Field(5000, ge=1)
    min_ratio: float = Field(0.2, gt=0)
    max_ratio: float = Field(5, gt=0)
    min_brightness: float | None = Field(None, ge=0, le=1)
    max_brightness: float | None = Field(None, ge=0, le=1)
    min_contrast: float | None = Field(None, ge=0, le=1)
    min_sharpness: float | None = Field(None, ge=0, le=1)
    max_flatness: float | None = Field(None, ge=0, le=1)


class NearDuplicates(_Strict):
    """What counts as the same picture besides the same bytes and the same pixels: perceptual hashes within
    `distance` bits (null: none), turned ones too, and picture embeddings of at least `cosine`."""

    distance: int | None = Field(6, ge=0, le=16)
    flips: bool = False
    rotations: bool = False
    embedder: str | None = None
    cosine: float = Field(0.95, gt=0, le=1)


class Select(_Strict):
    """How many pictures, of as many places and times as possible; count null: all of them."""

    count: int | None = Field(None, ge=1)
    place_degrees: float = Field(0.01, gt=0, le=180)
    time: Literal["year", "month", "day", "hour"] = "day"


class Render(_Strict):
    """Pictures as the set holds them. `squash` as the seed article does, `fit` with padding, `crop`."""

    size: int = Field(512, ge=16, le=4096)
    mode: Literal["squash", "fit", "crop"] = "squash"


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | Path) else value


class SetDefinition(_Strict):
    """What every kind of set has. `out` is where sets land; a relative one is below the working directory."""

    kind: str
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    title: str = ""
    licence: str = ""
    seed: int = 0
    out: Path = Path("datasets")


class GalleryDefinition(SetDefinition):
    """A gallery: pictures without queries. `images`: a folder, a list file, a table, or an fsspec URL of one."""

    kind: Literal["gallery"]
    images: str = Field(min_length=1)
    filter: Filter = Filter()
    near_duplicates: NearDuplicates = NearDuplicates()
    select: Select = Select()
    render: Render | None = Render()

    @field_validator("images")
    @classmethod
    def _no_secret(cls, value: str) -> str:
        if _SECRET.search(value):
            raise ValueError("holds a user or password, which would stand in every manifest; use the environment")
        return value


class PrecisionDefinition(SetDefinition):
    """A precision set. `labels`: a shipped table (objects365, coco80), a folder with labels.csv and tree.csv,
    `from_annotations` or `from_supercategories`; `parents`: which nodes of the tree become queries."""

    kind: Literal["precision"]
    annotations: Annotated[list[Path], BeforeValidator(_listed), Field(min_length=1)]
    images: Path | None = None
    labels: str = "from_annotations"
    compatible: str | None = None
    boxes: Boxes = Boxes()
    searchable: Searchable = Searchable()
    parents: bool = True
    near_duplicates: NearDuplicates = NearDuplicates()
    mixes: Mixes = Mixes()
    texts: list[Literal["word", "sentence"]] = Field(["word", "sentence"], min_length=1)
    languages: list[Literal["zh", "en"]] | None = Field(None, min_length=1)  # null: those the labels have
    grades: Literal["graded", "binary"] = "graded"
    render: Render | None = Render()

    @field_validator("texts", "languages")
    @classmethod
    def _once(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError("names something twice")
        return value


KINDS: dict[str, type[SetDefinition]] = {"gallery": GalleryDefinition, "precision": PrecisionDefinition}
_PATHS = ("annotations", "images")
_NAMES_OR_PATHS = ("labels", "compatible")


def load_definition(path: Path | None, overrides: list[str], kind: str) -> SetDefinition:
    """Read and check a definition; paths in the file are relative to its folder, those of `a.b=c` to the working
    directory. Without a file the overrides are all of it."""
    data = _read_file(path) if path else {}
    for override in overrides:
        _override(data, override)
    return check_definition(data, kind, str(path or "--set"))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(
            STAGE,
            path,
            f"cannot be read ({error.strerror})",
            "check the path, or write one with querytruth init",
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path} line {mark.line + 1}" if mark else path
        raise UserError(
            STAGE, where, f"is no YAML ({getattr(error, 'problem', None) or 'not UTF-8'})", "mend the line"
        ) from None
    if not isinstance(data, dict):
        raise UserError(STAGE, path, "is no list of keys and values", "start from querytruth init")
    folder = path.parent.absolute()
    data = {key: _beside(value, folder) if key in _PATHS else value for key, value in data.items()}
    for key in _NAMES_OR_PATHS:
        if isinstance(data.get(key), str) and data[key] not in shipped() and (folder / data[key]).exists():
            data[key] = str(folder / data[key])
    return data


def check_definition(data: dict[str, Any], kind: str, source: str) -> SetDefinition:
    """The definition as its kind's model; the first fault is one line that names the key."""
    if data.get("kind", kind) != kind:
        raise UserError(STAGE, source, f"is of kind {data['kind']!r}", f"run querytruth build {data['kind']}")
    try:
        return KINDS[kind].model_validate({"kind": kind, **data})
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            known = _keys_beside(KINDS[kind], fault["loc"])
            raise UserError(STAGE, source, f"key {key!r} is unknown", nearest(str(fault["loc"][-1]), known)) from None
        if fault["type"] == "missing":
            raise UserError(STAGE, source, f"key {key!r} is missing", f"add it, or say --set {key}=…") from None
        given = f", given {fault['input']!r}" if not isinstance(fault["input"], dict) else ""
        given = _SECRET.sub("://…@", given)
        raise UserError(STAGE, source, f"key {key!r}: {fault['msg']}{given}", "mend the value") from None


def _beside(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_beside(entry, folder) for entry in value]
    if not isinstance(value, str) or "://" in value:
        return value
    path = Path(value).expanduser()
    return str(path if path.is_absolute() else folder / path)


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(STAGE, f"--set {override}", "is not of the form key=value", "write e.g. --set mixes.levels=2")
    *parents, last = key.strip().split(".")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    here = data
    for part in parents:
        if not isinstance(here.get(part), dict):
            here[part] = {}
        here = here[part]
    here[last] = _beside(value, Path.cwd()) if key.strip() in _PATHS else value


def _keys_beside(model: type[BaseModel], where: tuple[Any, ...]) -> list[str]:
    """The keys that are known where an unknown one stands."""
    for part in where[:-1]:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        candidates = [inner, *getattr(inner, "__args__", ())]
        found = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not found:
            return []
        model = found[0]
    return list(model.model_fields)
