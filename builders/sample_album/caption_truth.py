"""Which scenes a caption is true of, and which caption therefore tells a scene from all others."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, cycle, product

from builders.sample_album.casts import CASTS
from builders.sample_album.kinds import KIND_OF_LABEL
from builders.sample_album.records import AlbumPicture, Claims, Requirement
from builders.sample_album.scene_plan import plan_scene

ROUNDS = 4  # of all casts: the scenes within which a caption is unique or knowingly is not
BLOCK = ROUNDS * len(CASTS)
SHARED = 36  # scenes of a block whose caption is true of 1 to 4 others too
Facts = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class _Scene:
    place: str
    light: str
    facts: Facts


def satisfies(claims: Claims, place: str, light: str, facts: Facts) -> bool:
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


def fitting_scenes(pictures: Iterable[AlbumPicture]) -> dict[str, tuple[str, ...]]:
    """For each good picture the other good pictures that its caption is true of, near-duplicates included."""
    good = [picture for picture in pictures if picture.claims is not None]
    return {
        one.file_name: tuple(
            other.file_name
            for other in good
            if other is not one
            and one.claims is not None
            and satisfies(one.claims, other.place, other.light, other.facts)
        )
        for one in good
    }


def claims_of(seed: int, index: int) -> Claims:
    """What the scene's captions say; known without drawing, and the same however many scenes are drawn."""
    return _block_claims(seed, index // BLOCK)[index % BLOCK]


@lru_cache(maxsize=4)
def _block_claims(seed: int, block: int) -> tuple[Claims, ...]:
    plans = [plan_scene(seed, block * BLOCK + number) for number in range(BLOCK)]
    scenes = [_Scene(plan.place, plan.light, plan.facts) for plan in plans]
    telling = [_most_telling(scenes, number) for number in range(BLOCK)]
    # A few scenes hold nothing that no other scene holds: whatever is said of them is true elsewhere too.
    alike = {number for number, (_, fitting) in enumerate(telling) if fitting > 1}
    shared = _shared_claims(scenes, alike, random.Random(f"{seed}/shared captions/{block}"))
    return tuple(shared.get(number, telling[number][0]) for number in range(BLOCK))


def _shared_claims(scenes: list[_Scene], alike: set[int], rng: random.Random) -> dict[int, Claims]:
    """Loose claims for as many scenes as SHARED still lacks; each fits its group and no other scene."""
    chosen: dict[int, Claims] = {}
    wanted = SHARED - len(alike)
    sizes = cycle((2, 3, 4, 5))
    size = next(sizes)
    for number in rng.sample(range(len(scenes)), len(scenes)):
        left = wanted - len(chosen)
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


def _most_telling(scenes: list[_Scene], number: int) -> tuple[Claims, int]:
    """The shortest claims that hold for this scene alone, or for as few as can be; and for how many."""
    best: tuple[Claims, int] | None = None
    for claims in _claims_by_length(scenes[number]):
        fitting = len(_fitting(claims, scenes))
        if best is None or fitting < best[1]:
            best = claims, fitting
        if fitting == 1:
            break
    assert best is not None, f"scene {number} of its block has nothing to speak of"
    return best


def _fitting(claims: Claims, scenes: list[_Scene]) -> list[int]:
    return [n for n, scene in enumerate(scenes) if satisfies(claims, scene.place, scene.light, scene.facts)]


def _claims_by_length(scene: _Scene) -> Iterator[Claims]:
    """All that could be said of a scene, the shortest first; the leading kind is always named."""
    labels = list(dict.fromkeys(label for label, _, _ in scene.facts))
    options = {label: _requirements(label, scene.facts) for label in labels}
    lights = (None,) if scene.light == "day" else (None, scene.light)
    found: list[tuple[float, int, Claims]] = []
    for more in range(len(labels)):
        for others in combinations(labels[1:], more):
            for required in product(*(options[label] for label in (labels[0], *others))):
                for light in lights:
                    cost = more + 0.4 * sum(r.colour is not None for r in required) + 0.5 * (light is not None)
                    found.append((cost, len(found), Claims(scene.place, light, required)))
    if scene.light == "day":  # said only where nothing else helps: nobody mentions daylight
        found.extend((cost + 20, len(found) + k, Claims(c.place, "day", c.required)) for cost, k, c in list(found))
    for _, _, claims in sorted(found, key=lambda entry: entry[:2]):
        yield claims


def _requirements(label: str, facts: Facts) -> tuple[Requirement, ...]:
    """How one label may be spoken of: plainly, with its number, or with a colour."""
    own = [(colour, count) for one, colour, count in facts if one == label]
    total = sum(count for _, count in own)
    plain = Requirement(label, None, total if total > 1 else None)
    if not KIND_OF_LABEL[label].says_colour:
        return (plain,)
    if len(own) == 1:
        return plain, Requirement(label, own[0][0], plain.count)
    return plain, *(Requirement(label, colour, count if count > 1 else None) for colour, count in own)
