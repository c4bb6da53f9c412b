"""The labels that a query accepts: the transitive closure of the tag tree and the compatible-label map.

Asymmetric: a query for 鞋子 accepts 皮鞋, but not the reverse. Symmetric: 拖鞋 and 凉鞋 accept each other. A parent of
the tree accepts its descendants. Closure: A accepts B and B accepts C gives A accepts C. (seeds: 可兼容的标签映射)
"""

from dataclasses import dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter

import numpy as np
import pandas as pd

from builders.precision.tag_tree import TagTree
from querytruth.errors import UserError, suggest_choice

COMPATIBILITY_COLUMNS = ["relation", "label", "accepts", "reason"]
RELATIONS = ("asymmetric", "symmetric")
_map_error = partial(UserError, "compatible labels")


@dataclass(frozen=True, slots=True)
class LabelCompatibility:
    """`accepts[c]`: the concepts, by position, that a query for concept c accepts besides itself."""

    accepts: tuple[frozenset[int], ...]
    declared_pairs: int  # pairs written down, in the map and the tree

    @property
    def closed_pairs(self) -> int:
        """Return the number of pairs after the closure."""
        return sum(len(accepted) for accepted in self.accepts)

    def are_related(self, one: int, other: int) -> bool:
        """Return whether one of two concepts accepts the other."""
        return other in self.accepts[one] or one in self.accepts[other]

    def accepted_labels(self, concept: int, label_count: int) -> list[int]:
        """Return the labels that a query for the concept accepts: first itself if it is a label, then table order."""
        own = [concept] if concept < label_count else []
        return own + sorted(code for code in self.accepts[concept] if code < label_count)


def build_compatibility(
    tree: TagTree, rows: pd.DataFrame | None, source: str = "compatible labels"
) -> LabelCompatibility:
    """Return the closure of the tree and the map's rows (COMPATIBILITY_COLUMNS, strings).

    Raises UserError for unknown labels, a pair declared twice or with itself, an asymmetric pair declared both ways,
    and a cycle of asymmetric or tree edges between groups of symmetric labels.
    """
    position = {concept.key.casefold(): code for code, concept in enumerate(tree.concepts)}
    downward = {(position[parent.casefold()], position[child.casefold()]) for parent, child in tree.edges()}
    symmetric: set[tuple[int, int]] = set()
    declared = len(downward)
    if rows is not None:
        asymmetric, symmetric = _check_declared_pairs(rows, position, tree, source)
        declared += len(asymmetric) + len(symmetric)
        downward |= asymmetric
    _reject_cycles(downward, _group_symmetric(len(position), symmetric), tree, source)
    edges: list[set[int]] = [set() for _ in position]
    for one, other in downward | symmetric | {(b, a) for a, b in symmetric}:
        edges[one].add(other)
    return LabelCompatibility(tuple(_reach(code, edges) for code in range(len(edges))), declared)


def list_derived_pairs(
    tree: TagTree, rows: pd.DataFrame | None, compatibility: LabelCompatibility
) -> list[tuple[str, str]]:
    """Return the label pairs (one accepts the other) that the closure adds to `rows`, for a person to check."""
    if rows is None:
        return []
    written = {(_fold_name(row.label), _fold_name(row.accepts)) for row in rows.itertuples()}
    symmetric = rows[rows["relation"] == "symmetric"]
    written |= {(_fold_name(row.accepts), _fold_name(row.label)) for row in symmetric.itertuples()}
    names = [label.key for label in tree.labels]
    return [
        (names[one], names[other])
        for one in range(len(names))
        for other in sorted(compatibility.accepts[one])
        if other < len(names) and (names[one].casefold(), names[other].casefold()) not in written
    ]


def _fold_name(name: object) -> str:
    return str(name).strip().casefold()


def _check_declared_pairs(
    rows: pd.DataFrame, position: dict[str, int], tree: TagTree, source: str
) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    if missing := [column for column in COMPATIBILITY_COLUMNS if column not in rows.columns]:
        raise _map_error(source, f"has no column {missing[0]!r}", f"use the columns {', '.join(COMPATIBILITY_COLUMNS)}")
    relation_by_pair: dict[tuple[int, int], str] = {}
    for number, row in enumerate(rows.itertuples(index=False), start=2):
        item = f"{source} row {number}"
        if row.relation not in RELATIONS:
            raise _map_error(item, f"relation {row.relation!r} is unknown", f"use {' or '.join(RELATIONS)}")
        pair = []
        for name in (str(row.label), str(row.accepts)):
            if _fold_name(name) not in position:
                choice = suggest_choice(name, [concept.key for concept in tree.concepts])
                raise _map_error(item, f"label {name!r} is unknown", choice)
            pair.append(position[_fold_name(name)])
        one, other = pair
        if one == other:
            raise _map_error(item, f"{row.label!r} is paired with itself", "delete the row")
        if (one, other) in relation_by_pair or (other, one) in relation_by_pair:
            both_ways = row.relation == "asymmetric" and relation_by_pair.get((other, one)) == "asymmetric"
            reason = "is declared both ways" if both_ways else "is declared twice"
            pair_text = f"{row.label!r} accepts {row.accepts!r}"
            raise _map_error(item, f"{pair_text} {reason}", "keep one row; use symmetric if both directions are meant")
        relation_by_pair[one, other] = str(row.relation)
    return tuple({pair for pair, kind in relation_by_pair.items() if kind == relation} for relation in RELATIONS)  # type: ignore[return-value]


def _group_symmetric(count: int, symmetric: set[tuple[int, int]]) -> list[int]:
    """Return per concept the number of its group: concepts that accept each other, directly or through others."""
    if not symmetric:  # most maps: loading SciPy takes as long as reading 50 MB of annotations
        return list(range(count))
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones, others = np.array(sorted(symmetric), dtype=np.int64).reshape(-1, 2).T
    edges = coo_array((np.ones(len(ones)), (ones, others)), shape=(count, count))
    numbers: list[int] = connected_components(edges, directed=False)[1].tolist()
    return numbers


def _reject_cycles(downward: set[tuple[int, int]], group: list[int], tree: TagTree, source: str) -> None:
    edges = {(group[one], group[other]): (one, other) for one, other in sorted(downward, reverse=True)}
    below: dict[int, set[int]] = {}
    for one, other in sorted(edges):
        below.setdefault(one, set()).add(other)
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        other, one = error.args[1][:2]  # graphlib lists a cycle from a node to its predecessors
        names = [tree.concepts[code].key for code in edges[one, other]]
        raise _map_error(
            source,
            f"forms a cycle: {names[0]!r} accepts {names[1]!r}, which accepts {names[0]!r} in turn",
            "delete one of the rows, or make the labels symmetric",
        ) from None


def _reach(start: int, edges: list[set[int]]) -> frozenset[int]:
    seen, open_ = {start}, [start]
    while open_:
        for other in edges[open_.pop()] - seen:
            seen.add(other)
            open_.append(other)
    return frozenset(seen - {start})
