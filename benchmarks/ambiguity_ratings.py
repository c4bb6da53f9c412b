"""Captions of Flickr8k's test images, and what experts said of pairs of a caption and another image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from builders.recall.caption_index import AnswerIndex, build_answer_index
from querytruth.array_types import BoolArray, FloatArray, RowIndices

SHARED = Path(__file__).parents[2] / "shared" / "data"
CAPTION_FILES = {
    "en": "flickr8k_test_en.txt",
    "zh": "flickr8k_test_zh_human_translation.txt",
    "zh_written": "flickr8k_test_zh_written.txt",
}
RATED_CAPTION = 2  # the experts rated the third caption of each image with other images
FITS = 3  # of 4: "describes the image, with small errors"


@dataclass(frozen=True)
class RatedCaptions:
    """Queries, their own images, and rated pairs. `query`, `answer` (n,): the pairs as numbers of `answers`; `ratings`
    (n, 3): 1 to 4; `own_image` (n,): the image of each pair's query, by which pairs are split."""

    language: str
    answers: AnswerIndex
    query: RowIndices
    answer: RowIndices
    ratings: RowIndices
    own_image: RowIndices

    @property
    def fits(self) -> BoolArray:
        """Whether the median expert says that the caption fits."""
        result: BoolArray = np.median(self.ratings, axis=1) >= FITS
        return result

    @property
    def targets(self) -> FloatArray:
        """What is fitted to: four parts the median expert, one part the share of experts."""
        result: FloatArray = 0.8 * self.fits + 0.2 * (self.ratings >= FITS).mean(axis=1)
        return result

    def select(self, rows: BoolArray) -> RatedCaptions:
        """Returns the pairs of some rows."""
        return replace(
            self,
            query=self.query[rows],
            answer=self.answer[rows],
            ratings=self.ratings[rows],
            own_image=self.own_image[rows],
        )


def has_shared_data() -> bool:
    """Returns whether the captions are at hand."""
    return (SHARED / "captions" / CAPTION_FILES["en"]).is_file()


def read_captions(language: str) -> pd.DataFrame:
    """Returns image_id, number (0 to 4), query_id and text of 1,000 images' captions."""
    lines = (SHARED / "captions" / CAPTION_FILES[language]).read_text("utf-8").splitlines()
    rows = []
    for line in lines:
        name, text = line.split(" ", 1)
        image, _, number = name.split("#")
        rows.append((image, int(number), f"{image}#{number}", text.strip()))
    return pd.DataFrame(rows, columns=["image_id", "number", "query_id", "text"])


def read_expert_ratings() -> pd.DataFrame:
    """Returns query_id, image_id and three ratings of pairs of a caption and another image."""
    path = SHARED / "captions" / "Flickr8k_ExpertAnnotations.txt"
    names = ["image_id", "query_id", "first", "second", "third"]
    table = pd.read_csv(path, sep="\t", header=None, names=names)
    table["query_id"] = table["query_id"].str.strip()
    return table[table["query_id"].str.partition("#")[0] != table["image_id"]].reset_index(drop=True)


def build_tables(captions: pd.DataFrame, language: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Returns queries, qrels and images of captions."""
    queries = captions[["query_id", "text"]].assign(language=language)
    qrels = captions[["query_id", "image_id"]].assign(relevance=1, judged_by="caption", evidence=None)
    images = pd.DataFrame({"image_id": sorted(captions["image_id"].unique()), "duplicate_group": None})
    return queries, qrels, images


def read_rated_captions(language: str, caption_of_image: int | None = None) -> RatedCaptions:
    """Returns the rated pairs, with all five captions of each image, or with `caption_of_image` alone."""
    captions = read_captions(language)
    queries, qrels, images = build_tables(captions, language)
    if caption_of_image is not None:
        wanted = captions["number"].isin([caption_of_image])
        qrels = qrels[wanted.to_numpy()]
    answers = build_answer_index(queries, qrels, images, None)
    ratings = read_expert_ratings()
    query = pd.Index(answers.query_ids).get_indexer(ratings["query_id"])
    image = pd.Index(answers.image_ids).get_indexer(ratings["image_id"])
    own = pd.Index(answers.image_ids).get_indexer(ratings["query_id"].str.partition("#")[0])
    scores = np.sort(ratings[["first", "second", "third"]].to_numpy(), axis=1)
    return RatedCaptions(language, answers, query, answers.answer[image], scores, own)


def split_in_halves(own_image: RowIndices, seed: int) -> BoolArray:
    """Returns whether each pair's query is of the first half of the images, in a split by the seed."""
    images = np.unique(own_image)
    chosen = np.random.default_rng(seed).permutation(images)[: len(images) // 2]
    result: BoolArray = np.isin(own_image, chosen)
    return result
