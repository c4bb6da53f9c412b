"""Which scenes a caption is true of, and which caption therefore tells a scene from all others."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, cycle, product

from sample_album.album_records import AlbumImage, CaptionClaims, CaptionRequirement
from sample_album.object_kinds import KIND_BY_LABEL
from sample_album.scene_plan import plan_scene
from sample_album.scene_templates import SCENE_TEMPLATES

TEMPLATE_ROUNDS = 4  # of all casts: the scenes within which a caption is unique or knowingly is not
SCENES_PER_BLOCK = TEMPLATE_ROUNDS * len(SCENE_TEMPLATES)
SHARED_CAPTIONS_PER_BLOCK = 36  # scenes of a block whose caption is true of 1 to 4 others too
Facts = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class _Scene:
    place: str
    light: str
    facts: Facts


def is_true_of(claims: CaptionClaims, place: str, light: str, facts: Facts) -> bool:
    """Whether all that a caption says holds for a scene."""
    if claims.place not in (None, place) or claims.light not in (None, light):
        return False
    for requirement in claims.required:
        seen = sum(
            count
            for label, colour, count in facts
            if label == requirement.label and requirement.colour in (None, colour)
        )
        if seen == 0 or requirement.count not in (None, seen):
            return False
    return True


def find_fitting_scenes(images: Iterable[AlbumImage]) -> dict[str, tuple[str, ...]]:
    """For each good picture the other good pictures that its caption is true of, near-duplicates included."""
    good = [image for image in images if image.claims is not None]
    return {
        one.file_name: tuple(
            other.file_name
            for other in good
            if other is not one
            and one.claims is not None
            and is_true_of(one.claims, other.place, other.light, other.facts)
        )
        for one in good
    }


def choose_claims(seed: int, index: int) -> CaptionClaims:
    """What the scene's captions say; known without drawing, and the same however many scenes are drawn."""
    return _block_claims(seed, index // SCENES_PER_BLOCK)[index % SCENES_PER_BLOCK]


@lru_cache(maxsize=4)
def _block_claims(seed: int, block: int) -> tuple[CaptionClaims, ...]:
    plans = [plan_scene(seed, block * SCENES_PER_BLOCK + number) for number in range(SCENES_PER_BLOCK)]
    scenes = [_Scene(plan.place, plan.light, plan.facts) for plan in plans]
    specific = [_most_specific(scenes, number) for number in range(SCENES_PER_BLOCK)]
    # A few scenes hold nothing that no other scene holds: whatever is said of them is true elsewhere too.
    alike = {number for number, (_, fitting) in enumerate(specific) if fitting > 1}
    shared = _shared_claims(scenes, alike, random.Random(f"{seed}/shared captions/{block}"))
    return tuple(shared.get(number, specific[number][0]) for number in range(SCENES_PER_BLOCK))


def _shared_claims(scenes: list[_Scene], alike: set[int], rng: random.Random) -> dict[int, CaptionClaims]:
    """Loose claims for as many scenes as SHARED still lacks; each fits its group and no other scene."""
    chosen: dict[int, CaptionClaims] = {}
    missing = SHARED_CAPTIONS_PER_BLOCK - len(alike)
    sizes = cycle((2, 3, 4, 5))
    size = next(sizes)
    for number in rng.sample(range(len(scenes)), len(scenes)):
        left = missing - len(chosen)
        if left < 2:
            break
        size = left if left <= 3 else min(size, left - 2)
        for claims in _claims_by_length(scenes[number]):
            group = set(_fitting(claims, scenes))
            if claims.light == "day" or len(group) < size:
                break
            if len(group) == size and not group & (chosen.keys() | alike):
                chosen.update(dict.fromkeys(sorted(group), claims))
                size = next(sizes)
                break
    return chosen


def _most_specific(scenes: list[_Scene], number: int) -> tuple[CaptionClaims, int]:
    """The shortest claims that hold for this scene alone, or for as few as can be; and for how many."""
    best: tuple[CaptionClaims, int] | None = None
    for claims in _claims_by_length(scenes[number]):
        fitting = len(_fitting(claims, scenes))
        if best is None or fitting < best[1]:
            best = claims, fitting
        if fitting == 1:
            break
    assert best is not None, f"scene {number} of its block has nothing to speak of"
    return best


def _fitting(claims: CaptionClaims, scenes: list[_Scene]) -> list[int]:
    return [n for n, scene in enumerate(scenes) if is_true_of(claims, scene.place, scene.light, scene.facts)]


def _claims_by_length(scene: _Scene) -> Iterator[CaptionClaims]:
    """All that could be said of a scene, the shortest first; the leading kind is always named."""
    labels = list(dict.fromkeys(label for label, _, _ in scene.facts))
    options = {label: _requirements(label, scene.facts) for label in labels}
    lights = (None,) if scene.light == "day" else (None, scene.light)
    candidates: list[tuple[float, int, CaptionClaims]] = []
    for more in range(len(labels)):
        for others in combinations(labels[1:], more):
            for required in product(*(options[label] for label in (labels[0], *others))):
                for light in lights:
                    cost = more + 0.4 * sum(r.colour is not None for r in required) + 0.5 * (light is not None)
                    candidates.append((cost, len(candidates), CaptionClaims(scene.place, light, required)))
    if scene.light == "day":  # said only where nothing else helps: nobody mentions daylight
        candidates.extend(
            (cost + 20, len(candidates) + k, CaptionClaims(c.place, "day", c.required))
            for cost, k, c in list(candidates)
        )
    for _, _, claims in sorted(candidates, key=lambda entry: entry[:2]):
        yield claims


def _requirements(label: str, facts: Facts) -> tuple[CaptionRequirement, ...]:
    """How one label may be spoken of: plainly, with its number, or with a colour."""
    own = [(colour, count) for one, colour, count in facts if one == label]
    total = sum(count for _, count in own)
    plain = CaptionRequirement(label, None, total if total > 1 else None)
    if not KIND_BY_LABEL[label].mentions_colour:
        return (plain,)
    if len(own) == 1:
        return plain, CaptionRequirement(label, own[0][0], plain.count)
    return plain, *(CaptionRequirement(label, colour, count if count > 1 else None) for colour, count in own)
