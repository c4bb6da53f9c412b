"""Copies as people make them: saved again, made smaller, brightened, cut a little at the rim."""

from PIL import Image, ImageEnhance

from sample_album.album_records import ObjectBox
from sample_album.scene_painting import PaintedScene

SCENES_PER_NEAR_DUPLICATE = 20  # scenes to a near-duplicate
_CROP = 0.02  # of the width and of the height, half on either side


def has_near_duplicate(index: int) -> bool:
    """Whether the album also holds a near-duplicate of this scene."""
    return index % SCENES_PER_NEAR_DUPLICATE == 7


def make_near_duplicate(painted: PaintedScene, index: int) -> tuple[Image.Image, tuple[ObjectBox, ...], int]:
    """The copy, its own boxes, and the JPEG quality it is saved with."""
    turn = index // SCENES_PER_NEAR_DUPLICATE % 4
    if turn == 0:
        return painted.image, painted.boxes(), 58
    if turn == 1:
        width, height = (round(side * 0.92) for side in painted.image.size)

        def shrink(image: Image.Image) -> Image.Image:
            return image.resize((width, height), Image.Resampling.BOX)

        return shrink(painted.image), painted.boxes(shrink), 84
    if turn == 2:
        return ImageEnhance.Brightness(painted.image).enhance(1.07), painted.boxes(), 84

    def cut(image: Image.Image) -> Image.Image:
        left, top = round(image.width * _CROP / 2), round(image.height * _CROP / 2)
        return image.crop((left, top, image.width - left, image.height - top))

    return cut(painted.image), painted.boxes(cut), 84
