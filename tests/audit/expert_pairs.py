"""What experts say of captions and other photos (Flickr8k's test images), for tests and benchmarks."""

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd


class ExpertPairs(NamedTuple):
    """`texts` by the id of a caption, `captions` by photo; `pairs`: query_id (a caption), image_id (another photo),
    whether the experts' median is 3 or 4 of 4 (`relevant`), how many letters it shares with the photo's own
    (`letters`)."""

    texts: dict[str, str]
    captions: dict[str, list[str]]
    pairs: pd.DataFrame


def read_expert_pairs(folder: Path) -> ExpertPairs:
    """Read captions and ratings of a folder."""
    texts: dict[str, str] = {}
    captions: dict[str, list[str]] = defaultdict(list)
    for line in (folder / "flickr8k_test_en.txt").read_text("utf-8").splitlines():
        key, _, text = line.partition(" ")
        photo, number = key.replace(".jpg", "").split("#enc#")
        texts[f"{photo}#{number}"] = text
        captions[photo].append(text)
    rows = []
    for line in (folder / "Flickr8k_ExpertAnnotations.txt").read_text("utf-8").splitlines():
        photo, caption, *grades = line.replace(".jpg", "").split()
        if photo in captions and caption in texts and not caption.startswith(photo):
            letters = max(compare_letters(texts[caption], other) for other in captions[photo])
            rows.append((caption, photo, np.median([int(grade) for grade in grades]) >= 3, letters))
    return ExpertPairs(texts, captions, pd.DataFrame(rows, columns=["query_id", "image_id", "relevant", "letters"]))


def compare_letters(one: str, other: str) -> float:
    """The share of runs of three and four letters that two texts have in common."""
    first, second = (
        {text[at : at + size] for size in (3, 4) for at in range(len(text) - size + 1)}
        for text in (f" {one.lower()} ", f" {other.lower()} ")
    )
    return len(first & second) / max(len(first | second), 1)
