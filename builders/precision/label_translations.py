"""Translates the labels of annotations: a chat model proposes names, people accept them.

label table or annotations ─► proposals and translations back ─► review CSV ─► people ─► label table

The model is shown which sense of its name a label has: its parent, and the labels on the same images. A crane on images
of trucks and people is a machine (起重机), and no bird (鹤); both are called crane when they are translated back.
"""

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from builders.precision.annotation_files import read_annotations
from builders.precision.label_files import find_table_folder, read_label_csv
from builders.precision.tag_tree import LABEL_COLUMNS, LANGUAGES
from prompts import PromptTemplate
from querytruth.backends.files.text_formats import write_csv
from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatModel, ChatRequest, GenerationParameters, Message, Reply
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.steps import step
from querytruth.definitions import PriceOptions
from querytruth.errors import UserError, translate_write_errors
from querytruth.questions import ChatSession, forecast_calls, guess_tokens, load_prompt, summarize_forecasts
from querytruth.sets.query_texts import join_spellings, simplify_name

TRANSLATION_COLUMNS = [
    *("id", "name", "source", "language", "proposal", "plural", "article", "back", "context", "problems"),
    *("verdict", "comment"),
]
ACCEPT, REJECT = "accept", "reject"
MAX_LENGTHS = {"zh": 8, "en": 30}  # characters: the longest of the 365 names of Objects365 have 6 and 21
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z]{4,}")
_WRAPPING = " \t\"'“”‘’「」『』《》.。"
_SEVERAL = re.compile(r"[/|,，、;；()（）\n]|\bor\b")
_table_error = partial(UserError, "accept translations")
TRANSLATE_STAGE = "translate labels"
_MAX_TOKENS = 60
_NEIGHBOURS = 3
_LEAST_SHARED = 2  # images
_PARENT = {"zh": "它属于“{}”。", "en": "It belongs to “{}”. "}
_TOGETHER = {"zh": "它常和{}出现在同一张图片里。", "en": "On the same images there often is {}. "}
_YES = {"zh": re.compile(r"^(?:是|对|可以)"), "en": re.compile(r"^yes\b", re.IGNORECASE)}
_NO = {"zh": re.compile(r"^(?:否|不|没)"), "en": re.compile(r"^no\b", re.IGNORECASE)}
_LOOSE = " \t\n*“”\"'「」。.：:"


@dataclass(frozen=True, slots=True)
class ProposedName:
    """A model's reply: '' if it wrote nothing. `plural` and `article` are English."""

    word: str = ""
    plural: str = ""
    article: str = ""


def parse_proposed_name(reply: str, language: str) -> ProposedName:
    """Return the name in the first line of a reply; in English `singular; plural; article`, where the plural and the
    article may be missing ("-")."""
    line = next((line for line in reply.splitlines() if line.strip(_WRAPPING)), "")
    if language == "zh":
        return ProposedName(join_spellings(line).strip(_WRAPPING))
    parts = [join_spellings(part).strip(_WRAPPING).removeprefix("-") for part in line.split(";")]
    word, plural, article = [*parts, "", "", ""][:3]
    return ProposedName(word, plural, article.casefold() if article.casefold() in ("a", "an") else "")


def find_translation_problems(
    sources: Sequence[str],
    words: Sequence[str],
    backs: Sequence[str],
    language: str,
    senses: Sequence[bool | None] | None = None,
) -> list[list[str]]:
    """Return what people should check in each row: no_reply, not_in_language, several_names, too_long, duplicate
    (another label has the same word), homonym (translated back, the word is the name of another label), changed_meaning
    (it is the name of no label), and other_sense (the word means something else than what the label has on its images).
    `backs`: what the model wrote for the word alone, '' if it was not asked; `senses`: whether it confirms that the
    word means the label's things, None if it does not say."""
    counts = Counter(simplify_name(word) for word in words if word)
    labels = Counter(simplify_name(source) for source in sources)
    problems = []
    for source, word, back, sense in zip(sources, words, backs, senses or [None] * len(words), strict=True):
        if not word:
            problems.append(["no_reply"])
            continue
        found = [] if _is_in_language(word, language) else ["not_in_language"]
        found += ["several_names"] if _SEVERAL.search(word) else []
        found += ["too_long"] if len(word) > MAX_LENGTHS[language] else []
        found += ["duplicate"] if counts[simplify_name(word)] > 1 else []
        if back and simplify_name(back) != simplify_name(source):
            if labels[simplify_name(back)]:
                found.append("homonym")
            elif not (sense and is_named_within(back, source)):  # of a mouse, "computer mouse" is the same
                found.append("changed_meaning")
        found += ["other_sense"] if sense is False else []
        problems.append(found)
    return problems


def _is_in_language(word: str, language: str) -> bool:
    return (
        not _CHINESE.search(word) if language == "en" else bool(_CHINESE.search(word) or not _LATIN_WORD.search(word))
    )


def accept_translations(labels: pd.DataFrame, reviewed: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the label table (LABEL_COLUMNS) with the names that people accepted, and how many rows they have not
    decided; these and the rejected ones keep the names that they have. Raises UserError for a row that is faulty or
    of another table, and for an accepted name that two labels would have."""
    if missing := [column for column in ("name", "language", "proposal", "verdict") if column not in reviewed]:
        raise _table_error(
            missing[0], "is missing: the file needs this column", "give the file that querytruth labels translate wrote"
        )
    languages = sorted(set(reviewed["language"]))
    if len(languages) != 1 or languages[0] not in LANGUAGES:
        raise _table_error("language", f"has the values {languages}", f"use one of {', '.join(LANGUAGES)} in all rows")
    language = languages[0]
    table = labels.reindex(columns=LABEL_COLUMNS, fill_value="").fillna("").astype("str")
    place = {name.strip(): number for number, name in enumerate(table["name"])}
    undecided = 0
    for row in reviewed.fillna("").to_dict("records"):
        name, verdict = str(row["name"]).strip(), str(row["verdict"]).strip().casefold()
        if name not in place:
            raise _table_error(name, "is not a label of the table", "give the table that was translated")
        if verdict not in (ACCEPT, REJECT, ""):
            raise _table_error(name, f"has the verdict {verdict!r}", f"write {ACCEPT} or {REJECT}, or leave it empty")
        undecided += not verdict
        if verdict == ACCEPT:
            _fill_in(table, place[name], row, language)
    _check_unique(table, language)
    return table, undecided


def _fill_in(table: pd.DataFrame, row: int, values: Mapping[str, object], language: str) -> None:
    word = join_spellings(str(values["proposal"]))
    if not word:
        raise _table_error(str(values["name"]), "is accepted but has no proposal", "write one, or reject it")
    table.loc[row, language] = word
    if language == "en":
        for column in ("plural", "article"):
            table.loc[row, column] = join_spellings(str(values.get(column, "")))


def _check_unique(table: pd.DataFrame, language: str) -> None:
    owner: dict[str, str] = {}
    for name, word in zip(table["name"], table[language], strict=True):
        if word and (first := owner.setdefault(join_spellings(word).casefold(), name)) != name:
            reason = f"would have the same name as {name!r}: {word!r} in {language}"
            raise _table_error(first, reason, "edit one proposal, or reject it: two queries cannot be the same")


def other_language(language: str) -> str:
    """Return the language that names are translated from."""
    return next(one for one in LANGUAGES if one != language)


@dataclass(frozen=True, slots=True)
class LabelTranslation:
    """`file`: the review CSV; `labels`, `flagged`: its rows, and those with problems; `problems`: how often each;
    `calls`: of the model by this run."""

    file: Path
    labels: int
    flagged: int
    problems: dict[str, int]
    calls: int


@step(TRANSLATE_STAGE)
def translate_labels(
    labels: str, language: str, model_name: str, options: dict[str, Any], to: Path
) -> LabelTranslation:
    """Ask a chat model for the names of all labels in a language (zh, en), for what these mean back in the other, and
    whether they mean what the label has on its images; writes a CSV for people. `labels`: a label table or a COCO file.
    Raises UserError."""
    table, parents, neighbours = read_labels(labels, other_language(language))
    if to.exists():
        raise UserError(TRANSLATE_STAGE, to, "exists, with people's decisions", "give --to another name, or move it")
    sources = table[other_language(language)].where(table[other_language(language)] != "", table["name"]).tolist()
    session = ChatSession(open_reply_store(to.with_suffix(".replies.sqlite")))
    model = chat.load_chat_model(model_name, **options)
    prompt, back_prompt = load_prompt(f"{language}/label_name"), load_prompt(f"{other_language(language)}/label_back")
    contexts = [describe_context(*known, language) for known in zip(parents, neighbours, strict=True)]
    questions = [prompt.fill(name=name, context=context) for name, context in zip(sources, contexts, strict=True)]
    names = [parse_proposed_name(reply, language) for reply in _ask(session, model, questions)]
    backs = _translate_back(session, model, back_prompt, names)
    senses = _ask_senses(session, model, language, sources, contexts, names)
    problems = find_translation_problems(sources, [name.word for name in names], backs, language, senses)
    columns = zip(table["id"], table["name"], sources, names, backs, contexts, problems, strict=True)
    rows = [
        [label_id, name, source, language, new.word, new.plural, new.article, back, known, " ".join(found), "", ""]
        for label_id, name, source, new, back, known, found in columns
    ]
    write_csv(to, TRANSLATION_COLUMNS, rows)
    calls = sum(counts["calls"] for counts in session.call_counts().values())
    counted = dict(Counter(problem for found in problems for problem in found))
    return LabelTranslation(to, len(rows), sum(map(bool, problems)), counted, calls)


def plan_translation(
    labels: str, language: str, model_name: str, options: dict[str, Any], to: Path, price: PriceOptions | None
) -> dict[str, Any]:
    """Return the calls of a translation, at most, their time, tokens and money. Asks and writes nothing."""
    table, parents, neighbours = read_labels(labels, other_language(language))
    model, prompt = chat.load_chat_model(model_name, **options), load_prompt(f"{language}/label_name")
    longest = max((describe_context(*known, language) for known in zip(parents, neighbours, strict=True)), key=len)
    questions = 0 if model.is_recorded else 3 * len(table)  # the name, what it means back, and its sense
    guess = guess_tokens([prompt.text, longest], _MAX_TOKENS)
    with open_reply_store(to.with_suffix(".replies.sqlite")) as store:
        forecast = forecast_calls(store, model, TRANSLATE_STAGE, questions, price=price, guess=guess)
    return {"labels": len(table), "model_calls": questions, **summarize_forecasts([forecast]), "budget": None}


def _translate_back(
    session: ChatSession, model: ChatModel, prompt: PromptTemplate, names: Sequence[ProposedName]
) -> list[str]:
    """Return what the model calls each word in the other language; '' for no word."""
    words = sorted({name.word for name in names if name.word})
    replies = _ask(session, model, [prompt.fill(word=word) for word in words])
    parsed = [parse_proposed_name(reply, prompt.language).word for reply in replies]
    return [dict(zip(words, parsed, strict=True)).get(name.word, "") for name in names]


def _ask_senses(
    session: ChatSession,
    model: ChatModel,
    language: str,
    sources: Sequence[str],
    contexts: Sequence[str],
    names: Sequence[ProposedName],
) -> list[bool | None]:
    """Return whether the model confirms that each word means the things of its label, given what else is on their
    images; None if nothing is known about these."""
    prompt = load_prompt(f"{language}/label_sense")
    asked = [place for place, name in enumerate(names) if name.word and contexts[place]]
    filled = [prompt.fill(name=sources[one], context=contexts[one], word=names[one].word) for one in asked]
    replies = dict(zip(asked, _ask(session, model, filled), strict=True))
    return [parse_sense(replies[place], language) if place in replies else None for place in range(len(names))]


def _ask(session: ChatSession, model: ChatModel, questions: Sequence[str]) -> list[str]:
    """Return the texts of the replies; '' without a reply."""
    limits = GenerationParameters(max_tokens=_MAX_TOKENS, min_tokens=0, temperature=0.0)
    answers = session.ask(TRANSLATE_STAGE, model, [ChatRequest((Message("user", text),), limits) for text in questions])
    return [answer.text if isinstance(answer, Reply) else "" for answer in answers]


def read_labels(labels: str, language: str) -> tuple[pd.DataFrame, list[str], list[list[str]]]:
    """Return the label table (LABEL_COLUMNS) of a shipped name, a folder, a labels.csv, or the categories of a COCO
    file, whose names are in this language; the parent of each label, '' for none; and of a COCO file the labels that
    are most on the same images. Raises UserError."""
    path = Path(labels).expanduser()
    if path.suffix == ".json":
        file = read_annotations(path)
        categories = file.categories
        names, ids = categories["name"].astype("str"), categories["id"].astype("str")
        table = pd.DataFrame({"id": ids, "name": names, language: names}).reindex(columns=LABEL_COLUMNS, fill_value="")
        return table, categories["supercategory"].astype("str").tolist(), find_neighbours(file.boxes, categories)
    table, _ = read_label_csv(path if path.suffix == ".csv" else find_table_folder(labels) / "labels.csv")
    if "name" not in table:
        raise UserError(TRANSLATE_STAGE, labels, "has no column `name`", "rename the column of label names to `name`")
    table = table.reindex(columns=LABEL_COLUMNS, fill_value="")
    return table, table["parent"].tolist(), [[] for _ in range(len(table))]


@step("accept translations")
def accept_label_translations(reviewed: Path, labels: str, to: Path) -> tuple[Path, int, int]:
    """Write the label table with the names that people accepted in a CSV of `translate_labels` into the folder `to`,
    beside the tree and the compatible labels of the table. Return the file, the number of accepted names, and that of
    undecided rows. Raises UserError."""
    filled, _ = read_label_csv(reviewed)
    languages = [one for one in filled["language"] if one] if "language" in filled else []
    table, *_ = read_labels(labels, other_language(languages[0]) if languages else "en")
    try:
        result, undecided = accept_translations(table, filled)
    except UserError as error:
        raise UserError(error.stage, f"{reviewed}: {error.item}", error.reason, error.next_step) from None
    if (to / "labels.csv").exists():
        raise UserError("accept translations", to / "labels.csv", "exists", "give --to another folder")
    with translate_write_errors("accept translations", to, "or give --to another folder"):
        to.mkdir(parents=True, exist_ok=True)
        for name in ("tree.csv", "compatible.csv"):
            if Path(labels).suffix not in (".json", ".csv") and (find_table_folder(labels) / name).is_file():
                shutil.copyfile(find_table_folder(labels) / name, to / name)
    write_csv(to / "labels.csv", LABEL_COLUMNS, result.itertuples(index=False, name=None))
    accepted = int((filled["verdict"].str.casefold() == "accept").sum())
    return to / "labels.csv", accepted, undecided


def find_neighbours(boxes: pd.DataFrame, categories: pd.DataFrame) -> list[list[str]]:
    """Return for each category (columns id, name) the names of those that share most images with it for how often both
    are there, the closest first. `boxes` has the columns image and category."""
    from scipy.sparse import csr_matrix

    count = len(categories)
    label = pd.Index(categories["id"].to_numpy(dtype=object)).get_indexer(boxes["category"].to_numpy(dtype=object))
    image = pd.factorize(boxes["image"])[0]
    known = label >= 0
    cells = (np.ones(int(known.sum()), np.float64), (image[known], label[known]))
    on_image = csr_matrix(cells, shape=(int(image.max(initial=-1)) + 1, count))
    on_image.data[:] = 1
    shared = (on_image.T @ on_image).toarray()
    images = np.maximum(np.diag(shared), 1)
    closeness = np.where(shared >= _LEAST_SHARED, shared / np.sqrt(np.outer(images, images)), 0)
    np.fill_diagonal(closeness, 0)
    names = categories["name"].astype("str").tolist()
    order = np.argsort(-closeness.round(9), axis=1, kind="stable")[:, :_NEIGHBOURS]
    return [[names[one] for one in row if closeness[place, one] > 0] for place, row in enumerate(order.tolist())]


def describe_context(parent: str, neighbours: Sequence[str], language: str) -> str:
    """Return the context that a question gives of a label besides its name; '' if nothing is known. `language`: the
    question's."""
    text = _PARENT[language].format(parent) if parent else ""
    if neighbours:
        quoted = [f"“{name}”" for name in neighbours]
        text += _TOGETHER[language].format("".join(quoted) if language == "zh" else ", ".join(quoted))
    return text


def parse_sense(reply: str, language: str) -> bool | None:
    """Return whether a model confirms that a word means the label's things; None if it answers neither way."""
    text = reply.strip().lstrip(_LOOSE)
    return True if _YES[language].match(text) else False if _NO[language].match(text) else None


def is_named_within(one: str, other: str) -> bool:
    """Return whether one name is a more precise form of the other: "mouse" and "computer mouse", but not "cat" and
    "catfish"."""
    first, second = (set(simplify_name(name).split()) for name in (one, other))
    if first <= second or second <= first:
        return bool(first and second)
    shorter, longer = sorted((simplify_name(one), simplify_name(other)), key=len)
    return not shorter.isascii() and longer.endswith(shorter)
