"""Translates the labels of annotations by a chat model, then by people.

label table or annotations ─► proposals and translations back ─► review CSV ─► people ─► label table
"""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from backends import chat
from backends.annotations.coco_annotations import read_annotations
from backends.annotations.label_tables import find_table_folder, read_label_csv
from backends.chat import ChatModel, ChatRequest, GenerationParameters, Message, Reply
from backends.file_errors import translate_write_errors
from backends.replies.reply_store import open_reply_store
from backends.spreadsheet_csv import write_csv
from builders.errors import UserError
from builders.precision.label_translations import (
    TRANSLATION_COLUMNS,
    ProposedName,
    accept_translations,
    find_translation_problems,
    other_language,
    parse_proposed_name,
)
from builders.precision.tag_tree import LABEL_COLUMNS
from flows.chat_session import ChatSession
from flows.prompt_loading import load_prompt
from flows.steps import step
from prompts import PromptTemplate

TRANSLATE_STAGE = "translate labels"
_MAX_TOKENS = 60
_CONTEXT = {"zh": "它属于“{parent}”。", "en": "It belongs to “{parent}”. "}  # by the language of the prompt


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
    """Asks a chat model for the names of all labels in a language (zh, en) and for what these mean back in the other,
    and writes a CSV for people. `labels`: a label table or a COCO file. Raises UserError."""
    table, parents = read_labels(labels, other_language(language))
    if to.exists():
        raise UserError(TRANSLATE_STAGE, to, "exists, with what people decided", "give --to another name, or move it")
    sources = table[other_language(language)].where(table[other_language(language)] != "", table["name"]).tolist()
    session, model = (
        ChatSession(open_reply_store(to.with_suffix(".replies.sqlite"))),
        chat.load_chat_model(model_name, **options),
    )
    prompt, back_prompt = load_prompt(f"{language}/label_name"), load_prompt(f"{other_language(language)}/label_back")
    contexts = [_CONTEXT[language].replace("{parent}", parent) if parent else "" for parent in parents]
    questions = [prompt.fill(name=name, context=context) for name, context in zip(sources, contexts, strict=True)]
    names = [parse_proposed_name(reply, language) for reply in _ask(session, model, questions)]
    backs = _translate_back(session, model, back_prompt, names)
    problems = find_translation_problems(sources, [name.word for name in names], backs, language)
    columns = zip(table["id"], table["name"], sources, names, backs, problems, strict=True)
    rows = [
        [label_id, name, source, language, new.word, new.plural, new.article, back, " ".join(found), "", ""]
        for label_id, name, source, new, back, found in columns
    ]
    write_csv(to, TRANSLATION_COLUMNS, rows)
    calls = sum(counts["calls"] for counts in session.call_counts().values())
    counted = dict(Counter(problem for found in problems for problem in found))
    return LabelTranslation(to, len(rows), sum(map(bool, problems)), counted, calls)


def _translate_back(
    session: ChatSession, model: ChatModel, prompt: PromptTemplate, names: Sequence[ProposedName]
) -> list[str]:
    """Returns what the model calls each word in the other language; '' for no word."""
    words = sorted({name.word for name in names if name.word})
    replies = _ask(session, model, [prompt.fill(word=word) for word in words])
    parsed = [parse_proposed_name(reply, prompt.language).word for reply in replies]
    return [dict(zip(words, parsed, strict=True)).get(name.word, "") for name in names]


def _ask(session: ChatSession, model: ChatModel, questions: Sequence[str]) -> list[str]:
    """Returns the texts of the replies; '' where there is none."""
    limits = GenerationParameters(max_tokens=_MAX_TOKENS, min_tokens=0, temperature=0.0)
    answers = session.ask(TRANSLATE_STAGE, model, [ChatRequest((Message("user", text),), limits) for text in questions])
    return [answer.text if isinstance(answer, Reply) else "" for answer in answers]


def read_labels(labels: str, language: str) -> tuple[pd.DataFrame, list[str]]:
    """Returns the label table (LABEL_COLUMNS) of a shipped name, a folder, a labels.csv, or the categories of a COCO
    file, whose names are in this language; and the parent of each label, '' for none. Raises UserError."""
    path = Path(labels).expanduser()
    if path.suffix == ".json":
        categories = read_annotations(path).categories
        names, ids = categories["name"].astype("str"), categories["id"].astype("str")
        table = pd.DataFrame({"id": ids, "name": names, language: names}).reindex(columns=LABEL_COLUMNS, fill_value="")
        return table, categories["supercategory"].astype("str").tolist()
    table, _ = read_label_csv(path if path.suffix == ".csv" else find_table_folder(labels) / "labels.csv")
    if "name" not in table:
        raise UserError(TRANSLATE_STAGE, labels, "has no column name", "name the column of the labels' names so")
    table = table.reindex(columns=LABEL_COLUMNS, fill_value="")
    return table, table["parent"].tolist()


@step("accept translations")
def accept_label_translations(reviewed: Path, labels: str, to: Path) -> tuple[Path, int, int]:
    """Writes the label table with the names that people accepted in a CSV of `translate_labels` into the folder `to`,
    beside the tree and the compatible labels of the table. Returns the file, the number of accepted names, and that of
    undecided rows. Raises UserError."""
    filled, _ = read_label_csv(reviewed)
    languages = [one for one in filled["language"] if one] if "language" in filled else []
    table, _ = read_labels(labels, other_language(languages[0]) if languages else "en")
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
