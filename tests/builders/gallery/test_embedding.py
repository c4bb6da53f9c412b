"""Images compared by what a model sees in them, each of them encoded once."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.models.embedders import clip
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets import set_files
from tests.images import draw_scene
from tests.tiny_dual_encoders import save_dual_encoder


@pytest.mark.thorough
def test_an_embedder_finds_what_hashes_do_not_and_encodes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = tmp_path / "album", save_dual_encoder("clip", tmp_path / "model")
    folder.mkdir()
    for n in range(4):
        draw_scene(n).save(folder / f"{n}.png")
    draw_scene(0).crop((20, 15, 160, 120)).save(folder / "crop of 0.png")
    (folder / "torn.png").write_bytes((folder / "0.png").read_bytes()[:300])
    # What the model says of the crop is the test's to set: a random model has no opinion of its own.
    encoded: list[int] = []
    real = clip.ClipEmbedder.encode_images

    def told(self: clip.ClipEmbedder, images: object) -> object:
        shown = list(images)  # type: ignore[call-overload]
        encoded.append(len(shown))
        vectors = real(self, shown)
        alike = [number for number, image in enumerate(shown) if image.size == (140, 105)]
        originals = [number for number, p in enumerate(shown) if p.size == (160, 120) and _is(p, 0)]
        vectors[:] = np.eye(len(vectors), vectors.shape[1], dtype=np.float32)
        for number in alike:
            vectors[number] = vectors[originals[0]]
        return vectors

    monkeypatch.setattr(clip.ClipEmbedder, "encode_images", told)
    keys = ["name=album", f"images={folder}", f"out={tmp_path / 'sets'}", "render=null"]
    embedder = [f"near_duplicates.embedder={model}"]
    with active_run(BuildRun()):
        without = build_set(load_definition(None, keys, "gallery"))
        found = build_set(load_definition(None, [*keys, *embedder], "gallery"))
        again = build_set(load_definition(None, [*keys, *embedder, "near_duplicates.cosine=0.9"], "gallery"))
    assert (without.manifest["counts"]["images"], found.manifest["counts"]["images"]) == (5, 4)
    duplicates = set_files.read_set(found.path).tables.duplicates
    assert duplicates.set_index("item")["matched_by"].to_dict()["crop of 0.png"] == "embedding"
    assert encoded == [5], "five images in one go, and none of them again"
    (told_model,) = found.manifest["models"]
    assert told_model["role"] == "near-duplicates" and told_model["revision"]
    assert {"near_duplicates.cosine"} < {cut["name"] for cut in again.manifest["thresholds"]}


def _is(image: Image.Image, seed: int) -> bool:
    difference = np.asarray(image, dtype=int) - np.asarray(draw_scene(seed), dtype=int)
    return bool(np.abs(difference).mean() < 10)


@pytest.mark.thorough
def test_a_real_tiny_model_runs_through_the_whole_build(tmp_path: Path) -> None:
    folder, model = tmp_path / "album", save_dual_encoder("chinese_clip", tmp_path / "model")
    folder.mkdir()
    for n in range(3):
        draw_scene(n).save(folder / f"{n}.png")
    draw_scene(0).save(folder / "same.bmp")
    keys = ["name=a", f"images={folder}", f"out={tmp_path / 'sets'}", "near_duplicates.cosine=1.0"]
    with active_run(BuildRun()):
        result = build_set(load_definition(None, [*keys, f"near_duplicates.embedder={model}"], "gallery"))
    assert result.manifest["counts"]["images"] == 3
    assert list(set_files.verify_set(result.path)) == []


@pytest.mark.thorough
def test_a_cut_among_random_images_is_refused_and_left_out_it_is_derived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = tmp_path / "album", save_dual_encoder("clip", tmp_path / "model")
    folder.mkdir()
    for n in range(100):
        draw_scene(n).save(folder / f"{n}.png")

    def see_all_alike(self: clip.ClipEmbedder, images: object) -> object:
        rows = np.random.default_rng(1).standard_normal((len(list(images)), self.dimensions)) + 6  # type: ignore[call-overload]
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    monkeypatch.setattr(clip.ClipEmbedder, "encode_images", see_all_alike)
    keys = ["name=album", f"images={folder}", f"out={tmp_path / 'sets'}", "render=null"]
    keys.append(f"near_duplicates.embedder={model}")
    with active_run(BuildRun()):
        with pytest.raises(
            UserError, match=r"0\.95 is in the range of random pairs of model: .* 10% .*remove near_duplicates\.cosine"
        ):
            build_set(load_definition(None, [*keys, "near_duplicates.cosine=0.95"], "gallery"))
        built = build_set(load_definition(None, keys, "gallery")).manifest
    cuts = {cut["name"]: cut["value"] for cut in built["thresholds"]}
    assert 0.95 < cuts["near_duplicates.cosine.background.high"] < cuts["near_duplicates.cosine"] < 1
    assert built["counts"]["images"] > 90, "hashes find three alike, the embedder none"
