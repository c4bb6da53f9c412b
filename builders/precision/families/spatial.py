"""Places: "a dog to the left of a bench", above, below. The mirrored arrangement is a near miss."""

from collections.abc import Iterator

import numpy as np

from builders.precision.families import box_evidence
from builders.precision.tag_tree import LabelConcept

_LEFT, _TOP, _RIGHT, _BOTTOM = range(4)
# Per kind the phrases in English and Chinese, and the opposite.
_RELATIONS = {
    "left": ("to the left of", "左边", "right"),
    "right": ("to the right of", "右边", "left"),
    "above": ("above", "上方", "below"),
    "below": ("below", "下方", "above"),
}

# What is farther away stands higher in an image, and is above nothing: these texts are about the image.
_HEIGHTS = {"above": "higher in the frame than", "below": "lower in the frame than"}


def find_questions(
    world: box_evidence.BoxWorld, rules: box_evidence.FamilyRules
) -> Iterator[box_evidence.FamilyQuestion]:
    """Yield the four places of each pair of labels. Relevant: one object is clearly in that place relative to another;
    wrong: each object is clearly on the opposite side of each other one."""
    certain = {label: world.is_certain(label) for label in world.labels}
    for one, other in world.pairs():
        if not (world.concepts[one].article and world.concepts[other].article):
            continue
        first, second = world.evidence(one), world.evidence(other)
        both, at_first, at_second = np.intersect1d(first.image, second.image, assume_unique=True, return_indices=True)
        if len(both) < rules.min_images:
            continue
        known = certain[one][both] & certain[other][both]
        low = first.first_sides[at_first], second.first_sides[at_second]
        high = first.last_sides[at_first], second.last_sides[at_second]
        for near, far, kinds in ((_LEFT, _RIGHT, ("left", "right")), (_TOP, _BOTTOM, ("above", "below"))):
            for a, b, kind in ((0, 1, kinds[0]), (1, 0, kinds[1])):
                # a before b: some pair of objects, or (mirrored) each b before each a
                some = low[a][:, far] + rules.margin <= high[b][:, near]
                mirrored = known & (high[b][:, far] + rules.margin <= low[a][:, near])
                why = f"{{0}} {_RELATIONS[kind][0]} {{1}}"
                wrong = f"{{0}} {_RELATIONS[_RELATIONS[kind][2]][0]} {{1}}"
                labels = (one, other)
                yield box_evidence.FamilyQuestion(
                    f"spatial/{kind}", labels, both[some], both[mirrored], why, wrong, labels
                )


def phrase(kind: str, concepts: list[LabelConcept]) -> box_evidence.Phrases:
    """Return the texts. In Chinese 有 and 的 keep names apart from what is around them: 画面中小汽车在马上方 would
    begin with 中小, and go on with 马上."""
    one, other = concepts
    place = kind.removeprefix("spatial/")
    english, chinese, _ = _RELATIONS[place]
    is_height = place in _HEIGHTS
    words = f"{one.with_article()} {_HEIGHTS.get(place, english)} {other.with_article()}"
    named = f"{one.zh}在{other.zh}的{chinese}"
    return {
        ("en", "word"): words,
        ("en", "sentence"): f"a picture {'with' if is_height else 'of'} {words}",
        ("zh", "word"): f"画面中有{named}" if is_height else named,
        ("zh", "sentence"): f"一张图片，画面中有{named}",
    }


FAMILY = box_evidence.QueryFamily(find_questions, phrase)
