"""The captions: true of their scene, and true of others exactly where the album says so."""

import random
import re
from collections import Counter

import pytest

from sample_album import (
    SHARED_CAPTIONS_PER_BLOCK,
    AlbumImage,
    CaptionClaims,
    CaptionRequirement,
    build_captions_table,
    find_fitting_scenes,
    is_true_of,
)
from sample_album.caption_truth import SCENES_PER_BLOCK, choose_claims
from sample_album.captions import format_caption_en, format_caption_zh
from sample_album.scene_plan import plan_scene

pytestmark = pytest.mark.thorough  # the whole album is drawn: ten seconds


def _holds(claims: CaptionClaims, image: AlbumImage) -> bool:
    """The same question as `satisfies`, asked of every single thing in the picture."""
    things = [(label, colour) for label, colour, count in image.facts for _ in range(count)]
    answers = [
        claims.place is None or claims.place == image.place,
        claims.light is None or claims.light == image.light,
    ]
    for wanted in claims.required:
        matching = [
            thing
            for thing in things
            if thing[0] == wanted.label and (wanted.colour is None or thing[1] == wanted.colour)
        ]
        answers.append(len(matching) >= 1 if wanted.count is None else len(matching) == wanted.count)
    return all(answers)


def test_fitting_scenes_are_those_of_which_every_claim_holds(good: list[AlbumImage]) -> None:
    fitting = find_fitting_scenes(good)
    assert set(fitting) == {image.file_name for image in good}
    for one in good:
        assert one.claims is not None and _holds(one.claims, one), one.file_name
        expected = [other.file_name for other in good if other is not one and _holds(one.claims, other)]
        assert list(fitting[one.file_name]) == expected


def test_exactly_the_promised_number_of_captions_fits_several_scenes(scenes: list[AlbumImage]) -> None:
    sizes = Counter(len(others) + 1 for others in find_fitting_scenes(scenes).values())
    assert sum(count for size, count in sizes.items() if size > 1) == SHARED_CAPTIONS_PER_BLOCK == 36
    assert set(sizes) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_keep_the_promise(seed: int) -> None:
    plans = [plan_scene(seed, index) for index in range(SCENES_PER_BLOCK)]
    fitting = [
        sum(is_true_of(choose_claims(seed, plan.index), other.place, other.light, other.facts) for other in plans)
        for plan in plans
    ]
    assert min(fitting) == 1
    assert max(fitting) <= 5
    assert sum(count > 1 for count in fitting) == SHARED_CAPTIONS_PER_BLOCK


def test_faulty_files_have_no_captions_and_fit_nothing(album: list[AlbumImage]) -> None:
    faulty = {image.file_name for image in album if image.defect}
    assert not faulty & set(find_fitting_scenes(album))
    rows = build_captions_table(album)
    assert len(rows) == 2 * (len(album) - len(faulty))
    assert not faulty & {row["file_name"] for row in rows}
    assert Counter(row["language"] for row in rows) == {"zh": 252, "en": 252}


def test_captions_are_written_as_people_write(good: list[AlbumImage]) -> None:
    for image in good:
        assert re.fullmatch(r"[A-Z][A-Za-z, -]+\.", image.caption_en), image.caption_en
        assert not re.search(r"\ba (?:[aeiou]|SUV)|\ban (?!SUV)[^aeiou]| {2}", image.caption_en, re.IGNORECASE), (
            image.caption_en
        )
        assert re.fullmatch(r"[\u4e00-\u9fff，、]+。", image.caption_zh), image.caption_zh


@pytest.mark.parametrize(
    ("requirement", "english", "chinese"),
    [
        (CaptionRequirement("Dog", None, None), "A dog.", "一只狗。"),
        (CaptionRequirement("Car", "red", None), "A red sedan.", "一辆红色的轿车。"),
        (CaptionRequirement("SUV", None, None), "An SUV.", "一辆越野车。"),
        (CaptionRequirement("Chair", None, 2), "Two chairs.", "两把椅子。"),
        (CaptionRequirement("Umbrella", "orange", None), "An orange umbrella.", "一把橙色的伞。"),
        (CaptionRequirement("Sneakers", "blue", 2), "Two pairs of blue sneakers.", "两双蓝色的运动鞋。"),
        (CaptionRequirement("Person", "red", 3), "Three people in red.", "三个穿红色上衣的人。"),
        (CaptionRequirement("Banana", None, None), "A bunch of bananas.", "一把香蕉。"),
    ],
)
def test_words_agree_with_number_and_colour(requirement: CaptionRequirement, english: str, chinese: str) -> None:
    claims = CaptionClaims(None, None, (requirement,))
    assert format_caption_en(claims, random.Random(0)) == english
    assert format_caption_zh(claims, random.Random(0)) == chinese


def test_place_and_light_are_said_where_they_are_claimed() -> None:
    claims = CaptionClaims(
        "beach", "evening", (CaptionRequirement("Dog", "brown", 2), CaptionRequirement("Kite", None, None))
    )
    english = {format_caption_en(claims, random.Random(seed)) for seed in range(20)}
    assert english == {
        "Two brown dogs and a kite on the beach at dusk.",
        "Two brown dogs with a kite on the beach at dusk.",
        "On the beach at dusk, there are two brown dogs and a kite.",
    }
    chinese = {format_caption_zh(claims, random.Random(seed)) for seed in range(20)}
    assert "傍晚的海滩上有两只棕色的狗和一只风筝。" in chinese
    assert len(chinese) == 3
