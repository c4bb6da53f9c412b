"""Recall sets for stories about their pages."""

from typing import Any

import numpy as np
import pandas as pd

from querytruth.records import empty_frame, from_arrow, to_arrow
from querytruth.sets.benchmark_set import Tables, count_set
from tests.review.ledgers import make_ledger


def queries_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    base = {"language": "zh", "style": "caption", "level": 1, "labels": None, "topic": None, "source_image_id": None}
    return pd.DataFrame([{**base, **row} for row in rows], columns=["query_id", "text", *base])


def qrels_table(rows: list[tuple[str, str, int]], judged_by: str = "model") -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["query_id", "image_id", "relevance"]).assign(judged_by=judged_by, evidence=None)
    codes = dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category")
    return frame.astype({**codes, "relevance": "int8"})


def images_table(names: list[str]) -> pd.DataFrame:
    images = empty_frame("images").reindex(range(len(names)))
    images["image_id"] = [f"img_{name}" for name in names]
    images["file_name"] = [f"{name}.jpg" for name in names]
    return images.assign(width=640, height=480).astype({"width": "int32", "height": "int32"})


def typed_tables(**frames: pd.DataFrame) -> Tables:
    """The tables of a set in the types that they are read in from its files."""
    return Tables(**{name: from_arrow(to_arrow(name, frame)) for name, frame in frames.items()})


def recall_beach_tables() -> Tables:
    """Four images. Of the dog there are three queries; the boat's Chinese one fits the ship's image, too; of the
    empty beach nobody asked."""
    queries = [
        {"query_id": "q_1", "text": "Three dogs on the beach", "language": "en", "source_image_id": "img_dog"},
        {"query_id": "q_2", "text": "狗 沙滩", "style": "keywords", "source_image_id": "img_dog"},
        {"query_id": "q_3", "text": "三只狗在沙滩", "source_image_id": "img_dog"},
        {"query_id": "q_4", "text": "一艘船", "source_image_id": "img_boat"},
        {"query_id": "q_5", "text": "一艘红色的船", "source_image_id": "img_ship"},
    ]
    rows = [(f"q_{n}", "img_dog", 1) for n in (1, 2, 3)]
    rows += [("q_4", "img_boat", 1), ("q_4", "img_ship", 1), ("q_5", "img_ship", 1)]
    ledger = make_ledger(
        [
            ("cat.jpg · zh/caption", "caption", "clean", "rejected", "refusal", {"text": "抱歉，我看不到图片"}),
            ("ant.jpg · zh/caption", "caption", "clean", "rejected", "empty", {}),
            ("fox.jpg · en/caption", "caption", "clean", "rejected", "refusal", {"text": "I cannot see it"}),
            ("q_9", "caption", "elsewhere", "pending", "too_many_rivals", {}),
            ("q_9", "caption", "ambiguity", "rejected", "repeated_query", {"text": "一艘船"}),
        ]
    )
    images = images_table(["boat", "dog", "empty", "ship"])
    return Tables(queries_table(queries), images, qrels_table(sorted(rows)), ledger)


def make_ambiguity_example(query_id: str = "q_4", **changes: Any) -> dict[str, Any]:
    evidence = "all of it is said: 一艘红色的船"
    rival = {"image_id": "img_ship", "text": "一艘红色的船", "score": 1.0, "evidence": evidence}
    base = {"query_id": query_id, "text": "一艘船", "language": "zh", "image_id": "img_boat", "rivals": [rival]}
    return {**base, "outcome": "merged", "new_text": None, **changes}


def make_ambiguity(*examples: dict[str, Any], **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "policy": "merge",
        "before": {"queries": 6, "ambiguous": 2, "share": 0.3333},
        "after": {"queries": 5, "ambiguous": 0, "share": 0.0},
        "rivals": 2,
        "rounds": [],
        "then": None,
        "seen": {"captions": "char_ngrams", "images": None, "descriptions": None},
    }
    return {**base, "examples": list(examples), **changes}


def make_caption_figures(**changes: Any) -> dict[str, Any]:
    openings = [{"text": "三只狗在", "count": 3, "share": 0.5, "example": "三只狗在沙滩"}]
    return {
        "asked": 9,
        "replies": 8,
        "rejected": {"empty": 1, "refusal": 2},
        "stripped": {"en": [], "zh": [{"text": "这张图片展示了", "count": 4}]},
        "openings": {"en": [], "zh": openings},
        **changes,
    }


def make_candidate_judgments(*rows: tuple[str, str, float]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["query_id", "image_id", "score"]).assign(evidence="captions alike: 一艘船")
    return frame.astype({"score": np.float32})


def make_manifest(set_: Tables, **changes: Any) -> dict[str, Any]:
    stage = {"stage": "clean", "kind": "caption", "entered": 8, "accepted": 6, "quarantined": {}, "pending": {}}
    return {
        "schema_version": 2,
        "name": "beach",
        "version": 1,
        "title": "The beach 海边",
        "kind": "recall",
        "licence": "",
        "configuration": {"render": {"mode": "squash"}},
        "notes": {"captions": make_caption_figures(), "ambiguity": make_ambiguity(make_ambiguity_example())},
        "counts": count_set(set_),
        "grades": {"1": "the caption was written of this image"},
        "thresholds": [],
        "parent": None,
        "funnel": [{**stage, "rejected": {"refusal": 2}}],
        "known_limitations": ["A caption may fit an image that nobody looked at."],
        "decisions": {"in_effect": [], "stale": []},
        "content_digest": "c0ffee",
        "build_digest": "b0b",
        "files": [{"path": "qrels.parquet", "rows": 3, "bytes": 1234, "sha256": "ab"}],
        "inputs": [{"file": "album", "sha256": "cd"}],
        **changes,
    }


def pairs_of(set_: Tables) -> list[tuple[str, str, int]]:
    return list(set_.qrels[["query_id", "image_id", "relevance"]].itertuples(index=False, name=None))
