"""Sets that the code of schema version 1 published are read on, and built upon."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pandas as pd
import pytest

from backends.sets import decision_log, set_files
from backends.sets.version_1 import upgrade_ledger, upgrade_manifest
from builders.canary import make_canary
from builders.decisions.records import Override, QueryDecision
from builders.records import LEDGER_SCHEMA
from flows.definitions import load_definition
from flows.sample_album_files import draw_sample_album
from flows.set_kinds import build_set
from flows.set_publication import BuildResult, publish_decisions
from flows.steps import BuildRun, active_run
from review.rejection_cards import RejectionCards, RejectionContext
from review.rejection_table import RejectionFilter

DEFINITIONS = Path(__file__).parents[2] / "datasets" / "sample-album"
SETS = ("old-gallery", "old-drop", "old-merge")
NO_IMAGES = pd.DataFrame({"image_id": [], "file_name": []})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder with captions.csv and three sets: a gallery, and captions with the ambiguous ones left out or
    merged; decision logs beside them."""
    with tarfile.open(Path(__file__).with_name("version_1_sets.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def build(kind: str, **overrides: str) -> BuildResult:
    listed = [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]
    with active_run(BuildRun()):
        return build_set(load_definition(DEFINITIONS / f"{kind}.yaml", ["out=sets", *listed], kind))


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", "querytruth", *command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_they_open_and_verify_with_the_keys_and_codes_of_version_2(folder: Path) -> None:
    for name in SETS:
        path = set_files.find_set(f"sets/{name}")
        assert list(set_files.verify_set(path)) == []
        stored = set_files.read_set(path)
        assert stored.manifest["known_limitations"] and "faults" not in stored.manifest
        assert "picture" not in str(stored.manifest["funnel"])
        assert stored.tables.to_arrow_tables()["ledger"].schema.names == LEDGER_SCHEMA.names


def test_rejects_have_their_numbers_and_ids(folder: Path) -> None:
    gallery = set_files.read_set(folder / "sets" / "old-gallery" / "v1").tables.ledger.set_index("item")
    assert gallery.loc["2025/summer/beach_9006.jpg", ["kind", "measure", "value", "threshold"]].tolist() == [
        "image", "longer_side", 5200, 5000,
    ]  # fmt: skip
    assert gallery.loc["shared/copy_0027.jpg", "related_item"] == "2024/winter/park_0027.jpg"
    assert gallery.loc["2023/winter/street_9002.jpg", "reason"] == "not_an_image"
    tables = set_files.read_set(folder / "sets" / "old-drop" / "v1").tables
    captions = tables.ledger[tables.ledger["kind"] == "caption"]
    assert set(captions["image_id"]) <= set(tables.images["image_id"]) and captions["item_id"].notna().all()
    cards = RejectionCards(tables.ledger, RejectionContext(), "lin")
    shown = cards.build_cards(cards.build_queue(RejectionFilter(reason="ambiguous"))["keys"])
    boat = next(card for card in shown if card["language"] == "en")
    assert boat["text"] == "A sailboat with a brown bench by the lake." and boat["overridable"]
    assert boat["shown"]["id"] != boat["confusable"]["id"] and "all of it is said" in boat["detail"]


@pytest.mark.thorough
def test_the_commands_take_them(folder: Path) -> None:
    assert "old-merge" in run("show", "sets/old-merge")
    run("lint", "sets/old-merge")
    assert "1" in run("diff", "sets/old-merge/v1", "sets/old-merge")
    run("evaluate", "sets/old-merge", "--baseline", "oracle", "--out", "results")


def test_decisions_on_them_are_published_as_the_next_version(folder: Path) -> None:
    path = set_files.find_set("sets/old-merge")
    before = set_files.read_set(path)
    query = before.tables.queries.iloc[-1]
    drop = QueryDecision(query["query_id"], query["text"], "drop", note="of no use", reviewer="lin", at="2026-11-22")
    decision_log.append_decisions(path.parent, [drop])
    result = publish_decisions(path)
    stored = set_files.read_set(result.path)
    assert result.is_new and stored.manifest["schema_version"] == 2
    assert stored.manifest["parent"]["content_digest"] == before.manifest["content_digest"]
    assert "canary" not in before.manifest
    assert stored.manifest["canary"] == make_canary(stored.manifest["content_digest"])
    assert stored.manifest["canary"] in (result.path / "README.md").read_text("utf-8")
    assert len(stored.tables.queries) == len(before.tables.queries) - 1
    assert len(stored.tables.ledger) == len(before.tables.ledger) + 1
    assert list(set_files.verify_set(result.path)) == []


@pytest.mark.thorough
def test_a_build_on_top_says_unchanged_or_carries_the_decisions_over(folder: Path) -> None:
    draw_sample_album(folder / "album", 40)
    gallery = build("gallery", images="album/pictures", render__size="32", name="old-gallery")
    assert gallery.version == 2 and gallery.manifest["schema_version"] == 2
    assert gallery.manifest["parent"]["version"] == 1 and len(gallery.manifest["decisions"]["in_effect"]) == 2
    tables = set_files.read_set(gallery.path).tables
    assert "2025/summer/beach_9006.jpg" in set(tables.images["file_name"]), "rescued from the filter of version 1"
    twin = tables.ledger[tables.ledger["reason"] == "near_duplicate"].iloc[0]
    assert twin["measure"] == "hamming_distance" and twin["value"] <= 6
    places = {
        "captions__options__path": "captions.csv",
        "descriptions__options__path": "album/descriptions.csv",
        "gallery": "sets/old-gallery/v1",
    }
    log = Path("sets/old-drop/decisions.jsonl")
    log.rename("later.jsonl")
    captions = build("recall", **places, name="old-drop", sizes="[]", ambiguity__policy="drop")
    assert captions.version == 1 and not captions.is_new, "the content is the same"
    Path("later.jsonl").rename(log)
    captions = build("recall", **places, name="old-drop", sizes="[]", ambiguity__policy="drop")
    (rescued,) = captions.manifest["decisions"]["in_effect"]
    assert captions.version == 2 and rescued in {
        one.decision_id for one in decision_log.read_decisions(log.parent, Override)
    }


def test_the_sentences_of_other_kinds_are_read_too() -> None:
    rows = [
        ("q_1", "query", "search", "rejected", "too_few_results", "猫: 3 is under 100"),
        ("http://a/1", "result", "pictures", "quarantined", "not_found", "猫 #3: status 404"),
        ("http://a/2", "result", "results", "rejected", "too_small", "猫 #4: 80 x 90: 80 is under 112"),
        ("9", "query", "truth", "rejected", "no_picture_left", "a dog: brown"),
        ("x.jpg", "picture", "pictures", "rejected", "same_bytes", "img_1"),
        ("dog", "label", "labels", "rejected", "too_few_pictures", "3 pictures, prominent on 3"),
    ]
    frame = pd.DataFrame(rows, columns=["item", "kind", "stage", "bucket", "reason", "detail"])
    found = upgrade_ledger(frame, NO_IMAGES, {}).astype(object)
    columns = ["kind", "stage", "reason", "text", "rank", "measure", "value", "threshold", "detail"]
    assert found[columns].where(found[columns].notna(), None).to_numpy().tolist() == [
        ["query", "search", "too_few_results", "猫", None, "reported_results", 3, 100, None],
        ["result", "images", "not_found", "猫", 3, None, None, None, "status 404"],
        ["result", "results", "too_small", "猫", 4, "shorter_side", 80, 112, None],
        ["query", "truth", "no_image_left", "a dog: brown", None, None, None, None, None],
        ["image", "imported_images", "same_bytes", None, None, None, None, None, "img_1"],
        ["label", "labels", "too_few_images", None, None, None, None, None, "3 pictures, prominent on 3"],
    ]
    assert len(upgrade_ledger(frame[:0], NO_IMAGES, {})) == 0


def test_a_manifest_keeps_its_schema_version_and_all_else() -> None:
    stage = {"stage": "pictures", "kind": "picture", "entered": 1, "accepted": 0, "pending": {}, "quarantined": {}}
    manifest = {"schema_version": 1, "faults": ["a"], "name": "x", "funnel": [stage | {"rejected": {"no_pictures": 1}}]}
    upgraded = upgrade_manifest({**manifest, "configuration": {"captions": {"per_picture": 2}}})
    assert upgraded["configuration"] == {"captions": {"per_image": 2}}
    assert (upgraded["schema_version"], upgraded["known_limitations"], upgraded["name"]) == (1, ["a"], "x")
    assert upgraded["funnel"] == [stage | {"stage": "imported_images", "kind": "image", "rejected": {"no_images": 1}}]
