"""Checks of a definition before a build: folders, keys, models, endpoints and disk. Nothing is built or downloaded."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from backends import chat
from backends.library_versions import describe_newer, read_library_versions
from backends.sets import set_files
from backends.sources import image_sources
from builders.errors import UserError
from flows.captions.captioning import load_caption_model, load_description_model
from flows.captions.model_checks import check_recall_models
from flows.chat_session import open_chat_session
from flows.definitions import (
    GalleryDefinition,
    GeneratedDefinition,
    PrecisionDefinition,
    RecallDefinition,
    SetDefinition,
)
from flows.generation.generation_rounds import load_chat_model
from flows.precision_phrasings import load_phrasing_model, load_phrasing_prompts
from flows.prompt_loading import load_recall_prompts
from flows.steps import current_run
from prompts import PromptTemplate

_LEAST_FREE = 1 << 30  # bytes: less is a problem


class DefinitionCheck(NamedTuple):
    """What was checked and what was found: `problem` None where all is well."""

    name: str
    found: str
    problem: UserError | None = None


def check_definition(definition: SetDefinition) -> list[DefinitionCheck]:
    """Returns every check of a definition. Endpoints get one call that asks nothing."""
    return [_run_check(name, check) for name, check in _list_checks(definition)]


def check_before_build(definition: SetDefinition) -> None:
    """Checks what a build needs before it reads an image or pays for an answer: folders, keys, the hosts of endpoints
    and the disk. Raises UserError for the first problem, except for little space on the disk and for an endpoint that
    has answered this set before, whose replies may be all that the build needs: these are lines in the log."""
    run = current_run()
    for name, check, may_fail in _list_build_checks(definition, run.offline):
        found = _run_check(name, check)
        if found.problem is not None and not may_fail:
            raise found.problem
        if found.problem is not None:
            run.reporter.log(f"{name}: {found.problem}")


def _list_build_checks(definition: SetDefinition, is_offline: bool) -> Iterator[tuple[str, Callable[[], str], bool]]:
    if isinstance(definition, PrecisionDefinition):
        for path in definition.annotations:
            yield "annotations", lambda path=path: _find_file(path), False  # type: ignore[misc]
        if definition.has_phrasings:
            yield "prompts", lambda: _name_prompts(load_phrasing_prompts(definition)), False
            yield from _list_endpoint_checks(definition, {"phrasings": load_phrasing_model(definition)}, is_offline)
    if isinstance(definition, RecallDefinition):
        if (gallery := definition.gallery) is not None:
            yield "gallery", lambda: str(set_files.find_set(gallery, definition.out)), False
        yield "prompts", lambda: _name_prompts(load_recall_prompts(definition)), False
        models = {"captions": load_caption_model(definition)}
        if definition.descriptions is not None and definition.descriptions.model is not None:
            models["descriptions"] = load_description_model(definition)
        yield from _list_endpoint_checks(definition, models, is_offline)
    yield "disk", lambda: _measure_disk(definition.out), True


def _list_endpoint_checks(
    definition: RecallDefinition | PrecisionDefinition, models: Mapping[str, chat.ChatModel], is_offline: bool
) -> Iterator[tuple[str, Callable[[], str], bool]]:
    for role, model in models.items():
        if not is_offline and not model.is_recorded:
            has_answered = model.identity in open_chat_session(definition).store.identities()
            yield f"endpoint of {role}", lambda model=model: _find_listener(model), has_answered  # type: ignore[misc]


def _find_listener(model: chat.ChatModel) -> str:
    chat.check_access(model)
    return chat.check_listener(model) or f"{model.identity.name} has no endpoint"


def _run_check(name: str, check: Callable[[], str]) -> DefinitionCheck:
    try:
        return DefinitionCheck(name, check())
    except UserError as error:
        return DefinitionCheck(name, "", error)


def _list_checks(definition: SetDefinition) -> Iterator[tuple[str, Callable[[], str]]]:
    if isinstance(definition, GalleryDefinition | RecallDefinition) and definition.images is not None:
        images = str(definition.images)
        yield "pictures", lambda: _count_images(images, definition.out / definition.name)
    if isinstance(definition, RecallDefinition):
        if (gallery := definition.gallery) is not None:
            yield "gallery", lambda: str(set_files.find_set(gallery, definition.out))
        yield "prompts", lambda: _name_prompts(load_recall_prompts(definition))
        yield "models", lambda: _name_downloads(check_recall_models(definition, is_plan=True))
        yield "endpoint of captions", lambda: _ask_endpoint(load_caption_model(definition))
        if definition.descriptions is not None and definition.descriptions.model is not None:
            yield "endpoint of descriptions", lambda: _ask_endpoint(load_description_model(definition))
    if isinstance(definition, PrecisionDefinition):
        for path in definition.annotations:
            yield "annotations", lambda path=path: _find_file(path)  # type: ignore[misc]
        if definition.has_phrasings:
            yield "prompts", lambda: _name_prompts(load_phrasing_prompts(definition))
            yield "endpoint of phrasings", lambda: _ask_endpoint(load_phrasing_model(definition))
    if isinstance(definition, GeneratedDefinition):
        yield "endpoint of topics", lambda: _ask_endpoint(load_chat_model(definition))
    yield "disk", lambda: _measure_disk(definition.out)
    yield "libraries", lambda: describe_newer(read_library_versions())


def _count_images(images: str, skip: Path) -> str:
    count = len(image_sources.open_source(images, skip=skip).list_items().items)
    if not count:
        raise UserError("list pictures", images, "lists no picture", "fix `images` in the definition")
    return f"{count:,} files in {images}"


def _name_prompts(templates: Sequence[PromptTemplate]) -> str:
    return ", ".join(template.name for template in templates)


def _name_downloads(names: list[str]) -> str:
    return f"the build downloads {', '.join(names)}" if names else "on this machine"


def _ask_endpoint(model: chat.ChatModel) -> str:
    chat.check_access(model)
    return chat.check_endpoint(model) or f"{model.identity.name} has no endpoint"


def _find_file(path: Path) -> str:
    if not path.is_file():
        raise UserError("read annotations", path, "is not there", "fix `annotations` in the definition")
    return f"{path}, {path.stat().st_size / 1e6:,.1f} MB"


def _measure_disk(out: Path) -> str:
    place = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE:
        raise UserError("check disk", place, f"has {free / 1e6:,.0f} MB left", "free some, or change `out`")
    return f"{free / 1e9:,.1f} GB free below {place}"
