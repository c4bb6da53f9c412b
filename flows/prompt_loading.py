"""Prompts and cleaning rules by name: a definition's own files, and those of `prompts/`."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import yaml

import prompts
from backends.bounded_yaml import load_yaml
from backends.file_errors import translate_read_errors
from backends.regular_files import open_regular
from builders.errors import UserError
from builders.recall.caption_rules import CaptionCleaningRules, parse_cleaning_rules
from flows.definitions import RecallDefinition

_STAGE = "read prompt"
_LIMIT = 1 << 20  # bytes
_Language = Literal["en", "zh"]
_LANGUAGES: tuple[_Language, ...] = ("en", "zh")
_NO_FILES: Mapping[str, str] = MappingProxyType({})


def load_prompt(name: str, own_files: Mapping[str, str] = _NO_FILES, like: str | None = None) -> prompts.PromptTemplate:
    """Returns the prompt of a name: of the file that `own_files` has for it, or a shipped one. `like`: a shipped prompt
    with the same fields. Raises UserError where there is none, or where fields differ."""
    template = _load(name, own_files)
    if like is not None and template.fields != (expected := prompts.load_template(like).fields):
        listed = ", ".join(sorted(f"{{{field}}}" for field in expected)) or "none"
        item = own_files.get(name, name)
        next_step = f"it needs each of these, and no others: {listed}"
        raise UserError(_STAGE, item, f"has other fields than {like}", next_step)
    return template


def _load(name: str, own_files: Mapping[str, str]) -> prompts.PromptTemplate:
    if name in own_files:
        text = _read_text(Path(own_files[name])).strip("\n")
        if not text.strip():
            raise UserError(_STAGE, own_files[name], "is empty", "write the question that the model is asked")
        return prompts.PromptTemplate(name, text)
    try:
        return prompts.load_template(name)
    except OSError:
        next_step = "choose one of the files below prompts/, or give prompt_files a file of this name"
        raise UserError(_STAGE, name, "is no prompt", next_step) from None


def load_recall_prompts(definition: RecallDefinition) -> list[prompts.PromptTemplate]:
    """Returns the prompts that a build of a recall set asks, and the files of the cleaning rules. Raises UserError."""
    own_files = definition.prompt_files
    templates = [load_prompt(name, own_files) for name in definition.captions.prompt]
    for language in definition.captions.languages:
        if definition.descriptions is not None:
            templates.append(load_prompt(f"{language}/description", own_files))
        if definition.ambiguity.policy == "recaption":
            templates.append(load_recaption_prompt(language, own_files))
    return templates + load_cleaning_rules(definition.cleaning_files)[1]


def load_recaption_prompt(language: str, own_files: Mapping[str, str]) -> prompts.PromptTemplate:
    """Returns the prompt that asks again for a caption that fits several images."""
    return load_prompt(f"{language}/recaption", own_files, like=f"{language}/recaption")


def load_cleaning_rules(
    own_files: Mapping[_Language, str] = MappingProxyType({}),
) -> tuple[CaptionCleaningRules, list[prompts.PromptTemplate]]:
    """Returns the cleaning rules of both languages, and the files that contain them: by language those of `own_files`,
    else the shipped ones. Raises UserError."""
    files = []
    for language in _LANGUAGES:
        name = f"{language}/cleaning.yaml"
        if language in own_files:
            files.append(prompts.PromptTemplate(name, _read_rules(Path(own_files[language]))))
        else:
            files.append(prompts.load_template(name))
    paths = {str(language): path for language, path in own_files.items()}
    return parse_cleaning_rules({file.language: file.text for file in files}, paths), files


def _read_rules(path: Path) -> str:
    text = _read_text(path)
    try:
        load_yaml(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path} line {mark.line + 1}" if mark else path
        reason = f"is no YAML ({getattr(error, 'problem', None) or error})"
        raise UserError("read cleaning rules", where, reason, "fix the file") from None
    return text


def _read_text(path: Path) -> str:
    with translate_read_errors(_STAGE, path, "fix the path in the definition"):
        with open_regular(path) as file:
            data = file.read(_LIMIT + 1)
        if len(data) > _LIMIT:
            raise UserError(_STAGE, path, "has more than a megabyte", "give a file with one prompt, or with rules")
        return data.decode("utf-8-sig").replace("\r\n", "\n")
