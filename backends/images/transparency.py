"""The ground that transparent parts of an image are shown on: white, or black where white would lose the drawing.

A white drawing on a transparent ground is made for dark pages. On white all of them are the same blank image.
"""

from collections.abc import Iterator

from PIL import Image, ImageChops

WHITE, BLACK = "white", "black"
_VISIBLE = 32  # of 255: an alpha below is nothing that anybody sees
_NEARLY_WHITE = 239  # of 255, in every channel
_LOST = 0.95  # of the visible pixels
_BAND = 1 << 20  # pixels that are looked at at a time, to bound memory


def choose_ground(image: Image.Image) -> str:
    """Returns the colour behind a loaded image with transparency: black if at least 95% of its visible pixels are
    nearly white and some of it is transparent; otherwise white, which is what pages have."""
    visible = lost = 0
    for band in _bands(image):
        mask = band.getchannel("A").point(lambda alpha: 255 if alpha >= _VISIBLE else 0)
        channels = [band.getchannel(name) for name in band.getbands()[:-1]]
        darkest = channels[0]
        for channel in channels[1:]:
            darkest = ImageChops.darker(darkest, channel)
        levels = darkest.histogram(mask)
        visible += sum(levels)
        lost += sum(levels[_NEARLY_WHITE:])
    is_lost = 0 < visible < image.width * image.height and lost >= _LOST * visible
    return BLACK if is_lost else WHITE


def flatten(band: Image.Image, ground: str) -> Image.Image:
    """Returns an image with transparency, or a part of it, in mode L or RGB on that ground."""
    layer = _with_alpha(band)
    flat = Image.new("L" if layer.mode == "LA" else "RGB", layer.size, ground)
    flat.paste(layer, mask=layer)
    return flat


def _bands(image: Image.Image) -> Iterator[Image.Image]:
    rows = max(1, _BAND // image.width)
    for top in range(0, image.height, rows):
        yield _with_alpha(image.crop((0, top, image.width, min(top + rows, image.height))))


def _with_alpha(image: Image.Image) -> Image.Image:
    return image.convert("LA" if image.mode in ("1", "L", "LA", "La") else "RGBA")
