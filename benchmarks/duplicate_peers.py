"""Measures which altered copies of photos other tools find, on the files that duplicate_cuts.py saves.

    python benchmarks/duplicate_cuts.py FOLDER ... --save FILES
    python benchmarks/duplicate_peers.py FILES

In an environment of its own with imagededup, pdqhash and czkawka (the Rust core of the program), as they are set up:
hashes of imagededup (PHash, DHash, at most 10 of 64 bits), PDQ (31 of 256 bits), Czkawka's gradient hash of 8 x 8
(5 bits, its "medium"). A copy is found where its distance to the original is at most that. False pairs are those
of different photos, and those of drawn products of one seed, which differ in shape or colour. Seconds are the
processor's for a file, decoding included.
"""

from __future__ import annotations

import argparse
import base64
import math
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pillow_heif
from czkawka import ImageSimilarity
from imagededup.methods import DHash, PHash
from pdqhash import compute as compute_pdq
from PIL import Image
from rich.console import Console
from rich.table import Table

HASHERS = {"imagededup PHash": PHash(verbose=False), "imagededup DHash": DHash(verbose=False)}
LIMITS = {"imagededup PHash": 10, "imagededup DHash": 10, "PDQ": 31, "Czkawka": 5}


def hash_file(name: str, file: Path) -> np.ndarray | None:
    """Return the bits of a file's hash, None where the tool cannot read it."""
    if name == "Czkawka":
        try:
            code = base64.b64decode(ImageSimilarity().hash_image(file) + "=", "-_")
        except OSError:  # of the formats that it cannot read
            return None
        return np.unpackbits(np.frombuffer(code, np.uint8))
    with Image.open(file) as opened:
        image = np.asarray(opened.convert("RGB"))
    if name == "PDQ":
        return compute_pdq(image)[0].astype(np.uint8)
    code = HASHERS[name].encode_image(image_array=image)
    return np.array(list(f"{int(code, 16):064b}"))


def count_bits(one: np.ndarray | None, other: np.ndarray | None) -> float:
    """Returns in how many bits hashes differ, infinite for a missing one."""
    return math.inf if one is None or other is None else float((one != other).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path)
    folder: Path = parser.parse_args().files
    pillow_heif.register_heif_opener()
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    originals = [path for path in files if path.stem == "original"]
    edits = sorted({path.stem for path in files} - {"original"})
    found: dict[str, dict[str, float]] = {}
    for name, limit in LIMITS.items():
        start = time.process_time()
        hashes = {file: hash_file(name, file) for file in files}
        row = {"seconds": (time.process_time() - start) / len(files)}
        for edit in edits:
            copies = [path for path in files if path.stem == edit]
            own = [next(path.parent.glob("original.*")) for path in copies]
            near = [count_bits(hashes[one], hashes[path]) <= limit for one, path in zip(own, copies, strict=True)]
            row[edit] = sum(near) / len(near)
        for kind in ("photos", "products"):
            pairs = [(a, b) for a, b in combinations(originals, 2) if a.parts[-3] == b.parts[-3]]
            near = [count_bits(hashes[a], hashes[b]) <= limit for a, b in pairs if a.parts[-3].startswith(kind)]
            row[f"false pairs of {kind}"] = sum(near)
        found[name] = row
    table = Table("", *(f"{name}, {limit} bits" for name, limit in LIMITS.items()))
    for label in [*edits, "false pairs of photos", "false pairs of products", "seconds"]:
        table.add_row(label, *(f"{found[name][label]:.4g}" for name in LIMITS))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
