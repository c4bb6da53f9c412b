"""What the maintainers read in pairs of a caption and another image that nothing selected before.

The experts' pairs were proposed by systems that saw the images, and the experts accept small errors. So 900 pairs were
drawn at random among the candidates of all captions, in strata of an earlier probability: 540 English and 300 Chinese
ones (captions written in Chinese), and 60 of those that the experts had rated. One reader graded each pair by the text
alone, without its probability or rating, on the experts' scale of 1 to 4: is the caption true of the image that the
other five captions describe. 3 and 4 fit. The pairs of the samples `first` were read twice, in another order; the
second time the reader remembered some of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ambiguity_calibration import fit_correction
from ambiguity_ratings import FITS, build_tables, read_captions, read_expert_ratings

from builders.recall.calibration import Calibration
from builders.recall.caption_index import AnswerIndex, build_answer_index
from builders.recall.pair_features import PairFeatures, centre_vectors
from querytruth.array_types import BoolArray, FloatArray, RowIndices

READINGS = Path(__file__).parents[1] / "datasets" / "ambiguity" / "readings.csv"
READ_CAPTIONS = {"en": "en", "zh": "zh_written"}
_FOLDS = 5


@dataclass(frozen=True)
class Readings:
    """Pairs that were read. `fits` (n,): the share of readings that say that the caption fits; `weights` (n,): how many
    candidates a pair of the sample `first` stands for, 0 in others; `fold` (n,): by the query's image."""

    answers: AnswerIndex
    query: RowIndices
    answer: RowIndices
    fits: FloatArray
    weights: FloatArray
    fold: RowIndices


def read_readings(language: str, caption_of_image: int | None = None, *, of_experts: bool = False) -> Readings:
    """Returns the unselected pairs of a language, or those that the experts had rated."""
    queries, qrels, images = build_tables(captions := read_captions(READ_CAPTIONS[language]), language)
    if caption_of_image is not None:
        qrels = qrels[(captions["number"] == caption_of_image).to_numpy()]
    answers = build_answer_index(queries, qrels, images, None)
    table = pd.read_csv(READINGS)
    table = table[(table["language"] == language) & ((table["sample"] == "rated by experts") == of_experts)]
    grades = table[["first_reading", "second_reading"]].to_numpy(dtype=float)
    fits = np.nanmean(np.where(np.isnan(grades), np.nan, grades >= FITS), axis=1)
    drawn = table.groupby(["sample", "from_probability"])["query_id"].transform("size")
    weights = np.where(table["sample"] == "first", table["pairs_of_stratum"] / drawn, 0.0)
    images_of_queries, numbers = np.unique(table["query_id"].str.partition("#")[0], return_inverse=True)
    return Readings(
        answers,
        pd.Index(answers.query_ids).get_indexer(table["query_id"]),
        answers.answer[pd.Index(answers.image_ids).get_indexer(table["image_id"])],
        fits,
        weights,
        (np.random.default_rng(0).permutation(len(images_of_queries)) % _FOLDS)[numbers],
    )


def measure_readings(readings: Readings, encode: Any, *, compares_spelling: bool) -> dict[str, FloatArray]:
    """Returns the features of the pairs that were read. `encode`: encodes texts, None for words alone."""
    if encode is None:
        return PairFeatures(readings.answers).measure(readings.query, readings.answer)
    vectors = centre_vectors(encode(readings.answers.texts.tolist()))
    words = None if compares_spelling else encode
    return PairFeatures(readings.answers, vectors, words).measure(readings.query, readings.answer)


def predict_readings(
    fitted: Calibration,
    features: dict[str, FloatArray],
    readings: Readings,
    contradictions_before: dict[str, float] | None = None,
) -> FloatArray:
    """Returns the probability of each pair by a correction to the pairs of other images."""
    held_out = np.zeros(len(readings.fits))
    for one in range(_FOLDS):
        rest = readings.fold != one
        corrected = fit_correction(
            fitted,
            {name: column[rest] for name, column in features.items()},
            readings.fits[rest],
            contradictions_before=contradictions_before,
        )
        held_out[~rest] = corrected.probabilities({name: column[~rest] for name, column in features.items()})
    return held_out


def compare_readers(language: str) -> dict[str, float]:
    """Returns the agreement of both readings: the share that is the same, and Cohen's kappa."""
    table = pd.read_csv(READINGS)
    table = table[(table["language"] == language) & table["second_reading"].notna()]
    one, two = (table[name].to_numpy() >= FITS for name in ("first_reading", "second_reading"))
    agreed, chance = float((one == two).mean()), one.mean() * two.mean() + (1 - one.mean()) * (1 - two.mean())
    return {"pairs": len(table), "agreed": round(agreed, 3), "kappa": round(float((agreed - chance) / (1 - chance)), 3)}


def compare_with_experts() -> dict[str, float]:
    """Returns of the pairs that both graded: the share that fits by the experts' median and by the reader, and how many
    fit by the reader alone."""
    table = pd.read_csv(READINGS)
    table = table[table["sample"] == "rated by experts"]
    ratings = read_expert_ratings().set_index(["query_id", "image_id"])
    medians = ratings.loc[list(zip(table["query_id"], table["image_id"], strict=True))].median(axis=1).to_numpy()
    experts: BoolArray = medians >= FITS
    reader = table["first_reading"].to_numpy() >= FITS
    return {
        "pairs": len(table),
        "experts": round(float(experts.mean()), 3),
        "reader": round(float(reader.mean()), 3),
        "reader alone": int((reader & ~experts).sum()),
    }


def measure_found(probabilities: FloatArray, readings: Readings, at_least: float) -> dict[str, float]:
    """Returns of all candidates, estimated from the sample `first`: the share that fits of those that pass, the share
    that passes of those that fit, and how many pass."""
    hits = float((readings.weights * readings.fits * (probabilities >= at_least)).sum())
    passing = float((readings.weights * (probabilities >= at_least)).sum())
    fitting = float((readings.weights * readings.fits).sum())
    return {"fit": round(hits / max(passing, 1e-9), 3), "found": round(hits / fitting, 3), "passing": round(passing)}
