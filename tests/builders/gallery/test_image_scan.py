"""Columns of a scan, read for the rows that a step wants."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from builders.gallery.image_scan import ScannedImages
from querytruth.backends.files.parquet_files import write_checked
from querytruth.backends.images import scan_parts
from querytruth.backends.images.image_sources import open_source
from querytruth.records import SCANNED_IMAGES_SCHEMA

DIGESTS = ["a", "b", None, "a", "c", "b", "d", None, "e", "a"]


@pytest.fixture
def scanned(tmp_path: Path) -> ScannedImages:
    """Ten images in the parts of a scan, with these digests in the order of their names."""
    names = [f"{n}.jpg" for n in range(len(DIGESTS))]
    jobs = scan_parts.plan_scan_parts(open_source(str(tmp_path)), pa.array(names), tmp_path)
    for job in jobs:
        rows = [{"item": item, "sha256": DIGESTS[names.index(item)], "width": 7} for item in job.items.to_pylist()]
        write_checked(job.path, pa.Table.from_pylist(rows, SCANNED_IMAGES_SCHEMA))
    return ScannedImages(jobs)


@pytest.mark.parametrize("has_one_hash", [False, True])
def test_equal_texts_have_equal_numbers(
    scanned: ScannedImages, has_one_hash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_one_hash:  # as two texts may have by chance
        monkeypatch.setattr(scan_parts, "hash_array", lambda texts, **_: np.zeros(len(texts), np.uint64))
    for rows in (np.arange(10), np.array([9, 3, 4, 2, 0]), np.array([], dtype=np.int64)):
        texts = [DIGESTS[row] for row in rows]
        codes = scanned.factorize_column("sha256", rows)
        for one in range(len(rows)):
            for other in range(one):
                is_same = texts[one] is not None and texts[one] == texts[other]
                assert (codes[one] == codes[other]) == is_same


def test_a_frame_has_the_wanted_rows_in_their_order(scanned: ScannedImages) -> None:
    frame = scanned.to_frame(["image_id", "item", "width"], np.array([9, 1]))
    expected = {"image_id": ["img_a", "img_b"], "item": ["9.jpg", "1.jpg"], "width": [7, 7]}
    assert frame.astype({"width": "int64"}).to_dict("list") == expected
    assert pd.isna(scanned.to_frame(["image_id"])["image_id"][2])
