"""What augmentation does to images whose every pixel is known."""

import pytest
import torch

from querytruth.dual_encoder.augmentation import (
    apply_augmentation,
    center_crop,
    mentions_colours,
    mentions_left_or_right,
    sample_augmentation,
)
from querytruth.dual_encoder.definition import AugmentationOptions

STILL = AugmentationOptions(**dict.fromkeys(AugmentationOptions.model_fields, 0) | {"crop": 1})
NONE = torch.zeros(16, dtype=torch.bool)
ALL = torch.ones(16, dtype=torch.bool)
RED_AND_BLUE = torch.zeros(16, 20, 20, 3, dtype=torch.uint8)  # the left half red, the right one blue
RED_AND_BLUE[:, :, :10, 0] = 255
RED_AND_BLUE[:, :, 10:, 2] = 255
NOISE = torch.randint(0, 256, (16, 20, 20, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def still_but(**more: float) -> AugmentationOptions:
    return STILL.model_copy(update=more)


def augmented(
    pixels: torch.Tensor, rules: AugmentationOptions, seed: int = 0, sides=NONE, colours=NONE
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = sample_augmentation(len(pixels), generator, rules, keep_orientation=sides, keep_colours=colours)
    return apply_augmentation(pixels, drawn, pixels.shape[1])


def test_where_nothing_is_drawn_an_image_stays_as_it_is() -> None:
    assert torch.allclose(augmented(NOISE, STILL), center_crop(NOISE, 20), atol=1e-4)


def test_an_image_is_searched_by_its_middle() -> None:
    marked = torch.zeros(1, 10, 10, 3, dtype=torch.uint8)
    marked[0, 2:8, 2:8] = 255
    assert (center_crop(marked, 6) > 0).all(), "white alone: two pixels are cut from each side"
    assert (center_crop(marked, 8)[0, :, 0] < 0).all()


def test_a_flip_mirrors_but_not_where_a_caption_says_left() -> None:
    flipped = augmented(NOISE, still_but(flip=1.0))
    assert torch.allclose(flipped, center_crop(NOISE, 20).flip(-1), atol=1e-4)
    kept = augmented(NOISE, still_but(flip=1.0), sides=ALL)
    assert torch.allclose(kept, center_crop(NOISE, 20), atol=1e-4)


def test_colours_change_but_not_where_a_caption_names_them() -> None:
    grey = augmented(RED_AND_BLUE, still_but(greyscale=1.0))
    raw = grey * torch.tensor((0.229, 0.224, 0.225)).view(3, 1, 1) + torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1)
    assert torch.allclose(raw[:, 0], raw[:, 1], atol=1e-5) and torch.allclose(raw[:, 0], raw[:, 2], atol=1e-5)
    bold = still_but(greyscale=1.0, hue=0.5)
    assert torch.allclose(augmented(RED_AND_BLUE, bold, colours=ALL), center_crop(RED_AND_BLUE, 20), atol=1e-4)
    assert not torch.allclose(augmented(NOISE, still_but(hue=0.5)), center_crop(NOISE, 20), atol=0.1)


def test_a_crop_holds_at_least_its_share_of_the_area() -> None:
    drawn = sample_augmentation(
        2000, torch.Generator().manual_seed(0), still_but(crop=0.6), keep_orientation=torch.zeros(2000).bool(),
        keep_colours=torch.zeros(2000).bool(),
    )  # fmt: skip
    wide, high = drawn.coordinate_maps[:, 0, 0], drawn.coordinate_maps[:, 1, 1]
    assert float((wide * high).min()) > 0.55 and float(wide.max()) <= 1 and float(high.max()) <= 1
    edges = torch.stack([drawn.coordinate_maps[:, 0, 2].abs() + wide, drawn.coordinate_maps[:, 1, 2].abs() + high])
    assert float(edges.max()) <= 1 + 1e-6, "nothing outside of the image"


def test_a_rotation_by_a_right_angle_turns_the_pixels() -> None:
    turned = augmented(NOISE, still_but(rotation=90.0), seed=3)
    drawn = sample_augmentation(
        16, torch.Generator().manual_seed(3), still_but(rotation=90.0), keep_orientation=NONE, keep_colours=NONE
    )
    assert turned.shape == (16, 3, 20, 20)
    lengths = drawn.coordinate_maps[:, :2, :2].norm(dim=2)
    assert torch.allclose(lengths, torch.ones_like(lengths), atol=1e-6), "turned, neither stretched nor bent"


def test_a_perspective_moves_corners_inward_by_no_more_than_its_distortion() -> None:
    rules = still_but(perspective=1.0, distortion=0.3)
    drawn = sample_augmentation(16, torch.Generator().manual_seed(0), rules, keep_orientation=NONE, keep_colours=NONE)
    corners = torch.tensor([[-1.0, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]])
    back = corners @ torch.linalg.inv(drawn.coordinate_maps.double()).float().transpose(1, 2)
    seen = back[..., :2] / back[..., 2:]
    inward = 1 - seen.abs()
    assert float(inward.min()) >= -1e-4 and float(inward.max()) <= 0.3 + 1e-4 and float(inward.max()) > 0.1


def test_a_part_is_erased_and_the_rest_stays() -> None:
    erased = augmented(NOISE, still_but(erase=1.0))
    gone = (erased == 0).all(dim=1)
    share = gone.float().mean(dim=(1, 2))
    assert float(share.min()) > 0 and float(share.max()) < 0.4
    same = torch.isclose(erased, center_crop(NOISE, 20), atol=1e-4).all(dim=1)
    assert (gone | same).all()


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    assert torch.equal(augmented(NOISE, AugmentationOptions(), seed=5), augmented(NOISE, AugmentationOptions(), seed=5))
    assert not torch.equal(
        augmented(NOISE, AugmentationOptions(), seed=5), augmented(NOISE, AugmentationOptions(), seed=6)
    )
    assert torch.isfinite(augmented(NOISE, AugmentationOptions(), seed=5)).all()


@pytest.mark.parametrize(
    ("text", "sides", "colours"),
    [
        ("A dog on the left of a bench", True, False),
        ("the leftmost car", True, False),
        ("leftover food by a bright window", False, False),
        ("猫在沙发左边", True, False),
        ("一辆红色的自行车", False, True),
        ("A Red bus and two people", False, True),
        ("a bored man in a hundred rooms", False, False),
        ("公园里有一只狗", False, False),
    ],
)
def test_captions_say_what_must_not_change(text: str, sides: bool, colours: bool) -> None:
    assert (mentions_left_or_right(text), mentions_colours(text)) == (sides, colours)
