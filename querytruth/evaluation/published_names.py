"""Ids of others in a run: queries and images by our ids, then by the publisher's, then by file names and paths, and
queries by their texts.

A path, with its extension or without, counts where it is the end of one image's path alone, or that image's path the
end of it. A name that could be
several queries or images is an error: a guess would change the figures without a trace.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from querytruth.backends.id_patterns import match_column
from querytruth.errors import UserError
from querytruth.evaluation.comparison import EvaluationWarning
from querytruth.evaluation.ground_truth import factorize_ids
from querytruth.evaluation.judged_sets import EvaluationView, read_named_images
from querytruth.sets.benchmark_set import Tables

_COLUMNS = ("source_id", "file_name", "path", "source_url", "text")
_PATHS = ("file_name", "path")  # of which the end is enough
_EXAMPLES = 3
Counts = dict[str, dict[str, dict[str, int]]]


@dataclass(frozen=True, slots=True)
class NameMatch:
    """The ids of the set by the unknown names in a run; `by_column`: how many names each column explains."""

    ids: dict[str, str] = field(default_factory=dict)
    by_column: dict[str, int] = field(default_factory=dict)


def match_names(
    names: Iterable[str],
    own_ids: Collection[str],
    table: pd.DataFrame,
    key: str,
    same: Mapping[str, str] = {},
    about: tuple[str, object] = ("read run", "run"),
) -> NameMatch:
    """Match names with the rows of a table of a set (its column `key` has the ids of the set). `same`: the
    representative of an image by its id, which counts as the same image. Raises UserError where a name matches several,
    with three of them; `about`: its stage and item."""
    open_names = [name for name in names if name not in own_ids]
    found, by_column = dict[str, str](), dict[str, int]()
    ambiguous: list[str] = []
    for column in _COLUMNS if open_names else ():
        if column not in table or not table[column].notna().any():
            continue
        rows = table[[column, key]].dropna().astype("str")
        pairs = list(zip(rows[column].tolist(), rows[key].tolist(), strict=True))
        matched = match_column(open_names, pairs, column in _PATHS)
        for name, ids in matched.items():
            if len({same.get(one, one) for one in ids}) > 1:
                ambiguous.append(f"{name} matches {' or '.join(sorted(ids)[:_EXAMPLES])}")
            else:
                found[name] = min(ids)
        by_column |= {column: sum(name in found for name in matched)} if matched else {}
        open_names = [name for name in open_names if name not in matched]
    if ambiguous:
        what = "queries" if key == "query_id" else "images"
        listed = "; ".join(sorted(ambiguous)[:_EXAMPLES])
        reason = f"has {len(ambiguous):,} names that match several {what} ({listed})"
        raise UserError(*about, reason, (f"use their {key}" + (", or full paths" if key == "image_id" else "")))
    return NameMatch(found, {name: count for name, count in by_column.items() if count})


def add_aliases(tables: Tables) -> pd.DataFrame:
    """Return the queries, and a row (query_id, source_id) for each further id of one: of a line of a log that was
    joined with others."""
    return pd.concat([tables.queries, tables.query_aliases], ignore_index=True)


def rename_ids(run: pd.DataFrame, column: str, match: NameMatch) -> pd.DataFrame:
    """Return the run with our ids in a column. Several names of one image count once, at the best score. Of several
    names of one query, such as the ids of two lines of a log that ask the same, the results of the first count: of our
    id, or of the first name by order."""
    if not match.ids:
        return run
    codes, known = factorize_ids(run[column])
    names = pd.Series(known.to_pylist(), dtype="str")
    targets = names.map(lambda name: match.ids.get(name, name))
    place, distinct = pd.factorize(targets)
    if column == "query_id" and len(distinct) < len(names):
        order = pd.DataFrame({"target": targets, "other": names != targets, "name": names})
        is_first = np.isin(codes, order.sort_values(["target", "other", "name"]).drop_duplicates("target").index)
        run, codes = run[is_first].reset_index(drop=True), codes[is_first]
    renamed = run.assign(
        **{column: pd.Categorical.from_codes(place[codes], categories=pd.Index(distinct, dtype="str"))}
    )
    if len(distinct) == len(names):
        return renamed
    pair = ["query_id", "image_id"]
    best = renamed.sort_values("score", ascending=False, kind="stable").drop_duplicates(pair)
    return renamed.loc[best.index.sort_values()].reset_index(drop=True)


def translate_run(run: pd.DataFrame, view: EvaluationView) -> tuple[pd.DataFrame, Counts, list[EvaluationWarning]]:
    """Return a run with our ids, the counts of the names that were others', and what a result states about them."""
    judged = view.judged_set
    if judged.stored is None:
        return run, {}, []
    images, text_table = read_named_images(judged.stored.path), add_aliases(judged.stored.tables)
    same = judged.representatives.to_dict()
    counts: dict[str, dict[str, int]] = {}
    sides = {"query_id": (text_table, "query_id"), "image_id": (images, "image_id")}
    if view.is_image_to_text:
        sides = {"query_id": sides["image_id"], "image_id": sides["query_id"]}
    for column, (table, key) in sides.items():
        own = {*table[key].astype("str"), *judged.outside_queries, *same}
        match = match_names(factorize_ids(run[column])[1].to_pylist(), own, table, key, same)
        run = rename_ids(run, column, match)
        if match.by_column:
            counts["queries" if key == "query_id" else "images"] = match.by_column
    return run, *state_matches(counts)


def state_matches(counts: dict[str, dict[str, int]]) -> tuple[Counts, list[EvaluationWarning]]:
    """Return what a result states about names that were others': `counts` by kind (queries, images) and column."""
    if not counts:
        return {}, []
    parts = [f"{n:,} {what} by {column}" for what, columns in counts.items() for column, n in columns.items()]
    detail = f"ids of the run were matched with those of the set: {', '.join(parts)}"
    return {"ids_of_others": counts}, [EvaluationWarning("ids_of_others", "", detail)]
