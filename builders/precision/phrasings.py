"""Queries that a chat model rephrased: the content of a reply, and which of its phrasings ask the same as the query.

A query and its phrasings are one paraphrase family: they are equal in language and meaning, and share one ground truth.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from builders.precision.compatibility import LabelCompatibility
from builders.precision.tag_tree import TagTree
from builders.recall.caption_cleaning import clean_caption, measure_length
from builders.recall.caption_rules import CaptionCleaningRules
from querytruth.backends.models.reply_markup import strip_markup, strip_quotes, strip_reasoning
from querytruth.records import categorical_from_codes, content_id
from querytruth.sets.query_texts import join_spellings, list_meanings, simplify_name

STYLE = "llm"
MAX_PHRASING_LENGTH = {"zh": 40, "en": 25}  # characters, words: a query of three labels has some 15 and 12
_LINE_NUMBER = re.compile(r"^\s*(?:[-*•·]|[（(]?\d{1,2}[.)）、:：]|[①-⑳])\s*")
_SEPARATOR = re.compile(r"[,，、;；\n]")
_OTHER = re.compile(r"^(?:other|others|其他|其它)\s*[:：]\s*", re.IGNORECASE)
_NOTHING = {"", "none", "nothing", "-", "无", "没有"}
_WRAPPING = " \t\"'“”‘’「」.。!！*"
_YES = re.compile(r"(?:yes\b|是|相同|一样)", re.IGNORECASE)
_NO = re.compile(r"(?:no\b|not\b|否|不)", re.IGNORECASE)


class Finding(NamedTuple):
    """Why a phrasing is rejected: a reason, such as loses_label or a key of CAPTION_REJECTION_REASONS, and details."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Phrasing:
    """A text that a model wrote for the query `query_id`. `finding`: why it is rejected; `is_pending`: it may still be
    accepted, because a check failed that the next run may repeat."""

    query_id: str
    language: str
    text: str
    finding: Finding | None = None
    is_pending: bool = False


def choose_queries_to_reword(queries: pd.DataFrame) -> pd.DataFrame:
    """Return one query per language and meaning: of its texts the sentence, else the word; by id."""
    order = queries.assign(meaning=list_meanings(queries), later=queries["style"] != "sentence")
    order = order.sort_values(["later", "query_id"], kind="stable").drop_duplicates(["language", "meaning"])
    return order.sort_values("query_id", ignore_index=True).drop(columns=["meaning", "later"])


def parse_phrasings(reply: str) -> list[str]:
    """Return the lines of a reply without numbers, marks and quotes, without an announcement that ends in a colon."""
    lines = [_LINE_NUMBER.sub("", line) for line in strip_reasoning(reply).splitlines()]
    texts = [strip_quotes(strip_markup(line)).strip().rstrip("。.") for line in lines]
    return [text for text in texts if text and not text.endswith((":", "："))]


def clean_phrasings(
    query_id: str, language: str, reply: str, count: int, rules: CaptionCleaningRules, template: str
) -> list[Phrasing]:
    """Return the phrasings in a reply, those beyond `count` and those that the rules for captions reject (a refusal,
    another language …) with the finding. A text stays as the model wrote it: nothing is cut from a query."""
    found = []
    for number, text in enumerate(parse_phrasings(reply)):
        reason = clean_caption(text, "stop", language, rules, template, may_address=True).reason
        if number >= count:
            reason = "over_the_count"
        elif not reason and measure_length(text, language) > MAX_PHRASING_LENGTH[language]:
            reason = "too_long"
        found.append(Phrasing(query_id, language, text, Finding(reason) if reason else None))
    return found


def reject_repetitions(phrasings: Iterable[Phrasing], queries: pd.DataFrame) -> list[Phrasing]:
    """Return the phrasings, with a finding for each text that a query, or an earlier accepted phrasing, has in its
    language; case, punctuation and blanks make no difference."""
    known = {(language, _fold(text)) for language, text in zip(queries["language"], queries["text"], strict=True)}
    out = []
    for phrasing in phrasings:
        key = phrasing.language, _fold(phrasing.text)
        if phrasing.finding is None and key in known:
            phrasing = reject(phrasing, Finding("repeated"))
        elif phrasing.finding is None:
            known.add(key)
        out.append(phrasing)
    return out


def _fold(text: str) -> str:
    return re.sub(r"[\W_]+", " ", join_spellings(text).casefold()).strip()


def reject(phrasing: Phrasing, finding: Finding, *, is_pending: bool = False) -> Phrasing:
    """Return the phrasing with a finding."""
    return Phrasing(phrasing.query_id, phrasing.language, phrasing.text, finding, is_pending)


@dataclass(frozen=True, slots=True)
class LabelNames:
    """The concepts as a language names them. `listed`: the names, in the order of the concepts; `keys`: the concept of
    each simplified name; `implied`: per concept those that it is a kind of or that accept its images."""

    listed: list[str]
    keys: Mapping[str, str]
    implied: Mapping[str, frozenset[str]]


def index_names(tree: TagTree, compatibility: LabelCompatibility, language: str) -> LabelNames:
    """Return the names of all labels and nodes in a language. A concept is found by its name in either language, its
    plural and its key; the language's own names come first."""
    names: dict[str, str] = {}
    concepts = tree.concepts
    own = [(concept.name(language), concept.key) for concept in concepts]
    others = [(name, one.key) for one in concepts for name in (one.en, one.zh, one.plural, one.key) if name]
    for name, key in own + others:
        names.setdefault(_fold_name(name), key)
    implied: dict[str, set[str]] = {concept.key: set() for concept in concepts}
    for code, concept in enumerate(concepts):
        for accepted in compatibility.accepts[code]:
            implied[concepts[accepted].key].add(concept.key)
    return LabelNames(
        [_SEPARATOR.sub(" ", name) for name, _ in own], names, {key: frozenset(above) for key, above in implied.items()}
    )


def _fold_name(name: str) -> str:
    return simplify_name(_SEPARATOR.sub(" ", name))


def check_labels(reply: str, asked: Collection[str], names: LabelNames) -> Finding | None:
    """Compare the labels that a model found in a text with those of its query (keys). A label that every image of an
    asked one has, such as the animal of a dog, is not added."""
    found, things = set[str](), list[str]()
    is_other = False
    for part in _SEPARATOR.split(strip_reasoning(reply)):
        name = part.strip(_WRAPPING)
        is_other = is_other or bool(_OTHER.match(name))
        name = _OTHER.sub("", name).strip(_WRAPPING)
        if name.casefold() in _NOTHING:
            continue
        key = names.keys.get(_fold_name(name))
        if key is not None:
            found.add(key)
        elif is_other:
            things.append(name)
        else:
            return Finding("unreadable_check", f"the labels: {reply.strip()[:100]}")
    allowed = set(asked).union(*(names.implied.get(key, frozenset()) for key in asked))
    if lost := sorted(set(asked) - found):
        return Finding("loses_label", ", ".join(lost))
    if added := sorted(found - allowed):
        return Finding("adds_label", ", ".join(added))
    return Finding("adds_thing", ", ".join(things)) if things else None


def check_question(reply: str) -> Finding | None:
    """Read whether two queries ask for the same images: yes, or a finding."""
    text = strip_reasoning(reply).strip(_WRAPPING + "\n")
    if _YES.match(text):
        return None
    if _NO.match(text):
        return Finding("asks_something_else")
    return Finding("unreadable_check", f"the question: {text[:100]}")


def add_phrasings(queries: pd.DataFrame, phrasings: Sequence[Phrasing]) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the queries with the accepted phrasings, by id, and per new id that of the query worded anew. An id is
    made of the query's and the text: the same text keeps its id, whatever else the model wrote."""
    of_query = queries.set_index("query_id", drop=False)
    accepted = [phrasing for phrasing in phrasings if phrasing.finding is None]
    ids = [content_id("q", "precision", STYLE, one.query_id, one.text) for one in accepted]
    rows = of_query.loc[[one.query_id for one in accepted]].assign(
        query_id=ids, text=pd.array([one.text for one in accepted], dtype="str"), style=STYLE
    )
    table = pd.concat([queries, rows], ignore_index=True).sort_values("query_id", ignore_index=True)
    return table, dict(zip(ids, (one.query_id for one in accepted), strict=True))


def repeat_judgments(judgments: pd.DataFrame, source_of: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of qrels or candidate judgments, sorted by query id, with those of each source query repeated for
    its phrasings (new id: source id)."""
    column = judgments["query_id"].astype("category").cat
    codes, known = column.codes.to_numpy(), column.categories
    starts = dict(zip(known, np.searchsorted(codes, np.arange(len(known))), strict=True))
    ends = dict(zip(known, np.searchsorted(codes, np.arange(len(known)), side="right"), strict=True))
    ids = sorted({*known, *(new for new, source in source_of.items() if source in starts)})
    sources = [source_of.get(one, one) for one in ids]
    blocks = [np.arange(starts[source], ends[source]) for source in sources]
    rows = np.concatenate(blocks) if blocks else np.empty(0, dtype=np.int64)
    query = np.repeat(np.arange(len(ids), dtype=np.int32), [len(block) for block in blocks])
    repeated = judgments.iloc[rows].reset_index(drop=True)
    return repeated.assign(query_id=categorical_from_codes(ids, query).astype(judgments["query_id"].dtype.name))
