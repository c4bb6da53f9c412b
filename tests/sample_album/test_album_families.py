"""The sample album's questions about numbers, sizes, places, absence and colours, against the drawn scenes."""

from pathlib import Path

import pytest

from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.sample_album.album import AlbumImage
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER, write_sample_album
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from tests.family_oracle import Box, judge
from tests.sample_album.conftest import AnnotatedImage

FAMILIES = ("count", "size", "spatial", "negation", "attribute")
pytestmark = pytest.mark.thorough  # a set is built


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder: Path = tmp_path_factory.mktemp("families")
    write_sample_album(folder)
    places = [f"annotations={folder / 'annotations.json'}", f"images={folder / 'images'}", f"out={folder}"]
    definition = load_definition(SAMPLE_DEFINITIONS_FOLDER / "families.yaml", places, "precision")
    return set_files.read_set(build_set(definition).path).tables


def test_all_families_are_asked_in_both_languages(tables: Tables) -> None:
    asked = tables.queries[tables.queries["family"].notna()]
    families = set(zip(asked["language"], asked["family"].str.split("/").str[0], strict=True))
    assert families == {(one, name) for one in ("zh", "en") for name in FAMILIES}
    assert asked["twin"].notna().all()


def test_numbers_and_absences_are_those_of_the_drawn_scenes(tables: Tables, album: list[AlbumImage]) -> None:
    """`facts` are what the scene was drawn from, and not its boxes."""
    scenes = {image.file_name: image.facts for image in album}
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    by_query = tables.queries.set_index("query_id")[["text", "family", "labels"]].to_dict("index")
    checked = 0
    for row in tables.qrels.itertuples():
        text, family, labels = by_query[row.query_id].values()
        if not isinstance(family, str) or family.startswith(("size", "spatial", "attribute")):
            continue
        seen = [sum(count for one, _, count in scenes[names[row.image_id]] if one == label) for label in labels]
        if not scenes[names[row.image_id]]:
            continue  # a faulty file, whose boxes are only claimed
        is_right = {"count/2": seen[0] == 2, "count/3+": seen[0] >= 3, "negation/without": seen[0] > 0 == seen[-1]}
        assert (row.relevance > 0) == is_right[family], (text, names[row.image_id])
        checked += 1
    assert checked > 1000


def test_colours_are_those_of_the_drawn_scenes(tables: Tables, album: list[AlbumImage]) -> None:
    """`facts` are what the scene was drawn from: a label in a colour. Of a person it is the colour of the clothes."""
    scenes = {image.file_name: image.facts for image in album}
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    by_query = tables.queries.set_index("query_id")[["text", "family", "labels"]].to_dict("index")
    grades = []
    for row in tables.qrels.itertuples():
        text, family, labels = by_query[row.query_id].values()
        if isinstance(family, str) and family.startswith("attribute/"):
            colour = family.removeprefix("attribute/").removeprefix("in ")
            seen = {shown for label, shown, _ in scenes[names[row.image_id]] if label == labels[0]}
            assert seen and (row.relevance > 0) == (colour in seen), (text, names[row.image_id])
            assert ("in " in family) == (labels[0] == "Person")
            grades.append(row.relevance)
    assert len(grades) > 1000 and 0 in grades


def test_sizes_and_places_are_those_of_the_drawn_boxes(tables: Tables, annotated: dict[str, AnnotatedImage]) -> None:
    drawn = {
        name: [
            Box(
                box.label,
                box.x / image.width,
                box.y / image.height,
                (box.x + box.width) / image.width,
                (box.y + box.height) / image.height,
            )
            for box in image.boxes
        ]
        for name, image in annotated.items()
    }
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    by_query = tables.queries.set_index("query_id")[["text", "family", "labels"]].to_dict("index")
    kinds = set()
    for row in tables.qrels.itertuples():
        text, family, labels = by_query[row.query_id].values()
        if isinstance(family, str) and family.startswith(("size", "spatial")):
            verdict = judge(family, list(labels), drawn[names[row.image_id]])
            assert verdict == (row.relevance > 0), (text, names[row.image_id])
            kinds.add(family)
    assert {"spatial/left", "spatial/right"} <= kinds and any(kind.startswith("size") for kind in kinds)
