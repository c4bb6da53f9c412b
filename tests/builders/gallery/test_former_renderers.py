"""Sets whose images an earlier release rendered, built again: what models were asked about stays as it is."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.publication import BuildResult
from flows.definition_loader import parse_definition
from flows.set_kinds import build_set
from querytruth.backends.files.durable_files import file_sha256
from querytruth.backends.images.rendering import render_image
from querytruth.sets import set_files
from querytruth.sets.set_files import record_digests


def draw(path: Path, seed: int) -> None:
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise).resize((160, 120), Image.Resampling.BICUBIC).save(path, quality=90)


def build(pile: Path) -> BuildResult:
    definition = {"name": "album", "images": str(pile), "out": str(pile.parent / "sets"), "render": {"size": 64}}
    return build_set(parse_definition(definition, "gallery", "test"))


def images_of(version: Path) -> dict[str, bytes]:
    """What a version shows, by the name of the source."""
    images = set_files.read_set(version).tables.images
    return {name: (version / path).read_bytes() for name, path in zip(images["file_name"], images["path"], strict=True)}


@pytest.fixture
def pile(tmp_path: Path) -> Path:
    """Six pictures, and a set of them whose only version has what another renderer made."""
    for seed in range(6):
        draw(tmp_path / "pile" / f"{seed}.jpg", seed)
    folder = build(tmp_path / "pile").path.parent
    former = folder / ".rendered" / "64-longer_side"
    (former / "rendered.txt").unlink()
    for path in former.rglob("*.jpg"):
        out = io.BytesIO()
        Image.open(path).save(out, "JPEG", quality=60)
        path.unlink()
        path.write_bytes(out.getvalue())
        record_digests(former, [(path.relative_to(former).as_posix(), file_sha256(path)[0])])
    for name in ("v1", "latest"):
        shutil.rmtree(folder / name) if name == "v1" else (folder / name).unlink()
    build(tmp_path / "pile")
    return tmp_path / "pile"


def rendered_now(pile: Path) -> dict[str, bytes]:
    return {path.name: render_image(path.read_bytes(), 64, "longer_side") for path in pile.iterdir()}


def test_a_set_that_grows_keeps_its_images_and_renders_the_new_one(pile: Path) -> None:
    folder = pile.parent / "sets" / "album"
    before = images_of(folder / "v1")
    assert not before.items() & rendered_now(pile).items(), "another renderer made them"
    assert build(pile).version == 1
    draw(pile / "new.jpg", 7)
    assert build(pile).version == 2
    assert images_of(folder / "v2") == before | {"new.jpg": rendered_now(pile)["new.jpg"]}
    assert [list(set_files.verify_set(folder / version)) for version in ("v1", "v2")] == [[], []]


@pytest.mark.parametrize("is_damaged", [True, False])
def test_one_file_that_is_damaged_or_lost_is_rendered_anew_alone(pile: Path, is_damaged: bool) -> None:
    folder = pile.parent / "sets" / "album"
    before = images_of(folder / "v1")
    images = set_files.read_set(folder / "v1").tables.images.set_index("file_name")
    former = folder / ".rendered" / "64-longer_side" / images["path"]["1.jpg"]
    whole = former.read_bytes()
    former.unlink()
    if is_damaged:
        former.write_bytes(whole[:-9])
    (pile / "0.jpg").unlink()
    second = build(pile)
    expected = before | {"1.jpg": rendered_now(pile)["1.jpg"]}
    assert second.version == 2 and images_of(second.path) == {
        name: expected[name] for name in expected if name != "0.jpg"
    }
