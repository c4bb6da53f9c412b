"""What decides on a caption: the rules of `prompts/<language>/cleaning.yaml`, people's overrides, and its id."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pandas as pd
import yaml

import prompts
from builders.recall.definition import RecallDefinition
from querytruth.backends.files.text_formats import describe_yaml_error, has_words, load_yaml
from querytruth.errors import UserError
from querytruth.questions import load_prompt, read_text
from querytruth.records import content_id
from querytruth.sets.decision_outcomes import DecisionOutcome
from querytruth.sets.decision_records import Override

Pattern = re.Pattern[str]
_MACRO = re.compile(r"\{([a-z_]+)\}")
_CAPTION_MISSING = "no caption has this id any more: its image was removed, or its prompt is no longer used"
_TEXT_HAS_NO_WORDS = "the caption that a person wrote contains no words"
_REPEATED = "another caption that a person wrote for the same image has the same text"
_NO_CAPTION = "the reply contained no caption, and no person wrote one"
_Language = Literal["en", "zh"]
_LANGUAGES: tuple[_Language, ...] = ("en", "zh")


@dataclass(frozen=True, slots=True)
class LanguageCleaningRules:
    """The ends of sentences and clauses, the clauses that are incomplete (`unfinished`) or complete only after another
    (`not_alone`), the ends of a text that ask for more (`dangling`), and the smallest number of letters of a caption
    (`fewest`) and of one with a removed end."""

    sentence_end: Pattern
    clause_end: Pattern
    unfinished: Pattern
    not_alone: Pattern
    dangling: Pattern
    fewest: int
    min_letters_after_cut: int


@dataclass(frozen=True, slots=True)
class CaptionCleaningRules:
    """Openings, endings and refusals of all languages: a model may reply in another language than requested.
    `disclaimer`: a passing remark on what the model cannot tell, which does not belong to a query. `written`: text in
    the image, or said of anybody; there `talk` (about the task or a missing image) and `address` (to a person, or from
    the writer) do not count."""

    openings: tuple[Pattern, ...]
    broken_start: Pattern
    ending: Pattern
    refusal: Pattern
    disclaimer: Pattern
    written: Pattern
    talk: Pattern
    address: Pattern
    languages: dict[str, LanguageCleaningRules]


def parse_cleaning_rules(texts: Mapping[str, str], paths: Mapping[str, str] | None = None) -> CaptionCleaningRules:
    """Return the rules from the text of each language's file. Raises UserError with the file, its name or the path of
    one's own, and the pattern."""
    names = {language: f"{language}/cleaning.yaml" for language in texts} | dict(paths or {})
    parsed = {language: _LanguageFile(names[language], text) for language, text in sorted(texts.items())}
    together = {key: [p for source in parsed.values() for p in source.patterns(key)] for key in _SHARED}
    return CaptionCleaningRules(
        tuple(re.compile(pattern, re.IGNORECASE) for pattern in together["openings"]),
        _any(together["broken_starts"]),
        re.compile(rf"\s*(?:{'|'.join(together['endings'])})$", re.IGNORECASE),
        _any(together["refusals"]),
        _any(together["disclaimers"]),
        _any(together["written"]),
        _any(together["talk"]),
        _any(together["address"]),
        {language: source.language_rules() for language, source in parsed.items()},
    )


_SHARED = ("openings", "broken_starts", "endings", "refusals", "disclaimers", "written", "talk", "address")


class _LanguageFile:
    """The file of one language; every pattern is checked separately."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        try:
            self._data: dict[str, Any] = yaml.safe_load(text)
            self._macros: dict[str, str] = {}
            for macro, pattern in self._data["words"].items():  # an entry may use earlier entries
                self._macros[macro] = self._filled(pattern)
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            raise self._error(str(error)) from None

    def patterns(self, key: str) -> list[str]:
        listed = self._data.get(key) or []
        if not isinstance(listed, list):
            raise self._error(f"{key} is not a list of patterns")
        return [self._filled(pattern) for pattern in listed]

    def language_rules(self) -> LanguageCleaningRules:
        data = self._data
        try:
            return LanguageCleaningRules(
                re.compile(self._filled(data["sentence_end"])),
                re.compile(self._filled(data["clause_end"])),
                _any(self.patterns("unfinished")),
                _any(self.patterns("not_alone")),
                _any(self.patterns("dangling")),
                int(data["fewest"]),
                int(data["min_letters_after_cut"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._error(str(error)) from None

    def _filled(self, pattern: str) -> str:
        try:
            full = _MACRO.sub(lambda match: self._macros[match.group(1)], pattern)
            re.compile(full)
        except (re.error, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise self._error(f"{pattern}: {error}") from None
        return full

    def _error(self, reason: str) -> UserError:
        return UserError("read cleaning rules", self._name, reason, "fix the file")


def _any(patterns: list[str]) -> Pattern:
    """Return a pattern that matches where one of them does; without any, nowhere."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CaptionOverrides:
    """The overrides of captions by query_id. `texts`: human captions, which replace the model's; `stale`: why an
    override has no effect."""

    overrides: Mapping[str, Override] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective_ids(self) -> frozenset[str]:
        """Return the query_ids of the overrides that are not stale: no ambiguity policy rejects these queries."""
        return frozenset(self.overrides.keys() - self.stale.keys())

    def reason(self, query_id: str) -> str | None:
        """Return the note of a human caption; None where the caption is the model's."""
        return self.overrides[query_id].note if query_id in self.texts else None

    def decision_outcome(self, published: Collection[str]) -> DecisionOutcome:
        """Return which overrides the set follows; `published`: the query_ids of the set."""
        unpublished = dict.fromkeys(self.effective_ids.difference(published), _NO_CAPTION)
        stale = dict(sorted({**self.stale, **unpublished}.items()))
        followed = [override for item, override in self.overrides.items() if item not in stale]
        return DecisionOutcome(followed, [(self.overrides[item], why) for item, why in stale.items()])


def select_caption_overrides(rows: pd.DataFrame, overrides: Mapping[str, Override]) -> CaptionOverrides:
    """Return the overrides of captions. `rows`: all requested captions (query_id, image_id, language, style). Of two
    equal human captions of one image, the one with the smaller query_id is effective."""
    about = {item: overrides[item] for item in sorted(overrides) if item.startswith("q_")}
    if not about:
        return CaptionOverrides()
    requested = rows[rows["query_id"].isin(list(about))].set_index("query_id")
    texts: dict[str, str] = {}
    stale: dict[str, str] = {}
    used_texts: set[tuple[str, ...]] = set()
    for item, override in about.items():
        text = " ".join(override.caption.split())
        if item not in requested.index:
            stale[item] = _CAPTION_MISSING
        elif text and not has_words(text):
            stale[item] = _TEXT_HAS_NO_WORDS
        elif text:
            key = (*requested.loc[item, ["image_id", "language", "style"]], text)
            if key in used_texts:
                stale[item] = _REPEATED
            else:
                used_texts.add(key)
                texts[item] = text
    return CaptionOverrides(about, texts, stale)


def caption_query_id(image_id: str, prompt: str, number: int) -> str:
    """Return the query_id of the `number`th caption (from 0) of a prompt (`language/style`)."""
    return content_id("q", "recall", image_id, prompt, str(number))


def caption_ledger_item(file_name: str, image_id: str, prompt: str, number: int) -> str:
    """Return the name of a caption in the ledger, such as "beach_01.jpg · zh/caption 2" (counted from 1; the first has
    no number). The image id replaces a missing file name."""
    return f"{file_name or image_id} · {prompt}" + (f" {number + 1}" if number else "")


def load_recall_prompts(definition: RecallDefinition) -> list[prompts.PromptTemplate]:
    """Return the prompts that a build of a recall set asks, and the files of the cleaning rules. Raises UserError."""
    own_files = definition.prompt_files
    templates = [load_prompt(name, own_files) for name in definition.captions.prompt]
    for language in definition.captions.languages:
        if definition.descriptions is not None:
            templates.append(load_prompt(f"{language}/description", own_files))
        if definition.ambiguity.policy == "recaption":
            templates.append(load_recaption_prompt(language, own_files))
    return templates + load_cleaning_rules(definition.cleaning_files)[1]


def load_recaption_prompt(language: str, own_files: Mapping[str, str]) -> prompts.PromptTemplate:
    """Return the prompt that asks again for a caption that fits several images."""
    return load_prompt(f"{language}/recaption", own_files, like=f"{language}/recaption")


def load_cleaning_rules(
    own_files: Mapping[_Language, str] = MappingProxyType({}),
) -> tuple[CaptionCleaningRules, list[prompts.PromptTemplate]]:
    """Return the cleaning rules of both languages, and the files that contain them: by language those of `own_files`,
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
    text = read_text(path)
    try:
        load_yaml(text)
    except yaml.YAMLError as error:
        raise describe_yaml_error("read cleaning rules", path, error) from None
    return text
