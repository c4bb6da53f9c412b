"""A sheet of texts with small images as the bytes of an .xlsx file. Every cell is a text, whatever it looks like: a
spreadsheet runs none of them, and turns none into a date.
"""

import io
from collections.abc import Sequence
from datetime import UTC, datetime

from PIL import Image

_HIGH, _WIDE = 81, 16  # of a row with an image in points; of the images' column in characters
_GAP, _SIDE = 2, 103  # around an image and of its longer side, in pixels
_MOST_CHARACTERS = 60  # of a column that is as wide as its texts


def encode_sheet(rows: Sequence[Sequence[str]], images: Sequence[bytes | None]) -> bytes:
    """Return the bytes of a file whose first row stays in view. `images`: per row a JPEG or None; the JPEG covers the
    first column and moves with its row."""
    import xlsxwriter

    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
        book.set_properties({"created": datetime(1980, 1, 1, tzinfo=UTC)})  # the same bytes whenever it is written
        sheet = book.add_worksheet("review")
        sheet.freeze_panes(1, 0)
        bold = book.add_format({"num_format": "@", "bold": True})
        plain = book.add_format({"num_format": "@", "valign": "top", "text_wrap": True})
        for place, column in enumerate(zip(*rows[:500], strict=True)):
            longest = min(max(8, max(map(len, column)) + 2), _MOST_CHARACTERS)
            sheet.set_column(place, place, longest if place else _WIDE, plain)
        for number, cells in enumerate(rows):
            for place, cell in enumerate(cells):
                sheet.write_string(number, place, cell, plain if number else bold)
        for number, jpeg in enumerate(images):
            if jpeg is not None:
                with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
                    scale = _SIDE / max(image.size)
                how = {"x_offset": _GAP, "y_offset": _GAP, "x_scale": scale, "y_scale": scale, "object_position": 1}
                sheet.set_row(number, _HIGH)
                sheet.insert_image(number, 0, "image.jpeg", how | {"image_data": io.BytesIO(jpeg)})
    return out.getvalue()
