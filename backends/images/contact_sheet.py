"""Contact sheets: many thumbnails in one image."""

import io
import math
from collections.abc import Sequence

from PIL import Image

_COLUMNS, _GAP = 8, 4
_GREY = (128, 128, 128)
_QUALITY = 75


def make_contact_sheet(thumbnails: Sequence[bytes], side: int) -> bytes:
    """Returns a JPEG with at most eight thumbnails in a row. Each thumbnail is a JPEG of at most `side` x `side` pixels
    and stands in the middle of its square."""
    columns = min(len(thumbnails), _COLUMNS)
    rows = math.ceil(len(thumbnails) / _COLUMNS)
    cell = side + _GAP
    sheet = Image.new("RGB", (columns * cell + _GAP, rows * cell + _GAP), _GREY)
    for number, data in enumerate(thumbnails):
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as small:
            left = _GAP + number % _COLUMNS * cell + (side - small.width) // 2
            top = _GAP + number // _COLUMNS * cell + (side - small.height) // 2
            sheet.paste(small, (left, top))
    out = io.BytesIO()
    sheet.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
