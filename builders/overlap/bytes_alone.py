"""Images of a set that no hash can find in another collection: only the same file is evidence there."""

from typing import Any

import pandas as pd

_SAME_SHAPE = 1.02  # longer / shorter side: a square cut out of more, or padded to one, has another hash (measured)


def count_bytes_alone(images: pd.DataFrame, hashed: pd.DataFrame, mode: str | None) -> dict[str, int]:
    """Returns how many images are compared by their bytes alone, by reason: `not_read`, `little_structure`, or that
    `render.mode` cut or framed them. `images`: image_id, width and height of the original; `hashed`: item, pixels and
    phash of the set's copies, and the digests of the originals; `mode`: of the rendering, None without one."""
    known = hashed.drop_duplicates("item").set_index("item")  # the copy of an image comes before its original
    found = images[images["image_id"].isin(known.index)]
    copies = known.loc[found["image_id"]]
    sides = found[["width", "height"]]
    reason = pd.Series(pd.NA, index=copies.index, dtype="string")
    if mode in ("crop", "fit"):
        reason[(sides.max(axis=1) > _SAME_SHAPE * sides.min(axis=1)).to_numpy()] = f"render_mode_{mode}"
    reason[copies["phash"].isna()] = "little_structure"
    reason[copies["pixels"].isna()] = "not_read"
    return {str(name): int(count) for name, count in reason.value_counts().sort_index().items()}


def describe_bytes_alone(counts: dict[str, Any]) -> str:
    """Returns the counts of `count_bytes_alone` as people read them; nothing where there are none."""
    return ", ".join(f"{count:,} {_WORDS[name]}" for name, count in counts.items())


_WORDS = {
    "not_read": "whose file in the set was not read",
    "little_structure": "with too little structure for a hash",
    "render_mode_crop": "that render.mode crop cut",
    "render_mode_fit": "that render.mode fit framed",
}
