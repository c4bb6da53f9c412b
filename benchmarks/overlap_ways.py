"""One way of finding overlap, in a process of its own; the peers' environment runs theirs.

    python benchmarks/overlap_ways.py WAY FOLDER

Prints one line of JSON: `processor` (seconds, all processes), `peak` (MB) and what was found. FOLDER is what
benchmarks/overlap.py wrote.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

SHINGLE, PERMUTATIONS, JACCARD = 5, 250, 0.7  # words, hashes, similarity: the values that text-dedup has by default
Answer = dict[str, Any]


def read_texts_of(file: Path) -> dict[str, str]:
    return dict(json.loads(file.read_text("utf-8")))


# ---- ours


def images_ours(folder: Path) -> Answer:
    import pandas as pd

    from querytruth.audit.overlap import hash_images
    from querytruth.audit.overlap_pairs import ImageOverlap

    def hash_folder(name: str) -> pd.DataFrame:
        return pd.concat(hash_images(str(folder / name)), ignore_index=True)

    start = processor_seconds()
    others = hash_folder("others")
    hashed = processor_seconds() - start
    images = ImageOverlap(hash_folder("set"))
    pairs = images.find_pairs([others])
    return {"pairs": pairs[["set_item", "other_item"]].values.tolist(), "rate": len(others) / hashed, "unit": "images"}


def texts_ours(folder: Path) -> Answer:
    from querytruth.audit.overlap_pairs import TextOverlap

    texts, others = (read_texts_of(folder / f"{name}.json") for name in ("set", "others"))
    start = processor_seconds()
    pairs = [(one, other) for one, other, _, _ in TextOverlap(texts).find_pairs(others.items())]
    return {"pairs": pairs, "rate": len(others) / (processor_seconds() - start), "unit": "texts"}


def captions_ours(folder: Path) -> Answer:
    """The captions of a table, read as the command reads them."""
    from querytruth.audit.overlap import read_texts
    from querytruth.audit.overlap_pairs import TextOverlap

    overlap, start, count = TextOverlap(read_texts_of(folder / "set.json")), processor_seconds(), 0

    def counted() -> Iterator[tuple[str, str]]:
        nonlocal count
        for one in read_texts(folder / "captions.csv", "caption"):
            count += 1
            yield one

    found = sum(1 for _ in overlap.find_pairs(counted()))
    return {"found": found, "count": count, "rate": count / (processor_seconds() - start), "unit": "texts"}


# ---- peers


def images_imagededup(folder: Path, distance: int = 10) -> Answer:
    # The hashes need no networks, but its package imports their definitions, which need torchvision.
    for name in ("", ".models", ".transforms", ".models.vision_transformer"):
        sys.modules[f"torchvision{name}"] = MagicMock()
    from imagededup.methods import PHash

    method = PHash(verbose=False)
    start = processor_seconds()
    others = method.encode_images(str(folder / "others"), num_enc_workers=0)
    hashed = processor_seconds() - start
    both = {f"others/{name}": code for name, code in others.items()}
    both |= {f"set/{name}": code for name, code in method.encode_images(str(folder / "set"), num_enc_workers=0).items()}
    found = method.find_duplicates(
        encoding_map=both, max_distance_threshold=distance, search_method="brute_force_cython"
    )
    pairs = [
        (one.partition("/")[2], other.partition("/")[2])
        for one, near in found.items()
        for other in near
        if one.startswith("set/") and other.startswith("others/")
    ]
    return {"pairs": pairs, "rate": len(others) / hashed, "unit": "images"}


def images_imagededup_6(folder: Path) -> Answer:
    return images_imagededup(folder, 6)


def texts_datasketch(folder: Path) -> Answer:
    from datasketch import MinHash, MinHashLSH

    texts, others = (read_texts_of(folder / f"{name}.json") for name in ("set", "others"))

    def sketch(text: str) -> MinHash:
        words = re.findall(r"\w+", text.lower())
        shingles = {" ".join(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))}
        hashed = MinHash(num_perm=PERMUTATIONS)
        hashed.update_batch([shingle.encode() for shingle in shingles])
        return hashed

    start = processor_seconds()
    index = MinHashLSH(threshold=JACCARD, num_perm=PERMUTATIONS)
    for name, text in texts.items():
        index.insert(name, sketch(text))
    pairs = [(str(one), other) for other, text in others.items() for one in index.query(sketch(text))]
    return {"pairs": pairs, "rate": len(others) / (processor_seconds() - start), "unit": "texts"}


_OURS = (images_ours, texts_ours, captions_ours)
_PEERS = (images_imagededup, images_imagededup_6, texts_datasketch)
WAYS: dict[str, Callable[[Path], Answer]] = {way.__name__: way for way in (*_OURS, *_PEERS)}


def processor_seconds() -> float:
    """Of this process, its children that have ended, and its workers."""
    ticks = os.sysconf("SC_CLK_TCK")
    running = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    fields = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split() for child in running]
    workers = sum(int(one[11]) + int(one[12]) for one in fields) / ticks  # user and system time
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) + workers


def peak_mb() -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10


def main() -> None:
    way, folder = sys.argv[1], Path(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a peer may print as it goes
    try:
        start = time.perf_counter()
        answer = WAYS[way](folder)
        answer |= {"seconds": time.perf_counter() - start, "processor": processor_seconds()}
        answer["peak"] = peak_mb()
    except ModuleNotFoundError as error:
        answer = {"missing": str(error.name).partition(".")[0]}
    print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
