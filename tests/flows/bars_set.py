"""A recall set of 48 drawn images: bars of four colours in three places, a caption each."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run

COLOURS = {"red": (220, 40, 30), "green": (40, 180, 60), "blue": (40, 60, 220), "yellow": (230, 210, 40)}
PLACES = {"left": (0, 24), "middle": (36, 60), "right": (72, 96)}


def draw_bars(folder: Path, copies: int = 4) -> None:
    """A bar on noise per image, and a caption that says which."""
    folder.mkdir()
    rows = ["file_name,language,caption"]
    number = 0
    for colour, shade in COLOURS.items():
        for place, (left, right) in PLACES.items():
            for copy in range(copies):
                rng = np.random.default_rng(number)
                small = rng.integers(60, 160, (6, 8, 3), dtype=np.uint8)
                pixels = np.array(Image.fromarray(small).resize((96, 72), Image.Resampling.BICUBIC))
                pixels[:, left:right] = shade
                Image.fromarray(pixels).save(folder / f"{number:03}.png")
                rows.append(f"{number:03}.png,en,a {colour} bar {place} on image number {copy} of {number}")
                number += 1
    (folder.parent / "captions.csv").write_text("\n".join(rows), encoding="utf-8")


def write_bars_set(folder: Path) -> Path:
    """Draw and publish `sets/bars` below the folder; where the version lies."""
    draw_bars(folder / "album")
    keys = ["name=bars", f"out={folder / 'sets'}", f"images={folder / 'album'}", "render.size=64"]
    keys += ["captions.model=captions_file", f"captions.options.path={folder / 'captions.csv'}"]
    keys += ["captions.prompt=en/caption", "ambiguity.text_embedder=char_ngrams", "near_duplicates.distance=null"]
    with active_run(BuildRun()):
        return build_set(load_definition(None, keys, "recall")).path


SMALL_ENCODERS = {
    "images": {
        "architecture": "resnet",
        "options": {"embedding_size": 8, "hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1], "layer_type": "basic"},
    },
    "texts": {"architecture": "gru", "options": {"embedding": 16, "hidden": 16}},
    "heads": {"width": 16, "hidden": 16, "dimensions": 12},
}


def training_keys(place: Path, name: str, *more: str) -> list[str]:
    given = [f"{key}={json.dumps(value)}" for key, value in SMALL_ENCODERS.items()]
    shared = ["size=32", "split.validation=8", "split.test=12", "steps.batch=8", "steps.rate=0.01", "steps.stages=[]"]
    return [f"name={name}", f"set={place / 'sets' / 'bars'}", f"out={place / 'models'}", *given, *shared, *more]
