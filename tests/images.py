"""Images for tests, made in memory."""

import io

from PIL import Image


def make_jpeg(colour: str | tuple[int, int, int] = "teal", size: tuple[int, int] = (64, 48)) -> bytes:
    """A JPEG of one colour, `size` wide and high."""
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, "JPEG")
    return out.getvalue()
