"""The ground truth of thousands of random worlds against an oracle that asks every image for every label."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import prompts
from builders.precision.annotated_gallery import AnnotatedGallery
from builders.precision.compatibility import build_compatibility
from builders.precision.judgments import QueryWording, SeedJudge, build_queries_and_qrels
from builders.precision.label_index import build_label_index
from builders.precision.mixes import MixRules, build_seed_table, find_mixes, find_searchable_concepts
from builders.precision.tag_tree import LabelConcept, TagTree
from querytruth.sets.ledger import Ledger
from tests.property_runs import few_and_many

RATIO = 0.1
LABELS = 7
NODES = 3


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """A tree of up to three nodes over seven labels, a map of a few rows, images with boxes."""
    parents = [draw(st.integers(-1, NODES - 1)) for _ in range(LABELS)]
    above = [-1, *[draw(st.integers(-1, n - 1)) for n in range(1, NODES)]]
    pairs = st.tuples(
        st.integers(0, LABELS - 1), st.integers(0, LABELS - 1), st.sampled_from(["asymmetric", "symmetric"])
    )
    rows = draw(st.lists(pairs, max_size=5))
    images = draw(st.integers(1, 90))
    box = st.tuples(
        st.integers(0, images - 1), st.integers(0, LABELS - 1), st.sampled_from([0.05, 0.1, 0.1000001, 0.5])
    )
    return {
        "parents": parents,
        "above": above,
        "rows": rows,
        "images": images,
        "boxes": draw(st.lists(box, max_size=250)),
    }


def tree_of(world: dict[str, Any]) -> TagTree:
    node = [f"node{n}" for n in range(NODES)]
    labels = [
        LabelConcept(f"L{n}", node[p] if p >= 0 else "", f"标{n}", f"label {n}") for n, p in enumerate(world["parents"])
    ]
    nodes = [
        LabelConcept(node[n], node[p] if p >= 0 else "", f"节{n}", f"group {n}") for n, p in enumerate(world["above"])
    ]
    return TagTree(tuple(labels), tuple(nodes))


def map_of(world: dict[str, Any]) -> pd.DataFrame:
    rows = [(kind, f"L{a}", f"L{b}", "") for a, b, kind in world["rows"]]
    return pd.DataFrame(rows, columns=["relation", "label", "accepts", "reason"])


def accepted(world: dict[str, Any]) -> list[set[int]] | None:
    """Per concept all that it reaches, itself included, by brute force; None where the map contradicts itself."""
    count = LABELS + NODES
    down = {(LABELS + p, n) for n, p in enumerate(world["parents"]) if p >= 0}
    down |= {(LABELS + p, LABELS + n) for n, p in enumerate(world["above"]) if p >= 0}
    asymmetric = {(a, b) for a, b, kind in world["rows"] if kind == "asymmetric"}
    symmetric = {(a, b) for a, b, kind in world["rows"] if kind == "symmetric"}
    unordered = [frozenset((a, b)) for a, b, _ in world["rows"]]
    if any(len(pair) == 1 for pair in unordered) or len(set(unordered)) < len(unordered):
        return None
    edges = down | asymmetric | symmetric | {(b, a) for a, b in symmetric}
    reach = np.eye(count, dtype=bool)
    for a, b in edges:
        reach[a, b] = True
    for _ in range(count):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    if any(reach[b, a] for a, b in down | asymmetric):
        return None  # a one-way edge with a way back
    return [set(np.flatnonzero(row)) for row in reach]


def gallery_of(world: dict[str, Any]) -> AnnotatedGallery:
    ids = [f"img_{n:020x}" for n in range(world["images"])]
    columns = np.array(world["boxes"], dtype=float).reshape(-1, 3)
    return AnnotatedGallery(
        pd.DataFrame({"image_id": ids}),
        columns[:, 0].astype(np.int64),
        columns[:, 1].astype(np.int64),
        columns[:, 2],
    )


@few_and_many(
    40,
    500,
    pytest.mark.slow,
    world=worlds(),
    least=st.integers(1, 6),
    reading=st.sampled_from(["any", "prominent"]),
)
def test_truth_equals_the_oracle(world: dict[str, Any], least: int, reading: str) -> None:
    reach = accepted(world)
    assume(reach is not None)
    assert reach is not None
    tree, gallery = tree_of(world), gallery_of(world)
    closed = build_compatibility(tree, map_of(world))
    index = build_label_index(gallery, LABELS, closed, RATIO)
    ledger = Ledger()
    labels, parents = find_searchable_concepts(
        index, tree, ledger, min_images=least, support_rule=reading, with_parents=True
    )
    mixed = find_mixes(labels, index, tree, closed, MixRules(3, "exhaustive", None, [], least, 0), ledger)
    seeds = build_seed_table(labels, parents, mixed, index)
    ids = gallery.images["image_id"].to_numpy(dtype=object)
    judge = SeedJudge(index, tree, closed, ids, graded=True, max_near_misses=4, seed=0)
    queries, qrels = build_queries_and_qrels(
        seeds, judge, QueryWording(["en"], ["word"], {"en": prompts.load_template("en/sentence")})
    )

    held = [{label for image, label, _ in world["boxes"] if image == n} for n in range(world["images"])]
    large = [
        {label for image, label, share in world["boxes"] if image == n and share > RATIO}
        for n in range(world["images"])
    ]
    right = [{n for n, have in enumerate(held) if have & accepts} for accepts in reach]
    prominent = [{n for n, have in enumerate(large) if have & accepts} for accepts in reach]

    def can_be_searched(code: int) -> bool:
        return len(right[code]) >= least and len(prominent[code]) >= (least if reading == "prominent" else 1)

    singles = [code for code in range(LABELS) if can_be_searched(code)]
    nodes = [code for code in range(LABELS, LABELS + NODES) if can_be_searched(code)]
    apart = {frozenset(p) for p in combinations(singles, 2) if p[0] not in reach[p[1]] and p[1] not in reach[p[0]]}
    wanted = [(code,) for code in singles + nodes]
    wanted += [
        mix
        for size in (2, 3)
        for mix in combinations(singles, size)
        if all(frozenset(pair) in apart for pair in combinations(mix, 2))
        and len(set.intersection(*[right[code] for code in mix])) >= least
    ]
    assert sorted(seeds["concepts"]) == sorted(wanted)

    judged = {
        (q, i): r
        for q, i, r in zip(
            qrels["query_id"].astype(str), qrels["image_id"].astype(str), qrels["relevance"], strict=True
        )
    }
    keys = [concept.key for concept in tree.concepts]
    for query in queries.itertuples():
        mix = [keys.index(label) for label in query.labels]  # type: ignore[union-attr]
        truth = set.intersection(*[right[code] for code in mix])
        best = set.intersection(*[prominent[code] for code in mix])
        for n in range(world["images"]):
            grade = judged.pop((query.query_id, ids[n]), None)
            if n in truth:
                assert grade == (2 if n in best else 1)
            elif grade is not None:
                assert grade == 0
                assert len(mix) > 1
                assert sum(n not in right[code] for code in mix) == 1, "a near miss lacks just one label"
    assert not judged
