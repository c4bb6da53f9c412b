"""What leaves the house unasked: no owner or device in an image file, no folder or host of this machine, no address."""

import csv
import platform
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

import querytruth as qt
from builders.publication import publish_decisions
from querytruth.formats import exporters
from querytruth.sets import decision_log, set_files
from querytruth.sets.decision_records import QueryDecision
from tests.images import draw_scene
from tests.worlds import build_of

OWNER, REVIEWER = "Rosalind-Owner-7731", "mo.tanaka@post.example"


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The second version of a set whose images are photos of a person, judged by a person with an address."""
    place = tmp_path_factory.mktemp("home-of-rosalind")
    (place / "photos").mkdir()
    names = ["a.jpg", "b.jpg", "c.jpg"]
    for number, name in enumerate(names):
        exif = Image.Exif()
        exif.update({0x013B: OWNER, 0x010E: OWNER})
        draw_scene(number).save(place / "photos" / name, exif=exif, comment=OWNER)
    with (place / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("image", "text"), *((name, f"a scene called {name[0]}") for name in names)])
    keys = [f"annotations={place / 'pairs.csv'}", f"images={place / 'photos'}", "format=pairs", "name=mine"]
    first = build_of("imported", [*keys, f"out={place / 'sets'}"])
    tables = set_files.read_set(first.path).tables
    query, image = tables.queries.iloc[0], str(tables.images["image_id"].iloc[-1])
    decision = QueryDecision(query["query_id"], query["text"], "grade", image, relevance=1, reviewer=REVIEWER)
    decision_log.append_decisions(first.path.parent, [decision])
    return publish_decisions(first.path).path


def find_planted(folder: Path, home: Path) -> list[str]:
    planted = [OWNER, REVIEWER, home.name, platform.node() * (len(platform.node()) > 4) or OWNER]
    found = []
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        data = file.read_bytes()
        if file.suffix == ".parquet":
            data += pd.read_parquet(file).to_csv().encode()
        data += str(file.relative_to(folder)).encode()
        found += [f"{word} in {file.name}" for word in planted if word.encode() in data]
    return found


@pytest.mark.parametrize("name", sorted(exporters.EXPORTERS.list_plugins()))
def test_no_export_has_what_is_private(version: Path, tmp_path: Path, name: str) -> None:
    qt.load(version).export(name, tmp_path / "out", allow_loss=True)
    assert any(tmp_path.rglob("*")) and find_planted(tmp_path / "out", version.parents[2]) == []


def test_an_export_has_it_where_that_is_asked(version: Path, tmp_path: Path) -> None:
    qt.load(version).export("csv", tmp_path / "out", allow_loss=True, private=False, with_places=True)
    assert {one.split(" in ")[0] for one in find_planted(tmp_path / "out", version.parents[2])} == {OWNER}


def test_a_version_that_names_folders_is_not_published_unasked(version: Path, tmp_path: Path) -> None:
    with pytest.raises(qt.UserError, match="contains paths on this machine for 3 images"):
        qt.load(version).publish((tmp_path / "shared").as_uri())
    assert qt.load(version).publish((tmp_path / "shared").as_uri(), private=False).is_new


def test_a_published_manifest_has_neither_host_nor_folders(version: Path, tmp_path: Path) -> None:
    place = tmp_path / "home-of-rosalind"
    keys = [f"annotations={version.parents[2] / 'pairs.csv'}", f"images={version.parents[2] / 'photos'}"]
    keys += ["format=pairs", "name=mine", f"out={place / 'sets'}", "render.size=64"]
    here = build_of("imported", keys).path
    query = set_files.read_set(here).tables.queries.iloc[0]
    decision = QueryDecision(query["query_id"], query["text"], "keep", reviewer=REVIEWER)
    decision_log.append_decisions(here.parent, [decision])
    assert qt.load(here).publish((tmp_path / "shared").as_uri()).is_new
    assert find_planted(tmp_path / "shared", place) == []
    assert not qt.load(here).publish((tmp_path / "shared").as_uri()).is_new
    fetched = qt.fetch(f"{(tmp_path / 'shared').as_uri()}/mine", tmp_path / "there")
    assert not list(fetched.path.parent.glob("*.jsonl")) and not list(set_files.verify_set(fetched.path))


def test_evidence_has_a_name_and_no_address() -> None:
    assert QueryDecision("q", "t", "drop", "i", reviewer="lin").evidence == "drop by lin"
    assert QueryDecision("q", "t", "drop", "i", reviewer=REVIEWER).evidence == "drop by a person"
    assert QueryDecision("q", "t", "drop", "i", note="blurred", reviewer="lin").evidence == "blurred"
