"""Checks of a published set: what makes its figures wrong or doubtful, such as file names that contain a query."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from builders.generated.result_screening import find_implausible_answers
from builders.recall.caption_index import CaptionIndex, build_answer_index
from querytruth.errors import SEVERITIES, LintFinding
from querytruth.records import codes_of, is_any_of, list_used, mix_bits
from querytruth.sets.absent_queries import ABSENT_DEPTH, is_sampled, list_absent
from querytruth.sets.benchmark_set import Tables, open_candidate_judgments
from querytruth.sets.decision_application import list_edited_waiting
from querytruth.sets.manifest import Manifest
from querytruth.sets.query_texts import Meaning, find_text_residue, list_meanings

_NO_LETTER = re.compile(r"[\W\d_]+")  # separates words in file names
_WIDE = "\u2e80"  # from here on scripts are written without spaces between words
_FEWEST = 3  # letters; shorter texts are ignored
_EXAMPLES = 5
_DANGLING_SOURCE = "unreachable_judgment", "judgments of the source name an unknown query or image"
_SOURCE_DEFECTS = {  # by stage and reason in the ledger of an import: check and message
    ("judgments", "unknown_query"): _DANGLING_SOURCE,
    ("judgments", "unknown_image"): _DANGLING_SOURCE,
    ("judgments", "contradicting_judgment"): (
        "contradicting_judgment",
        "judgments of the source contradict another judgment of the same pair",
    ),
    ("imported_images", "same_bytes"): (
        "same_image_twice",
        "images of the source have the same bytes as another image: if both are kept, one counts as wrong",
    ),
    ("imported_images", "image_missing"): ("missing_image", "images that the source lists could not be found"),
    ("truth", "no_image_left"): ("lost_query", "queries of the source have lost all their relevant images"),
    ("queries", "empty_text"): ("empty_text", "queries of the source have no text"),
    ("queries", "doubled_query"): ("doubled_query", "queries of the source occur twice under one id"),
}


def find_leaking_file_names(texts: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the names that contain a text: as whole words, with or without a final "s", or at any place where the
    script has no spaces. Case, digits and punctuation are ignored. The time depends on the names alone, not on the
    number of texts."""
    normalized_texts = {_words(text) for text in texts} - {""}
    wide = {text for text in normalized_texts if max(text) >= _WIDE}
    spaced = {text for text in normalized_texts - wide if len(text) >= _FEWEST}
    most = max((text.count(" ") + 1 for text in spaced), default=0)
    lengths = sorted({len(text) for text in wide})

    def is_leak(words: str) -> bool:
        return not spaced.isdisjoint(_runs(words.split(" "), most)) or not wide.isdisjoint(_parts(words, lengths))

    # Most names of a source are the same but for their number.
    shapes = pc.replace_substring_regex(pa.array(names, pa.string()), "[0-9]+", " ").dictionary_encode()
    leaks = [is_leak(_words(shape)) for shape in shapes.dictionary.to_pylist()]
    return [name for name, shape in zip(names, shapes.indices.to_pylist(), strict=True) if leaks[shape]]


def _words(text: str) -> str:
    return _NO_LETTER.sub(" ", text.casefold()).strip()


def _runs(words: list[str], most: int) -> Iterator[str]:
    """Yield all runs of up to `most` words, each also without a final s."""
    for first in range(len(words)):
        for last in range(first + 1, min(first + most, len(words)) + 1):
            run = " ".join(words[first:last])
            yield run
            yield run.removesuffix("s")


def _parts(words: str, lengths: list[int]) -> Iterator[str]:
    """Yield all parts of these lengths if the name has a wide character."""
    if not words or max(words) < _WIDE:
        return
    for length in lengths:
        for first in range(len(words) - length + 1):
            yield words[first : first + length]


def lint_tables(tables: Tables) -> list[LintFinding]:
    """Return all findings, errors first; empty for a clean set."""
    findings = [*_dangling(tables), *_duplicate_images(tables), *_source_defects(tables.ledger)]
    if len(tables.queries):  # a gallery has none
        findings += [
            _empty_truth(tables),
            _unjudged(tables),
            _edited_waiting(tables),
            _repeated_texts(tables),
            _shared_truth(tables),
        ]
        findings += [_ambiguous_texts(tables), _contradicting_truth(tables), _implausible_answers(tables)]
        findings += [_text_residue(tables), _open_candidate_judgments(tables), _unreachable(tables)]
        findings.append(_filename_leaks(tables))
    kept = [finding for finding in findings if finding is not None]
    return sorted(kept, key=lambda finding: (SEVERITIES.index(finding.severity), finding.check))


def lint_certificate(manifest: Manifest) -> list[LintFinding]:
    """Return a warning for judged queries if nobody certified how complete their relevant images are."""
    if manifest["notes"].get("certificate") or not manifest["counts"]["judgments"]:
        return []
    says = "judgments whose completeness nobody certified: run querytruth audit start SET --until recall=0.9"
    return [LintFinding("no_certificate", "warning", manifest["counts"]["judgments"], says, ())]


def finding_lines(findings: list[LintFinding]) -> list[str]:
    """Return the errors and warnings as the known limitations of a card."""
    return [f"{item.count:,} {item.says} (lint: {item.check})." for item in findings if item.severity != "note"]


def _finding(check: str, severity: str, says: str, cases: Any) -> LintFinding | None:
    listed = [str(case) for case in cases]
    return LintFinding(check, severity, len(listed), says, tuple(sorted(listed)[:_EXAMPLES])) if listed else None


def _dangling(tables: Tables) -> list[LintFinding | None]:
    findings = []
    for column, table in (("query_id", tables.queries), ("image_id", tables.images)):
        named = list_used(tables.qrels[column])
        says = f"judgments name a {column} that is not in the set"
        findings.append(_finding(f"dangling_{column}", "error", says, _leave_out(named, table[column])))
    return findings


def _leave_out(ids: pd.Index | pd.Series, known: pd.Index | pd.Series) -> Any:
    """Return the ids that are not among the known ones; by Arrow, since `isin` makes a Python object of each of a
    million."""
    is_known = pc.is_in(pa.array(ids, pa.string()), value_set=pa.array(known, pa.string()))
    return ids[~is_known.to_numpy(zero_copy_only=False)]


def _source_defects(ledger: pd.DataFrame) -> Iterator[LintFinding | None]:
    """Yield a finding per check of _SOURCE_DEFECTS; the ledgers of other builds have none of its stages."""
    cases: dict[tuple[str, str], list[str]] = {}
    for (stage, reason), rows in ledger.groupby(["stage", "reason"], observed=True, sort=True):
        if defect := _SOURCE_DEFECTS.get((str(stage), str(reason))):
            cases.setdefault(defect, []).extend(rows["item"])
    for (check, says), items in cases.items():
        yield _finding(check, "warning", says, items)


def _empty_truth(tables: Tables) -> LintFinding | None:
    answered = set(list_used(tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"]))
    answered |= set(list_edited_waiting(tables))  # reported by another check
    if not len(tables.qrels):  # the set waits for its first judgments
        return None
    written = tables.queries.loc[~is_sampled(tables.queries), "query_id"]  # own queries may have no answer
    cases = [query for query in written if query not in answered]
    return _finding("empty_truth", "error", "queries have no relevant image", cases)


def _unjudged(tables: Tables) -> LintFinding | None:
    """Find queries without a relevant image that have too few judged images to say that there is none, in sets that are
    published before people judge."""
    waiting = tables.queries if not len(tables.qrels) else tables.queries[is_sampled(tables.queries)]
    known = set(list_used(tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"]))
    known.update(list_absent(tables.queries, tables.qrels, len(tables.images)))
    cases = [query for query in waiting["query_id"] if query not in known]
    says = (
        f"queries have no relevant image and fewer than {ABSENT_DEPTH} judged ones: give runs to querytruth review "
        "SET --run FILE, judge, then run querytruth apply"
    )
    return _finding("unjudged_query", "warning", says, cases)


def _edited_waiting(tables: Tables) -> LintFinding | None:
    texts = dict(zip(tables.queries["query_id"].tolist(), tables.queries["text"].tolist(), strict=True))
    cases = [f"{query} {texts[query]}" for query in list_edited_waiting(tables)]
    says = "queries were edited and have no relevant image until a person accepts one; they are left out of all results"
    return _finding("edited_query_waits", "warning", says, cases)


def _repeated_texts(tables: Tables) -> LintFinding | None:
    queries = tables.queries
    key = queries["language"] + "\x00" + queries["text"].str.casefold().str.strip()
    twice = queries[key.duplicated(keep=False)]
    cases = twice["query_id"] + " " + twice["text"]
    return _finding("repeated_text", "warning", "queries have the same text as another one", cases)


def _text_residue(tables: Tables) -> LintFinding | None:
    rows = zip(tables.queries["query_id"].tolist(), tables.queries["text"].tolist(), strict=True)
    cases = [
        f"{query} {text} — {kind.replace('_', ' ')}"
        for query, text in rows
        if (kind := find_text_residue(text)) and not (kind == "empty_value" and _is_emoji(text))
    ]
    return _finding("text_residue", "warning", "queries still contain text that should have been removed", cases)


def _is_emoji(text: str) -> bool:
    """Return whether a text holds an emoji: people search with one alone."""
    return any(unicodedata.category(c) == "So" for c in text)


def _duplicate_images(tables: Tables) -> list[LintFinding | None]:
    images = tables.images
    digests = images["sha256"].dropna()
    same = images.loc[digests[digests.duplicated(keep=False)].index, "image_id"]
    group = images.set_index("image_id")["duplicate_group"].dropna()
    cases = []
    if len(group):
        positive = tables.qrels[tables.qrels["relevance"] > 0]
        groups = positive["image_id"].astype(str).map(group)
        held = pd.DataFrame({"query": positive["query_id"].astype(str), "group": groups}).dropna().value_counts()
        sizes = group.value_counts()
        cases = [f"{query} ({group})" for (query, group), count in held.items() if count < sizes[group]]
    says = "queries have a relevant image whose near-duplicate is not relevant"
    same_bytes = _finding("same_bytes", "error", "images have the same bytes under two ids", same)
    return [same_bytes, _finding("twin_not_in_truth", "warning", says, cases)]


def _shared_truth(tables: Tables) -> LintFinding | None:
    """Find queries with different contents and exactly the same images: one of them may be too broad."""
    by_query = _hash_truths(tables.qrels, with_grades=False)
    texts_by_truth: dict[Any, dict[str, str]] = {}
    for query_id, what, content_text in _query_contents(tables.queries):
        if by_query.get(query_id):
            group = texts_by_truth.setdefault(by_query[query_id], {})
            group[what] = min(content_text, group.get(what, content_text))
    cases = [" = ".join(sorted(texts.values())) for texts in texts_by_truth.values() if len(texts) > 1]
    return _finding("shared_truth", "note", "groups of different queries have exactly the same relevant images", cases)


def _contradicting_truth(tables: Tables) -> LintFinding | None:
    """Find equivalent queries with different truths. Captions may each fit further images; these contradict each other
    only where one image has two grades."""
    groups: dict[Meaning, list[str]] = {}
    for query_id, meaning in zip(tables.queries["query_id"].tolist(), list_meanings(tables.queries), strict=True):
        groups.setdefault(meaning, []).append(query_id)
    shared = {meaning: query_ids for meaning, query_ids in groups.items() if len(query_ids) > 1}
    captions = {query_id: meaning for meaning, ids in shared.items() if meaning[0] == "caption" for query_id in ids}
    rows = tables.qrels[is_any_of(tables.qrels["query_id"], captions)]
    seen: dict[tuple[Meaning, str], int] = {}
    contradicting = {
        captions[query_id]
        for query_id, image_id, grade in zip(rows["query_id"], rows["image_id"], rows["relevance"], strict=True)
        if seen.setdefault((captions[query_id], image_id), grade) != grade
    }
    truths = _hash_truths(tables.qrels)
    for meaning, query_ids in shared.items():
        if meaning[0] != "caption" and len({truths.get(query_id, 0) for query_id in query_ids}) > 1:
            contradicting.add(meaning)
    texts = dict(zip(tables.queries["query_id"].tolist(), tables.queries["text"].tolist(), strict=True))
    cases = [" = ".join(texts[query_id] for query_id in shared[meaning]) for meaning in contradicting]
    return _finding("contradicting_truth", "error", "queries that ask the same have different relevant images", cases)


def _hash_truths(qrels: pd.DataFrame, *, with_grades: bool = True) -> dict[str, int]:
    """Return per query a hash of its relevant images, and of their grades; 0 where it has none."""
    grades = qrels["relevance"].to_numpy()
    is_relevant = grades > 0
    codes = codes_of(qrels["image_id"])[is_relevant].astype(np.uint64) * np.uint64(128)
    hashes = mix_bits(codes + (grades[is_relevant].astype(np.uint64) if with_grades else np.uint64(1)))
    categories = qrels["query_id"].cat.categories
    sums = np.zeros(len(categories), dtype=np.uint64)
    queries = codes_of(qrels["query_id"])[is_relevant]
    np.add.at(sums, queries, hashes)  # a sum of hashes does not depend on their order
    return dict(zip(categories.tolist(), sums.tolist(), strict=True))


def _query_contents(queries: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Yield per query its id, what it asks for (its labels, the image that it is a caption of, or its text), and the
    labels or the text."""
    sources = queries.get("source_image_id", pd.Series(None, index=queries.index, dtype="object"))
    families = queries.get("family", pd.Series(None, index=queries.index, dtype="object"))
    columns = [one.tolist() for one in (queries["query_id"], queries["text"], queries["labels"], sources, families)]
    for query_id, text, labels, source, family in zip(*columns, strict=True):
        content_text = "&".join(sorted(labels)) if labels is not None else text
        if isinstance(family, str):
            content_text = f"{family} {'&'.join(labels)}"
        yield query_id, source if labels is None and isinstance(source, str) else content_text, content_text


def _ambiguous_texts(tables: Tables) -> LintFinding | None:
    """Check queries without labels alone: the truth of the others does not depend on their texts."""
    queries = tables.queries[tables.queries["labels"].isna()]
    if queries.empty:  # skips an index of all images
        return None
    qrels, images = tables.qrels, tables.images
    known = qrels["query_id"].isin(queries["query_id"]) & qrels["image_id"].isin(images["image_id"])
    answers = build_answer_index(queries, qrels[known], images, tables.duplicates)
    caption_index, examples = CaptionIndex(answers), []
    query, answer = answers.pairs_of_keys(caption_index.find_covering(np.arange(len(answers.query_ids)), 1))
    for query_row, other in zip(query[:_EXAMPLES].tolist(), answer[:_EXAMPLES].tolist(), strict=True):
        text, _, _ = caption_index.find_closest_text(query_row, other)
        image_id = answers.image_ids[answers.representative_images()[other]]
        examples.append(f"{answers.query_ids[query_row]} {answers.texts[query_row]} — {image_id}: {text}")
    says = "queries also describe an image that is not judged relevant"
    return LintFinding("ambiguous_text", "warning", len(query), says, tuple(examples)) if examples else None


def _open_candidate_judgments(tables: Tables) -> LintFinding | None:
    texts = dict(zip(tables.queries["query_id"].tolist(), tables.queries["text"].tolist(), strict=True))
    cases = [
        f"{row.query_id} {texts[row.query_id]} — {row.image_id}: {row.evidence}"
        for row in open_candidate_judgments(tables).itertuples(index=False)
    ]
    return _finding("candidate_judgments_open", "note", "pairs may be relevant and wait for people to judge", cases)


def _unreachable(tables: Tables) -> LintFinding | None:
    positive = list_used(tables.qrels.loc[tables.qrels["relevance"] > 0, "image_id"])
    cases = _leave_out(tables.images["image_id"], positive) if len(tables.qrels) else []
    return _finding("unreachable_image", "note", "images are relevant to no query (they are only distractors)", cases)


def _implausible_answers(tables: Tables) -> LintFinding | None:
    """Find images that are relevant to implausibly many queries. Queries by labels are left out, because labels explain
    why an image is relevant. Images of a duplicate group count together."""
    asked = tables.queries.loc[tables.queries["labels"].isna(), "query_id"]
    positive = tables.qrels[(tables.qrels["relevance"] > 0) & tables.qrels["query_id"].isin(asked)]
    images = positive["image_id"].astype("str")
    groups = images.map(tables.images.set_index("image_id")["duplicate_group"]).fillna(images)
    counts = positive["query_id"].astype("str").groupby(groups).nunique()
    places = find_implausible_answers(counts.tolist(), len(asked))
    first = images.groupby(groups).min()
    cases = [f"{first.iloc[place]} (relevant to {counts.iloc[place]:,} of {len(asked):,} queries)" for place in places]
    says = "images are relevant to so many queries that they may be placeholders for missing images"
    return _finding("implausible_answer", "warning", says, cases)


def _filename_leaks(tables: Tables) -> LintFinding | None:
    labels = (row[0] for row in tables.queries["labels"].tolist() if row is not None and len(row) == 1)
    cases = find_leaking_file_names(
        [*tables.queries["text"].tolist(), *labels], tables.images["file_name"].dropna().tolist()
    )
    return _finding("text_in_file_name", "warning", "images have words of a query in their file name", cases)
