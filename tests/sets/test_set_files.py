"""A set on disk: published whole or not at all, numbered, verified to the bit, with its images where they lie."""

import hashlib
import json
import multiprocessing
import random
import resource
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from querytruth.backends.files import parquet_files
from querytruth.errors import UserError
from querytruth.sets import set_files, set_publishing
from querytruth.sets.benchmark_set import Tables, canonical_json, content_digest, make_canary, manifest_digest
from querytruth.sets.manifest import read_manifest
from querytruth.sets.published_files import record_own_version
from querytruth.sets.set_files import find_set, locate_images, read_set, verify_set
from querytruth.sets.set_publishing import publish_set
from tests.review.recall_sets import images_table, qrels_table, queries_table, typed_tables
from tests.small_sets import image_id_of, make_whole_manifest, publish_small_set, small_tables


def tables(texts: tuple[str, ...] = ("dog", "一张狗的图片")) -> Tables:
    """Three images, which are right for every text."""
    queries = [{"query_id": f"q_{n}", "text": text, "style": "word", "labels": ["Dog"]} for n, text in enumerate(texts)]
    images = images_table([f"{n:020x}" for n in range(3)])
    pairs = [(query["query_id"], image, 1) for query in queries for image in images["image_id"]]
    qrels = qrels_table(pairs, "detector").assign(evidence="狗")
    return typed_tables(queries=queries_table(queries), images=images, qrels=qrels)


def manifest(digest: str, version: int, parent: dict[str, Any] | None) -> dict[str, Any]:
    before = parent and {"version": parent["version"], "content_digest": parent["content_digest"]}
    return make_whole_manifest(name="pets", version=version, content_digest=digest, parent=before)


def put(folder: Path, content: Tables, **options: Any) -> Any:
    return publish_set(content, manifest, lambda _: "# card\n", folder, **options)


def _write_manifest(version: Path, whole: dict[str, Any]) -> None:
    sealed = whole | {"manifest_digest": manifest_digest(whole)}
    text = json.dumps(sealed, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    (version / "manifest.json").write_text(text)


def test_only_a_set_that_is_published_anew_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the numbers of rows before the digest is known; with the same numbers, after it."""
    encode, encoded = set_publishing._encode_table, list[int]()
    monkeypatch.setattr(set_publishing, "_encode_table", lambda table: encoded.append(len(table)) or encode(table))
    first = tables()
    assert put(tmp_path / "pets", first).is_new and encoded
    encoded.clear()
    assert not put(tmp_path / "pets", first).is_new and not encoded
    regraded = replace(first, qrels=first.qrels.assign(relevance=first.qrels["relevance"] + 1))
    published = put(tmp_path / "pets", regraded)
    assert (published.version, published.is_new) == (2, True) and encoded
    assert read_set(published.path).tables.qrels["relevance"].tolist() == regraded.qrels["relevance"].tolist()


def test_a_publish_returns_the_tables_as_they_are_read_from_the_version(tmp_path: Path) -> None:
    """A page is written from these: in the order and the types of the files, not in those of the build."""
    content = tables()
    mixed = replace(content, qrels=content.qrels.iloc[::-1], queries=content.queries.iloc[::-1])
    published = put(tmp_path / "pets", mixed)
    read = read_set(published.path).tables
    for name in Tables.__slots__:
        pd.testing.assert_frame_equal(getattr(published.tables, name), getattr(read, name))
    assert put(tmp_path / "pets", mixed).tables is None, "nothing was written: what lies there is to be read"


def test_a_card_that_fails_publishes_nothing(tmp_path: Path) -> None:
    def fail(_content: dict[str, Any]) -> str:
        raise ValueError("no card")

    with pytest.raises(ValueError, match="no card"):
        publish_set(tables(), manifest, fail, tmp_path / "pets")
    assert [path.name for path in (tmp_path / "pets").iterdir() if path.name != ".lock"] == []


def test_versions_are_numbered_and_an_unchanged_set_is_not_published(tmp_path: Path) -> None:
    first = put(tmp_path / "pets", tables())
    again = put(tmp_path / "pets", tables())
    second = put(tmp_path / "pets", tables(("dog", "cat")))
    assert (first.version, first.is_new) == (1, True)
    assert (again.version, again.is_new, again.path) == (1, False, first.path)
    assert (second.version, second.is_new) == (2, True)
    assert read_manifest(second.path)["parent"]["version"] == 1
    assert (tmp_path / "pets" / "latest").read_text() == "v2\n"
    assert find_set("pets", tmp_path) == find_set("pets/v2", tmp_path) == find_set(str(second.path)) == second.path
    assert find_set("pets/v1", tmp_path) == first.path
    with pytest.raises(UserError, match="choose from pets"):
        find_set("pest", tmp_path)


def test_tables_of_ones_own_version_need_no_worker_and_those_of_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, asked = put(tmp_path / "set", tables()), list[str]()
    record_own_version(stored.path)

    def read_parquet(path: Path, columns: object = None) -> Any:
        asked.append(path.name)
        return parquet_files.pq.read_table(path)

    monkeypatch.setattr(parquet_files, "read_parquet", read_parquet)
    own = read_set(stored.path).tables
    assert asked == []
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # of another user
    other = read_set(stored.path).tables
    assert "qrels.parquet" in asked
    assert content_digest(own.to_arrow_tables()) == content_digest(other.to_arrow_tables())


def test_a_manifest_that_is_exchanged_while_it_is_read_is_not_taken_for_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = put(tmp_path / "set", tables()), put(tmp_path / "other", tables(("cat",)))
    record_own_version(own.path)
    monkeypatch.setattr(set_files, "read_manifest_bytes", lambda _: (other.path / "manifest.json").read_bytes())
    monkeypatch.setattr(set_files, "read_own_table", lambda *_: pytest.fail("its tables are of nobody known"))
    with pytest.raises(UserError, match="checksum does not match"):
        read_set(own.path)


def test_a_changed_table_of_ones_own_version_is_refused(tmp_path: Path) -> None:
    stored = put(tmp_path / "set", tables())
    record_own_version(stored.path)
    table = pd.read_parquet(stored.path / "queries.parquet").assign(text="cat")
    table.to_parquet(stored.path / "queries.parquet")
    with pytest.raises(UserError, match=r"queries.parquet .read set.: is damaged: its checksum does not match"):
        read_set(stored.path)


def test_a_path_that_leads_out_of_a_strangers_set_is_not_followed(tmp_path: Path) -> None:
    own, web, foreign = "images/00/img_00.jpg", "https://pictures.example/1.jpg", "/etc/passwd"
    content = tables()
    content = replace(content, images=content.images.assign(path=[own, web, foreign]))
    put(tmp_path / "pets", content)
    paths = read_set(tmp_path / "pets" / "v1").tables.images["path"]
    assert paths.fillna("").tolist() == [own, web, ""], "nothing opens an address"


def test_a_foreign_folder_with_a_versions_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pets" / "v1").mkdir(parents=True)
    (tmp_path / "pets" / "v1" / "notes.txt").write_text("mine")
    assert put(tmp_path / "pets", tables()).version == 2
    assert (tmp_path / "pets" / "v1" / "notes.txt").read_text() == "mine"


def test_the_digest_ignores_order_paths_and_how_arrow_holds_the_rows() -> None:
    content = tables()
    shuffled = Tables(
        content.queries.iloc[::-1],
        content.images.sample(frac=1, random_state=1).assign(path="/somewhere/else.jpg", file_name="x"),
        content.qrels.sample(frac=1, random_state=2).astype({"query_id": "str", "image_id": "str"}),
    )
    assert content_digest(shuffled.to_arrow_tables()) == content_digest(content.to_arrow_tables())


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("queries", "text", "dag"),
        ("queries", "level", 2),
        ("queries", "labels", None),
        ("images", "width", 11),
        ("images", "latitude", 0.5),
        ("images", "licence", "CC0"),
        ("qrels", "relevance", 2),
        ("qrels", "evidence", None),
        ("qrels", "judged_by", "human"),
    ],
)
def test_the_digest_sees_every_cell(table: str, column: str, value: object) -> None:
    content = tables()
    frame = getattr(content, table).astype({column: object})
    frame.at[frame.index[-1], column] = value
    changed = replace(content, **{table: frame})
    assert content_digest(changed.to_arrow_tables()) != content_digest(content.to_arrow_tables())


@pytest.mark.parametrize("table", ["queries", "images", "qrels"])
def test_an_id_that_is_there_twice_is_refused_by_name(table: str) -> None:
    content = tables()
    frame = getattr(content, table)
    doubled = replace(content, **{table: pd.concat([frame, frame.tail(1)], ignore_index=True)})
    with pytest.raises(ValueError, match=f"table {table}: .* occurs twice"):
        doubled.to_arrow_tables()


def test_thirty_flipped_bits_are_each_found_by_name(tmp_path: Path) -> None:
    path = put(tmp_path / "pets", tables()).path
    assert list(verify_set(path)) == []
    files = sorted(path.iterdir())
    dice = random.Random(0)
    for _ in range(30):
        file = dice.choice(files)
        sound = file.read_bytes()
        broken = bytearray(sound)
        broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        file.write_bytes(broken)
        assert any(problem.startswith(file.name) for problem in verify_set(path)), file
        file.write_bytes(sound)
    assert list(verify_set(path)) == []


def test_a_manifest_in_order_that_says_something_else_is_found(tmp_path: Path) -> None:
    path = put(tmp_path / "pets", tables()).path
    manifest = json.loads((path / "manifest.json").read_bytes())
    (path / "manifest.json").write_bytes(canonical_json(manifest | {"title": "other"}))
    assert list(verify_set(path)) == ["manifest.json: its checksum does not match"]


def test_missing_cut_and_extra_files_are_found(tmp_path: Path) -> None:
    path = put(tmp_path / "pets", tables()).path
    (path / "README.md").unlink()
    (path / "stray.txt").write_text("?")
    with (path / "ledger.parquet").open("ab") as file:
        file.write(b"x")
    problems = "\n".join(verify_set(path))
    assert "README.md: is missing" in problems
    assert "stray.txt: is not listed" in problems
    assert "ledger.parquet: has " in problems


def test_the_canary_of_another_content_is_found_and_what_is_no_canary_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "pets", tables()).path
    whole = read_manifest(path)
    for canary, problems in (
        (make_canary(whole["content_digest"]), []),
        (make_canary("another"), ["manifest.json: its canary belongs to other content"]),
    ):
        _write_manifest(path, whole | {"canary": canary})
        assert list(verify_set(path)) == problems
    _write_manifest(path, whole | {"canary": "<script>"})
    with pytest.raises(UserError, match="canary"):
        read_manifest(path)


def test_a_swapped_table_is_found_though_the_manifest_was_mended(tmp_path: Path) -> None:
    one, other = put(tmp_path / "pets", tables()).path, put(tmp_path / "cats", tables(("cat",))).path
    shutil.copy(other / "queries.parquet", one / "queries.parquet")
    whole = read_manifest(one)
    listed = {file["path"]: file for file in read_manifest(other)["files"]}
    whole["files"] = [listed[f["path"]] if f["path"] == "queries.parquet" else f for f in whole["files"]]
    _write_manifest(one, whole)
    assert list(verify_set(one)) and all("content digest" in p for p in verify_set(one))


def test_a_full_disk_is_one_line_and_publishes_nothing(tmp_path: Path) -> None:
    first = put(tmp_path / "pets", tables())
    process = multiprocessing.get_context("fork").Process(target=_publish_with_4_kb, args=(tmp_path / "pets",))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert [p.name for p in (tmp_path / "pets").glob("v*")] == ["v1"]
    assert list(verify_set(first.path)) == []


def _publish_with_4_kb(folder: Path) -> None:
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    with pytest.raises(UserError, match="nothing was published"):
        put(folder, tables(tuple(str(n) for n in range(3000))))


@pytest.mark.parametrize("name", ["Upper", "a b", "", ".hidden", "x" * 65])
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="is not a valid set name"):
        put(tmp_path / "sets" / name if name else Path(), tables())


def test_a_set_of_another_schema_version_is_refused_in_one_line(tmp_path: Path) -> None:
    path = publish_small_set(tmp_path, small_tables()).path
    content = json.loads((path / "manifest.json").read_text("utf-8")) | {"schema_version": 1}
    (path / "manifest.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(UserError, match=r"schema_version"):
        read_set(path)


def test_images_in_the_set_have_the_sha256_of_what_lies_there(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    for place in locate_images(stored):
        assert place.location is not None and place.reason == ""
        assert hashlib.sha256(Path(place.location).read_bytes()).hexdigest() == place.sha256
    assert [place.image_id for place in locate_images(stored)] == stored.tables.images["image_id"].tolist()


def test_images_elsewhere_have_the_sha256_of_their_source(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    images = stored.tables.images.copy()
    images["path"] = ["/photos/a.jpg", "s3://bucket/a.jpg", "https://example.org/a.jpg", "../../etc/passwd"]
    moved = replace(stored, tables=replace(stored.tables, images=images))
    told = [(place.location, place.sha256, place.reason) for place in locate_images(moved)]
    digests = images["sha256"].tolist()
    assert told == [
        ("/photos/a.jpg", digests[0], ""),
        ("s3://bucket/a.jpg", digests[1], ""),
        (None, None, "on_the_web"),
        (None, None, "outside_the_set"),
    ]


def test_a_set_without_images_says_so_and_damage_is_one_line(tmp_path: Path) -> None:
    bare = publish_small_set(tmp_path / "bare", small_tables(), images=False)
    assert {(place.location, place.reason) for place in locate_images(bare)} == {(None, "no_image")}
    stored = publish_small_set(tmp_path / "whole", small_tables())
    (stored.path / "images" / "checksums.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="run verify on the set"):
        locate_images(stored)
    assert image_id_of("dog") in {place.image_id for place in locate_images(bare)}
