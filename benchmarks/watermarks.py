"""How many images with a planted watermark a gallery finds, and how many without one.

    python -m benchmarks.watermarks

The photos are those in ../shared/data, one of each that a coarse outline tells apart. Two marks, white letters in the
lower right corner and a turned word in the middle, at three opacities, on 15% and 40% of the photos.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from builders.gallery.shared_marks import SIDE, find_marked_images, read_edges

_DATA = Path("../shared/data")
_AT_LEAST, _IMAGES = 0.12, 5


def load_photos() -> list[Image.Image]:
    """Returns the photos with sides of 200 pixels and more, each once."""
    photos: dict[bytes, Image.Image] = {}
    for folder in ("coco_tiny", "photos_flowers", "photos_exif"):
        for path in sorted(place for place in (_DATA / folder).rglob("*.jp*g")):
            try:
                with Image.open(path) as image:
                    image.draft("RGB", (1600, 1600))
                    photo = ImageOps.exif_transpose(image).convert("RGB")
            except OSError:
                continue
            small = np.asarray(photo.convert("L").resize((9, 8))).astype(int)
            if min(photo.size) >= 200:
                photos.setdefault((np.diff(small, axis=1) > 0).tobytes(), photo)
    return list(photos.values())


def mark_corner(image: Image.Image, opacity: float) -> Image.Image:
    """Returns the image with a line in its lower right corner."""
    layer, long = Image.new("RGBA", image.size, (0, 0, 0, 0)), max(image.size)
    font, text = ImageFont.load_default(size=max(14, round(0.035 * long))), "© PhotoHouse.com"
    left, top, right, bottom = ImageDraw.Draw(layer).textbbox((0, 0), text, font=font)
    place = image.width - (right - left) - 0.02 * long, image.height - (bottom - top) - 0.03 * long
    ImageDraw.Draw(layer).text(place, text, font=font, fill=(255, 255, 255, round(255 * opacity)))
    return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")


def mark_centre(image: Image.Image, opacity: float) -> Image.Image:
    """Returns the image with a large word across its middle."""
    layer, long = Image.new("RGBA", image.size, (0, 0, 0, 0)), max(image.size)
    word = Image.new("RGBA", (round(0.5 * long), round(0.16 * long)), (0, 0, 0, 0))
    font = ImageFont.load_default(size=max(20, round(0.09 * long)))
    ImageDraw.Draw(word).text((10, 5), "sample", font=font, fill=(255, 255, 255, round(255 * opacity)))
    word = word.rotate(20, expand=True)
    layer.paste(word, ((image.width - word.width) // 2, (image.height - word.height) // 2))
    return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")


def encode(image: Image.Image) -> bytes:
    """Returns a thumbnail as the scan of a gallery makes it."""
    small, out = image.copy(), io.BytesIO()
    small.thumbnail((SIDE, SIDE))
    small.save(out, "JPEG", quality=85)
    return out.getvalue()


def main() -> None:
    """Prints a line for each mark, opacity and share."""
    photos, rng = load_photos(), np.random.default_rng(0)
    clean = [read_edges(encode(photo)) for photo in photos]
    found = ~np.isnan(find_marked_images(clean, _AT_LEAST, _IMAGES))
    print(f"{len(photos)} photos without a mark: {found.sum()} rejected")
    for mark in (mark_corner, mark_centre):
        for opacity in (0.25, 0.4, 0.6):
            for share in (0.15, 0.4):
                chosen = np.zeros(len(photos), dtype=bool)
                chosen[rng.choice(len(photos), round(share * len(photos)), replace=False)] = True
                pairs = zip(photos, clean, chosen, strict=True)
                edges = [read_edges(encode(mark(photo, opacity))) if is_it else own for photo, own, is_it in pairs]
                found = ~np.isnan(find_marked_images(edges, _AT_LEAST, _IMAGES))
                figures = (
                    f"found {found[chosen].mean():.0%}, precision {(found & chosen).sum() / max(1, found.sum()):.0%}"
                )
                print(f"{mark.__name__} {opacity} on {share:.0%}: {figures}")


if __name__ == "__main__":
    main()
