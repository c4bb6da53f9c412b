"""Rates of `querytruth overlap`: captions and hashes a second, and the memory.

Run: python benchmarks/overlap.py [HASHES] [CAPTIONS]; texts and hashes are drawn, from a fixed seed."""

import resource
import sys
import time

import numpy as np

from builders.overlap.near_images import NearHashIndex
from builders.overlap.text_pairs import TextOverlap

_SET_SIZE = 5_000
_HASHES_EACH = 18  # of an image of the set: its own, mirrored, and 16 crops


def measure_hashes(count: int) -> None:
    """Prints the time for `count` hashes against those of a set."""
    rng = np.random.default_rng(1)
    index = NearHashIndex(rng.integers(0, 1 << 63, (_HASHES_EACH * _SET_SIZE, 1), dtype=np.uint64))
    others = rng.integers(0, 1 << 63, (count, 1), dtype=np.uint64)
    start = time.perf_counter()
    pairs = sum(len(rows) for rows, _, _ in index.find_near(others))
    seconds = time.perf_counter() - start
    print(
        f"{count:,} hashes against {_HASHES_EACH} of {_SET_SIZE:,} images: {seconds:.1f} s, {pairs} pairs", flush=True
    )


def measure_captions(count: int) -> None:
    """Prints the rate for captions of 16 tokens."""
    rng = np.random.default_rng(2)
    words = [f"word{number}" for number in range(5000)]

    def draw() -> str:
        return " ".join(words[number] for number in rng.integers(0, len(words), 16))

    overlap = TextOverlap({str(number): draw() for number in range(_SET_SIZE)})
    texts = [("", draw()) for _ in range(10_000)]
    start = time.perf_counter()
    for _ in range(count // len(texts)):
        sum(1 for _pair in overlap.find_pairs(texts))
    print(f"{count:,} captions: {count / (time.perf_counter() - start):,.0f} a second", flush=True)


if __name__ == "__main__":
    measure_hashes(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
    measure_captions(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10:,} MB at most")
