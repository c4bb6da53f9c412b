"""The ground truth of precision queries: graded relevant images with evidence, and near misses with grade 0."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from builders.album import fact_tags
from builders.precision.annotated_gallery import Ints
from builders.precision.compatibility import LabelCompatibility
from builders.precision.label_index import BitWords, LabelIndex, bit_positions, images_with_all, test_bits
from builders.precision.mixes import Mix
from builders.precision.tag_tree import LabelConcept, TagTree
from prompts import PromptTemplate
from querytruth.records import categorical_from_codes, content_id, stable_hash

PRECISION_SET_GRADES = {
    "graded": {
        "2": "every label asked for has a box over the area ratio",
        "1": "all labels asked for are annotated, at least one only small",
        "0": "judged not relevant: all labels but one (a near miss)",
    },
    "binary": {
        "1": "all labels asked for are annotated",
        "0": "judged not relevant: all labels but one (a near miss)",
    },
}
_JUDGES = ("detector", "rule", "table")
_DETECTOR, _RULE, _TABLE = range(3)
EvidenceTexts = dict[str, tuple[int, int]]  # the number of each text, and of who judged: by annotations, label
# compatibility, or facts of files


@dataclass(frozen=True, slots=True)
class QueryWording:
    """The languages and styles of the queries of each seed, and the sentence template of each language."""

    languages: list[str]
    styles: list[str]
    sentences: dict[str, PromptTemplate]


@dataclass(frozen=True, slots=True)
class SeedJudgments:
    """The judgments of one seed: a row per image, ascending. `pattern`: the row of `witnesses` that applies, which has
    per concept the label that the image was accepted for (for grade 0 the concept itself), -1: missing."""

    image_row: Ints
    relevance: np.ndarray[Any, np.dtype[np.int8]]
    pattern: Ints
    witnesses: list[tuple[int, ...]]


# A query that is judged elsewhere: its row, and a text of evidence per pattern.
JudgedQuery = tuple[dict[str, Any], SeedJudgments, tuple[str, ...]]


@dataclass(slots=True)
class SeedJudge:
    """Judges the images of seeds. `max_near_misses`: the largest number of judgments with grade 0 of a mix."""

    index: LabelIndex
    tree: TagTree
    compatibility: LabelCompatibility
    image_ids: np.ndarray[Any, Any]  # sorted
    graded: bool
    max_near_misses: int
    seed: int
    possible: BitWords | None = None  # concepts x words, as in LabelIndex: what may be there is no explicit negative
    _witnesses: dict[int, np.ndarray[Any, np.dtype[np.int32]]] = field(default_factory=dict)

    def judge(self, concepts: Mix) -> SeedJudgments:
        """Return all relevant images of a seed, and for a mix up to `max_near_misses` images that lack one label."""
        image = bit_positions(images_with_all(self.index.present, concepts))
        relevance = np.ones(len(image), dtype=np.int8)
        if self.graded:
            relevance += test_bits(images_with_all(self.index.prominent, concepts), image)
        witness = [self._witness(code, image) for code in concepts]
        if len(concepts) > 1 and self.max_near_misses:
            missed = self._near_misses(concepts)
            held = [np.where(test_bits(self.index.present[code], missed), code, -1) for code in concepts]
            image = np.concatenate([image, missed])
            order = np.argsort(image, kind="stable")
            image = image[order]
            relevance = np.concatenate([relevance, np.zeros(len(missed), dtype=np.int8)])[order]
            witness = [np.concatenate(parts)[order] for parts in zip(witness, held, strict=True)]
        pattern, witnesses = _patterns(witness)
        return SeedJudgments(image, relevance, pattern, witnesses)

    def _witness(self, concept: int, at: Ints) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Return per image the accepted label: the concept's own, else a prominent one, else any; the first in table
        order."""
        labels = self.compatibility.accepted_labels(concept, len(self.tree.labels))
        if labels == [concept]:
            return np.full(len(at), concept, dtype=np.int32)
        if concept not in self._witnesses:
            best = np.full(self.index.image_count, -1, dtype=np.int32)
            for bits in (self.index.declared, self.index.declared_prominent):
                for label in reversed(labels):
                    best[bit_positions(bits[label])] = label
            if concept < len(self.tree.labels):
                best[bit_positions(self.index.declared[concept])] = concept
            self._witnesses[concept] = best
        return self._witnesses[concept][at]

    def _near_misses(self, concepts: Mix) -> Ints:
        """Return up to `max_near_misses` images with all but one of the concepts. Image ids are digests, so images in
        id order are shuffled: the sample starts at a hash of the seed, and changes elsewhere do not affect it."""
        present = [self.index.present[code] for code in concepts]
        candidates = np.zeros_like(present[0])
        for missing in range(len(concepts)):
            held = ~present[missing]
            if self.possible is not None:
                held = held & ~self.possible[concepts[missing]]
            for bits in present[:missing] + present[missing + 1 :]:
                held = held & bits
            candidates |= held
        point = f"img_{stable_hash(str(self.seed), 'near_miss', *self._keys(concepts)):016x}"
        start = int(np.searchsorted(self.image_ids, point))
        first_word = start >> 6
        first = bit_positions(_first_bits(candidates[first_word:], self.max_near_misses + 64)) + first_word * 64
        first = first[first >= start]
        if len(first) < self.max_near_misses:
            before = bit_positions(_first_bits(candidates[: first_word + 1], self.max_near_misses + 64))
            first = np.concatenate([first, before[before < start]])
        return first[: self.max_near_misses]

    def _keys(self, concepts: Mix) -> list[str]:
        return [self.tree.concepts[code].key for code in concepts]


def _first_bits(bits: np.ndarray[Any, np.dtype[np.uint64]], enough: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the shortest run of words from the start with enough set bits."""
    reached = np.cumsum(np.bitwise_count(bits), dtype=np.int64)
    return bits[: int(np.searchsorted(reached, enough)) + 1]


def _patterns(witness: list[Any]) -> tuple[Ints, list[tuple[int, ...]]]:
    """Return the number of the pattern of each image, and the distinct rows in order of first appearance."""
    codes = np.zeros(len(witness[0]), dtype=np.int64)
    for column in witness:
        local, distinct = pd.factorize(column)  # a concept accepts few labels: the product cannot overflow
        codes = codes * max(len(distinct), 1) + local
    pattern, _ = pd.factorize(codes)
    first = np.flatnonzero(np.diff(np.maximum.accumulate(pattern), prepend=-1))
    return pattern, [tuple(int(column[row]) for column in witness) for row in first]


def build_queries_and_qrels(
    seeds: pd.DataFrame, judge: SeedJudge, wording: QueryWording, others: Sequence[JudgedQuery] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the queries of all seeds in every language and style and the others, and their qrels, sorted by id."""
    queries: list[dict[str, Any]] = []
    blocks: dict[str, tuple[SeedJudgments, Ints]] = {}
    evidence: EvidenceTexts = {}
    names = {language: [c.name(language) for c in judge.tree.concepts] for language in wording.languages}
    for concepts, level in zip(seeds["concepts"], seeds["level"], strict=True):
        judged = judge.judge(concepts)
        for language in wording.languages:
            judged_by = _TABLE if any(judge.tree.concepts[code].kind for code in concepts) else _DETECTOR
            codes = [_evidence(concepts, labels, names[language], evidence, judged_by) for labels in judged.witnesses]
            for query in list_seed_queries(concepts, level, judge.tree, language, wording):
                queries.append(query)
                blocks[query["query_id"]] = (judged, np.array(codes, dtype=np.int32))
    for query, judged, texts in others:
        queries.append(query)
        judged_by = _TABLE if query.get("fact_kinds") else _DETECTOR
        codes = [evidence.setdefault(text, (len(evidence), judged_by))[0] for text in texts]
        blocks[query["query_id"]] = (judged, np.array(codes, dtype=np.int32))
    queries.sort(key=lambda query: str(query["query_id"]))
    columns = ["query_id", "text", "language", "style", "level", "labels"]
    columns += [one for one in ("family", "twin", "source", "fact_kinds") if any(one in query for query in queries)]
    table = pd.DataFrame(queries, columns=columns)
    return table, _assemble(list(table["query_id"]), blocks, evidence, judge.image_ids)


def list_seed_queries(
    concepts: Mix, level: int, tree: TagTree, language: str, wording: QueryWording
) -> Iterator[dict[str, Any]]:
    """Yield the queries of a seed in a language, one per style, as rows of the table."""
    query_concepts = [tree.concepts[code] for code in concepts]
    keys = [concept.key for concept in query_concepts]
    for style in wording.styles:
        yield {
            "query_id": find_seed_query_id(language, style, keys),
            "text": format_query_text(query_concepts, language, style, wording.sentences[language]),
            "language": language,
            "style": style,
            "level": level,
            "labels": keys,
            **fact_tags.describe_kinds([concept.kind for concept in query_concepts]),
        }


def find_seed_query_id(language: str, style: str, keys: Sequence[str]) -> str:
    """Return the id of the query for labels. It does not depend on the text: an edit by a reviewer keeps the id."""
    return content_id("q", "precision", language, style, *sorted(keys))


def format_query_text(concepts: list[LabelConcept], language: str, style: str, sentence: PromptTemplate) -> str:
    """Return “人&摩托车&小汽车” (word) or “一张人和摩托车和小汽车的图片” (sentence), as in the seed article; in
    English with articles: “a picture of a person, an SUV and bread”."""
    if any(concept.kind for concept in concepts):
        names = [(one.kind, one.with_article() if language == "en" else one.zh) for one in concepts]
        return fact_tags.phrase_facts(names, language, style)
    if style == "word":
        return "&".join(concept.name(language) for concept in concepts)
    if language == "zh":
        return sentence.fill(labels="和".join(concept.zh for concept in concepts))
    phrases = [concept.with_article() for concept in concepts]
    listed = phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"
    return sentence.fill(labels=listed)


def _evidence(concepts: Mix, labels: tuple[int, ...], names: list[str], evidence: EvidenceTexts, judged_by: int) -> int:
    """Return the number of the evidence text of a pattern, e.g. “人; 皮鞋 accepted for 鞋子” or “狗 missing”."""
    if -1 in labels:
        missing = names[concepts[labels.index(-1)]]
        return evidence.setdefault(f"{missing} missing", (len(evidence), judged_by))[0]
    parts = [
        names[label] if label == concept else f"{names[label]} accepted for {names[concept]}"
        for concept, label in zip(concepts, labels, strict=True)
    ]
    return evidence.setdefault("; ".join(parts), (len(evidence), _RULE if labels != concepts else judged_by))[0]


def _assemble(
    query_ids: list[str], blocks: dict[str, tuple[SeedJudgments, Ints]], evidence: EvidenceTexts, image_ids: Any
) -> pd.DataFrame:
    """Return the qrels in (query, image) order; `image_row` is in id order already."""
    ordered = [blocks[query_id] for query_id in query_ids]
    counts = [len(judged.image_row) for judged, _ in ordered]
    image = _joined([judged.image_row for judged, _ in ordered], _code_type(len(image_ids)))
    why = _joined([codes[judged.pattern] for judged, codes in ordered], _code_type(len(evidence)))
    judge_of_text = np.array([judged_by for _, judged_by in evidence.values()], dtype=np.int8)
    query = np.repeat(np.arange(len(ordered), dtype=_code_type(len(ordered))), counts)
    return pd.DataFrame(
        {
            "query_id": categorical_from_codes(query_ids, query),
            "image_id": categorical_from_codes(image_ids, image),
            "relevance": _joined([judged.relevance for judged, _ in ordered], np.int8),
            "judged_by": categorical_from_codes(
                _JUDGES[: max([1, *judge_of_text]) + 1], judge_of_text[why] if len(why) else why
            ),
            "evidence": categorical_from_codes(evidence, why),
        },
        copy=False,
    )


def _code_type(count: int) -> Any:
    """Return the type that pandas gives codes of so many categories: with another it would copy them."""
    return next(kind for kind in (np.int8, np.int16, np.int32) if count < np.iinfo(kind).max)


def _joined(parts: list[Any], kind: Any) -> Any:
    return np.concatenate(parts, dtype=kind, casting="unsafe") if parts else np.empty(0, dtype=kind)
