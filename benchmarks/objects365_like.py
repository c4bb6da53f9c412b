"""An annotation file as large as Objects365's and in its form, made up: always the same for the same size."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

LABELS = Path(__file__).parents[1] / "datasets" / "objects365" / "labels.csv"
BLOCK = 50_000

_IMAGE = (
    '{"height": %d, "id": %d, "license": 5, "width": %d, '
    '"file_name": "images/v1/patch%d/objects365_v1_%08d.jpg", "url": ""}'
)
_BOX = (
    '{"id": %d, "iscrowd": 0, "isfake": 0, "area": %r, "isreflected": 0, "bbox": [%.10f, %.10f, %r, %r], '
    '"image_id": %d, "category_id": %d}'
)


def write_file(path: Path, images: int, boxes: int) -> None:
    """An annotation file like Objects365's; the same numbers give the same bytes."""
    with LABELS.open(encoding="utf-8", newline="") as file:
        names = [(int(row["id"]), row["name"]) for row in csv.DictReader(file)]
    chance = np.random.default_rng(0)
    frequency = 1 / np.arange(1, len(names) + 1)
    label = chance.choice([key for key, _ in names], boxes, p=frequency / frequency.sum())
    image = np.sort(chance.integers(0, images, boxes))
    width, height = chance.integers(400, 1300, images), chance.integers(400, 1000, images)
    keys = np.arange(images) * 7 + 100_001
    part = np.clip(chance.lognormal(-1.9, 0.8, (boxes, 2)), 0.01, 0.95)
    across, down = part[:, 0] * width[image], part[:, 1] * height[image]
    left, top = chance.random(boxes) * (width[image] - across), chance.random(boxes) * (height[image] - down)
    columns = (np.arange(1, boxes + 1), across * down, left, top, across, down, keys[image], label)

    def records() -> Iterable[str]:
        for start in range(0, boxes, BLOCK):
            yield from (_BOX % row for row in zip(*(c[start : start + BLOCK].tolist() for c in columns), strict=True))

    with path.open("w", encoding="utf-8") as file:
        listed = zip(
            height.tolist(),
            keys.tolist(),
            width.tolist(),
            (keys // 28_000).tolist(),
            keys.tolist(),
            strict=True,
        )
        file.write('{"images": [' + ", ".join(_IMAGE % row for row in listed) + '], "annotations": [')
        for number, record in enumerate(records()):
            file.write((", " if number else "") + record)
        file.write('], "categories": ' + json.dumps([{"name": name, "id": key} for key, name in names]))
        file.write(', "licenses": []}')
