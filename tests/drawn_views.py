"""Views and thumbnails as a scan stores them, of images that are only told by a number."""

from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from simplejpeg import encode_jpeg

from querytruth.backends.images.image_reading import ScannedImage
from querytruth.backends.images.image_views import BOXES, SIDE, VIEWS, read_views
from querytruth.records import image_id_of_bytes

_MASK = 0x5555_3333_0F0F_00FF  # so that no small number has the hash of a missing view


def whole_hash(found: ScannedImage) -> int:
    """The hash of an image as a whole; 0 where it has too little structure."""
    return int(read_views([found.views]).hashes[0, 0])


def draw_views(code: int | None, picture: int = 0) -> dict[str, bytes | None]:
    """The columns views and thumbnail: one view, with the hash of this number (None: no view is known)."""
    if code is None:
        return {"views": None, "thumbnail": None}
    boxes, hashes = np.zeros((BOXES, 4), np.uint8), np.zeros(VIEWS, "<u8")
    boxes[0, 2:], hashes[0] = SIDE, code ^ _MASK
    noise = np.random.default_rng(picture).integers(0, 256, (9, 9), dtype=np.uint8)
    mosaic = np.full((80, 64), 128, np.uint8)
    mosaic[:64] = Image.fromarray(noise).resize((64, 64), Image.Resampling.BICUBIC)
    return {
        "views": bytes(2) + boxes.tobytes() + hashes.tobytes(),
        "thumbnail": encode_jpeg(mosaic[..., None], 90, "GRAY", "Gray"),
    }


def image_row(
    item: str,
    *,
    bytes_: str = "",
    pixels: str = "",
    phash: int | None = None,
    picture: int = 0,
    size: tuple[int, int] = (40, 30),
) -> dict[str, Any]:
    sha256 = (bytes_ or item).encode().hex().ljust(64, "0")
    told = {"sha256": sha256, "pixels": pixels or item, "code": phash, "picture": picture}
    return {
        "item": item,
        "image_id": image_id_of_bytes(sha256),
        "width": size[0],
        "height": size[1],
        **told,
        **draw_views(phash, picture),
    }


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    columns = [name for name in ("code", "views", "thumbnail") if name in frame]
    return frame.assign(**{name: pd.array([row[name] for row in rows], dtype=object) for name in columns})
