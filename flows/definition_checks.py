"""Definitions before a build: written with comments by `querytruth init`, checked by `doctor` and by each build.

Checked are folders, keys, models, endpoints and disk. Nothing is built or downloaded.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from string import Template
from typing import Literal, NamedTuple

from pydantic import ValidationError

from builders.gallery.definition import GalleryDefinition, GallerySource
from builders.gallery.source_sets import list_source_sets
from builders.generated.definition import GeneratedDefinition
from builders.generated.generation_rounds import load_chat_model
from builders.judged_pairs import AskingBuild, find_pair_judge, load_pair_judge
from builders.precision.definition import PrecisionDefinition
from builders.precision.label_files import SHIPPED_FOLDER, find_fitting_table, list_shipped_tables
from builders.precision.phrasing_steps import load_phrasing_model, load_phrasing_prompts
from builders.publication import propose_set_name
from builders.queries.definition import LogColumnOptions, QueriesDefinition
from builders.queries.log_files import check_log
from builders.recall.caption_rules import load_recall_prompts
from builders.recall.captions import load_caption_model, load_description_model
from builders.recall.definition import RecallDefinition
from builders.recall.similarity_models import check_recall_models
from prompts import PromptTemplate
from querytruth.backends import environment, steps
from querytruth.backends.files.column_profile import ReadingOptions, use_table_options
from querytruth.backends.images import image_sources
from querytruth.backends.models import chat
from querytruth.backends.models.embedders import (
    load_image_text_embedder,
    load_text_embedder,
    must_download,
    offer_embedded,
)
from querytruth.backends.models.hub_models import check_download
from querytruth.defaults import DATASETS_FOLDER
from querytruth.definitions import SetDefinition, describe_definition_error
from querytruth.errors import UserError
from querytruth.questions import open_chat_session
from querytruth.sets import set_files

_LEAST_FREE = 1 << 30  # bytes: less is a problem
_TEXT_EMBEDDERS = {"zh": "BAAI/bge-small-zh-v1.5", "en": "sentence-transformers/all-MiniLM-L6-v2"}  # calibrated
_TEMPLATES = SHIPPED_FOLDER / "starters"


class DefinitionCheck(NamedTuple):
    """A check and its result: `problem` is None if it passed."""

    name: str
    found: str
    problem: UserError | None = None


def check_definition(definition: SetDefinition) -> list[DefinitionCheck]:
    """Return every check of a definition. Endpoints get one call that asks nothing."""
    with use_table_options(definition.tables):
        return [_run_check(name, check) for name, check in _list_checks(definition)]


def check_before_build(definition: SetDefinition) -> None:
    """Check what a build needs before it reads an image or pays for an answer: folders, keys, the hosts of endpoints
    and the disk. Raises UserError for the first problem, except for little space on the disk and for an endpoint that
    has answered this set before, whose replies may be all that the build needs: these are lines in the log."""
    run = steps.current_run()
    for name, check, may_fail in _list_build_checks(definition, run.offline):
        found = _run_check(name, check)
        if found.problem is not None and not may_fail:
            raise found.problem
        if found.problem is not None:
            run.reporter.log(f"{name}: {found.problem}")


def _list_build_checks(definition: SetDefinition, is_offline: bool) -> Iterator[tuple[str, Callable[[], str], bool]]:
    for name, check in _list_input_checks(definition):
        yield name, check, False
    for role, load_model in _list_chat_models(definition).items():
        model = load_model()
        if not is_offline and not model.is_recorded and isinstance(definition, AskingBuild):
            has_answered = model.identity in open_chat_session(definition).store.identities()
            yield f"endpoint of {role}", lambda model=model: _find_listener(model), has_answered  # type: ignore[misc]
    yield "disk", lambda: _measure_disk(definition.out), True


def _list_input_checks(definition: SetDefinition) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the checks of the sets, files and prompts that a build reads."""
    for key, name in list_source_sets(definition).items():
        yield key, lambda name=name: str(set_files.find_set(name, definition.out))  # type: ignore[misc]
    if isinstance(definition, QueriesDefinition):
        yield "log", lambda: check_log(definition.queries, definition.columns)
    if isinstance(definition, RecallDefinition):
        yield "prompts", lambda: _name_prompts(load_recall_prompts(definition))
    if isinstance(definition, PrecisionDefinition):
        for path in definition.annotations:
            yield "annotations", lambda path=path: _find_file(path)  # type: ignore[misc]
        if definition.has_phrasings:
            yield "prompts", lambda: _name_prompts(load_phrasing_prompts(definition))


def _list_chat_models(definition: SetDefinition) -> dict[str, Callable[[], chat.ChatModel]]:
    """Return by role how to load each chat model that a build asks; topics and objects are asked for before it."""
    models: dict[str, Callable[[], chat.ChatModel]] = {}
    if isinstance(definition, RecallDefinition):
        models["captions"] = lambda: load_caption_model(definition)
        if definition.descriptions is not None and definition.descriptions.model is not None:
            models["descriptions"] = lambda: load_description_model(definition)
    if isinstance(definition, PrecisionDefinition) and definition.has_phrasings:
        models["phrasings"] = lambda: load_phrasing_model(definition)
    if (rule := find_pair_judge(definition)) is not None:
        models["the judge"] = lambda: load_pair_judge(rule)
    return models


def _find_listener(model: chat.ChatModel) -> str:
    chat.check_access(model)
    return chat.check_listener(model) or f"{model.identity.name} has no endpoint"


def _run_check(name: str, check: Callable[[], str]) -> DefinitionCheck:
    try:
        return DefinitionCheck(name, check())
    except UserError as error:
        return DefinitionCheck(name, "", error)


def _list_checks(definition: SetDefinition) -> Iterator[tuple[str, Callable[[], str]]]:
    if isinstance(definition, GalleryDefinition | GallerySource) and definition.images is not None:
        images = str(definition.images)
        yield "images", lambda: _count_images(images, definition.out / definition.name)
        rules = definition.near_duplicates
        if rules is not None and (embedder := rules.embedder) is not None:
            yield "model for near-duplicates", lambda: _find_image_embedder(embedder)
    yield from _list_input_checks(definition)
    if isinstance(definition, RecallDefinition):
        text_embedder = definition.ambiguity.text_embedder
        yield "models", lambda: _name_downloads(check_recall_models(definition, is_plan=True), text_embedder)
    if isinstance(definition, GeneratedDefinition):
        yield "models", lambda: _find_text_embedder(definition.objects.embedder)
        yield "endpoint of topics", lambda: _ask_endpoint(load_chat_model(definition))
    for role, load_model in _list_chat_models(definition).items():
        yield f"endpoint of {role}", lambda load_model=load_model: _ask_endpoint(load_model())  # type: ignore[misc]
    yield "disk", lambda: _measure_disk(definition.out)
    yield "libraries", lambda: environment.describe_newer(environment.read_library_versions())


def _count_images(images: str, skip: Path) -> str:
    count = len(image_sources.open_source(images, skip=skip).list_items().items)
    if not count:
        raise UserError("list images", images, "contains no images", "fix `images` in the definition")
    return f"{count:,} files in {images}"


def _name_prompts(templates: Sequence[PromptTemplate]) -> str:
    return ", ".join(template.name for template in templates)


def _find_text_embedder(name: str) -> str:
    return _name_downloads([name], name) if must_download(name) else f"{load_text_embedder(name).name} is available"


def _find_image_embedder(name: str) -> str:
    return _name_downloads([name]) if must_download(name) else f"{load_image_text_embedder(name).name} is available"


def _name_downloads(names: list[str], text_embedder: str | None = None) -> str:
    for name in names:
        try:
            check_download(name)
        except UserError as error:
            raise offer_embedded(error) if name == text_embedder else error from None
    return f"the build downloads {', '.join(names)}" if names else "available on this machine"


def _ask_endpoint(model: chat.ChatModel) -> str:
    chat.check_access(model)
    return chat.check_endpoint(model) or f"{model.identity.name} has no endpoint"


def _find_file(path: Path) -> str:
    if not path.is_file():
        raise UserError("read annotations", path, "does not exist", "fix `annotations` in the definition")
    return f"{path}, {path.stat().st_size / 1e6:,.1f} MB"


def _measure_disk(out: Path) -> str:
    place = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE:
        raise UserError("check disk", place, f"has {free / 1e6:,.0f} MB left", "free up space, or change `out`")
    return f"{free / 1e9:,.1f} GB free below {place}"


def list_starter_kinds() -> list[str]:
    """Return the kinds of sets that have a starter definition, `training`, `audit`, and `prefect` for the
    deployments."""
    return sorted(path.stem for path in _TEMPLATES.glob("*.yaml"))


@dataclass(frozen=True, slots=True)
class CaptionWriter:
    """The model that writes the captions of a recall set: behind an endpoint, or on this machine (None); `key_env` is
    the variable of the endpoint's key."""

    model: str = "Qwen/Qwen3-VL-8B-Instruct"
    endpoint: str | None = None
    key_env: str | None = None
    language: Literal["zh", "en"] = "zh"

    def keys(self) -> dict[str, str]:
        """Return the keys of the starter."""
        place = {"base_url": self.endpoint, "name": self.model, "key_env": self.key_env}
        given = ", ".join(f"{key}: {json.dumps(value)}" for key, value in place.items() if value is not None)
        model = "qwen_vl" if self.endpoint is None else "openai_compatible"
        keys = {"model": model, "options": "{" + given + "}", "language": self.language}
        return keys | {"embedder": _TEXT_EMBEDDERS[self.language]}


def render_starter(
    kind: str,
    annotations: Sequence[Path] | Path | None,
    images: str | None,
    folder: Path,
    writer: CaptionWriter = CaptionWriter(),
    tables: Sequence[str] = (),
) -> str:
    """Return the text of a starter definition, with paths relative to `folder`. `annotations`: of a set of queries,
    their log; `tables`: how files are read, as KEY=VALUE. Raises UserError for a damaged annotation file."""
    if tables:
        try:
            options = ReadingOptions.model_validate(dict(one.split("=", 1) for one in tables if "=" in one))
        except ValidationError as error:
            raise describe_definition_error(ReadingOptions, error, "--table") from None
        with use_table_options(options):
            text = render_starter(kind, annotations, images, folder, writer)
        return f"{text}# How the files above are read.\ntables: {options.model_dump_json(exclude_defaults=True)}\n"
    if kind == "queries":
        log = str(annotations or "queries.csv")
        place = _quoted(images or "images", folder)
        if annotations is not None and not Path(log).is_file():
            raise UserError("init", log, "does not exist", "give the log with --queries")
        if annotations is not None:
            found = _run_check("log", lambda: check_log(Path(log), LogColumnOptions()))
            steps.current_run().reporter.log(found.found or str(found.problem))
        return _fill_template(kind, name=derive_set_name(log), queries=_quoted(log, folder), images=place)
    if isinstance(annotations, Path):
        raise ValueError(f"a set of kind {kind} has no search log")
    if kind == "precision":
        return _precision(annotations, images, folder)
    if kind == "album" and annotations:
        paths = {
            "facts": str(annotations[0]),
            "events": str(annotations[0].with_suffix(".events.csv")),
            "images": str(images),
        }
        quoted = {key: _quoted(path, folder) for key, path in paths.items()}
        minimum = _inspect_annotations(annotations)[1]
        return _fill_template(
            kind, name=derive_set_name(str(images)), minimum=minimum, language=writer.language, **quoted
        )
    if kind in ("prefect", "audit"):
        return (_TEMPLATES / f"{kind}.yaml").read_text("utf-8")
    if kind == "generated":
        return _fill_template(kind, name="my-topics")
    place = "images" if images is None else _quoted(images, folder)
    keys = writer.keys() if kind == "recall" else {}
    return _fill_template(kind, name=derive_set_name(images or "my-images"), images=place, **keys)


def _fill_template(kind: str, **values: object) -> str:
    name = propose_set_name(str(values.pop("name")), kind, DATASETS_FOLDER)
    return Template((_TEMPLATES / f"{kind}.yaml").read_text("utf-8")).substitute(values, name=name)


def derive_set_name(source: str) -> str:
    """Return a set name from the path or URL of its images."""
    stem = PurePosixPath(source.rstrip("/")).name.rsplit(".", 1)[0]
    return _name(stem) or "my-images"


def _name(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.casefold()).strip("-")[:48]


def _precision(annotations: Sequence[Path] | None, images: str | None, folder: Path) -> str:
    """Return the starter: the categories of the annotation files choose the label table, their images min_images."""
    name, labels, minimum, listed = "my-objects", "from_annotations", 10, "instances.json"
    if annotations:
        labels, minimum, name = _inspect_annotations(annotations)
        quoted = [_quoted(str(path), folder) for path in annotations]
        listed = quoted[0] if len(quoted) == 1 else f"[{', '.join(quoted)}]"
    tables = list_shipped_tables()
    is_shipped = labels in tables
    return _fill_template(
        "precision",
        name=name,
        annotations=listed,
        images=_quoted(images, folder) if images else "null",
        labels=labels,
        tables=", ".join(tables),
        compatible=labels if is_shipped else "null",
        languages="[zh, en]" if is_shipped else "null",
        minimum=minimum,
    )


def _inspect_annotations(paths: Sequence[Path]) -> tuple[str, int, str]:
    """Return the label table that has the categories of all files, the minimum number of images, and a set name, from
    the first file."""
    from builders.precision.annotation_files import read_annotations

    files = [read_annotations(path) for path in paths]
    labels = find_fitting_table(name for file in files for name in file.categories["name"]) or "from_annotations"
    path = paths[0]
    stem = path.absolute().parent.name if path.stem.casefold() in ("annotations", "instances") else path.stem
    return labels, 10 if sum(len(file.images) for file in files) >= 1000 else 3, _name(stem) or "my-objects"


def _quoted(source: str, folder: Path) -> str:
    relative = source if "://" in source else os.path.relpath(source, str(folder))
    return '"' + relative.replace("\\", "\\\\").replace('"', '\\"') + '"'
