"""Images whose JPEG data are damaged, in a gallery and in another publisher's set."""

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.imported_set import ImportDefinition
from flows.definition_loader import load_definition
from flows.import_set import import_set
from flows.set_kinds import build_set
from querytruth.backends.images.jpeg_files import read_plain_jpeg_header
from querytruth.sets import set_files


def encoded(seed: int, size: tuple[int, int]) -> bytes:
    values, out = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8), io.BytesIO()
    Image.fromarray(values).resize(size, Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    return out.getvalue()


def damaged(data: bytes) -> bytes:
    """All but the last codes, closed by an end mark."""
    header = read_plain_jpeg_header(data)
    assert header is not None
    return data[: header.coded_from + (len(data) - header.coded_from) * 19 // 20] + b"\xff\xd9"


def test_a_damaged_file_does_not_stand_for_a_smaller_whole_one(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "large.jpg").write_bytes(damaged(encoded(1, (640, 480))))
    (tmp_path / "photos" / "small.jpg").write_bytes(encoded(1, (320, 240)))
    keys = {"name": "pile", "kind": "gallery", "images": str(tmp_path / "photos"), "out": str(tmp_path / "sets")}
    (tmp_path / "gallery.yaml").write_text(json.dumps(keys))
    result = build_set(load_definition(tmp_path / "gallery.yaml", [], "gallery"))
    tables = set_files.read_set(result.path).tables
    assert tables.images["file_name"].tolist() == ["small.jpg"]
    row = tables.ledger.set_index("item").loc["large.jpg"]
    assert row[["stage", "bucket", "reason"]].tolist() == ["scan", "quarantined", "damaged"]
    assert row["detail"] == "Corrupt JPEG data: premature end of data segment"


@pytest.mark.thorough
def test_a_publishers_damaged_image_stays_and_does_not_represent_its_group(tmp_path: Path) -> None:
    """The publisher's figures are made with it."""
    large, small = damaged(encoded(1, (640, 480))), encoded(1, (320, 240))
    source = tmp_path / "muge"
    source.mkdir()
    query = {"query_id": 1, "query_text": "红色", "item_ids": [10, 11]}
    (source / "MR_valid_queries.jsonl").write_text(json.dumps(query, ensure_ascii=False), "utf-8")
    lines = [f"{number}\t{base64.b64encode(data).decode()}\n" for number, data in ((10, large), (11, small))]
    (source / "MR_valid_imgs.tsv").write_text("".join(lines))
    definition = ImportDefinition(
        kind="imported", name="muge", format="muge", annotations=source, out=tmp_path / "sets"
    )
    tables = set_files.read_set(import_set(definition).path).tables
    assert len(tables.images) == 2 and len(tables.qrels) == 2
    widths = dict(zip(tables.duplicates["width"], tables.duplicates["is_representative"], strict=True))
    assert widths == {640: False, 320: True}
