"""The sizes of a set's rendered images, beside those of their originals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

RENDERED_SIZE_COLUMNS = ["rendered_width", "rendered_height"]
_SQUARE_MODES = ("squash", "fit", "crop")


def get_render_options(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `size` and `mode` by which the set's images were rendered, by its own build or by that of its gallery;
    nothing where they were not."""
    own = manifest.get("configuration", {}).get("render")
    options: dict[str, Any] = own or manifest.get("notes", {}).get("render") or {}
    return options


def is_square_mode(mode: str | None) -> bool:
    """Whether all images of this mode are squares of the same size, so that the images table need not list it."""
    return mode in _SQUARE_MODES


def find_rendered_sizes(images: pd.DataFrame, manifest: Mapping[str, Any]) -> pd.DataFrame:
    """Returns rendered_width and rendered_height in pixels per row of the images table; missing where an image was not
    rendered."""
    if all(name in images and images[name].notna().any() for name in RENDERED_SIZE_COLUMNS):
        return images[RENDERED_SIZE_COLUMNS]
    render = get_render_options(manifest)
    side = (
        np.where(images["path"].notna(), render.get("size") or np.nan, np.nan)
        if is_square_mode(render.get("mode"))
        else np.nan
    )
    sizes = pd.DataFrame(dict.fromkeys(RENDERED_SIZE_COLUMNS, side), index=images.index, dtype="float64")
    return sizes.astype("int32") if len(sizes) and sizes.notna().all(axis=None) else sizes


def list_squashed_sizes(images: pd.DataFrame, manifest: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Returns width and height of the original by the id of each image that was squashed to a square."""
    if get_render_options(manifest).get("mode") != "squash":
        return {}
    known = images[images["path"].notna() & (images["width"] > 0) & (images["height"] > 0)]
    sizes = zip(known["width"].tolist(), known["height"].tolist(), strict=True)
    return dict(zip(known["image_id"].tolist(), sizes, strict=True))
