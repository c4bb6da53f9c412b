"""How many edited copies of photos a gallery finds, with and without `near_duplicates.edits`, and what that costs.

    python benchmarks/edited_copies.py FOLDER ... [--most 200] [--others FOLDER ...]

Each photo of the folders (JPEG) is edited in every way of tests/builders/gallery/photo_edits.py, and saved at quality
85. Per way: the share of photos whose copy is in one group with it, and groups of different photos, which are false.
Then all photos of the folders and of --others, unedited, and as four tiles each: no group may have new members. At last
what the parts of images cost a scan. Seconds are the processor's; run it with OMP_NUM_THREADS=1, as workers do.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image, ImageOps
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from backends.images import image_reading
from backends.images.image_reading import DecodedImage, ScannedImage, decode_image, describe_images
from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from tests.builders.gallery.photo_edits import EDITS

BATCH = 16


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
