"""Applies people's decisions to the tables of a set; an edited text loses the judgments of the old one.

A caption's own image, and images that it was found to fit, were judged by its text. With another text they become
candidate judgments, which wait for a person. Judgments of people and of rules on labels do not depend on the text and
stay; all judgments stay where the edit changes only case, spaces or punctuation.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from querytruth.backends.files.text_formats import letters_and_digits
from querytruth.records import is_any_of, list_used
from querytruth.sets.absent_queries import is_sampled
from querytruth.sets.benchmark_set import Tables, open_candidate_judgments
from querytruth.sets.decision_agreement import JudgmentDecisions, find_conflicts, share_decisions
from querytruth.sets.decision_outcomes import DecisionOutcome
from querytruth.sets.decision_records import QueryDecision, effective
from querytruth.sets.ledger import Ledger, rejection_rows
from querytruth.sets.query_texts import group_equivalent_queries

JUDGED_BY_TEXT = frozenset(["caption", "judge", "model", "web"])
_EVIDENCE = "judged for the text before an edit"
_SOURCE_SCORE, _OTHER_SCORE = 1.0, 0.5  # the order in which people see them


def retire_text_judgments(tables: Tables, new_texts: Mapping[str, str]) -> Tables:
    """Return the tables with the judgments by the old texts as candidates; `new_texts` are those of edited queries, by
    id. The texts themselves do not change."""
    queries = tables.queries[tables.queries["labels"].isna() & tables.queries["query_id"].isin(list(new_texts))]
    old = dict(zip(queries["query_id"], queries["text"], strict=True))
    changed = [query for query, text in old.items() if is_other_text(text, new_texts[query])]
    if not changed:
        return tables
    is_retired = tables.qrels["query_id"].isin(changed) & tables.qrels["judged_by"].isin(list(JUDGED_BY_TEXT))
    if not is_retired.any():
        return tables
    retired = tables.qrels.loc[is_retired & (tables.qrels["relevance"] > 0), ["query_id", "image_id"]].astype("object")
    sources = queries.get("source_image_id", pd.Series(None, index=queries.index, dtype="object"))
    source_of = dict(zip(queries["query_id"], sources, strict=True))
    is_source = [source_of.get(query) == image for query, image in retired.itertuples(index=False)]
    candidates = retired.assign(
        score=[_SOURCE_SCORE if one else _OTHER_SCORE for one in is_source],
        evidence=[describe_retired(old[query]) for query in retired["query_id"]],
    )
    kept = tables.candidate_judgments[~tables.candidate_judgments["query_id"].isin(changed)]
    candidates = candidates.astype({name: kept[name].dtype for name in candidates})
    waiting = pd.concat([kept, candidates[list(kept.columns)]], ignore_index=True) if len(kept) else candidates
    return replace(tables, qrels=tables.qrels[~is_retired].reset_index(drop=True), candidate_judgments=waiting)


def is_other_text(old: str, new: str) -> bool:
    """Return whether a text differs in more than case, blanks and punctuation."""
    return letters_and_digits(old) != letters_and_digits(new)


def describe_retired(text: str) -> str:
    """Return the evidence of a judgment that was made for the text before an edit."""
    return f"{_EVIDENCE}: {text}"


def find_reworded(decisions_by_target: Mapping[tuple[str, str | None], Sequence[QueryDecision]]) -> dict[str, str]:
    """Return the text of each query after edits that need new judgments. A person who keeps the query afterwards
    keeps the new text, not the judgments of the old one."""
    edited = {
        query: decisions[-1]
        for (query, image), decisions in decisions_by_target.items()
        if image is None and any(one.decision == "edit" and not one.keeps_truth for one in decisions)
    }
    return {query: last.new_text or last.text for query, last in edited.items() if last.decision != "drop"}


def list_edited_waiting(tables: Tables) -> list[str]:
    """Return the sorted edited queries without a relevant image that have an image of the old text waiting for a
    person."""
    candidates = open_candidate_judgments(tables)
    edited = set(candidates.loc[candidates["evidence"].str.startswith(_EVIDENCE), "query_id"])
    if not edited:
        return []
    return sorted(edited - set(list_used(tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"])))


def apply_decisions(
    tables: Tables, log: list[QueryDecision], ledger: Ledger, in_effect: Collection[str] = frozenset()
) -> tuple[Tables, DecisionOutcome]:
    """Return the tables with the decisions applied, and the outcome; the given tables are not changed.

    An edit of a text takes the judgments with it that were made from the old one (`reworded_queries`): they wait for
    people as candidate judgments. `in_effect`: ids of decisions that the tables contain already. A decision on a
    judgment holds for all equivalent queries that have none of their own on that image. A decision is listed as stale
    and changes nothing where its text is not the query's, neither now nor by an edit in the log, or where its query or
    image is gone.
    """
    decisions_by_target, outcome = _classify_decisions(tables, effective(log, in_effect), in_effect)
    if not decisions_by_target and not outcome.earlier:
        return tables, outcome
    on_queries = {query: decisions[-1] for (query, image), decisions in decisions_by_target.items() if image is None}
    on_judgments, outcome = _share_with_equivalent(tables.queries, log, decisions_by_target, outcome)
    if not decisions_by_target:
        return tables, outcome
    texts = {query: d.new_text or d.text for query, d in on_queries.items() if d.decision != "drop"}
    had = list_used(tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"])
    tables = retire_text_judgments(tables, find_reworded(decisions_by_target))
    queries = _reword(tables.queries, texts)
    qrels = _regrade(tables.qrels, on_judgments)
    dropped = {query: decision.note for query, decision in sorted(on_queries.items()) if decision.decision == "drop"}
    kept = queries[~queries["query_id"].isin(list(dropped))]
    # Only where a person judged: lint reports other queries without a relevant image.
    judged = {query for query, _ in on_judgments}
    answered = judged.intersection(list_used(qrels.loc[qrels["relevance"] > 0, "query_id"]))
    waiting = list_edited_waiting(replace(tables, qrels=qrels)) if judged else []
    # An own query may have no answer, and one of a publisher whose judgments came later.
    never_had = (queries["style"] == "query") & ~queries["query_id"].isin(had)
    stay = {*waiting, *answered, *queries.loc[is_sampled(queries) | never_had, "query_id"]}
    may_go = judged - stay
    unanswered = [query for query in kept["query_id"] if query in may_go]
    kept = kept[~kept["query_id"].isin(unanswered)].reset_index(drop=True)
    rejections = (
        _review_rejections(queries, dropped, "dropped_by_person").assign(detail=list(dropped.values())),
        _review_rejections(queries, unanswered, "no_relevant_left"),
    )
    ledger.record_stage("review", "query", len(queries), len(kept), *rejections)
    if removed := [*dropped, *unanswered]:
        qrels = qrels[~is_any_of(qrels["query_id"], removed)].reset_index(drop=True)
    return replace(tables, queries=kept, qrels=qrels), outcome


def _review_rejections(queries: pd.DataFrame, query_ids: Collection[str], reason: str) -> pd.DataFrame:
    texts = dict(zip(queries["query_id"], queries["text"], strict=True))
    ids = list(query_ids)
    return rejection_rows(ids, "rejected", reason, item_id=ids, text=[texts.get(query_id) for query_id in ids])


_DecisionsByTarget = dict[tuple[str, str | None], list[QueryDecision]]


def _classify_decisions(
    tables: Tables, log: list[QueryDecision], in_effect: Collection[str]
) -> tuple[_DecisionsByTarget, DecisionOutcome]:
    """Return by target the decisions to apply, in the log's order, and the outcome of the log."""
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    known = _texts_by_edits(texts, log)
    decided = {decision.image_id for decision in log}
    images = set(tables.images.loc[tables.images["image_id"].isin(decided), "image_id"])
    to_apply: _DecisionsByTarget = {}
    stale: dict[tuple[str, str | None], tuple[QueryDecision, str]] = {}
    earlier: list[QueryDecision] = []
    for decision in log:
        absorbed = decision.decision_id in in_effect
        why = "" if absorbed else _staleness_reason(decision, texts, known, images)
        if why:
            stale[decision.target] = (decision, why)
            continue
        stale.pop(decision.target, None)
        if absorbed:
            earlier.append(decision)
            # A decision that did not fit before this one was published must not override it now.
            stale |= {late.target: (late, _TOO_LATE) for late in to_apply.pop(decision.target, [])}
        else:
            to_apply.setdefault(decision.target, []).append(decision)
    superseded = [decision for decisions in to_apply.values() for decision in decisions[:-1]]
    applied = [decisions[-1] for decisions in to_apply.values()]
    return to_apply, DecisionOutcome(applied, list(stale.values()), earlier, superseded)


_TOO_LATE = "a published version already contains a later decision on it"


def _texts_by_edits(texts: dict[str, str], log: list[QueryDecision]) -> dict[str, set[str]]:
    """Return per edited query its text and its texts after edits: later decisions may be made on any of these."""
    edits = [decision for decision in log if decision.decision == "edit" and decision.query_id in texts]
    known = {decision.query_id: {texts[decision.query_id]} for decision in edits}
    grew = True
    while grew:
        grew = False
        for edit in edits:
            of_query = known[edit.query_id]
            if edit.text in of_query and edit.new_text is not None and edit.new_text not in of_query:
                of_query.add(edit.new_text)
                grew = True
    return known


def _staleness_reason(
    decision: QueryDecision, texts: dict[str, str], known: dict[str, set[str]], images: set[str]
) -> str:
    """Return why a decision does not fit the tables, "" where it does."""
    if decision.undoes is not None:
        return "the decision that it undoes is not in the log, or is already in a published version: decide again"
    text = texts.get(decision.query_id)
    if text is None:
        return "the query is no longer in the set"
    if decision.text not in known.get(decision.query_id, {text}) and decision.new_text != text:
        return f"the text of the query is now {text!r}"
    if decision.image_id is not None and decision.image_id not in images:
        return "the image is no longer in the set"
    return ""


def _share_with_equivalent(
    queries: pd.DataFrame, log: list[QueryDecision], decisions_by_target: _DecisionsByTarget, outcome: DecisionOutcome
) -> tuple[JudgmentDecisions, DecisionOutcome]:
    """Return the decisions to apply to each judgment, and the outcome with the conflicts and the number of judgments
    that have a decision on an equivalent query."""
    equivalent = group_equivalent_queries(queries)
    positions = {decision.decision_id: place for place, decision in enumerate(log)}
    to_apply = [decision for decisions in decisions_by_target.values() for decision in decisions]
    published = [decision for decision in outcome.earlier if isinstance(decision, QueryDecision)]
    on_judgments = share_decisions(to_apply, published, equivalent, positions)
    in_order = sorted([*published, *to_apply], key=lambda decision: positions[decision.decision_id])
    return on_judgments, replace(
        outcome,
        conflicts=find_conflicts(in_order, equivalent),
        shared_count=len(on_judgments.keys() - decisions_by_target.keys()),
    )


def _reword(queries: pd.DataFrame, new: dict[str, str]) -> pd.DataFrame:
    texts = [new.get(query, text) for query, text in zip(queries["query_id"], queries["text"], strict=True)]
    return queries.assign(text=pd.Series(texts, index=queries.index, dtype=queries["text"].dtype))


def _regrade(qrels: pd.DataFrame, decisions: dict[tuple[str, str], list[QueryDecision]]) -> pd.DataFrame:
    """Return the judgments with people's grades; unjudged pairs become rows."""
    if not decisions:
        return qrels
    near = is_any_of(qrels["query_id"], {query for query, _ in decisions})
    near &= is_any_of(qrels["image_id"], {image for _, image in decisions})
    rows = {(row[0], row[1]): row[2:] for row in qrels.loc[near, list(_QRELS)].itertuples(index=False, name=None)}
    for pair, log_entries in decisions.items():
        rows[pair] = _regraded(rows.get(pair), log_entries)
    changed = pd.DataFrame([(*pair, *rest) for pair, rest in sorted(rows.items())], columns=list(_QRELS))
    return merge_judgments(qrels[~near], changed)


_QRELS = ("query_id", "image_id", "relevance", "judged_by", "evidence")


def _regraded(row: tuple[Any, ...] | None, log_entries: list[QueryDecision]) -> tuple[int, str, str]:
    """Return relevance, judge and evidence after all decisions on a judgment; versions published in between have no
    influence. A keep leaves the evidence as it is."""
    relevance, evidence = (int(row[0]), row[2] if isinstance(row[2], str) else "") if row is not None else (1, "")
    for decision in log_entries:
        by = decision.evidence
        if decision.decision != "keep":
            relevance, evidence = (decision.relevance or 0) if decision.decision == "grade" else 0, by
        elif decision.relevance is None:
            evidence = evidence or by  # whatever grade is there by then, published or not
        elif decision.relevance != relevance or not evidence:
            relevance, evidence = decision.relevance, by
    return relevance, "human", evidence


def merge_judgments(rest: pd.DataFrame, changed: pd.DataFrame) -> pd.DataFrame:
    """Return both parts with shared categories, without converting millions of codes to text."""
    columns = {}
    for name in _QRELS:
        if name == "relevance":
            columns[name] = pd.concat([rest[name], changed[name].astype(rest[name].dtype)], ignore_index=True)
            continue
        known, (row_codes, texts) = rest[name].cat.categories, pd.factorize(changed[name])
        places = known.get_indexer(texts)
        is_new = places < 0
        places[is_new] = len(known) + np.arange(is_new.sum())
        codes = np.concatenate([rest[name].cat.codes, np.append(places, -1)[row_codes]], dtype=np.int32)
        categories = known.append(pd.Index(texts[is_new], dtype=known.dtype))
        columns[name] = pd.Categorical.from_codes(codes, categories=categories)
    return pd.DataFrame(columns)
