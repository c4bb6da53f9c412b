"""How many edited copies of photos a gallery finds, with and without `near_duplicates.edits`, and what that costs.

    python benchmarks/edited_copies.py FOLDER ... [--most 200] [--others FOLDER ...]

Each photo of the folders (JPEG) is edited in every way of tests/builders/gallery/photo_edits.py, and saved at quality
85. Per way: the share of photos whose copy is in one group with it, and groups of different photos, which are false.
Then eighteen edits alone, beside a stretched copy of each photo, and all together; and drawn series (drawn_pages.py),
in which only the text or the colour differs. Then all photos of the folders and of --others, unedited, and as four
tiles each: no group may have new members. At last what the parts of images cost a scan. Seconds are the processor's;
run it with OMP_NUM_THREADS=1, as workers do.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from drawn_pages import SERIES, font
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from querytruth.backends.images import image_reading
from querytruth.backends.images.image_reading import DecodedImage, ScannedImage, decode_image, describe_images
from tests.builders.gallery.photo_edits import EDITS, Edit

BATCH = 16
EIGHTEEN: dict[str, Edit] = {
    "re-encoded, quality 85": lambda image: image,
    "half size": lambda image: image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS),
    "grey": lambda image: ImageOps.grayscale(image).convert("RGB"),
    "sepia": lambda image: image.convert(
        "RGB", (0.393, 0.769, 0.189, 0, 0.349, 0.686, 0.168, 0, 0.272, 0.534, 0.131, 0)
    ),
    "faded": lambda image: Image.blend(image, Image.new("RGB", image.size, (200, 195, 185)), 0.4),
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.15),
    "saturated": lambda image: ImageEnhance.Color(image).enhance(1.4),
    "warmer": lambda image: warmed(image, 1.08),
    "stretched": lambda image: image.resize((round(image.width * 1.2), image.height), Image.Resampling.LANCZOS),
    "border": EDITS["border 5%"],
    "letterbox": EDITS["letterbox 1:1, black"],
    "crop": EDITS["crop 5% of every side"],
    "sticker": EDITS["sticker"],
    "watermark": EDITS["watermark"],
    "overlay": lambda image: with_band(image),
    "screenshot with bars": lambda image: with_bars(image),
    "turned by 2 degrees": lambda image: image.rotate(2, Image.Resampling.BICUBIC, fillcolor="black"),
    "turned by 2 degrees, cropped": lambda image: straightened(image, 2),
}


def warmed(image: Image.Image, gain: float) -> Image.Image:
    gains = gain, 1.0, 2 - gain
    bands = [
        band.point([min(255, int(level * one)) for level in range(256)])
        for band, one in zip(image.split(), gains, strict=True)
    ]
    return Image.merge("RGB", bands)


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
    return image.rotate(degrees, Image.Resampling.BICUBIC).crop(
        (margin, margin, image.width - margin, image.height - margin)
    )


def scan(paths: list[Path]) -> list[ScannedImage]:
    rows: list[ScannedImage] = []
    for start in range(0, len(paths), BATCH):
        rows += describe_images([decode_image(path) for path in paths[start : start + BATCH]])
    return rows


def frame_of(images: list[ScannedImage], names: list[str]) -> pd.DataFrame:
    good = [(image._asdict() | {"item": name}) for image, name in zip(images, names, strict=True) if not image.reason]
    frame = pd.DataFrame(good)
    return frame.assign(image_id="img_" + frame["sha256"].str[:20], phash=frame["phash"].astype("UInt64"))


def group(frame: pd.DataFrame, edits: bool) -> tuple[DuplicateGroups, float]:
    before = time.process_time()
    found = find_duplicates(frame, distance=6, edits=edits)
    return found, time.process_time() - before


def photo_of(item: str) -> str:
    return item.rpartition(" #")[0]


def measure_edit(originals: pd.DataFrame, copies: pd.DataFrame) -> list[str]:
    """Found without and with edits, and false groups."""
    frame, cells, false = pd.concat([originals, copies], ignore_index=True), [], 0
    for edits in (False, True):
        table = group(frame, edits)[0].table
        group_of = dict(zip(table["item"], table["duplicate_group"], strict=True))
        pairs = [
            (group_of.get(f"{photo} #original", 0), group_of.get(item))
            for photo, item in zip(copies["item"].map(photo_of), copies["item"], strict=True)
        ]
        cells.append(f"{sum(one == other for one, other in pairs) / len(copies):.0%}")
        false = int((table["item"].map(photo_of).groupby(table["duplicate_group"]).nunique() > 1).sum())
    return [*cells, str(false)]


def found_of(frame: pd.DataFrame, name: str) -> int:
    """Photos in one group with their copy of this name."""
    table = group(frame, True)[0].table
    group_of = dict(zip(table["item"], table["duplicate_group"], strict=True))
    copies = [item for item in frame["item"] if item.endswith(f" #{name}")]
    return sum(group_of.get(f"{photo_of(item)} #original", 0) == group_of.get(item) for item in copies)


def measure_eighteen(paths: list[Path], originals: pd.DataFrame, folder: Path) -> Table:
    table = Table(title=f"{len(paths)} photos, eighteen edits")
    for column in ("edit", "alone", "beside a stretched copy", "all together"):
        table.add_column(column, justify="left" if column == "edit" else "right")
    copies = {name: copy_all(paths, edit, folder, name) for name, edit in EIGHTEEN.items()}
    everything = pd.concat([originals, *copies.values()], ignore_index=True)
    for name, frame in copies.items():
        beside = [originals, frame] if name == "stretched" else [originals, copies["stretched"], frame]
        frames = pd.concat([originals, frame]), pd.concat(beside), everything
        table.add_row(name, *(str(found_of(one.reset_index(drop=True), name)) for one in frames))
    return table


def copy_all(paths: list[Path], edit: Edit, folder: Path, name: str) -> pd.DataFrame:
    copies = [folder / f"{number} of eighteen.jpg" for number in range(len(paths))]
    for path, copy in zip(paths, copies, strict=True):
        with Image.open(path) as image:
            edit(ImageOps.exif_transpose(image).convert("RGB")).save(copy, quality=85)
    return frame_of(scan(copies), [f"{path} #{name}" for path in paths])


def measure_series(folder: Path) -> Table:
    """How many images of each series are kept, and how many of their copies (0.77 of the size) are found."""
    table = Table(title="Drawn series")
    for column in ("series", "images", "kept", "copies found"):
        table.add_column(column, justify="left" if column == "series" else "right")
    for name, draw in SERIES.items():
        images = list(draw())
        frames = []
        for kind, scale, quality in (("original", 1.0, 90), ("copy", 0.77, 60)):
            paths = [folder / f"{number} {kind}.jpg" for number in range(len(images))]
            for image, path in zip(images, paths, strict=True):
                size = round(image.width * scale), round(image.height * scale)
                image.resize(size, Image.Resampling.LANCZOS).save(path, quality=quality)
            frames.append(frame_of(scan(paths), [f"{number} #{kind}" for number in range(len(images))]))
        kept = int(group(frames[0], True)[0].is_kept.sum())
        table.add_row(name, str(len(images)), str(kept), str(found_of(pd.concat(frames, ignore_index=True), "copy")))
    return table


def tile(paths: list[Path], folder: Path) -> list[Path]:
    tiles = []
    for number, path in enumerate(paths):
        with Image.open(path) as image:
            whole = ImageOps.exif_transpose(image).convert("RGB")
        half, middle = whole.width // 2, whole.height // 2
        for place, box in enumerate(((0, 0), (half, 0), (0, middle), (half, middle))):
            tiles.append(folder / f"{number}-{place}.jpg")
            whole.crop((*box, box[0] + half, box[1] + middle)).save(tiles[-1], quality=90)
    return tiles


def _leave_out_patches(decoded: list[DecodedImage]) -> list[dict[str, Any]]:
    return [{}] * len(decoded)


def measure_scan_cost(paths: list[Path], turns: int = 5) -> str:
    """Seconds of scans with and without parts and thumbnails, in turn."""
    compute_patches, ratios, added = image_reading._compute_patches, [], []
    try:
        for _ in range(turns):
            seconds = []
            for has_parts in (True, False):
                image_reading._compute_patches = compute_patches if has_parts else _leave_out_patches
                before = time.process_time()
                scan(paths)
                seconds.append(time.process_time() - before)
            ratios.append(seconds[0] / seconds[1])
            added.append((seconds[0] - seconds[1]) / len(paths) * 1e3)
    finally:
        image_reading._compute_patches = compute_patches
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return f"{statistics.median(ratios):.2f} times ({spread}), {statistics.median(added):.2f} ms an image"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=200, help="photos that are edited")
    parser.add_argument("--others", nargs="*", type=Path, default=[], help="folders of photos that are only compared")
    given = parser.parse_args()
    console = Console(width=110)
    photos = [path for folder in given.folders for path in sorted(folder.rglob("*.jpg"))]
    edited = photos[:: -(-len(photos) // given.most)]
    table = Table(title=f"{len(edited)} photos, an edited copy of each")
    for column in ("edit", "hash of the whole alone", "with edits", "false groups"):
        table.add_column(column, justify="left" if column == "edit" else "right")
    originals = frame_of(scan(edited), [f"{path} #original" for path in edited])
    with tempfile.TemporaryDirectory() as temporary:
        for name, edit in EDITS.items():
            copies = [Path(temporary) / f"{number}.jpg" for number in range(len(edited))]
            for path, copy in zip(edited, copies, strict=True):
                with Image.open(path) as image:
                    edit(ImageOps.exif_transpose(image).convert("RGB")).save(copy, quality=85)
            table.add_row(name, *measure_edit(originals, frame_of(scan(copies), [f"{path} #copy" for path in edited])))
        console.print(table)
        console.print(measure_eighteen(edited, originals, Path(temporary)))
        console.print(measure_series(Path(temporary)))
        everything = photos + [path for folder in given.others for path in sorted(folder.rglob("*.jp*g"))]
        for title, paths in (("photos", everything), ("tiles", tile(edited, Path(temporary)))):
            before = time.process_time()
            frame = frame_of(scan(paths), [str(path) for path in paths])
            scanned = time.process_time() - before
            without, plain = group(frame, False)
            found, seconds = group(frame, True)
            new = sorted(set(found.table["item"]) - set(without.table["item"]))
            console.print(
                f"{len(frame)} {title}: scanned in {scanned:.1f} s, grouped in {plain:.2f} s, {seconds:.2f} s"
            )
            console.print(f"  with edits; {len(new)} images come into groups: {new[:6]}", markup=False)
    console.print(f"parts and thumbnails: a scan takes {measure_scan_cost(photos)}")


if __name__ == "__main__":
    main()
