"""Many small pictures as one, in rows."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

from PIL import Image

_ACROSS, _GAP = 8, 4
_GREY = (128, 128, 128)
_QUALITY = 75


def contact_sheet(thumbnails: Sequence[bytes], side: int) -> bytes:
    """A JPEG of them all, at most eight in a row, each in the middle of a square of `side` pixels. They are our own
    thumbnails, at most as large."""
    across = min(len(thumbnails), _ACROSS)
    down = math.ceil(len(thumbnails) / _ACROSS)
    cell = side + _GAP
    sheet = Image.new("RGB", (across * cell + _GAP, down * cell + _GAP), _GREY)
    for number, data in enumerate(thumbnails):
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as small:
            left = _GAP + number % _ACROSS * cell + (side - small.width) // 2
            top = _GAP + number // _ACROSS * cell + (side - small.height) // 2
            sheet.paste(small, (left, top))
    out = io.BytesIO()
    sheet.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
