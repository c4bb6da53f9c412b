"""What holds for every exporter: nothing half there, nothing lost unsaid, nothing of other people's files."""

import json
from pathlib import Path

import pytest

from querytruth.errors import UserError
from querytruth.formats import exporters
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.set_files import StoredSet
from tests.resealed_sets import reseal
from tests.small_sets import gallery_tables, publish_small_set, small_tables


def test_an_unknown_format_and_a_folder_in_use_are_refused(stored: StoredSet, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown format. Next: did you mean 'trec'\?"):
        exporters.export_set("trek", stored, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.txt").write_text("keep")
    with pytest.raises(UserError, match="is not empty"):
        exporters.export_set("trec", stored, tmp_path / "mine")
    assert (tmp_path / "mine" / "mine.txt").read_text() == "keep"


@pytest.mark.parametrize("name", exporters.EXPORTERS.list_plugins())
@pytest.mark.thorough
def test_an_export_that_fails_leaves_nothing_behind(name: str, stored: StoredSet, tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if "sets" not in path.parts}
    (stored.path / stored.tables.images["path"].iloc[-1]).write_text("<html>no image</html>")
    reseal(stored.path)
    stored = set_files.read_set(stored.path)
    try:
        exporters.export_set(name, stored, tmp_path / "out", allow_loss=True)
    except UserError as error:
        assert "is not an image" in str(error)
        assert {path for path in tmp_path.rglob("*") if "sets" not in path.parts} == before
    else:
        assert name in ("trec", "beir"), "these hold no images"


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("webdataset", ["several relevant images", "grades", "judged not relevant", "without a relevant image"]),
        ("karpathy", ["several relevant images", "grades", "judged not relevant", "without a relevant image"]),
        ("chinese_clip", ["grades", "judged not relevant", "without a relevant image"]),
    ],
)
def test_what_would_change_the_figures_is_refused_by_name(
    name: str, lost: list[str], stored: StoredSet, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="give --allow-loss") as refused:
        exporters.export_set(name, stored, tmp_path / "out")
    assert all(words in str(refused.value) for words in lost)
    assert not (tmp_path / "out").exists()
    said = "; ".join(exporters.export_set(name, stored, tmp_path / "out", allow_loss=True))
    assert all(words in said for words in lost)


@pytest.mark.parametrize("name", ["webdataset", "karpathy", "chinese_clip"])
def test_a_set_of_single_answers_is_exported_without_asking(name: str, plain: StoredSet, tmp_path: Path) -> None:
    said = "; ".join(exporters.export_set(name, plain, tmp_path / "out"))
    assert "grades" not in said
    assert "several" not in said


@pytest.mark.parametrize("name", ["trec", "beir", "mteb", "webdataset", "chinese_clip", "karpathy", "label_studio"])
@pytest.mark.thorough
def test_a_gallery_has_no_queries_to_export(name: str, tmp_path: Path) -> None:
    gallery = publish_small_set(tmp_path, gallery_tables())
    with pytest.raises(UserError, match="no queries"):
        exporters.export_set(name, gallery, tmp_path / "out")


@pytest.mark.parametrize("name", ["huggingface", "csv", "croissant"])
def test_a_gallery_goes_where_there_is_a_place_for_images_alone(name: str, tmp_path: Path) -> None:
    gallery = publish_small_set(tmp_path, gallery_tables())
    exporters.export_set(name, gallery, tmp_path / "out")
    assert (tmp_path / "out").is_dir()


@pytest.mark.parametrize("name", ["mteb", "webdataset", "chinese_clip", "label_studio"])
def test_images_that_are_not_at_hand_are_asked_for(name: str, tmp_path: Path) -> None:
    without = publish_small_set(tmp_path, small_tables(), images=False)
    with pytest.raises(UserError, match="4 of 4 images are not available"):
        exporters.export_set(name, without, tmp_path / "out", allow_loss=True)


def test_a_path_that_leads_out_of_the_set_is_not_followed(stored: StoredSet, tmp_path: Path) -> None:
    """A set may come from anybody: what it names must not be mailed to the next one."""
    (stored.path.parent / "secret.jpg").write_bytes((stored.path / stored.tables.images["path"].iloc[0]).read_bytes())
    images = stored.tables.images.assign(path="../secret.jpg")
    bad = set_files.StoredSet(stored.path, Tables(stored.tables.queries, images, stored.tables.qrels), stored.manifest)
    with pytest.raises(UserError, match="points outside the set"):
        exporters.export_set("csv", bad, tmp_path / "out")


@pytest.mark.parametrize("name", ["csv", "webdataset"])
def test_a_damaged_image_is_not_exported(name: str, stored: StoredSet, tmp_path: Path) -> None:
    first, other = stored.tables.images["path"].iloc[:2]
    (stored.path / first).write_bytes((stored.path / other).read_bytes())
    with pytest.raises(UserError, match=f"{first}.*is damaged: its checksum differs"):
        exporters.export_set(name, stored, tmp_path / "out", allow_loss=True)
    assert not (tmp_path / "out").exists()


def test_images_by_reference_must_be_what_was_judged(stored: StoredSet, tmp_path: Path) -> None:
    elsewhere = tmp_path / "album.jpg"
    elsewhere.write_bytes((stored.path / stored.tables.images["path"].iloc[0]).read_bytes())
    images = stored.tables.images.assign(path=str(elsewhere))
    bad = set_files.StoredSet(stored.path, Tables(stored.tables.queries, images, stored.tables.qrels), stored.manifest)
    with pytest.raises(UserError, match="is no longer the image"):
        exporters.export_set("csv", bad, tmp_path / "out")
    exporters.export_set("beir", bad, tmp_path / "beir")
    told = (tmp_path / "beir" / "corpus.jsonl").read_text("utf-8")
    assert str(tmp_path) not in told, "where images lie is nobody's business"


@pytest.mark.parametrize("name", exporters.EXPORTERS.list_plugins())
@pytest.mark.thorough
def test_the_same_set_gives_the_same_bytes(name: str, stored: StoredSet, tmp_path: Path) -> None:
    trees = []
    for place in ("one", "two"):
        exporters.export_set(name, stored, tmp_path / place, allow_loss=True)
        files = sorted(path for path in (tmp_path / place).rglob("*") if path.is_file())
        trees.append({path.relative_to(tmp_path / place): path.read_bytes() for path in files})
    assert trees[0] == trees[1]
    assert not list(tmp_path.glob(".*")), "what was written beside is in place"


@pytest.mark.parametrize("form", ["trec", "beir", "csv", "webdataset", "karpathy", "chinese_clip", "label_studio"])
def test_every_export_names_the_digest_of_the_version(form: str, tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables(graded=False))

    exporters.export_set(form, stored, tmp_path / "out", allow_loss=True)

    described = json.loads((tmp_path / "out/querytruth.json").read_text("utf-8"))
    assert described["content_digest"] == stored.manifest["content_digest"]
    assert (described["name"], described["version"]) == ("small", 1)
