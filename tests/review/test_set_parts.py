"""Images in boxes of other proportions."""

import pytest

from querytruth.review.set_parts import get_covering_size


@pytest.mark.parametrize(
    ("mode", "true", "width", "height"),
    [
        ("squash", 2.0, 150.0, 100.0),  # the square is drawn twice as wide as high, and cut at both sides
        ("squash", 0.5, 100.0, 266.7),
        (None, 2.0, 150.0, 100.0),
        ("crop", 1.0, 100.0, 133.3),
        ("fit", 2.0, 150.0, 200.0),  # the image fills the middle half of the square's height
        ("fit", 0.5, 200.0, 266.7),
        ("fit", 1.0, 100.0, 133.3),
    ],
)
def test_an_image_covers_its_box_undistorted(mode: str | None, true: float, width: float, height: float) -> None:
    manifest = {"configuration": {"render": mode and {"mode": mode}}, "notes": {}}
    assert get_covering_size({"true_ratio": true}, 4 / 3, manifest) == f"background-size:{width}% {height}%"
