"""Sampled mixes: as many as the caps allow, and of every label its share."""

import numpy as np
import pandas as pd
import pytest

from builders.precision.annotated_gallery import AnnotatedGallery
from builders.precision.compatibility import LabelCompatibility, build_compatibility
from builders.precision.label_index import LabelIndex, build_label_index
from builders.precision.mixes import MixRules, find_mixes
from builders.precision.tag_tree import LabelConcept, TagTree
from querytruth.sets.ledger import Ledger

NO_MAP = pd.DataFrame(columns=["relation", "label", "accepts", "reason"])


def dense_world(labels: int, images: int = 3000, held: int = 700) -> tuple[LabelIndex, TagTree, LabelCompatibility]:
    """Labels that `held` images each show, by chance: all pairs and nearly all triples have enough images."""
    tree = TagTree(tuple(LabelConcept(f"L{n}", "", f"标{n}", f"label {n}") for n in range(labels)), ())
    compatibility = build_compatibility(tree, NO_MAP)
    rng = np.random.default_rng(7)
    image = np.concatenate([np.sort(rng.choice(images, held, replace=False)) for _ in range(labels)])
    names = pd.DataFrame({"image_id": [f"img_{n}" for n in range(images)]})
    gallery = AnnotatedGallery(names, image, np.repeat(np.arange(labels), held), np.ones(labels * held))
    return build_label_index(gallery, labels, compatibility, 0.1), tree, compatibility


@pytest.mark.parametrize(("labels", "caps", "reached"), [(40, [1212, 889], [780, 889]), (60, [500, 100], [500, 100])])
def test_the_default_mixes_of_a_crowded_file_fill_the_caps_with_all_labels(
    labels: int, caps: list[int], reached: list[int]
) -> None:
    index, tree, compatibility = dense_world(labels)
    seeds, ledger = list(range(labels)), Ledger()
    rules = MixRules(3, "exhaustive", None, [], 10, 0)
    every = find_mixes(seeds, index, tree, compatibility, rules, Ledger())
    some = find_mixes(seeds, index, tree, compatibility, MixRules(3, "sampled", None, caps, 10, 0), ledger)
    assert [len(level) for level in some] == reached
    assert all(set(level) <= set(wide) for level, wide in zip(some, every, strict=True))
    assert [(stage.entered, stage.accepted) for stage in ledger.stages] == [(n, n) for n in reached]
    counts = np.bincount(np.array(some[0]).ravel(), minlength=labels)
    assert counts.min() >= counts.mean() / 2


def test_draws_limit_the_partners_of_each_label_and_another_seed_draws_others() -> None:
    index, tree, compatibility = dense_world(30)

    def pairs(seed: int) -> set[tuple[int, ...]]:
        rules = MixRules(2, "sampled", 2, [], 10, seed)
        return set(find_mixes(list(range(30)), index, tree, compatibility, rules, Ledger())[0])

    assert 30 <= len(pairs(0)) <= 60 and pairs(0) == pairs(0) != pairs(1)
