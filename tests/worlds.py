"""Worlds that several stories share: what a chat model answers, and a set that is built of a definition."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from builders.publication import BuildResult
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from tests.loopback import CannedResponse


def chat_reply(text: str, finish: str = "stop", usage: Mapping[str, int] | None = None) -> CannedResponse:
    """What an endpoint of OpenAI's form answers. `usage`: its counts of tokens, which not every endpoint gives."""
    choices = [{"message": {"content": text}, "finish_reason": finish}]
    return CannedResponse({"choices": choices, "model": "m"} | ({} if usage is None else {"usage": dict(usage)}))


def build_of(kind: str, definition: Path | Sequence[str], *overrides: str, **run: Any) -> BuildResult:
    """A set of a definition, a file or `key=value` words; `run`: options of the run, such as `offline`."""
    path, words = (definition, []) if isinstance(definition, Path) else (None, list(definition))
    with active_run(BuildRun(**run)):
        return build_set(load_definition(path, [*words, *overrides], kind))


def draw_labelled_images(folder: Path) -> list[str]:
    """Six images of noise with boxes of three labels, of which each image has two, and the words of a
    precision set of them."""
    (folder / "images").mkdir()
    noise = np.random.default_rng(0)
    names = [f"{number}.png" for number in range(6)]
    for name in names:
        pixels = noise.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((64, 48)).save(folder / "images" / name)
    images = [{"id": n, "file_name": name, "width": 64, "height": 48} for n, name in enumerate(names)]
    pairs = [(n, 1 + (n + more) % 3) for n in range(6) for more in (0, 1)]
    boxes = [{"id": k, "image_id": n, "category_id": c, "bbox": [5, 5, 50, 40]} for k, (n, c) in enumerate(pairs)]
    labels = [{"id": place, "name": name} for place, name in enumerate(("Cat", "Dog", "Person"), 1)]
    annotations = {"images": images, "annotations": boxes, "categories": labels}
    (folder / "boxes.json").write_text(json.dumps(annotations), "utf-8")
    places = [f"annotations={folder / 'boxes.json'}", f"images={folder / 'images'}", f"out={folder / 'sets'}"]
    return [*places, "searchable.min_images=1", "lose_at_most=null"]
