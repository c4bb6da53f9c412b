"""A golden file: queries with the images that a search must show, in YAML or as the rows of a table; also as a set."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import filter as match_names
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self, TypeVar

import yaml
from pydantic import ConfigDict, Field, JsonValue, ValidationError, model_validator

from querytruth.backends.files.durable_files import write_page
from querytruth.backends.files.option_paths import resolve_paths
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import MAX_YAML_BYTES, load_yaml
from querytruth.backends.images.image_folder import ImageFolder
from querytruth.definitions import OneOrMore, StrictModel, describe_definition_error
from querytruth.errors import UserError, suggest_choice, translate_read_errors

if TYPE_CHECKING:
    from querytruth.formats import importers
    from querytruth.formats.set_images import ImageStore

_ANY = "If a case accepts any of several images, each of them is judged relevant."
STAGE = "check"
EXPECTED = ("must", "any", "must_not")
Model = TypeVar("Model", bound=StrictModel)
Names = Annotated[tuple[str, ...], OneOrMore]
FloorName = Annotated[str, Field(pattern=r"^(hit|r|rr)@[1-9]\d{0,3}$")]  # as `evaluate` names them


class GoldenCase(StrictModel):
    """One query. Its first `within` results have each of `must`, one of `any` and none of `must_not`; or `nothing`: it
    has no result, or none above `score`. `known_failure`: why the case fails today. `id`: of the query in a run."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    query: str = Field(pattern=r"\S")
    id: str = ""
    must: Names = ()
    any: Names = ()
    must_not: Names = ()
    nothing: bool = False
    score: float | None = None
    known_failure: str = ""
    within: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _check_expectation(self) -> Self:
        if self.nothing == bool([*self.must, *self.any, *self.must_not]):
            raise ValueError("a case needs must, any or must_not, or nothing: true instead")
        if self.score is not None and not self.nothing:
            raise ValueError("score needs nothing: true")
        return self


class GoldenFile(StrictModel):
    """The cases, the search (`system` or `run`) and the folder that it searches. `depth`: how many results are asked
    for, so that the rank of a lost image is known. `floors`: the least means over the cases with must or any."""

    system: Path | None = None
    run: Path | None = None
    images: Path
    within: int = Field(10, ge=1)
    depth: int = Field(50, ge=1, le=10_000)
    cases: list[GoldenCase] = Field(min_length=1)
    floors: dict[FloorName, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_search(self) -> Self:
        if (self.system is None) == (self.run is None):
            raise ValueError("needs exactly one of system and run")
        return self

    @property
    def asked(self) -> int:
        """Return the number of results to request."""
        cuts = [int(name.partition("@")[2]) for name in self.floors]
        return max(self.depth, self.within, *(case.within or 1 for case in self.cases), *cuts)


def load_golden(path: Path, given: Mapping[str, Path]) -> GoldenFile:
    """Return the file, with the `given` paths in place of its own, and each image under its path below the folder.
    Raises UserError for a key or a case that is not valid."""
    keys = read_golden_keys(path)
    if "system" in given or "run" in given:
        keys = {name: value for name, value in keys.items() if name not in ("system", "run")}
    golden = _validate(GoldenFile, keys | {name: str(value.absolute()) for name, value in given.items()}, str(path))
    if not golden.images.is_dir():
        raise UserError(STAGE, golden.images, "is not a folder", "set images to the folder that the search indexes")
    folder, cases = ImageFolder(golden.images.resolve()), []
    for number, case in enumerate(golden.cases, start=1):
        item = f"{path} case {number} ({case.query})"
        found = {name: _find_images(getattr(case, name), folder, item) for name in EXPECTED}
        if both := {*found["must_not"]} & {*found["must"], *found["any"]}:
            raise UserError(STAGE, item, f"both expects and forbids {min(both)}", "remove one of them")
        cases.append(case.model_copy(update=found))
    return golden.model_copy(update={"cases": cases, "images": folder.root})


def read_golden_keys(path: Path) -> dict[str, JsonValue]:
    """Return the content of a golden file, with absolute paths; each case is checked. Raises UserError."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return {"cases": _read_table_cases(path)}
    with translate_read_errors(STAGE, path, "fix the file", also=(yaml.YAMLError,)):
        data = load_yaml(read_regular(path, MAX_YAML_BYTES).decode("utf-8-sig"))
    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        raise UserError(STAGE, path, "has no list of cases", "write system, images and cases: see docs/check.md")
    queries: dict[str, int] = {}
    for number, keys in enumerate(data["cases"], start=1):
        query = _validate(GoldenCase, keys, f"{path} case {number}").query
        if (first := queries.setdefault(" ".join(query.casefold().split()), number)) != number:
            raise UserError(
                STAGE, f"{path} cases {first} and {number}", f"have the same query ({query!r})", "merge them"
            )
    return resolve_paths(GoldenFile, data, lambda _: path.parent.absolute())


def _read_table_cases(path: Path) -> JsonValue:
    """Return a case per query of a table that `import pairs` reads: each row is an image that must be found, or must
    not where its grade is 0."""
    from querytruth.formats.importers import import_tables
    from querytruth.formats.set_images import ImageStore

    with tempfile.TemporaryDirectory() as folder:
        imported = import_tables("pairs", path, None, ImageStore(Path(folder)))
    for kind, place, reason, _ in imported.rejections:
        raise UserError(STAGE, place, f"{kind}: {reason.replace('_', ' ')}", "fix or remove the row")
    texts = dict(zip(imported.queries["query"], imported.queries["text"], strict=True))
    cases = {query: {"query": text, "must": [], "must_not": []} for query, text in texts.items()}
    for row in imported.qrels.itertuples():
        cases[row.query]["must" if row.relevance > 0 else "must_not"].append(row.image)
    return [*cases.values()]


def _validate(model: type[Model], keys: object, item: str) -> Model:
    try:
        return model.model_validate(keys)
    except ValidationError as error:
        wrong = describe_definition_error(model, error, item)
        raise UserError(STAGE, item, wrong.reason, wrong.next_step.partition(", or give --set")[0]) from None


def _find_images(listed: Sequence[str], folder: ImageFolder, item: str) -> list[str]:
    """Return the paths of images below the folder; a pattern (`old/*.jpg`) is all images that it matches."""
    found: dict[str, None] = {}
    for name in listed:
        file = folder.find(name)
        names = [os.path.relpath(file, folder.root)] if isinstance(file, Path) else []
        if not (names := names or match_names(folder.list_names(), name)):
            reason = f"refers to {name!r}, {str(file).replace('_', ' ')} in {folder.root}"
            raise UserError(STAGE, item, reason, suggest_choice(name, folder.list_names()))
        found |= dict.fromkeys(names)
    return list(found)


def add_cases(path: Path, places: Mapping[str, Path], within: int, cases: Sequence[Mapping[str, object]]) -> int:
    """Write a golden file with these cases, or add those with new queries; return the number of new cases.
    `places`: system and images. Raises UserError where there is none to write."""
    keys: dict[str, JsonValue] = {name: os.path.relpath(place, path.parent) for name, place in places.items()}
    keys |= {"within": within}
    if path.exists():
        read_golden_keys(path)  # raises for an invalid golden file
        keys = load_yaml(read_regular(path, MAX_YAML_BYTES).decode("utf-8-sig"))
    old = keys.pop("cases", [])
    assert isinstance(old, list)
    known = [one["query"] for one in old if isinstance(one, dict)]
    new = [one for one in cases if one["query"] not in known]
    if not old and not new:
        raise UserError(STAGE, path, "would contain no cases", "choose a result with at least one query")
    text = yaml.safe_dump({**keys, "cases": [*old, *new]}, allow_unicode=True, sort_keys=False)
    write_page(path, text, "or give --out another name")
    return len(new)


def read(source: Path, split: str | None, image_store: "ImageStore") -> "importers.ImportedTables":
    """Read the cases as a set: must and any are relevant, must_not is judged and wrong. The folder is the gallery."""
    from querytruth.formats import importers

    cases = load_golden(source, {}).cases
    rows = [
        (case.query, image, relevance)
        for case in cases
        for relevance, names in ((1, [*case.must, *case.any]), (0, case.must_not))
        for image in names
    ]
    return importers.ImportedTables(
        queries=importers.build_query_table(((case.query, case.query) for case in cases), "query"),
        images=importers.build_image_table((name, name, None) for name in dict.fromkeys(row[1] for row in rows)),
        qrels=importers.build_judgment_table(rows, "table"),
        files=[source],
        grades={"1": "the golden file expects it", "0": "the golden file forbids it"},
        title=source.stem,
        known_limitations=[_ANY] if any(case.any for case in cases) else [],
    )
