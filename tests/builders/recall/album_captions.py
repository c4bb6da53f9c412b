"""The sample album's captions and what they are true of, without its images."""

from dataclasses import dataclass

import pandas as pd

from builders.recall.caption_index import AnswerIndex, build_answer_index
from querytruth.sample_album.album import read_album, read_table


@dataclass(frozen=True)
class CaptionedAlbum:
    """Tables in one language; `fitting_images`: query_id to all images of which its caption is true; `described`: for
    every image a text that names all that is in it."""

    queries: pd.DataFrame
    images: pd.DataFrame
    qrels: pd.DataFrame
    fitting_images: dict[str, set[str]]
    described: pd.DataFrame

    def shared(self) -> set[str]:
        return {query for query, images in self.fitting_images.items() if len(images) > 1}


def make_captioned_album(language: str, part: slice = slice(None)) -> CaptionedAlbum:
    """The scenes, or a part of them."""
    scenes = [image for image in read_album() if not image.defect and not image.duplicate_of][part]
    names = {scene.file_name: f"img_{number:04}" for number, scene in enumerate(scenes)}
    caption, described = (
        [row["caption"] for row in read_table(table, scenes) if row["language"] == language]
        for table in ("captions", "descriptions")
    )
    fits = {name.replace("img", "q"): {name} for name in names.values()}
    for row in read_table("fitting", scenes):
        fits[names[row["file_name"]].replace("img", "q")].add(names[row["fits"]])
    images = list(names.values())
    return CaptionedAlbum(
        pd.DataFrame({"query_id": list(fits), "text": caption, "language": language}),
        pd.DataFrame({"image_id": images, "duplicate_group": None}),
        source_pairs(list(fits), images),
        fits,
        pd.DataFrame({"image_id": images, "text": described}),
    )


def source_pairs(queries: list[str], images: list[str]) -> pd.DataFrame:
    """Judgments: each query with its own image."""
    frame = pd.DataFrame({"query_id": queries, "image_id": images, "relevance": 1})
    return frame.assign(judged_by="caption", evidence=None)


def index_captions(captions: dict[str, list[str]]) -> AnswerIndex:
    """Captions of each image, as queries q0, q1 … in the order given."""
    rows = [(image, text) for image, texts in captions.items() for text in texts]
    ids = [f"q{number:03}" for number in range(len(rows))]
    queries = pd.DataFrame({"query_id": ids, "text": [text for _, text in rows]})
    qrels = pd.DataFrame({"query_id": ids, "image_id": [image for image, _ in rows], "relevance": 1})
    return build_answer_index(queries, qrels, pd.DataFrame({"image_id": list(captions), "duplicate_group": None}), None)
