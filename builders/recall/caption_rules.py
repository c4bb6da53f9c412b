"""The rules for cleaning captions, compiled from `prompts/<language>/cleaning.yaml`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from builders.errors import UserError

Pattern = re.Pattern[str]
_MACRO = re.compile(r"\{([a-z_]+)\}")


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
    `disclaimer`: a passing remark on what the model cannot tell, which is no part of a query. `written`: what is
    written in the image, or said of anybody; there `talk` (of the task, of a missing image) and `address` (to a person,
    or of the writer) do not count."""

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
    """Returns the rules from the text of each language's file. Raises UserError with the file, its name or the path of
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
            raise self._error(f"{key} is no list of patterns")
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
    """Returns a pattern that matches where one of them does; without any, nowhere."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)", re.IGNORECASE)
