"""What an edited text does to the truth of its query: judgments that were made from the old text die with it.

A caption's own image, and images that it was found to fit, were judged by its words. Under other words they are
candidate judgments, which wait for a person. Judgments of people and of rules on labels do not rest on the text and
stay; so do all where the edit changes case, blanks or punctuation alone.
"""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from builders.benchmark_set import Tables, open_candidate_judgments
from builders.recall.reply_checks import letters_and_digits

JUDGED_BY_TEXT = frozenset(["caption", "model", "web"])
_EVIDENCE = "judged for the text before an edit"
_SOURCE_SCORE, _OTHER_SCORE = 1.0, 0.5  # the order in which people see them


def retire_text_judgments(tables: Tables, new_texts: Mapping[str, str]) -> Tables:
    """Returns the tables with the judgments by the old texts as candidates; `new_texts` are those of edited queries, by
    id. The texts themselves are left as they are."""
    queries = tables.queries[tables.queries["labels"].isna() & tables.queries["query_id"].isin(list(new_texts))]
    old = dict(zip(queries["query_id"], queries["text"], strict=True))
    changed = [one for one, text in old.items() if letters_and_digits(text) != letters_and_digits(new_texts[one])]
    is_retired = tables.qrels["query_id"].isin(changed) & tables.qrels["judged_by"].isin(list(JUDGED_BY_TEXT))
    if not is_retired.any():
        return tables
    retired = tables.qrels.loc[is_retired & (tables.qrels["relevance"] > 0), ["query_id", "image_id"]].astype("object")
    sources = queries.get("source_image_id", pd.Series(None, index=queries.index, dtype="object"))
    source_of = dict(zip(queries["query_id"], sources, strict=True))
    is_source = [source_of.get(query) == image for query, image in retired.itertuples(index=False)]
    candidates = retired.assign(
        score=[_SOURCE_SCORE if one else _OTHER_SCORE for one in is_source],
        evidence=[f"{_EVIDENCE}: {old[query]}" for query in retired["query_id"]],
    )
    kept = tables.candidate_judgments[~tables.candidate_judgments["query_id"].isin(changed)]
    candidates = candidates.astype({name: kept[name].dtype for name in candidates})
    waiting = pd.concat([kept, candidates[list(kept.columns)]], ignore_index=True) if len(kept) else candidates
    return replace(tables, qrels=tables.qrels[~is_retired].reset_index(drop=True), candidate_judgments=waiting)


def list_edited_waiting(tables: Tables) -> list[str]:
    """Returns the queries, sorted, whose text was edited, that have no relevant image, and of which an image of the old
    text waits for a person."""
    candidates = open_candidate_judgments(tables)
    edited = set(candidates.loc[candidates["evidence"].str.startswith(_EVIDENCE), "query_id"])
    if not edited:
        return []
    answered = set(tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].unique())
    return sorted(edited - answered)
