"""The sizes of rendered images, listed or derived from how the set was rendered."""

from typing import Any

import pandas as pd
import pytest

from querytruth.sets.benchmark_set import find_rendered_sizes, list_squashed_sizes

IMAGES = pd.DataFrame({"image_id": ["a", "b"], "path": ["images/a.jpg", None], "width": [400, 30], "height": [100, 90]})


def manifest(mode: str | None) -> dict[str, Any]:
    return {"configuration": {"render": {"size": 64, "mode": mode} if mode else None}, "notes": {}}


@pytest.mark.parametrize("mode", ["squash", "fit", "crop"])
def test_squares_need_no_columns(mode: str) -> None:
    sizes = find_rendered_sizes(IMAGES[:1].assign(rendered_width=None, rendered_height=None), manifest(mode))
    assert sizes.to_numpy().tolist() == [[64, 64]]
    assert find_rendered_sizes(IMAGES, manifest(mode)).notna().all(axis=1).tolist() == [True, False], "no file, no size"


def test_listed_sizes_come_first_and_unrendered_images_have_none() -> None:
    listed = IMAGES.assign(rendered_width=[64, 21], rendered_height=[16, 64])
    assert find_rendered_sizes(listed, manifest("longer_side")).to_numpy().tolist() == [[64, 16], [21, 64]]
    assert find_rendered_sizes(IMAGES, manifest(None)).isna().all(axis=None)
    assert find_rendered_sizes(IMAGES, None).isna().all(axis=None)


def test_a_recall_set_knows_how_its_gallery_squashed_its_images() -> None:
    of_gallery = {"configuration": {"render": None}, "notes": {"render": {"size": 64, "mode": "squash"}}}
    assert list_squashed_sizes(IMAGES, of_gallery) == {"a": (400, 100)}
    assert list_squashed_sizes(IMAGES, manifest("crop")) == {}
