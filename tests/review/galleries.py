"""Galleries for stories about their pages: as large as wished, with every kind of duplicate and reason."""

from typing import Any

import numpy as np
import pandas as pd

from builders.gallery.image_filters import build_filter_rules
from builders.gallery.page import QUALITY_SCORES, measure_score
from querytruth.records import DUPLICATES_SCHEMA, SCANNED_IMAGES_SCHEMA, empty_frame, from_arrow
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger, rejection_rows


def scan_table(number: int) -> pd.DataFrame:
    """Images of three places, three a day; every fifth without a place, every seventh without a time."""
    frame = from_arrow(SCANNED_IMAGES_SCHEMA.empty_table()).reindex(range(number))
    n = np.arange(number)
    days = pd.Series([f"2024-{1 + k // 90 % 12:02}-{1 + k // 3 % 30 % 28:02}T10:00:00" for k in n], dtype="str")
    return frame.assign(
        item=[f"2024/photo{k:05}.jpg" for k in n],
        image_id=[f"img_{int(k) * 0x9E3779B1 % (1 << 32):020x}" for k in n],
        width=np.where(n % 4, 640, 480).astype("int32"),
        height=np.where(n % 4, 480, 640).astype("int32"),
        taken_at=days.where(n % 7 > 0),
        latitude=np.where(n % 5, 31.2 + n % 3, np.nan),
        longitude=np.where(n % 5, 121.4, np.nan),
        format="JPEG",
        **{score: (0.1 + n % 9 / 10).astype("float32") for score in QUALITY_SCORES},
    )


def images_table(frame: pd.DataFrame) -> pd.DataFrame:
    images = empty_frame("images").reindex(range(len(frame)))
    for column in ("image_id", "width", "height", "taken_at", "latitude", "longitude"):
        images[column] = frame[column].to_numpy()
    return images.assign(file_name=frame["item"].to_numpy(), licence="CC0-1.0")


def groups_table(frame: pd.DataFrame, *sizes: int) -> pd.DataFrame:
    """Duplicate groups of so many members; the representatives are the first images of the frame."""
    rows: list[tuple[Any, ...]] = []
    for number, size in enumerate(sizes):
        image = frame.iloc[number]
        rows.append((f"dup_{number:03}", image["image_id"], image["item"], 640, 480, True, None, None, None))
        for twin in range(1, size):
            match_kind, distance = [("views", twin % 7), ("bytes", None), ("pixels", None)][twin % 3]
            name = f"copies/{number}/{twin}.jpg"
            rows.append(
                (f"dup_{number:03}", f"img_twin{number}_{twin}", name, 600, 450, False, match_kind, distance, None)
            )
    table = pd.DataFrame(rows, columns=DUPLICATES_SCHEMA.names)
    return table.assign(distance=table["distance"].astype("float64"), is_representative=table["is_representative"] == 1)


def make_gallery_tables(number: int = 40, *sizes: int) -> Tables:
    frame, ledger = scan_table(number), Ledger()
    duplicates = groups_table(frame, *(sizes or (4, 2)))
    twins = list(duplicates.loc[~duplicates["is_representative"], "item"])
    broken, wide = [f"broken/{n}.jpg" for n in range(3)], [f"wide/{n}.jpg" for n in range(9)]
    listed = number + len(twins) + len(broken) + len(wide)
    ledger.record_stage(
        "scan", "image", listed, listed - 3, rejection_rows(broken, "quarantined", "truncated", detail="ends")
    )
    ratios = {"measure": "ratio", "value": [10.0 + n for n in range(9)], "threshold": 5}
    ledger.record_stage(
        "filter", "image", listed - 3, number + len(twins), rejection_rows(wide, "rejected", "too_wide", **ratios)
    )
    ledger.record_stage(
        "near_duplicates", "image", number + len(twins), number, rejection_rows(twins, "rejected", "duplicate")
    )
    return Tables(empty_frame("queries"), images_table(frame), empty_frame("qrels"), ledger.rows(), duplicates)


def scan_figures(frame: pd.DataFrame) -> dict[str, Any]:
    """What a build notes of the scan of these images."""
    formats = frame["format"].value_counts().to_dict()
    return {"formats": formats, "scores": {name: measure_score(frame[name]) for name in QUALITY_SCORES}}


def make_manifest(tables: Tables, **changes: Any) -> dict[str, Any]:
    stage = {"kind": "image", "pending": {}, "rejected": {}, "quarantined": {}}
    return {
        "name": "album",
        "version": 3,
        "title": "Our album",
        "kind": "gallery",
        "licence": "",
        "configuration": {"render": {"size": 512, "mode": "squash"}},
        "thresholds": [rule.threshold_record() for rule in build_filter_rules(min_sharpness=0.25, max_brightness=0.85)],
        "funnel": [{**stage, "stage": "scan", "entered": 60, "accepted": 57, "quarantined": {"truncated": 3}}],
        "notes": {"scan": scan_figures(scan_table(len(tables.images)))},
        "known_limitations": ["Clocks may be wrong."],
        "parent": None,
        "decisions": {"in_effect": [], "stale": []},
        "content_digest": "c0ffee",
        "build_digest": "b0b",
        "files": [{"path": "images.parquet", "rows": 40, "bytes": 1234, "sha256": "ab"}],
        "inputs": [{"file": "images", "sha256": "cd"}],
        **changes,
    }
