"""What holds for every exporter: nothing half there, nothing lost unsaid, nothing of other people's files."""

import csv
import json
import platform
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import querytruth as qt
from builders.publication import publish_decisions
from flows.definition_loader import load_definition
from flows.door import Door, write_static
from flows.set_kinds import build_set
from querytruth.errors import UserError
from querytruth.formats import exporters
from querytruth.sets import decision_log, set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import StoredSet, read_set
from tests.images import draw_scene, make_exif
from tests.resealed_sets import reseal
from tests.small_sets import files_of, gallery_tables, publish_small_set, small_tables
from tests.worlds import build_of


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
    for place in ("one", "two"):
        exporters.export_set(name, stored, tmp_path / place, allow_loss=True)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert not list(tmp_path.glob(".*")), "what was written beside is in place"


@pytest.mark.parametrize("form", ["trec", "beir", "csv", "webdataset", "karpathy", "chinese_clip", "label_studio"])
def test_every_export_names_the_digest_of_the_version(form: str, tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables(graded=False))

    exporters.export_set(form, stored, tmp_path / "out", allow_loss=True)

    described = json.loads((tmp_path / "out/querytruth.json").read_text("utf-8"))
    assert described["content_digest"] == stored.manifest["content_digest"]
    assert (described["name"], described["version"]) == ("small", 1)


OWNER, REVIEWER = "Rosalind-Owner-7731", "mo.tanaka@post.example"


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The second version of a set whose images are photos of a person, judged by a person with an address."""
    place = tmp_path_factory.mktemp("home-of-rosalind")
    (place / "photos").mkdir()
    names = ["a.jpg", "b.jpg", "c.jpg"]
    for number, name in enumerate(names):
        exif = make_exif({0x013B: OWNER, 0x010E: OWNER})
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


SECRET = 31.23043


@pytest.fixture
def private(tmp_path: Path) -> StoredSet:
    tables = small_tables(graded=False)
    latitude = [SECRET, *[float("nan")] * (len(tables.images) - 1)]
    images = tables.images.assign(latitude=latitude, longitude=[121.4737, *latitude[1:]])
    return publish_small_set(tmp_path, replace(tables, images=images))


@pytest.mark.parametrize("name", sorted(exporters.EXPORTERS.list_plugins()))
def test_no_export_says_where_an_image_was_taken_unasked(private: StoredSet, tmp_path: Path, name: str) -> None:
    said = qt.load(private.path).export(name, tmp_path / name, allow_loss=True)
    assert "the places where 1 of the images were taken (--with-places keeps them)" in said
    assert str(SECRET).encode() not in b"".join(files_of(tmp_path / name).values())
    for file in (tmp_path / name).rglob("*.parquet"):
        table = pd.read_parquet(file)
        assert "latitude" not in table or table["latitude"].isna().all()


def test_places_are_kept_where_that_is_asked(private: StoredSet, tmp_path: Path) -> None:
    said = qt.load(private.path).export("csv", tmp_path / "out", allow_loss=True, with_places=True)
    assert not any("place" in line for line in said) and str(SECRET).encode() in b"".join(
        files_of(tmp_path / "out").values()
    )


def test_a_version_with_places_is_published_where_that_is_asked(private: StoredSet, tmp_path: Path) -> None:
    to = (tmp_path / "shared").as_uri()
    with pytest.raises(qt.UserError, match=r"contains the places where 1 of its images were taken\. .*--with-places"):
        qt.load(private.path).publish(to)
    assert qt.load(private.path).publish(to, with_places=True).is_new


def test_a_set_without_places_goes_out_without_a_word(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables(graded=False).without_places())
    assert not any("place" in line for line in qt.load(stored.path).export("csv", tmp_path / "out", allow_loss=True))
    assert qt.load(stored.path).publish((tmp_path / "shared").as_uri()).is_new


FACTS = """image,kind,value,zh,source,region
a.png,person,Gracie,,xmp,0 0 1 1
a.png,date,2019-05-03,,exif,
b.png,date,2019-05-04,,exif,
b.png,city,Bath,,xmp,
"""


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number, name in enumerate("ab"):
        draw_scene(number).save(tmp_path / f"photos/{name}.png")
    (tmp_path / "facts.csv").write_text(FACTS)
    return _build("album")


def _build(name: str, *more: str) -> Path:
    keys = [
        "annotations=facts.csv",
        "images=photos",
        f"name={name}",
        "render.size=32",
        "texts=[word]",
        "languages=[en]",
    ]
    keys += ["searchable.min_images=1", "searchable.area_ratio=0", "mixes.levels=1", *more]
    return build_set(load_definition(None, keys, "precision")).path


def test_an_export_leaves_out_names_and_all_that_speaks_of_them(album: Path, tmp_path: Path) -> None:
    lost = qt.load(album).export("csv", tmp_path / "out", allow_loss=True)
    assert "2 queries that name people, places or texts (--with-names keeps them)" in lost
    texts = "".join(file.read_text("utf-8", "replace") for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert "Gracie" not in texts and "Bath" not in texts and "May 2019" in texts
    kept = qt.load(album).export("csv", tmp_path / "named", allow_loss=True, with_names=True)
    assert not any("--with-names" in line for line in kept)
    assert "Gracie" in pd.read_csv(tmp_path / "named/queries.csv")["text"].tolist()


def test_publishing_and_static_pages_refuse_names_unless_they_are_allowed(album: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"names people, places or texts in 2 queries.*--with-names"):
        qt.load(album).publish("s3://nowhere/sets")
    with pytest.raises(UserError, match=r"names people.*--with-names"):
        write_static(Door(tmp_path, tmp_path / "datasets"), tmp_path / "site")
    assert write_static(Door(tmp_path, tmp_path / "datasets"), tmp_path / "site", with_names=True).is_file()


def test_pseudonyms_are_the_same_in_all_versions_and_name_nobody(album: Path, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("name,pseudonym\nGracie,Person 1\n")
    first = _build("hidden", "facts.pseudonyms=names.csv")
    (tmp_path / "facts.csv").write_text(FACTS + "b.png,person,Adam,,xmp,0 0 1 1\n")
    (tmp_path / "names.csv").write_text("name,pseudonym\nGracie,Person 1\nAdam,Person 2\n")
    second = _build("hidden", "facts.pseudonyms=names.csv")
    tables = [read_set(path).tables for path in (first, second)]
    assert [path.name for path in (first, second)] == ["v1", "v2"]
    for one in tables:
        assert "Person 1" in set(one.queries["text"]) and not one.queries["text"].str.contains("Gracie|Adam").any()
    asked = [one.queries.set_index("text")["query_id"]["Person 1"] for one in tables]
    assert asked[0] == asked[1]
