"""Worlds that several stories share: photos, albums with captions, what a chat model answers, and sets that are built
of definitions."""

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from builders.publication import BuildResult
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.sets import set_files
from tests.images import draw_scene
from tests.loopback import CannedResponse, ReceivedRequest


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


CAPTIONS = {
    "beach": "三只狗在沙滩上奔跑",
    "park": "公园里有一辆红色的自行车",
    "street": "街边有一辆公交车",
    "street2": "一辆公交车，在街边",
    "lake": "湖边有一只白色的鸟和一条船",
}


def draw_album(folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        draw_scene(number).save(folder / f"{name}.png")


def write_captions(place: Path, captions: Mapping[str, str], language: str = "zh") -> None:
    """`captions.csv`, with the caption of each image of an album by its name."""
    rows = ["file_name,language,caption", *[f"{name}.png,{language},{text}" for name, text in captions.items()]]
    (place / "captions.csv").write_text("\n".join(rows), encoding="utf-8")


def make_album(place: Path, captions: Mapping[str, str] = CAPTIONS) -> Path:
    """An album of five images with these captions; returns the place."""
    draw_album(place / "album", list(CAPTIONS))
    write_captions(place, captions)
    return place


def recall_keys(place: Path, *more: str, name: str = "album") -> list[str]:
    shared = [f"name={name}", f"out={place / 'sets'}", "render.size=64", "ambiguity.text_embedder=char_ngrams"]
    return [*shared, "lose_at_most=null", f"images={place / 'album'}", *more]


def caption_keys(place: Path, *more: str) -> list[str]:
    return recall_keys(place, "captions.model=captions_file", f"captions.options.path={place / 'captions.csv'}", *more)


def build_recall(given: Sequence[str], **run: Any) -> BuildResult:
    return build_of("recall", given, **run)


def truth_of(result: BuildResult) -> dict[str, set[str]]:
    """Per caption the names of its images."""
    tables = set_files.read_set(result.path).tables
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    found: dict[str, set[str]] = {text: set() for text in texts.values()}
    for row in tables.qrels[tables.qrels["relevance"] > 0].itertuples():
        found[texts[row.query_id]].add(names[row.image_id].removesuffix(".png"))
    return found


def stage_of(result: BuildResult, name: str) -> dict[str, Any]:
    return next(one for one in result.manifest["funnel"] if one["stage"] == name)


def shown_image(asked: ReceivedRequest, album: Path) -> str:
    """Which image an endpoint was shown, by the bytes of what was rendered."""
    (message,) = asked.json["messages"]
    url = next(part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url")
    digest = hashlib.sha256(base64.b64decode(url.partition(",")[2])).hexdigest()
    stored = set_files.read_set(set_files.find_set(str(album / "sets" / "images"))).tables.images
    for place, name in zip(stored["path"], stored["file_name"], strict=True):
        if hashlib.sha256((album / "sets" / "images" / "v1" / place).read_bytes()).hexdigest() == digest:
            return str(name).removesuffix(".png")
    raise AssertionError("an unknown image")


def caption_reply(text: str, finish: str = "stop") -> CannedResponse:
    return chat_reply(text, finish, {"prompt_tokens": 9, "completion_tokens": 9})


def save_photo(path: Path, seed: int, day: int = 1, place: tuple[float, float] | None = None, **options: Any) -> None:
    """A JPEG with a time, and a place where one is given."""
    image = draw_scene(seed, options.pop("size", (160, 120)))
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = f"2024:05:{day:02} 10:00:00"
    if place:
        gps = exif.get_ifd(0x8825)
        gps[1], gps[2], gps[3], gps[4] = "N", (place[0], 0.0, 0.0), "E", (place[1], 0.0, 0.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, exif=exif, **{"quality": 90, **options})


def define_gallery(folder: Path, images: Any, **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gallery.yaml"
    keys = {"name": "pile", "kind": "gallery", "images": str(images), "out": str(folder / "sets"), "lose_at_most": None}
    keys |= more
    path.write_text(json.dumps(keys))
    return path


def define_recall(place: Path, captions: Mapping[str, str] = CAPTIONS, /, **more: object) -> Path:
    """The file of a recall set of an album with these captions."""
    make_album(place, captions)
    keys = {"name": "album", "kind": "recall", "images": "album", "render": {"size": 64}, "out": str(place / "sets")}
    keys["captions"] = {"model": "captions_file", "options": {"path": "captions.csv"}}
    keys["ambiguity"] = {"text_embedder": "char_ngrams"}
    (place / "album.yaml").write_text(yaml.safe_dump(keys | more), "utf-8")
    return place / "album.yaml"


def fill_pile(folder: Path) -> Path:
    """Twelve good photos, a copy, a copy without its metadata, a smaller and a darker version, a banner, a text, a
    broken file, a FIFO and a link out of the folder."""
    for n in range(12):
        save_photo(folder / f"day {n % 4}" / f"{n:02}.jpg", n, day=n % 4 + 1, place=(10.0 + n % 3, 20.0))
    shutil.copy(folder / "day 0" / "00.jpg", folder / "copy of 00.jpg")
    data = (folder / "day 1" / "01.jpg").read_bytes()
    (folder / "day 1" / "01 without exif.jpg").write_bytes(data[:2] + data[4 + int.from_bytes(data[4:6], "big") :])
    draw_scene(2).resize((120, 90)).save(folder / "02 small.jpg", quality=80)
    draw_scene(3).point(lambda value: int(value * 0.85)).save(folder / "03 darker.png")
    draw_scene(50, (600, 60)).save(folder / "banner.png")
    (folder / "notes.txt").write_text("no image")
    (folder / "torn.jpg").write_bytes((folder / "day 0" / "04.jpg").read_bytes()[:-900])
    os.mkfifo(folder / "pipe.jpg")
    (folder.parent / "outside.jpg").write_bytes(data)
    (folder / "link.jpg").symlink_to(folder.parent / "outside.jpg")
    return folder


def draw_photo(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_scene(seed).save(path, quality=90)
