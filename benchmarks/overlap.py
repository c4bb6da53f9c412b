"""Rates, memory, precision and recall of `querytruth overlap`, beside imagededup and datasketch.

    python benchmarks/overlap.py [--photos FOLDER] [--captions FILE.json] [--peers-python PYTHON]
                                 [--texts 1000000]

The peers live in an environment of their own (`make bench` has the lines that install them; datasketch beside them).
`--photos`: real photos; half of them and their tiles are the set, the other half and its tiles and eight edited copies
of each photo are the other collection.
`--captions`: real captions in COCO's format; 5,000 of them are the set, the others and planted copies are searched.
Without one of these, the comparison with peers that needs it is left out. Seconds are the processor's, user and system,
of all processes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps
from rich.console import Console
from rich.table import Table

from querytruth.audit.overlap_pairs import LEAST_CONTAINED

SET_SIZE = 5_000  # texts of the set
PLANTED = 1_000  # texts
GRIDS = (2, 3, 4)  # rows and columns of tiles
IMAGE_WAYS = {
    "images_ours": "ours",
    "images_imagededup": "imagededup PHash, 10 bits (its default)",
    "images_imagededup_6": "imagededup PHash, 6 bits",
}
TEXT_WAYS = {"texts_ours": "ours", "texts_datasketch": "datasketch MinHash LSH (5 words, 250 hashes, 0.7)"}
EDITS: dict[str, Any] = {
    "encoded": lambda image: image,
    "half": lambda image: image.resize((image.width // 2, image.height // 2)),
    "mirrored": ImageOps.mirror,
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.2),
    "contrast": lambda image: ImageEnhance.Contrast(image).enhance(1.6),
    "edges": lambda image: ImageOps.crop(image, (image.width // 20, image.height // 20) * 2),
    "bar": lambda image: _paste_bar(image),
    "rotated": lambda image: image.rotate(2),
}
Pairs = set[tuple[str, str]]


def _paste_bar(image: Image.Image) -> Image.Image:
    image.paste("black", (0, image.height * 7 // 8, image.width, image.height))
    return image


# ---- the data: each returns which pairs are right, by kind


def write_images(photos: Path, folder: Path) -> dict[str, Pairs]:
    """Half of the photos and their tiles are the set; edited copies of all photos, and the tiles of the other half, are
    the other collection. Names start with the number of the photo."""
    files = [file for file in sorted(photos.rglob("*")) if file.suffix.lower() in (".jpg", ".jpeg", ".png")]
    truth: dict[str, Pairs] = {name: set() for name in EDITS}
    for name in ("set", "others"):
        (folder / name).mkdir(parents=True)
    for number, file in enumerate(files):
        name, home = f"{number:05d}", folder / ("others" if number % 2 else "set")
        with Image.open(file) as opened:
            photo = opened.convert("RGB")
        (home / f"{name}.jpg").write_bytes(file.read_bytes())
        for tile_name, tile in _cut_tiles(photo):
            tile.save(home / f"{name}.{tile_name}.jpg", quality=95)
        for kind, edit in EDITS.items():
            edit(photo.copy()).save(folder / "others" / f"{name}.{kind}.jpg", quality=60)
            if not number % 2:
                truth[kind].add((f"{name}.jpg", f"{name}.{kind}.jpg"))
    return truth


def _cut_tiles(photo: Image.Image) -> Iterable[tuple[str, Image.Image]]:
    for cells in GRIDS:
        width, height = photo.width // cells, photo.height // cells
        for row, column in np.ndindex(cells, cells):
            box = column * width, row * height, (column + 1) * width, (row + 1) * height
            yield f"{cells}-{row}-{column}", photo.crop(box)


def write_texts(captions: Path, folder: Path) -> dict[str, Pairs]:
    """The first texts are the set. Of some: a copy in capitals with other punctuation, one inside a longer text, and
    one with another word."""
    annotations = json.loads(captions.read_text("utf-8"))["annotations"]
    texts = {str(one["id"]): str(one["caption"]) for one in sorted(annotations, key=lambda one: int(one["id"]))}
    own, others = dict(islice(texts.items(), SET_SIZE)), dict(islice(texts.items(), SET_SIZE, None))
    fillers = cycle(list(others.values()))
    truth: dict[str, Pairs] = {"same text": set(), "inside": set(), "one word": set()}
    for name, text in list(own.items())[:: SET_SIZE // PLANTED]:
        words = text.split()
        middle = len(words) // 2
        changed = [*words[:middle], "zebra", *words[middle + 1 :]]
        copies = {
            "same text": text.upper().replace(".", "!"),
            "inside": f"{next(fillers)} {text} {next(fillers)} {next(fillers)}",
            "one word": " ".join(changed),
        }
        for kind, copy in copies.items():
            others[f"{name} {kind}"] = copy
            truth[kind].add((name, f"{name} {kind}"))
    by_words: dict[str, list[str]] = {}
    for name, text in own.items():
        by_words.setdefault(_plain(text), []).append(name)
    truth["same text"] |= {(name, other) for other, text in others.items() for name in by_words.get(_plain(text), ())}
    longer = {name: f" {_plain(text)} " for name, text in others.items()}
    for name, text in own.items():
        if len(_plain(text).split()) >= LEAST_CONTAINED:
            inner = f" {_plain(text)} "
            truth["inside"] |= {(name, other) for other, outer in longer.items() if inner in outer and inner != outer}
    folder.mkdir()
    for file, part in (("set", own), ("others", others)):
        (folder / f"{file}.json").write_text(json.dumps(part), "utf-8")
    return truth


def _plain(text: str) -> str:
    return " ".join(re.findall("[a-z0-9]+", text.lower()))


def write_captions(captions: Path, folder: Path, count: int) -> None:
    texts = [str(one["caption"]) for one in json.loads(captions.read_text("utf-8"))["annotations"]]
    with (folder / "captions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["caption"], *([text] for text in islice(cycle(texts), count))])


# ---- the comparison


def measure(way: str, folder: Path, peers: str) -> dict[str, Any]:
    """Run one way in a process of its own."""
    is_ours = "_ours" in way
    answer = subprocess.run(
        [sys.executable if is_ours else peers, str(Path(__file__).parent / "overlap_ways.py"), way, str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | ({"PYTHONPATH": str(Path(__file__).parent.parent)} if is_ours else {}),
    )
    if answer.returncode:
        sys.exit(f"{way} failed:\n{answer.stderr}")
    return dict(json.loads(answer.stdout))


def compare(title: str, ways: dict[str, str], folder: Path, peers: str, truth: dict[str, Pairs]) -> Table:
    """Return the table of found pairs: recall per kind of copy, and the precision. A tile of a photo with a copy of
    the same photo is neither right nor wrong."""
    table = Table("way", "a second and core", "MB", "wrong", "precision", *truth, title=f"{title}: {_describe(folder)}")
    right = set().union(*truth.values())
    for way, description in ways.items():
        answer = measure(way, folder, peers)
        if "missing" in answer:
            table.add_row(description, f"{answer['missing']} is not installed")
            continue
        found = {(one, other) for one, other in answer["pairs"]}
        wrong = {(one, other) for one, other in found - right if one.partition(".")[0] != other.partition(".")[0]}
        precision = len(found & right) / max(1, len(found & right) + len(wrong))
        recalls = [f"{len(found & kind) / len(kind):.3f}" for kind in truth.values()]
        rate = f"{answer['rate']:,.0f} {answer['unit']}"
        table.add_row(description, rate, f"{answer['peak']:,}", str(len(wrong)), f"{precision:.4f}", *recalls)
    return table


def _describe(folder: Path) -> str:
    """Return how many pairs are compared."""
    if (folder / "set").is_dir():
        own, others = (len(list((folder / name).iterdir())) for name in ("set", "others"))
    else:
        own, others = (len(json.loads((folder / f"{name}.json").read_text("utf-8"))) for name in ("set", "others"))
    return f"{own:,} x {others:,} = {own * others:,} pairs"


def measure_captions(folder: Path) -> Table:
    table = Table("what", "rows", "seconds", "processor", "a second and core", "MB", "pairs", title="Rates of ours")
    answer = measure("captions_ours", folder, sys.executable)
    cells = f"{answer['count']:,}", f"{answer['seconds']:.1f}", f"{answer['processor']:.1f}"
    table.add_row(
        "captions of a table", *cells, f"{answer['rate']:,.0f}", f"{answer['peak']:,}", f"{answer['found']:,}"
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, help="a folder of real photos, no two of them alike")
    parser.add_argument("--captions", type=Path, help="real captions in COCO's format")
    parser.add_argument("--peers-python", default=sys.executable, help="an interpreter that has the peers")
    parser.add_argument("--texts", type=int, default=1_000_000)
    given, console = parser.parse_args(), Console(width=180)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if given.photos:
            truth = write_images(given.photos, folder / "images")
            console.print(compare("Images", IMAGE_WAYS, folder / "images", given.peers_python, truth))
        if given.captions:
            truth = write_texts(given.captions, folder / "texts")
            console.print(compare("Texts", TEXT_WAYS, folder / "texts", given.peers_python, truth))
            write_captions(given.captions, folder / "texts", given.texts)
            console.print(measure_captions(folder / "texts"))


if __name__ == "__main__":
    main()
