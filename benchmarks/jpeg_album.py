"""Draws JPEG "photos" that cost a decoder what real ones cost: 0.3 to 12 megapixels, always the same pixels.

    python benchmarks/jpeg_album.py FOLDER [--images 240]

What a JPEG costs to decode depends on the bits that its detail takes. A photo's detail falls off with its frequency
and sits in places: grass beside sky. So each image is noise in octaves, some parts busy and some smooth, with hard
edges, a sensor's grain, and the settings of cameras: 4:2:0, quality 85 to 95, EXIF with maker's notes.
"""

from __future__ import annotations

import argparse
import io
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageDraw

# Width, height, and the share, in hundredths and summed up: 1.6 megapixels on average.
SIZES = (
    ((640, 480), 20),
    ((800, 600), 40),
    ((1024, 768), 60),
    ((1280, 960), 75),
    ((1600, 1200), 85),
    ((2048, 1536), 92),
    ((2592, 1944), 97),
    ((4032, 3024), 100),
)
DETAILED_PIXELS = (
    1_000_000  # pixels: up to here an image has detail in every pixel; lenses and sensors have less to say in more
)
COPIED = 12  # every so many-th image has a near-duplicate
Field = NDArray[np.float32]


def size_of(index: int) -> tuple[int, int]:
    """Any hundred images in a row hold every size in its share; every third image stands upright."""
    place = index * 37 % 100
    width, height = next(size for size, up_to in SIZES if place < up_to)
    return (width, height) if index % 3 else (height, width)


def fractal_noise(rng: np.random.Generator, width: int, height: int, fall: float) -> Field:
    """Noise whose amplitude falls by `fall` from octave to octave, about 0 and of spread 1; its fine octaves
    are strong where another, coarse noise is, so that some parts are busy and others smooth."""
    levels = int(np.log2(max(width, height))) - 2
    sides = [(max(2, width >> level), max(2, height >> level)) for level in reversed(range(levels + 1))]
    busy = Image.fromarray(rng.standard_normal((5, 5), dtype=np.float32))
    whole = rng.standard_normal((sides[0][1], sides[0][0]), dtype=np.float32)
    for level, side in enumerate(sides[1:], start=1):
        whole = np.asarray(Image.fromarray(whole).resize(side, Image.Resampling.BICUBIC))
        grain = rng.standard_normal(whole.shape, dtype=np.float32) * np.float32(fall**level)
        if level > 2:
            grain *= np.exp(np.asarray(busy.resize(side, Image.Resampling.BICUBIC)) * np.float32(0.9) - 0.6)
        whole = whole + grain
    return np.asarray((whole - whole.mean()) / whole.std(), dtype=np.float32)


def draw_shapes(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """A ground of one colour and things before it, each of its own colour and hard at its edges."""
    image = Image.new("RGB", (width, height), tuple(rng.integers(60, 200, 3).tolist()))
    pen = ImageDraw.Draw(image)
    for _ in range(rng.integers(6, 24)):
        x, y = rng.integers(0, width), rng.integers(0, height)
        w, h = rng.integers(width // 20, width // 3), rng.integers(height // 20, height // 3)
        colour = tuple(rng.integers(20, 236, 3).tolist())
        draw = (pen.ellipse, pen.rectangle)[rng.integers(2)]
        draw((int(x - w), int(y - h), int(x + w), int(y + h)), fill=colour)
    return image


def draw_photo(index: int, width: int, height: int) -> Image.Image:
    """The same pixels for the same index and size."""
    rng = np.random.default_rng((2026, index))
    sharpness = 1.0 if width * height <= DETAILED_PIXELS else 0.7
    light = fractal_noise(rng, int(width * sharpness), int(height * sharpness), rng.uniform(0.72, 0.86))
    tint = fractal_noise(rng, width // 4, height // 4, 0.55)
    pixels = np.asarray(draw_shapes(rng, width, height), dtype=np.float32) * np.float32(0.6) + 40
    pixels += enlarged(light, width, height) * np.float32(rng.uniform(30, 44))
    pixels += enlarged(tint, width, height) * np.array([9, 0, -9], dtype=np.float32)
    grain = np.float32(rng.uniform(1.0, 3.5) * sharpness**2)
    pixels += rng.standard_normal((height, width, 1), dtype=np.float32) * grain
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def enlarged(field: Field, width: int, height: int) -> Field:
    """With a last axis of one, to be added to all three colours."""
    return np.asarray(Image.fromarray(field).resize((width, height), Image.Resampling.BICUBIC))[:, :, None]


def make_exif(index: int) -> Image.Exif:
    """What a telephone writes: hour, place, orientation, and some kilobytes that only its maker can read."""
    tags = Image.Exif()
    tags[ExifTags.Base.Make], tags[ExifTags.Base.Model] = "Benchmark", "Drawn by code"
    tags[ExifTags.Base.Orientation] = 6 if index % 10 == 3 else 1
    inner = tags.get_ifd(ExifTags.IFD.Exif)
    inner[ExifTags.Base.DateTimeOriginal] = f"2026:{index % 12 + 1:02}:{index % 28 + 1:02} {index % 24:02}:30:00"
    inner[ExifTags.Base.OffsetTimeOriginal] = "+08:00"
    inner[ExifTags.Base.MakerNote] = np.random.default_rng(index).bytes(6000)
    place = tags.get_ifd(ExifTags.IFD.GPSInfo)
    place[ExifTags.GPS.GPSLatitudeRef], place[ExifTags.GPS.GPSLongitudeRef] = "N", "E"
    place[ExifTags.GPS.GPSLatitude] = (float(20 + index % 30), 15.0, 30.5)
    place[ExifTags.GPS.GPSLongitude] = (float(100 + index % 20), 45.0, 12.25)
    return tags


def write_image(folder: Path, index: int) -> None:
    """One image, and its near-duplicate if it has one."""
    image = draw_photo(index, *size_of(index))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=85 + index * 7 % 11, subsampling="4:2:0", exif=make_exif(index))
    (folder / f"{index:05}.jpg").write_bytes(data.getvalue())
    if index % COPIED == 0:
        make_edited_copy(image, index // COPIED).save(
            folder / f"{index:05}_copy.jpg", "JPEG", quality=80, exif=make_exif(index)
        )


def make_edited_copy(image: Image.Image, turn: int) -> Image.Image:
    """Smaller, brighter or with its edges cut off, in turn: a near-duplicate."""
    width, height = image.size
    if turn % 3 == 0:
        return image.resize((width * 3 // 4, height * 3 // 4), Image.Resampling.LANCZOS)
    if turn % 3 == 1:
        return image.point(lambda value: value * 1.15)
    return image.crop((width // 80, height // 80, width - width // 80, height - height // 80))


def write_album(folder: Path, images: int) -> None:
    """An album that is there already, whole, is left as it is."""
    whole = folder / f".{images}_images"
    if whole.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(write_image, folder), range(images), chunksize=4))
    whole.touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=240)
    given = parser.parse_args()
    write_album(given.folder, given.images)


if __name__ == "__main__":
    main()
