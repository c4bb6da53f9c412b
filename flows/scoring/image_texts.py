"""What is known of a set's pictures in words: what the lexical baseline goes by."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from backends.run_files.image_texts import read_image_texts
from builders.errors import UserError
from flows.scoring.judged_sets import JudgedSet

_BETWEEN_WORDS = re.compile(r"[\W_]+")


def load_image_texts(judged: JudgedSet, file: Path | None) -> tuple[pd.DataFrame, str]:
    """image_id and text, a row each, and where they come from: the file given; else what the web says of the pictures
    (`captions`); else, where queries ask for labels, those of each picture (`labels`), which the truth is made of; else
    `file_names`."""
    if judged.images is None:
        raise UserError("evaluate", "lexical", "needs a set's pictures, which bare judgments lack", "name a set")
    images = judged.images
    if file is not None:
        return read_image_texts(file, images), file.name
    if "caption" in images and images["caption"].notna().any():
        captions = images.loc[images["caption"].notna(), ["image_id", "caption"]]
        return captions.rename(columns={"caption": "text"}), "captions"
    labels = _labels(judged)
    return (labels, "labels") if len(labels) else (_file_names(images), "file_names")


def _labels(judged: JudgedSet) -> pd.DataFrame:
    """The texts of queries for one label each, as texts of the pictures that are right for them."""
    queries = judged.queries
    assert queries is not None
    single = queries[queries["labels"].map(lambda row: row is not None and len(row) == 1)]
    relevant = judged.qrels[judged.qrels["relevance"] > 0].astype({"query_id": "str", "image_id": "str"})
    label_texts = relevant.merge(single[["query_id", "text"]], on="query_id")[["image_id", "text"]]
    return label_texts.drop_duplicates(ignore_index=True)


def _file_names(images: pd.DataFrame) -> pd.DataFrame:
    names = images.loc[images["file_name"].notna(), ["image_id", "file_name"]]
    texts = names["file_name"].map(lambda name: _BETWEEN_WORDS.sub(" ", name.rsplit(".", 1)[0]))
    return pd.DataFrame({"image_id": names["image_id"], "text": texts})
