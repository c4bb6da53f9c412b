"""Names of labels in another language that a chat model proposed: what to look at, and what people accepted."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from builders.errors import UserError
from builders.precision.tag_tree import LABEL_COLUMNS, LANGUAGES
from builders.spelling import join_spellings, simplify_name

TRANSLATION_COLUMNS = [
    *("id", "name", "source", "language", "proposal", "plural", "article", "back", "problems", "verdict", "comment")
]
ACCEPT, REJECT = "accept", "reject"
MAX_LENGTHS = {"zh": 8, "en": 30}  # characters: the longest of the 365 names of Objects365 have 6 and 21
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z]{4,}")
_WRAPPING = " \t\"'“”‘’「」『』《》.。"
_SEVERAL = re.compile(r"[/|,，、;；()（）\n]|\bor\b")
_table_error = partial(UserError, "accept translations")


@dataclass(frozen=True, slots=True)
class ProposedName:
    """What a model wrote: '' where it wrote nothing. `plural` and `article` are English."""

    word: str = ""
    plural: str = ""
    article: str = ""


def parse_proposed_name(reply: str, language: str) -> ProposedName:
    """Returns the name in the first line of a reply; in English `singular; plural; article`, where the plural and the
    article may be missing ("-")."""
    line = next((line for line in reply.splitlines() if line.strip(_WRAPPING)), "")
    if language == "zh":
        return ProposedName(join_spellings(line).strip(_WRAPPING))
    parts = [join_spellings(part).strip(_WRAPPING).removeprefix("-") for part in line.split(";")]
    word, plural, article = [*parts, "", "", ""][:3]
    return ProposedName(word, plural, article.casefold() if article.casefold() in ("a", "an") else "")


def find_translation_problems(
    sources: Sequence[str], words: Sequence[str], backs: Sequence[str], language: str
) -> list[list[str]]:
    """Returns what people should look at in each row: no_reply, not_in_language, several_names, too_long, duplicate
    (another label has the same word), homonym (back in the source language the word is the name of another label), and
    changed_meaning (it is the name of none). `backs`: what the model wrote for the word alone; '' where it was not
    asked."""
    counts = Counter(simplify_name(word) for word in words if word)
    labels = Counter(simplify_name(source) for source in sources)
    problems = []
    for source, word, back in zip(sources, words, backs, strict=True):
        if not word:
            problems.append(["no_reply"])
            continue
        found = [] if _is_in_language(word, language) else ["not_in_language"]
        found += ["several_names"] if _SEVERAL.search(word) else []
        found += ["too_long"] if len(word) > MAX_LENGTHS[language] else []
        found += ["duplicate"] if counts[simplify_name(word)] > 1 else []
        if back and simplify_name(back) != simplify_name(source):
            found.append("homonym" if labels[simplify_name(back)] else "changed_meaning")
        problems.append(found)
    return problems


def _is_in_language(word: str, language: str) -> bool:
    return (
        not _CHINESE.search(word) if language == "en" else bool(_CHINESE.search(word) or not _LATIN_WORD.search(word))
    )


def accept_translations(labels: pd.DataFrame, reviewed: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Returns the label table (LABEL_COLUMNS) with the names that people accepted, and how many rows they have not
    decided; these and the rejected ones keep the names that they have. Raises UserError for a row that is faulty or
    of another table, and for an accepted name that two labels would have."""
    if missing := [column for column in ("name", "language", "proposal", "verdict") if column not in reviewed]:
        raise _table_error(
            missing[0], "is a column that the file lacks", "give the file of querytruth labels translate"
        )
    languages = sorted(set(reviewed["language"]))
    if len(languages) != 1 or languages[0] not in LANGUAGES:
        raise _table_error(
            "language", f"is {languages} in the file", f"write one of {', '.join(LANGUAGES)} in all rows"
        )
    language = languages[0]
    table = labels.reindex(columns=LABEL_COLUMNS, fill_value="").fillna("").astype("str")
    place = {name.strip(): number for number, name in enumerate(table["name"])}
    undecided = 0
    for row in reviewed.fillna("").to_dict("records"):
        name, verdict = str(row["name"]).strip(), str(row["verdict"]).strip().casefold()
        if name not in place:
            raise _table_error(name, "is no label of the table", "give the table that was translated")
        if verdict not in (ACCEPT, REJECT, ""):
            raise _table_error(name, f"has the verdict {verdict!r}", f"write {ACCEPT}, {REJECT} or nothing")
        undecided += not verdict
        if verdict == ACCEPT:
            _fill_in(table, place[name], row, language)
    _check_unique(table, language)
    return table, undecided


def _fill_in(table: pd.DataFrame, row: int, values: Mapping[str, object], language: str) -> None:
    word = join_spellings(str(values["proposal"]))
    if not word:
        raise _table_error(str(values["name"]), "is accepted without a name", "write one into proposal, or reject it")
    table.loc[row, language] = word
    if language == "en":
        for column in ("plural", "article"):
            table.loc[row, column] = join_spellings(str(values.get(column, "")))


def _check_unique(table: pd.DataFrame, language: str) -> None:
    owner: dict[str, str] = {}
    for name, word in zip(table["name"], table[language], strict=True):
        if word and (first := owner.setdefault(join_spellings(word).casefold(), name)) != name:
            reason = f"and {name!r} would both be {word!r} in {language}"
            raise _table_error(first, reason, "two queries cannot be the same: edit one proposal, or reject it")


def other_language(language: str) -> str:
    """Returns the language that names are translated from."""
    return next(one for one in LANGUAGES if one != language)
