"""Searchable labels, and the mixes of two or more labels with enough images. (seeds: 构建Query)"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from builders.album.fact_tags import are_exclusive
from builders.precision.compatibility import LabelCompatibility
from builders.precision.label_index import LabelIndex, count_bits, images_with_all
from builders.precision.tag_tree import TagTree, has_name
from querytruth.records import mix_bits, stable_hash
from querytruth.sets.ledger import Ledger, Rejection, rejection_rows, rejection_table

Mix = tuple[int, ...]  # concepts in table order
Codes = np.ndarray[Any, np.dtype[np.int64]]
_LABELS_AT_ONCE = 32  # their rows fit a processor's cache


@dataclass(frozen=True, slots=True)
class MixRules:
    """Limits of mixes. `sampled_labels`: maximum of labels sampled per mix (sampled mode; None: no limit); `caps`:
    maximum of mixes of level 2, 3 …, the last also of all further levels (empty: no limit)."""

    levels: int
    mode: str  # sampled | exhaustive
    sampled_labels: int | None
    caps: Sequence[int]
    min_images: int
    seed: int

    def get_cap(self, level: int) -> int | None:
        """Return the most mixes of a level, None: no limit."""
        return self.caps[min(level - 2, len(self.caps) - 1)] if self.caps else None


def find_searchable_concepts(
    index: LabelIndex, tree: TagTree, ledger: Ledger, *, min_images: int, support_rule: str, with_parents: bool
) -> tuple[list[int], list[int]]:
    """Return the labels and the tree nodes that become queries. `support_rule` any: at least `min_images` images, one
    of them prominent; prominent: at least `min_images` prominent images."""

    def split(stage: str, kind: str, codes: range) -> list[int]:
        searchable, rejected = [], []
        for code in codes:
            present, prominent = count_bits(index.present[code]), count_bits(index.prominent[code])
            reason = _unsearchable_reason(present, prominent, min_images, support_rule)
            if not has_name(tree.concepts[code]):
                rejected.append(Rejection(tree.concepts[code].key, "rejected", "not_a_name"))
                continue
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
    """Return the mixes of level 2, 3 … with enough images; no mix contains two concepts if one accepts the other.

    Exhaustive: all of them; above the cap, they are sampled by hash. Sampled: round by round, every mix of the level
    below is extended by the next label that has enough images with it, in an order given by hashes, until the cap.
    """
    combinable = {
        code: {other for other in seeds if other != code and not compatibility.are_related(code, other)}
        for code in seeds
    }
    if any(tree.concepts[code].kind for code in seeds):
        combinable = {
            code: {o for o in others if _asks_more(code, o, tree, index)} for code, others in combinable.items()
        }
    keys = [concept.key for concept in tree.concepts]
    level: list[Mix] = [(code,) for code in seeds]
    levels: list[list[Mix]] = []
    for number in range(2, rules.levels + 1):
        cap, over = rules.get_cap(number), list[Mix]()
        if rules.mode == "exhaustive":
            kept = _extend(level, seeds, combinable, index, rules.min_images)
            if cap is not None and len(kept) > cap:
                order = {mix: stable_hash(str(rules.seed), "cap", *[keys[code] for code in mix]) for mix in kept}
                kept = sorted(kept, key=order.__getitem__)
                over, kept = kept[cap:], sorted(kept[:cap])
        else:
            kept = _sample(level, seeds, combinable, index, keys, rules)
        rejections = rejection_rows(_named(over, keys), "rejected", "over_the_cap", threshold=cap)
        ledger.record_stage(f"mixes_of_{number}", "mix", len(kept) + len(over), len(kept), rejections)
        levels.append(kept)
        level = kept
    return levels


def _asks_more(one: int, other: int, tree: TagTree, index: LabelIndex) -> bool:
    """Return whether a mix of two facts asks more than one of them: not two years, and, unless it asks for a person,
    no event that was all in one city."""
    kinds = tree.concepts[one].kind, tree.concepts[other].kind
    if are_exclusive(*kinds):
        return False
    if "" in kinds or {*kinds} & {"person", "pseudonym"}:
        return True
    return index.count_support((one, other)) < min(index.count_support((code,)) for code in (one, other))


def _named(mixes: Iterable[Mix], keys: list[str]) -> list[str]:
    return ["&".join(keys[code] for code in mix) for mix in mixes]


def _extend(
    level: list[Mix], seeds: list[int], combinable: dict[int, set[int]], index: LabelIndex, min_images: int
) -> list[Mix]:
    """Return each mix of the level with each later label, if the level has all smaller mixes that it contains."""
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
        out += [(*mix, int(code)) for code in _supported(mix, later, index, min_images)]
    return out


def _supported(mix: Mix, labels: Sequence[int], index: LabelIndex, min_images: int) -> Codes:
    """Return those of the labels that at least so many images show together with the mix."""
    codes: Codes = np.array(labels, dtype=np.int64)
    bits = images_with_all(index.present, mix)
    filled = np.flatnonzero(bits)
    # Rare mixes have few non-zero words: only those are counted.
    is_sparse = 4 * len(filled) < len(bits)
    own, supports = bits[filled] if is_sparse else bits, np.empty(len(codes), dtype=np.uint32)
    for start in range(0, len(codes), _LABELS_AT_ONCE):
        rows = index.present.take(codes[start : start + _LABELS_AT_ONCE], axis=0)
        shared = np.bitwise_and(rows.take(filled, axis=1) if is_sparse else rows, own)
        supports[start : start + _LABELS_AT_ONCE] = np.bitwise_count(shared).sum(axis=1, dtype=np.uint32)
    return codes[supports >= min_images]


def _sample(
    level: list[Mix],
    seeds: list[int],
    combinable: dict[int, set[int]],
    index: LabelIndex,
    keys: list[str],
    rules: MixRules,
) -> list[Mix]:
    """Return distinct mixes. In each round every mix of the level is extended by one more label, so that none of them
    takes the whole of the cap."""
    seed, cap = str(rules.seed), rules.get_cap(len(level[0]) + 1) if level else None
    label_hashes = {code: np.uint64(stable_hash(seed, "mix", keys[code])) for code in seeds}
    chains: list[tuple[int, list[Mix]]] = []  # per mix its hash, and its extensions in the order of the rounds
    for mix in level:
        own = stable_hash(seed, "seed", *[keys[code] for code in mix])
        shared = set.intersection(*[combinable[part] for part in mix])
        codes = _supported(mix, [code for code in seeds if code in shared], index, rules.min_images).tolist()
        order = np.argsort(mix_bits(np.array([label_hashes[c] for c in codes], np.uint64) ^ np.uint64(own)))
        chains.append((own, [tuple(sorted((*mix, codes[place]))) for place in order[: rules.sampled_labels]]))
    sampled: set[Mix] = set()
    for extensions in zip_longest(*[chain for _, chain in sorted(chains)]):
        for extended in extensions:
            if cap is not None and len(sampled) >= cap:
                return sorted(sampled)
            if extended is not None:
                sampled.add(extended)
    return sorted(sampled)


def build_seed_table(labels: list[int], parents: list[int], mixes: list[list[Mix]], index: LabelIndex) -> pd.DataFrame:
    """Return all query seeds: concepts (tuple of codes), level, parent (is a tree node), support (images)."""
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
