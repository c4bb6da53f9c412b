"""Fits the cuts that decide which images are the same, and measures what they find, on photos and on drawings.

    python benchmarks/duplicate_cuts.py FOLDER ... [--write] [--most 180]

Photos of the folders (JPEG; every third at 240 px), and an altered copy of each in every way of COPIES. Made of photos,
and all different: quarters; a cut-out pasted at three places, as in frames of a film; what a slowly turning camera
sees; a product in 12 colours and a lamp in three; three texts. Drawings of drawn_products.py and drawn_pages.py. Cuts
are fitted on one half of the photos and seeds, by coordinate descent from several starts: lost copies, plus so many a
false pair. A false pair must be rejected by a measure that is over its cut by a sixth (MARGIN), and a cut is at most a
seventh over the largest measure of a copy (CAP). The other half is judged. `--write` replaces
querytruth/backends/images/same_images.yaml.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pillow_heif
import yaml
from drawn_pages import SERIES, font, with_luma
from drawn_products import DRAWN, PRODUCT_COLOURS, draw_product, products
from PIL import Image, ImageChops, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from querytruth.backends.images import image_reading, same_images
from querytruth.backends.images.pair_measures import MEASURES
from querytruth.backends.images.same_images import ComparableImages, accept, measure_pairs
from tests.builders.gallery.photo_edits import EDITS, Edit, captioned, cropped, framed, letterboxed

MARGIN, CAP = 0.85, 1.15
WEIGHT = 4.0  # lost copies a false pair
# Pairs of many kinds that hardly differ count less, so that they do not outweigh the others; products and prints more.
# Memes do not count: a text on a photo makes a copy of it.
WEIGHTS = {"recoloured": 0.05, "lamps": 0.6, "frames": 0.5, "memes": 0.0, "text on drawings": 0.1}
WEIGHTS |= {"products in 12 colours": 8.0, "white shirts, 12 prints": 8.0}
STARTS = 20
DISTANCE = 8  # bits
FITTED_SEEDS = (0, 1)


def with_band(image: Image.Image) -> Image.Image:
    """A dark band with a headline over the lower fifth."""
    layer, height = Image.new("RGBA", image.size, (0, 0, 0, 0)), round(image.height * 0.22)
    draw = ImageDraw.Draw(layer)
    draw.rectangle((0, image.height - height, image.width, image.height), fill=(0, 0, 0, 150))
    place = image.width * 0.05, image.height - height * 0.8
    draw.text(place, "BREAKING: 今日新闻", font=font(max(10, round(height * 0.4))), fill="white")
    return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")


def with_bars(image: Image.Image) -> Image.Image:
    """The bars of a program above and below."""
    width, height = image.size
    bar = round(height * 0.09)
    out = Image.new("RGB", (width, height + 2 * bar), (20, 20, 24))
    out.paste(image, (0, bar))
    draw = ImageDraw.Draw(out)
    draw.text((width * 0.03, bar * 0.2), "9:41  Photos", font=font(max(8, round(bar * 0.5))), fill="white")
    words = font(max(8, round(bar * 0.45)))
    draw.text((width * 0.3, height + bar * 1.2), "Share   Edit   Delete", font=words, fill=(120, 170, 255))
    return out


def straightened(image: Image.Image, degrees: float) -> Image.Image:
    margin = int(math.tan(math.radians(degrees)) * max(image.size) / 2 + 2)
    turned = image.rotate(degrees, Image.Resampling.BICUBIC)
    return turned.crop((margin, margin, image.width - margin, image.height - margin))


def as_burst(image: Image.Image) -> Image.Image:
    """The next photo of a burst: moved by up to 3% (what comes into view is mirrored), lighter, with other noise."""
    rng, (width, height) = np.random.default_rng(image.width), image.size
    x, y = (round(share * side) for share, side in zip(rng.uniform(0, 0.03, 2), image.size, strict=True))
    moved = np.pad(np.asarray(image, float), ((0, y), (0, x), (0, 0)), mode="reflect")[y:, x:]
    noisy = moved * rng.uniform(0.97, 1.03) + rng.normal(0, 4, (height, width, 3))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def resized(width: float, height: float) -> Edit:
    return lambda image: image.resize((round(image.width * width), round(image.height * height)))


SEPIA = (0.393, 0.769, 0.189, 0, 0.349, 0.686, 0.168, 0, 0.272, 0.534, 0.131, 0)
TABLE: dict[str, Edit] = {
    "border 5%": framed(0.05, "white"),
    "letterbox": letterboxed(1, "black"),
    "crop 5%": cropped(0.05, 0.05, 0.05, 0.05),
    "turned 2°": lambda image: image.rotate(2, Image.Resampling.BICUBIC, fillcolor="black"),
    "screenshot": with_bars,
    "text bar": with_band,
    "bright": lambda image: ImageEnhance.Brightness(image).enhance(1.3),
    "contrast": lambda image: ImageEnhance.Contrast(image).enhance(1.4),
    "sepia": lambda image: image.convert("RGB", SEPIA),
    "q30": lambda image: image,
    "half size": resized(0.5, 0.5),
    "HEIC": lambda image: image,
    "AVIF": lambda image: image,
    "grey": lambda image: ImageOps.grayscale(image).convert("RGB"),
}
FORMATS = {"q30": ("JPEG", 30), "HEIC": ("HEIF", 60), "AVIF": ("AVIF", 60)}
COPIES: dict[str, Edit] = TABLE | {
    "dark": lambda image: ImageEnhance.Brightness(image).enhance(0.75),
    "faded": lambda image: Image.blend(image, Image.new("RGB", image.size, (200, 195, 185)), 0.4),
    "saturated": lambda image: ImageEnhance.Color(image).enhance(1.4),
    "stretched": resized(1.2, 1),
    "turned cropped": lambda image: straightened(image, 2),
    "burst": as_burst,
    **EDITS,
}
DRAWN_COPIES = [name for name in TABLE if name not in ("HEIC", "AVIF")]


class Described(NamedTuple):
    """An image: its `kind`, the `source` that its copies share, the `series` of images that are made of one photo or
    by one drawing, what was done to it, which half it is of, and its views, thumbnail and details."""

    kind: str
    source: str
    series: str
    edit: str
    is_fitted: bool
    views: bytes | None
    thumbnail: bytes | None
    details: bytes | None


def encode(image: Image.Image, edit: str) -> tuple[io.BytesIO, str]:
    form, quality = FORMATS.get(edit, ("JPEG", 85))
    data = io.BytesIO()
    image.save(data, form, quality=quality)
    return data, form


def describe(image: Image.Image, kind: str, series: str, number: int, edit: str, is_fitted: bool) -> Described:
    data, _ = encode(image, edit)
    known = {"path": series, "size": data.tell()}
    (found,) = image_reading.describe_images([image_reading._decode_bytes(data.getvalue(), known)])
    source = f"{kind} {series} {number}"
    return Described(kind, source, series, edit, is_fitted, found.views, found.thumbnail, found.details)


def open_photo(number: int, path: Path) -> Image.Image:
    with Image.open(path) as opened:
        image = ImageOps.exif_transpose(opened).convert("RGB")
    image.thumbnail((240, 240) if number % 3 == 2 else (1000, 1000))
    return image


def save_copies(folder: Path, photos: list[Path]) -> None:
    """Saves each photo and its copies in every way of TABLE in a folder of its own, and each drawn product."""
    as_it_is: dict[str, Edit] = {"original": lambda image: image}
    kept = [(f"photos/{number}", open_photo(number, path), as_it_is | TABLE) for number, path in enumerate(photos)]
    for seed in range(4):
        kept += [(f"products {seed}/{n}", image, as_it_is) for n, image in enumerate(products(seed))]
    for name, image, edits in kept:
        (folder / name).mkdir(parents=True)
        for edit in edits:
            data, form = encode(edits[edit](image), edit)
            (folder / name / f"{edit}.{form.lower()}").write_bytes(data.getvalue())


def describe_photo(job: tuple[int, Path]) -> list[Described]:
    number, path = job
    image = open_photo(number, path)
    half, series = number // 2 % 2 == 0, str(path)
    images = [describe(image, "photo", series, 0, "original", half)]
    images += [describe(edit(image), "photo", series, 0, name, half) for name, edit in COPIES.items()]
    for kind, (every, draw) in MADE_OF_PHOTOS.items():
        made = draw(image.resize((640, 480)), number) if number % every == 0 else ()
        images += [describe(one, kind, series, place, "original", half) for place, one in enumerate(made)]
    return images


def draw_quarters(image: Image.Image, number: int) -> Iterator[Image.Image]:
    for x, y in ((0, 0), (320, 0), (0, 240), (320, 240)):
        yield image.crop((x, y, x + 320, y + 240))


def draw_memes(image: Image.Image, number: int) -> Iterator[Image.Image]:
    for text in ("WHEN YOU SEE IT", "THE DAY BEFORE", "NOBODY:"):
        yield captioned(text, at=0.05)(captioned(f"and {text.lower()} again", at=0.85)(image))


def draw_frames(image: Image.Image, number: int) -> Iterator[Image.Image]:
    """A mirrored piece of the photo at three places of it."""
    piece, mask = ImageOps.mirror(image).resize((270, 200)), Image.new("L", (270, 200), 0)
    ImageDraw.Draw(mask).ellipse((0, 0, 269, 199), fill=255)
    for place in ((10, 20), (350, 250), (200, 20)):
        frame = image.copy()
        frame.paste(piece, place, mask)
        yield frame


def draw_pans(image: Image.Image, number: int) -> Iterator[Image.Image]:
    """What a camera sees that turns slowly: 5, 8 and 12% further each time."""
    for left in (0, 24, 62, 120):
        yield image.crop((left, 0, left + 480, 480))


def draw_lamps(image: Image.Image, number: int) -> Iterator[Image.Image]:
    rng = np.random.default_rng(number)
    radius, x, y = int(rng.integers(20, 34)), int(rng.integers(60, 580)), int(rng.integers(60, 420))
    ground = image if number // 4 % 2 else ImageOps.grayscale(image).convert("RGB")
    for colour in ((200, 40, 45), (45, 80, 200), (40, 140, 60)):
        lamp = ground.copy()
        box = x - radius, y - radius, x + radius, y + radius
        ImageDraw.Draw(lamp).ellipse(box, fill=with_luma(colour, 105))
        yield lamp


def draw_scenes(image: Image.Image, number: int) -> Iterator[Image.Image]:
    shape, rng = ("shirt", "mug", "bag", "chair")[number // 6 % 4], np.random.default_rng(number)
    pair = [draw_product(shape, (red, 2, 3), number, 420) for red in (1, 250)]
    mask = ImageChops.difference(*pair).convert("L").point([255 * (level > 20) for level in range(256)])
    place = int(rng.integers(20, 200)), int(rng.integers(0, 60))
    for colour in PRODUCT_COLOURS.values():
        scene = image.copy()
        scene.paste(draw_product(shape, colour, number, 420), place, mask.filter(ImageFilter.MaxFilter(3)))
        yield scene


MADE_OF_PHOTOS = {  # of every so manieth photo
    "quarters": (1, draw_quarters),
    "frames": (2, draw_frames),
    "lamps": (2, draw_lamps),
    "pans": (2, draw_pans),
    "memes": (2, draw_memes),
    "recoloured": (6, draw_scenes),
}


def describe_drawing(job: tuple[str, int, int, Image.Image]) -> list[Described]:
    name, seed, number, image = job
    half = number % 2 == 0 if seed < 0 else seed in FITTED_SEEDS
    series = f"{name} {seed}"
    images = [describe(image, name, series, number, "original", half)]
    return images + [describe(COPIES[edit](image), name, series, number, edit, half) for edit in DRAWN_COPIES]


def draw_all() -> Iterator[tuple[str, int, int, Image.Image]]:
    for name, draw in DRAWN.items():
        yield from ((name, seed, n, image) for seed in range(4) for n, image in enumerate(draw(seed)))
    for name, page in SERIES.items():
        yield from ((name, -1, n, image) for n, image in enumerate(page()))


class Pairs(NamedTuple):
    """Per pair what it is (an edit, or # and the kind of a false pair), its kind of image, whether cuts are fitted on
    it, whether its views are near, its measures (n, M), and whether it is one of drawings."""

    label: np.ndarray
    kind: np.ndarray
    is_fitted: np.ndarray
    is_near: np.ndarray
    measures: np.ndarray
    is_drawing: np.ndarray


def pair_up(images: list[Described]) -> Pairs:
    """Return each copy with its original, and all different originals whose views are near."""
    frame = pd.DataFrame(images, columns=Described._fields)
    compared = ComparableImages(frame, DISTANCE)
    originals = frame.index[frame["edit"] == "original"].to_numpy()
    place = dict(zip(frame["source"][originals], originals, strict=True))
    copies = frame.index[frame["edit"] != "original"].to_numpy()
    ones = np.array([place[source] for source in frame["source"][copies]], dtype=np.int64)
    first, second = (originals[some] for some in np.triu_indices(len(originals), 1))
    near = compared.view_distances(first, second) <= DISTANCE + 2
    first, second = first[near], second[near]
    # Of two seeds, drawings may be copies of each other, and so may a photo and what is made of it.
    kinds, series = frame["kind"].to_numpy(dtype=object), frame["series"].to_numpy(dtype=object)
    of_photos = np.isin(kinds[first], ["photo", "quarters"])
    is_same_kind, is_same_series = kinds[first] == kinds[second], series[first] == series[second]
    is_known = np.where(is_same_kind, of_photos | is_same_series, ~is_same_series)
    first, second = first[is_known], second[is_known]
    labels = np.where(is_same_kind[is_known], "#" + kinds[first], "#cross")
    ones, others = np.concatenate([ones, first]), np.concatenate([copies, second])
    found = measure_pairs(compared, ones, compared, others)
    return Pairs(
        np.concatenate([frame["edit"].to_numpy()[copies], labels]).astype(str),
        frame["kind"].to_numpy()[ones].astype(str),
        frame["is_fitted"].to_numpy()[ones] & frame["is_fitted"].to_numpy()[others],
        compared.view_distances(ones, others) <= DISTANCE,
        found,
        found[:, -1] >= same_images.read_cuts()[0],
    )


def fit(good: np.ndarray, bad: np.ndarray, weights: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return the cuts (M,) with the lowest cost: lost copies and WEIGHT x `weights` of false pairs. Starts from those
    that are stored, too."""
    bad, best, rng = bad * MARGIN, None, np.random.default_rng(0)
    top = good.max(axis=0) * CAP + 0.002
    starts = [np.quantile(good, share, axis=0) * CAP + 0.002 for share in (1.0, 0.998, 0.99)]
    for start in [stored, *starts * STARTS]:
        cut, last = np.minimum(start, top), math.inf
        order_of_measures = rng.permutation(good.shape[1])
        while True:
            for measure in order_of_measures:
                others = np.arange(good.shape[1]) != measure
                kept = np.sort(good[(good[:, others] <= cut[others]).all(axis=1), measure])
                held = (bad[:, others] <= cut[others]).all(axis=1)
                order = np.argsort(bad[held, measure])
                values, costs = bad[held, measure][order], np.append(0, np.cumsum(weights[held][order]))
                tried = np.append(values[values < top[measure]] * 0.9999, top[measure])
                false = costs[np.searchsorted(values, tried, "right")]
                cost = len(kept) - np.searchsorted(kept, tried, "right") + WEIGHT * false
                cut[measure] = tried[np.flatnonzero(cost <= cost.min() + 1e-9).max()]
            lost = float((~(good <= cut).all(axis=1)).sum())
            cost_of_all = lost + WEIGHT * float(weights[(bad <= cut).all(axis=1)].sum())
            if cost_of_all >= last - 1e-9:
                break
            last = cost_of_all
        if best is None or last < best[0]:
            best = last, cut.copy()
    assert best is not None
    found = good[(good <= best[1]).all(axis=1)]
    return np.minimum(best[1], found.max(axis=0) * CAP + 0.002)


def fit_both(pairs: Pairs) -> dict[str, dict[str, float]]:
    measures = np.minimum(pairs.measures[:, : len(MEASURES)], 999)
    labels = np.where((pairs.kind != "photo") & (pairs.label == "text bar"), "#text on drawings", pairs.label)
    is_false = np.char.startswith(labels, "#")
    cuts = {}
    regimes = ("photos", ~pairs.is_drawing), ("drawings", pairs.is_drawing)
    for (name, regime), stored in zip(regimes, same_images.read_cuts()[1], strict=True):
        some = regime & pairs.is_fitted & (measures < 999).all(axis=1)
        good, bad = some & ~is_false & pairs.is_near, some & is_false
        weights = np.array([WEIGHTS.get(label[1:], 1.0) for label in labels[bad]])
        found = fit(measures[good], measures[bad], weights, stored)
        cuts[name] = {measure: round(float(value), 3) for measure, value in zip(MEASURES, found, strict=True)}
    return cuts


def show(pairs: Pairs, console: Console) -> None:
    accepted = accept(pairs.measures) & pairs.is_near
    judged = ~pairs.is_fitted
    for title, chosen in (("photos", pairs.kind == "photo"), ("drawings", ~np.isin(pairs.kind, ["photo", "quarters"]))):
        table = Table("copy", "found", "proposed", title=f"{title} of the judged half")
        for name in (name for name in COPIES if (chosen & judged & (pairs.label == name)).any()):
            some = chosen & judged & (pairs.label == name)
            table.add_row(name, f"{accepted[some].mean():.3f}", f"{pairs.is_near[some].mean():.3f}")
        console.print(table)
    table = Table("different images", "pairs proposed", "joined", title="false pairs of the judged half")
    for label in sorted({label for label in pairs.label if label.startswith("#")}):
        some = judged & (pairs.label == label) & pairs.is_near
        table.add_row(label[1:], str(some.sum()), str((accepted & some).sum()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=180, help="photos")
    parser.add_argument("--write", action="store_true", help="fit the cuts and replace same_images.yaml")
    parser.add_argument("--save", type=Path, help="only save photos and copies there, for duplicate_peers.py")
    given = parser.parse_args()
    pillow_heif.register_heif_opener()
    photos = sorted(path for folder in given.folders for path in folder.rglob("*.jp*g"))
    photos = [photos[place] for place in np.random.default_rng(1).permutation(len(photos))[: given.most]]
    if given.save:
        save_copies(given.save, photos)
        return
    with Pool() as pool:
        found = pool.imap(describe_photo, list(enumerate(photos)))
        images = [one for some in found for one in some]
        images += [one for some in pool.imap(describe_drawing, draw_all(), 4) for one in some]
    pairs = pair_up(images)
    if given.write:
        stored = {"drawing_share": same_images.read_cuts()[0], **fit_both(pairs)}
        Path(same_images.__file__).with_suffix(".yaml").write_text(yaml.safe_dump(stored, sort_keys=False), "utf-8")
        same_images.read_cuts.cache_clear()
    show(pairs, Console(width=100))


if __name__ == "__main__":
    main()
