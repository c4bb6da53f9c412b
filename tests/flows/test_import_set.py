"""Other people's sets become ours, and ours come back from every format as they were."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from builders.imported_set import ImportDefinition
from builders.publication import BuiltTables, publish_built, publish_decisions
from flows.import_set import import_set
from flows.rebuild import find_outside_names, rebuild_tables
from querytruth.backends.files.durable_files import file_sha256
from querytruth.definitions import RenderOptions, SetDefinition
from querytruth.errors import UserError
from querytruth.formats import exporters, importers
from querytruth.formats.imported_tables import ImportedSource, join_imported_tables
from querytruth.formats.set_images import ImageStore
from querytruth.records import are_own_ids
from querytruth.sets import set_files
from querytruth.sets.absent_queries import list_absent
from querytruth.sets.benchmark_set import Tables, content_digest, count_set, get_render_options
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.ledger import Ledger
from querytruth.sets.published_files import CHECKSUMS, image_roots, is_own_version
from querytruth.sets.set_files import StoredSet
from tests.command_runner import invoke
from tests.images import make_jpeg
from tests.manifest_cuts import unrecorded_cuts
from tests.publisher_files import write_muge
from tests.resealed_sets import reseal
from tests.small_sets import SMALL_SET_GRADES, gallery_tables, image_id_of, publish_small_set, query_id_of, small_tables

WHOLE = {"huggingface": "huggingface", "croissant": "huggingface", "mteb": "mteb", "csv": "csv"}  # export: import


def imported(source: Path, format_: str, out: Path, name: str = "again", **keys: Any) -> StoredSet:
    definition = ImportDefinition(kind="imported", name=name, format=format_, annotations=source, out=out, **keys)
    return set_files.read_set(import_set(definition).path)


def digest(stored: StoredSet) -> str:
    return str(stored.manifest["content_digest"])


def reasons(stored: StoredSet) -> dict[str, int]:
    counts: dict[str, int] = {}
    for stage in stored.manifest["funnel"]:
        for bucket in ("rejected", "quarantined"):
            for reason, number in stage[bucket].items():
                counts[f"{stage['kind']} {reason}"] = number
    return counts


@pytest.mark.parametrize(
    ("name", "mode"), [("huggingface", "squash"), *((name, "longer_side") for name in sorted(WHOLE))]
)
@pytest.mark.thorough
def test_an_exported_set_says_how_large_its_images_are_and_comes_back_the_same(
    name: str, mode: str, tmp_path: Path
) -> None:
    tables = small_tables()
    if mode == "longer_side":
        tables = replace(tables, images=tables.images.assign(rendered_width=[24, 25, 26, 27], rendered_height=16))
    there = publish_small_set(tmp_path, tables, render={"size": 24, "mode": mode})
    exporters.export_set(name, there, tmp_path / "out", allow_loss=True, facts={"places"})
    sizes = exported_images(tmp_path / "out", name)[["width", "height", "rendered_width", "rendered_height"]]
    rendered = [[24, 24]] * 4 if mode == "squash" else [[24, 16], [25, 16], [26, 16], [27, 16]]
    original = there.tables.images[["width", "height"]].to_numpy().tolist()
    assert sizes.to_numpy().tolist() == [a + b for a, b in zip(original, rendered, strict=True)]
    back = imported(tmp_path / "out", WHOLE[name], tmp_path / "again")
    assert digest(back) == digest(there) and list(set_files.verify_set(back.path)) == []
    assert get_render_options(back.manifest) == {"size": 24, "mode": mode}
    assert back.manifest["grades"] == SMALL_SET_GRADES
    assert (back.manifest["title"], back.manifest["licence"]) == ("A small set", "CC0-1.0")
    assert {Image.open(back.path / path).height for path in back.tables.images["path"]} == {16}


def exported_images(folder: Path, format_: str) -> pd.DataFrame:
    if format_ == "csv":
        return pd.read_csv(folder / "images.csv")
    return pd.read_parquet(folder / ("image-details" if format_ == "mteb" else "images"))


@pytest.mark.parametrize("name", ["huggingface", "csv"])
@pytest.mark.thorough
def test_a_gallery_comes_back_the_same(name: str, tmp_path: Path) -> None:
    gallery = publish_small_set(tmp_path, gallery_tables())
    exporters.export_set(name, gallery, tmp_path / "out", facts={"places"})
    assert digest(imported(tmp_path / "out", WHOLE[name], tmp_path / "again")) == digest(gallery)


@pytest.mark.parametrize(
    ("name", "judgments"), [("beir", 5), ("trec", 5), ("chinese_clip", 4), ("karpathy", 4), ("webdataset", 4)]
)
@pytest.mark.thorough
def test_formats_that_hold_less_keep_ids_and_what_they_hold(name: str, judgments: int, tmp_path: Path) -> None:
    there = publish_small_set(tmp_path, small_tables())
    exporters.export_set(name, there, tmp_path / "out", allow_loss=True, facts={"places"})
    images = tmp_path / "out" if name == "karpathy" else None
    back = imported(tmp_path / "out", name, tmp_path / "again", images=images)
    texts = dict(zip(there.tables.queries["query_id"], there.tables.queries["text"], strict=True))
    for row in back.tables.queries.itertuples():
        assert " ".join(row.text.split()) == " ".join(texts[row.query_id].split())
    assert set(back.tables.images["image_id"]) <= set(there.tables.images["image_id"])
    assert len(back.tables.qrels) == judgments
    right = there.tables.qrels[there.tables.qrels["relevance"] > 0]
    pairs = set(zip(right["query_id"].astype(str), right["image_id"].astype(str), strict=True))
    kept = back.tables.qrels[back.tables.qrels["relevance"] > 0]
    assert set(zip(kept["query_id"].astype(str), kept["image_id"].astype(str), strict=True)) == pairs


def test_beir_gives_back_all_but_who_judged_and_why(tmp_path: Path) -> None:
    there = publish_small_set(tmp_path, small_tables())
    exporters.export_set("beir", there, tmp_path / "out", facts={"places"})
    back = imported(tmp_path / "out", "beir", tmp_path / "again")
    qrels = [stored.tables.qrels.assign(judged_by="x", evidence="x").astype("object") for stored in (there, back)]
    qrels = [frame.astype({"relevance": "int8"}) for frame in qrels]
    digests = {
        content_digest(Tables(stored.tables.queries, stored.tables.images, frame).to_arrow_tables())
        for stored, frame in zip((there, back), qrels, strict=True)
    }
    assert len(digests) == 1


def _with_families() -> Tables:
    """The small tables with a query of a family: its number dropped, it is another query, its twin."""
    tables = small_tables()
    is_first = tables.queries["query_id"] == query_id_of("dog")
    families = tables.queries.assign(family=None, twin=None, topic=None).astype({"family": "object", "twin": "object"})
    families.loc[is_first, ["family", "twin", "topic"]] = ["count/2", query_id_of("狗"), "pets"]
    return replace(tables, queries=families)


def test_beir_keeps_the_family_the_twin_and_the_topic_of_a_query(tmp_path: Path) -> None:
    there = publish_small_set(tmp_path, _with_families())
    assert "famil" not in str(exporters.export_set("beir", there, tmp_path / "out", facts={"places"}))
    back = imported(tmp_path / "out", "beir", tmp_path / "again")
    columns = ["query_id", "family", "twin", "topic"]
    assert back.tables.queries[columns].equals(there.tables.queries[columns])


@pytest.mark.parametrize("name", ["trec", "webdataset", "karpathy", "chinese_clip", "label_studio"])
def test_a_format_without_families_says_so_and_one_with_them_does_not(name: str, tmp_path: Path) -> None:
    there = publish_small_set(tmp_path, _with_families())
    said = exporters.export_set(name, there, tmp_path / "out", allow_loss=True, facts={"places"})
    columns = next(one for one in said if one.startswith("of queries: ")).removeprefix("of queries: ").split(", ")
    assert {"language", "style", "level", "family", "twin", "topic"} <= set(columns)
    plain = publish_small_set(tmp_path, small_tables(), name="plain")
    said = exporters.export_set(name, plain, tmp_path / "plain", allow_loss=True, facts={"places"})
    assert "twin" not in str(said)


def test_beir_keeps_queries_without_an_answer_and_trec_says_that_they_are_lost(tmp_path: Path) -> None:
    tables = small_tables()
    queries = tables.queries.assign(searches=3.0, stratum="head", inclusion=1.0)
    zeros = [(query_id_of("none"), image_id, 0, "person", None) for image_id in tables.images["image_id"]]
    qrels = pd.concat([tables.qrels.astype("object"), pd.DataFrame(zeros, columns=tables.qrels.columns)])
    kept = dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category") | {"relevance": "int8"}
    there = publish_small_set(tmp_path, replace(tables, queries=queries, qrels=qrels.astype(kept)))
    said = {name: exporters.export_set(name, there, tmp_path / name) for name in ("beir", "trec")}
    back = imported(tmp_path / "beir", "beir", tmp_path / "again").tables
    assert list_absent(back.queries, back.qrels, len(back.images)) == [query_id_of("none")]
    lost = "the fact that 1 queries have no answer in the gallery (they look unjudged)"
    assert lost in said["trec"] and lost not in said["beir"]
    assert "of qrels: judged_by" in " ".join(said["beir"])


def test_mteb_says_that_it_keeps_groups_of_duplicates(tmp_path: Path) -> None:
    there = publish_small_set(tmp_path, small_tables())
    said = exporters.export_set("mteb", there, tmp_path / "out", facts={"places"})
    assert "how duplicates were found (their groups are kept)" in said
    assert pd.read_parquet(tmp_path / "out/image-details")["duplicate_group"].notna().sum() == 2


@pytest.mark.parametrize("name", ["beir", "trec"])
def test_the_images_of_an_export_without_images_are_found_in_the_set_that_it_was_made_of(
    name: str, tmp_path: Path
) -> None:
    there = publish_small_set(tmp_path, small_tables())
    exporters.export_set(name, there, tmp_path / "out", facts={"places"})
    back = imported(tmp_path / "out", name, tmp_path / "again", images=there.path)
    ids = back.tables.images["image_id"]
    assert len(ids) == (4 if name == "beir" else 3), "trec lists the judged ones alone"
    assert [Path(path).stem for path in back.tables.images["path"]] == ids.tolist()


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
full = texts.filter(lambda text: bool(text.strip()))
maybe = st.none() | texts
names = st.lists(st.integers(0, 10**6).map(str), min_size=1, max_size=4, unique=True)


@st.composite
def sets(draw: Any) -> Tables:
    images, queries = draw(names), draw(names)

    def column(strategy: Any, rows: list[str]) -> list[Any]:
        return [draw(strategy) for _ in rows]

    image_columns = {
        name: column(maybe, images) for name in ("taken_at", "source_url", "page_url", "licence", "sha256")
    }
    image_columns |= {name: column(st.none() | st.floats(-90, 90), images) for name in ("latitude", "longitude")}
    image_columns |= {name: column(st.integers(0, 2**31 - 1), images) for name in ("width", "height")}
    asked = {name: column(full, queries) for name in ("text", "style", "topic")}
    asked |= {"language": column(st.sampled_from(["zh", "en"]), queries), "level": column(st.integers(0, 9), queries)}
    asked |= {"labels": column(st.none() | st.lists(texts, max_size=3), queries)}
    pairs = draw(st.lists(st.tuples(st.sampled_from(queries), st.sampled_from(images)), unique=True, max_size=6))
    qrels = pd.DataFrame(
        {
            "query_id": [query_id_of(query) for query, _ in pairs],
            "image_id": [image_id_of(image) for _, image in pairs],
            "relevance": column(st.integers(0, 127), pairs),
            "judged_by": column(full, pairs),
            "evidence": column(maybe, pairs),
        }
    ).astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    return Tables(
        pd.DataFrame({"query_id": [query_id_of(name) for name in queries], **asked}),
        pd.DataFrame(
            {"image_id": [image_id_of(name) for name in images], "file_name": images, "path": "a.jpg", **image_columns}
        ),
        qrels,
    )


@settings(max_examples=12)
@given(tables=sets())
@pytest.mark.slow
def test_whatever_a_set_says_comes_back_from_formats_that_hold_all(tables: Tables) -> None:
    tables = replace(tables, images=tables.images.assign(duplicate_group=None))
    with TemporaryDirectory() as folder:
        at = Path(folder)
        (at / "a.jpg").write_bytes(make_jpeg((1, 2, 3)))
        (at / "images").mkdir()
        pq.write_table(pa.table({"path": ["a.jpg"], "sha256": [file_sha256(at / "a.jpg")[0]]}), at / CHECKSUMS)
        listed = {"path": CHECKSUMS, "sha256": file_sha256(at / CHECKSUMS)[0]}
        described = {"name": "any", "version": 1, "kind": "recall", "title": "t", "licence": "", "content_digest": "c"}
        described |= {"grades": {}, "known_limitations": [], "manifest_digest": "m", "files": [listed]}
        described |= {"counts": count_set(tables), "notes": {}, "funnel": [], "inputs": []}
        described |= {"configuration": {}, "models": []}
        described["decisions"] = {"in_effect": [], "stale": []}
        stored = StoredSet(at, tables, described)
        for name, reader in WHOLE.items():
            exporters.export_set(name, stored, at / name, facts={"places"})
            said = importers.import_tables(reader, at / name, None, ImageStore(at / "unpacked"))
            source = ImportedSource(said.queries, said.images, said.qrels, said.rejections, said.keeps_ids)
            back = join_imported_tables(source, None, Ledger())
            assert content_digest(back.to_arrow_tables()) == content_digest(tables.to_arrow_tables()), name


def test_images_that_come_inside_the_files_are_proved_and_put_into_the_set(tmp_path: Path) -> None:
    red, blue = make_jpeg((200, 0, 0), (64, 48)), make_jpeg((0, 0, 200), (64, 48))
    source = write_muge(tmp_path / "muge", {10: red, 11: red, 12: blue, 13: blue[: len(blue) // 2]})
    stored = imported(source, "muge", tmp_path / "sets", "muge")
    assert reasons(stored) == {
        "image same_bytes": 1,
        "image cannot_be_decoded": 1,
        "judgment doubled_judgment": 1,
        "judgment unknown_image": 1,
        "query no_image_left": 1,
    }
    assert len(stored.tables.queries) == 2
    assert stored.tables.images["path"].str.fullmatch(r"images/../img_[0-9a-f]{20}\.jpg").all()
    assert {(stored.path / path).read_bytes() for path in stored.tables.images["path"]} == {red, blue}
    assert list(set_files.verify_set(stored.path)) == []
    assert unrecorded_cuts(stored.manifest) == []
    assert {"near_duplicates.distance"} < {cut["name"] for cut in stored.manifest["thresholds"]}
    assert any("2 of the 4 images that the publisher" in line for line in stored.manifest["known_limitations"])
    again = imported(source, "muge", tmp_path / "sets", "muge")
    assert again.path == stored.path, "nothing has changed: no new version"


def test_listed_images_that_cannot_be_had_are_booked(tmp_path: Path) -> None:
    """Of Noah-Wukong's 33,365 about a third are gone from the web."""
    rows = "".join(f"{n}.jpg,https://a/{n},第{n}张\n" for n in range(6))
    (tmp_path / "wukong_test.csv").write_text("dir,url,text\n" + rows, "utf-8")
    (tmp_path / "fetched").mkdir()
    for n in range(4):
        (tmp_path / "fetched" / f"{n}.jpg").write_bytes(make_jpeg((40 * n, 0, 0)))
    (tmp_path / "fetched" / "4.jpg").write_text("<html>404</html>")
    stored = imported(tmp_path, "wukong_test", tmp_path / "sets", "wukong", images=tmp_path / "fetched")
    assert reasons(stored) == {
        "image image_missing": 1,
        "image not_an_image": 1,
        "judgment image_not_accepted": 2,
        "query no_image_left": 2,
    }
    assert len(stored.tables.queries) == len(stored.tables.images) == 4
    assert all(Path(path).is_absolute() for path in stored.tables.images["path"]), "by reference"
    without = imported(tmp_path, "wukong_test", tmp_path / "sets", "wukong-names")
    assert len(without.tables.images) == 6, "without a folder all is taken on the publisher's word"


def test_images_may_be_rendered_as_in_other_sets(tmp_path: Path) -> None:
    source = write_muge(tmp_path / "muge", {10: make_jpeg((200, 0, 0), (64, 48)), 12: make_jpeg((0, 0, 200), (64, 48))})
    stored = imported(source, "muge", tmp_path / "sets", "muge", render=RenderOptions(size=32))
    assert {Image.open(stored.path / path).size for path in stored.tables.images["path"]} == {(32, 24)}
    assert list(stored.tables.images["width"]) == [64, 64]


def test_nothing_left_is_an_error_in_a_line(tmp_path: Path) -> None:
    source = write_muge(tmp_path / "muge", {10: b"none", 11: b"", 12: b"GIF89a"})
    with pytest.raises(UserError, match=r"no images are left \(.*not_an_image 1"):
        imported(source, "muge", tmp_path / "sets", "muge")
    assert not (tmp_path / "sets" / "muge" / "v1").exists()


@pytest.mark.parametrize("grade", ["two", "300", "9" * 20])
def test_an_export_that_was_changed_by_hand_is_refused(grade: str, tmp_path: Path) -> None:
    exporters.export_set("csv", publish_small_set(tmp_path, small_tables()), tmp_path / "out", facts={"places"})
    table = tmp_path / "out" / "qrels.csv"
    table.write_text(table.read_text("utf-8-sig").replace(",2,", f",{grade},"), "utf-8")
    with pytest.raises(UserError, match=rf"qrels.csv line \d .*column 'relevance' holds '{grade}', expected int8"):
        imported(tmp_path / "out", "csv", tmp_path / "again")


@pytest.mark.thorough
def test_flickr8k_cn_has_a_thousand_images_and_five_texts_of_each(
    shared: Callable[[str], Path], tmp_path: Path
) -> None:
    stored = imported(shared("captions/flickr8k_test_zh_written.txt"), "flickr8k_cn", tmp_path)
    assert stored.manifest["counts"]["images"] == 1000
    assert stored.manifest["counts"]["by_style"] == {"zh/caption": 5000}
    assert reasons(stored) == {}


@pytest.mark.thorough
def test_coco_captions_of_2017_are_25014_of_5000_images(shared: Callable[[str], Path], tmp_path: Path) -> None:
    stored = imported(shared("captions/coco_captions_val2017.json"), "coco_captions", tmp_path)
    counts = stored.manifest["counts"]
    assert (counts["images"], counts["queries"], counts["judgments"]) == (5000, 25014, 25014)
    assert reasons(stored) == {}


@pytest.mark.parametrize(("split", "counts"), [("eccv", (5000, 1332, 11279)), ("original", (5000, 25000, 25000))])
@pytest.mark.thorough
def test_eccv_caption_has_its_published_counts(
    split: str, counts: tuple[int, int, int], shared: Callable[[str], Path], tmp_path: Path
) -> None:
    stored = imported(shared("multi_positive_gt"), "eccv_caption", tmp_path, split=split)
    found = stored.manifest["counts"]
    assert (found["images"], found["queries"], found["judgments"]) == counts


@pytest.fixture
def received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredSet:
    """A set whose definition names an endpoint, a key and a folder; published by another user."""
    stored = publish_small_set(tmp_path, small_tables())
    path = stored.path / "manifest.json"
    manifest = json.loads(path.read_bytes())
    options = {"base_url": "http://127.0.0.1:9/v1", "key_env": "MY_KEY", "name": "x"}
    captions = {"model": "openai_compatible", "options": options}
    definition = {"kind": "recall", "name": "small", "images": "/home/me/Pictures", "captions": captions, "out": "/tmp"}
    path.write_text(json.dumps(manifest | {"kind": "recall", "envelope": {"definition": definition}}))
    reseal(stored.path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another user"))
    return stored


def test_a_rebuild_does_not_run_the_definition_of_a_stranger(received: StoredSet) -> None:
    with pytest.raises(UserError, match=r"captions.model: openai_compatible and 4 more.*--trust-definition"):
        rebuild_tables(received.path)


def test_the_person_reads_the_lines_and_refuses(received: StoredSet) -> None:
    done = invoke("rebuild", received.path, "--check", "--trust-definition", typed="n\n")
    assert "captions.options.base_url: http://127.0.0.1:9/v1" in done.output
    assert "captions.options.key_env: MY_KEY" in done.output and "Build with them?" in done.output
    assert isinstance(done.exception, UserError)


def test_lines_that_name_nothing_outside_need_no_agreement() -> None:
    harmless = {"kind": "recall", "name": "a", "title": "a/b", "seed": 1, "captions": {"prompt": ["zh/caption"]}}
    assert not list(find_outside_names({**harmless, "out": "/anywhere"}))
    assert list(find_outside_names({**harmless, "gallery": "album"})) == ["gallery: album"]
    assert list(find_outside_names({"labels": "../tables", "filter": {"max_side": 9}})) == ["labels: ../tables"]


def test_a_set_is_ones_own_until_its_manifest_changes(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    assert stored.is_own and set_files.read_set(stored.path).own_definition["name"] == "small"
    manifest = stored.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("A small set", "Another set"))
    reseal(stored.path)
    assert not is_own_version(stored.path) and set_files.read_set(stored.path).own_definition == {}


def test_images_outside_a_received_set_are_not_read_unless_the_person_names_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = tmp_path / "photos"
    (photos / "holiday").mkdir(parents=True)
    for name in ("dog", "beach", "cat", "tree"):
        (photos / "holiday" / f"{name} 1.jpg").write_bytes(make_jpeg((len(name), 0, 0), (16, 16)))
    tables = small_tables()
    paths = [str(photos / name) for name in tables.images["file_name"]]
    by_reference = Tables(tables.queries, tables.images.assign(path=paths), tables.qrels)
    definition = SetDefinition(kind="precision", name="small", out=tmp_path / "sets")
    stored = publish_built(definition, BuiltTables(by_reference, Ledger(), SMALL_SET_GRADES))
    assert set_files.read_set(stored.path).tables.images["path"].tolist() == paths, "one's own set"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another user"))
    assert set_files.read_set(stored.path).tables.images["path"].isna().all()
    with image_roots([str(photos)]):
        assert set_files.read_set(stored.path).tables.images["path"].tolist() == paths
    with image_roots([str(tmp_path / "elsewhere")]):
        assert set_files.read_set(stored.path).tables.images["path"].isna().all()


def test_ids_of_an_archive_that_are_paths_become_ids_of_ours(tmp_path: Path) -> None:
    victim = tmp_path / "victim.jpg"
    victim.write_text("mine")
    folder = tmp_path / "archive" / "test"
    folder.mkdir(parents=True)
    ids = {"image_id": f"img_{'../' * 12}{str(victim.with_suffix(''))[1:]}", "query_ids": ["../../q"]}
    members = {"0.jpg": make_jpeg((9, 9, 9), (32, 32)), "0.txt": b"a dog", "0.json": json.dumps(ids).encode()}
    with tarfile.open(folder / "0.tar", "w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    (folder / "nshards.txt").write_text("1\n")
    tables = imported(tmp_path / "archive", "webdataset", tmp_path / "sets").tables
    assert victim.read_text() == "mine"
    assert are_own_ids(tables.images["image_id"], tables.queries["query_id"])
    assert tables.images["source_id"].tolist() == [ids["image_id"]]
    assert tables.queries["source_id"].tolist() == ["../../q"]


def test_an_apply_writes_nothing_where_a_path_of_the_set_leads(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    shutil.rmtree(stored.path / "images")
    (stored.path / "images").symlink_to(tmp_path / "rendered" / "images")
    query = stored.tables.queries.iloc[0]
    append_decisions(stored.path.parent, [QueryDecision(query["query_id"], query["text"], "drop", reviewer="lin")])
    with pytest.raises(UserError, match="is a link"):
        publish_decisions(stored.path)
