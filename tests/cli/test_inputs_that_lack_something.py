"""Inputs that lack something, as a user gives them: one line with the next step."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from builders.publication import BuildResult
from querytruth.cli import build_output
from tests.images import draw_scene

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """Eight images, half of them annotated in each of two files; a folder without any of them."""
    for folder in ("images", "elsewhere"):
        (tmp_path / folder).mkdir()
    for number in range(8):
        image = draw_scene(number)
        image.save(tmp_path / "images" / f"{number}.png")
    image.save(tmp_path / "elsewhere" / "holiday.png")
    for name, numbers in (("first", range(4)), ("second", range(4, 8))):
        images = [{"id": n, "file_name": f"{n}.png", "width": 160, "height": 120} for n in numbers]
        boxes = [{"id": n, "image_id": n, "category_id": 1 + n % 2, "bbox": [10, 10, 100, 90]} for n in numbers]
        categories = [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}]
        content = {"images": images, "annotations": boxes, "categories": categories}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_a_folder_without_the_annotated_images_stops_the_plan_and_the_build(run: Run, annotated: Path) -> None:
    run("init", "precision", "--annotations", "first.json", "--images", "elsewhere", "--out", "pets.yaml")
    for words in (["--plan"], []):
        _, err = run("build", "precision", "pets.yaml", *words, code=1)
        assert (
            "contains none of the 4 annotated images (4 image missing)" in err
            and "Next: set images to the folder" in err
        )
    assert not (annotated / "datasets" / "first" / "v1").exists()


def test_two_annotation_files_give_one_set(run: Run, annotated: Path) -> None:
    run("init", "precision", "--annotations", "first.json", "--annotations", "second.json", "--out", "pets.yaml")
    assert yaml.safe_load((annotated / "pets.yaml").read_text())["annotations"] == ["first.json", "second.json"]
    plan = json.loads(run("build", "precision", "pets.yaml", "--plan", "--json")[0])
    assert next(stage["entered"] for stage in plan["funnel"] if stage["stage"] == "images") == 8


@pytest.mark.parametrize("more", [[], ["--plan"]])
def test_a_file_where_sets_are_to_lie(run: Run, annotated: Path, more: list[str]) -> None:
    (annotated / "FILE").write_text("mine")
    for out in ("FILE", "FILE/below"):
        _, err = run("build", "gallery", "--set", "images=images", "--set", f"out={out}", *more, code=1)
        assert (
            "FILE (read definition): is a file, but the sets need a folder here. Next: set `out` to another folder"
            in err
        )
    assert (annotated / "FILE").read_text() == "mine"


@pytest.mark.parametrize("name", ["queries.parquet", "images/checksums.parquet"])
@pytest.mark.thorough
def test_verify_names_the_one_file_that_is_damaged(run: Run, annotated: Path, name: str) -> None:
    """And not the images, which only an undamaged table lists."""
    run("init", "precision", "--annotations", "first.json", "--images", "images", "--out", "pets.yaml")
    run("build", "precision", "pets.yaml", "--set", "searchable.min_images=1", "--set", "render.size=32")
    version = annotated / "datasets" / "first" / "v1"
    damaged = bytearray((version / name).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (version / name).write_bytes(damaged)
    outcome = json.loads(run("verify", "first", "--json", code=1)[0])
    assert outcome["problems"] == [f"{name}: its checksum does not match"]


def test_the_command_and_the_page_state_the_same_share(capsys: pytest.CaptureFixture[str]) -> None:
    """261 of 1,487 are 17.552%: 17.6%, also where the share is stored with four decimals."""
    from querytruth.formats.set_card import format_share

    part = {"queries": 1487, "ambiguous": 261, "share": 0.1755}
    figures = {"before": part, "after": part, "policy": "merge"}
    counts = {"images": 1, "queries": 0, "judgments": 0, "by_level": {}, "duplicate_groups": 0}

    manifest = {"funnel": [], "name": "a", "counts": counts, "notes": {"ambiguity": figures}}
    result = BuildResult(Path("a/v1"), 1, True, manifest, ())
    build_output.show_build_result(result)
    printed = " ".join(capsys.readouterr().out.split())
    assert format_share(part) == "17.6%" and "261 of 1,487 captions (17.6%) before" in printed
