"""Searchable labels, and the mixes of two or more labels with enough images. (seeds: 构建Query)"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from builders.ledger import Ledger, Rejection, rejection_rows, rejection_table
from builders.precision.compatibility import LabelCompatibility
from builders.precision.label_index import LabelIndex, count_bits, images_with_all
from builders.precision.tag_tree import TagTree
from builders.records import mix_bits, stable_hash

Mix = tuple[int, ...]  # concepts in table order


@dataclass(frozen=True, slots=True)
class MixRules:
    """How mixes are found. `sampled_labels`: labels sampled per mix (sampled mode); `cap`: most mixes per level."""

    levels: int
    mode: str  # sampled | exhaustive
    sampled_labels: int
    cap: int | None
    min_images: int
    seed: int


def find_searchable_concepts(
    index: LabelIndex, tree: TagTree, ledger: Ledger, *, min_images: int, support_rule: str, with_parents: bool
) -> tuple[list[int], list[int]]:
    """Returns the labels and the tree nodes that become queries. `support_rule` any: at least `min_images` images, one
    of them prominent; prominent: at least `min_images` prominent images."""

    def split(stage: str, kind: str, codes: range) -> list[int]:
        searchable, rejected = [], []
        for code in codes:
            present, prominent = count_bits(index.present[code]), count_bits(index.prominent[code])
            reason = _unsearchable_reason(present, prominent, min_images, support_rule)
            if not reason:
                searchable.append(code)
                continue
            measure, value = ("prominent_images", prominent) if reason in _PROMINENCE_REASONS else ("images", present)
            threshold = 1 if reason in ("no_images", "never_prominent") else min_images
            key = tree.concepts[code].key
            rejected.append(Rejection(key, "rejected", reason, measure=measure, value=value, threshold=threshold))
        ledger.record_stage(stage, kind, len(codes), len(searchable), rejection_table(rejected))
        return searchable

    labels = split("labels", "label", range(len(tree.labels)))
    return labels, split("parents", "parent", range(len(tree.labels), len(tree.concepts))) if with_parents else []


_PROMINENCE_REASONS = ("never_prominent", "too_seldom_prominent")


def _unsearchable_reason(present: int, prominent: int, min_images: int, support_rule: str) -> str:
    if not present:
        return "no_images"
    if present < min_images:
        return "too_few_images"
    if not prominent:
        return "never_prominent"
    return "too_seldom_prominent" if support_rule == "prominent" and prominent < min_images else ""


def find_mixes(
    seeds: list[int],
    index: LabelIndex,
    tree: TagTree,
    compatibility: LabelCompatibility,
    rules: MixRules,
    ledger: Ledger,
) -> list[list[Mix]]:
    """Returns the mixes of level 2, 3 …; no mix contains two concepts of which one accepts the other.

    Exhaustive: all mixes with enough images. Sampled: for every mix of the level below a few labels are sampled by
    hash, and the mixes with enough images are accepted. Above the cap, mixes are sampled by hash.
    """
    combinable = {
        code: {other for other in seeds if other != code and not compatibility.are_related(code, other)}
        for code in seeds
    }
    keys = [concept.key for concept in tree.concepts]
    level: list[Mix] = [(code,) for code in seeds]
    levels: list[list[Mix]] = []
    for number in range(2, rules.levels + 1):
        if rules.mode == "exhaustive":
            entered = kept = _extend(level, seeds, combinable, index, rules.min_images)
        else:
            entered = _sample(level, seeds, combinable, keys, rules)
            kept = [mix for mix in entered if index.count_support(mix) >= rules.min_images]
        rare = [mix for mix in entered if mix not in set(kept)] if len(entered) > len(kept) else []
        over: list[Mix] = []
        if rules.cap is not None and len(kept) > rules.cap:
            sampled = sorted(kept, key=lambda mix: stable_hash(str(rules.seed), "cap", *[keys[code] for code in mix]))
            over, kept = sampled[rules.cap :], sorted(sampled[: rules.cap])
        support = {"measure": "images", "value": [index.count_support(mix) for mix in rare]}
        rejections = [
            rejection_rows(_named(rare, keys), "rejected", "too_few_images", threshold=rules.min_images, **support),
            rejection_rows(_named(over, keys), "rejected", "over_the_cap", threshold=rules.cap),
        ]
        ledger.record_stage(f"mixes_of_{number}", "mix", len(entered), len(kept), *rejections)
        levels.append(kept)
        level = kept
    return levels


def _named(mixes: Iterable[Mix], keys: list[str]) -> list[str]:
    return ["&".join(keys[code] for code in mix) for mix in mixes]


def _extend(
    level: list[Mix], seeds: list[int], combinable: dict[int, set[int]], index: LabelIndex, min_images: int
) -> list[Mix]:
    """Returns each mix of the level with each later label, if the level has all smaller mixes that it contains."""
    kept = set(level)
    out: list[Mix] = []
    for mix in level:
        later = [
            code
            for code in seeds
            if code > mix[-1]
            and all(code in combinable[part] for part in mix)
            and (len(mix) == 1 or all((*mix[:n], *mix[n + 1 :], code) in kept for n in range(len(mix))))
        ]
        if not later:
            continue
        bits = images_with_all(index.present, mix)
        filled = np.flatnonzero(bits)
        # Rare mixes have few non-zero words: only those are counted.
        is_sparse = 4 * len(filled) < len(bits)
        rows = index.present[np.ix_(np.array(later), filled)] if is_sparse else index.present[later]
        narrow = bits[filled] if is_sparse else bits
        supports = np.bitwise_count(rows & narrow).sum(axis=1)
        out += [(*mix, code) for code, support in zip(later, supports, strict=True) if support >= min_images]
    return out


def _sample(
    level: list[Mix], seeds: list[int], combinable: dict[int, set[int]], keys: list[str], rules: MixRules
) -> list[Mix]:
    """Returns distinct mixes: each mix of the level with the first labels in an order given by its hash."""
    hashes = np.array([stable_hash(str(rules.seed), "mix", keys[code]) for code in seeds], dtype=np.uint64)
    sampled: set[Mix] = set()
    for mix in level:
        own = np.uint64(stable_hash(str(rules.seed), "seed", *[keys[code] for code in mix]))
        left = rules.sampled_labels
        for place in np.argsort(mix_bits(hashes ^ own), kind="stable"):
            code = seeds[place]
            if all(code in combinable[part] for part in mix):
                sampled.add(tuple(sorted((*mix, code))))
                left -= 1
                if not left:
                    break
    return sorted(sampled)


def build_seed_table(labels: list[int], parents: list[int], mixes: list[list[Mix]], index: LabelIndex) -> pd.DataFrame:
    """Returns all query seeds: concepts (tuple of codes), level, parent (is a tree node), support (images)."""
    singles: list[Mix] = [(code,) for code in [*labels, *parents]]
    concepts = singles + [mix for level in mixes for mix in level]
    return pd.DataFrame(
        {
            "concepts": pd.Series(concepts, dtype=object),
            "level": [len(mix) for mix in concepts],
            "parent": [len(labels) <= place < len(singles) for place in range(len(concepts))],
            "support": [index.count_support(mix) for mix in concepts],
        }
    )
