"""What the readers of formats find: TREC, BEIR, CSV, webdataset, Chinese-CLIP, Karpathy and Label Studio."""

import base64
import csv
import io
import json
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import ir_measures
import pandas as pd
import pytest
import pytrec_eval
from PIL import Image

from querytruth.errors import UserError
from querytruth.formats import exporters
from querytruth.formats.exporters import label_studio, webdataset
from querytruth.formats.exporters.karpathy import tokenize_caption
from querytruth.sets import set_files
from querytruth.sets.set_files import StoredSet
from tests.resealed_sets import reseal
from tests.small_sets import image_id_of, publish_small_set, query_id_of, small_tables


def judged(stored: StoredSet) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for row in stored.tables.qrels.itertuples():
        out.setdefault(str(row.query_id), {})[str(row.image_id)] = int(row.relevance)  # type: ignore[arg-type]
    return out


def test_trec_is_read_back_by_pytrec_eval_and_ir_measures(stored: StoredSet, tmp_path: Path) -> None:
    lost = exporters.export_set("trec", stored, tmp_path / "out")
    truth = judged(stored)
    with (tmp_path / "out" / "qrels.txt").open() as file:
        assert pytrec_eval.parse_qrel(file) == truth
    read = ir_measures.read_trec_qrels(str(tmp_path / "out" / "qrels.txt"))
    assert {(q.query_id, q.doc_id, q.relevance) for q in read} == {
        (q, i, r) for q, of in truth.items() for i, r in of.items()
    }
    perfect = {q: {i: float(r) for i, r in of.items()} for q, of in truth.items()}
    figures = pytrec_eval.RelevanceEvaluator(truth, {"ndcg"}).evaluate(perfect)
    assert all(figure["ndcg"] == 1.0 for figure in figures.values())
    lines = (tmp_path / "out" / "queries.tsv").read_text("utf-8").splitlines()
    texts = dict(line.split("\t") for line in lines)
    wanted = {row.query_id: " ".join(row.text.split()) for row in stored.tables.queries.itertuples()}
    assert texts == wanted
    assert "the tabs, line ends and double blanks of 1 texts" in lost


def test_beir_is_read_back_by_a_plain_reader(stored: StoredSet, tmp_path: Path) -> None:
    exporters.export_set("beir", stored, tmp_path / "out")
    lines = {
        name: [json.loads(line) for line in (tmp_path / "out" / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("corpus", "queries")
    }
    assert {line["_id"] for line in lines["corpus"]} == set(stored.tables.images["image_id"])
    assert {line["_id"]: line["text"] for line in lines["queries"]} == dict(
        zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True)
    )
    header, *rows = (tmp_path / "out" / "qrels" / "test.tsv").read_text().splitlines()
    assert header.split("\t") == ["query-id", "corpus-id", "score"]
    found: dict[str, dict[str, int]] = {}
    for query, image, score in (row.split("\t") for row in rows):
        found.setdefault(query, {})[image] = int(score)
    assert found == judged(stored)


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def test_webdataset_puts_the_texts_beside_their_image(plain: StoredSet, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exporters.export_set("webdataset", plain, out)
    assert (out / "dataset_type.txt").read_text() == "retrieval\n"
    assert (out / "test" / "nshards.txt").read_text() == "1\n"
    found = members(out / "test" / "0.tar")
    assert len(found) == 12
    dog = found[f"{image_id_of('dog')}.txt"].decode().splitlines()
    assert sorted(dog) == ["-1", "a dog, wet"]
    assert found[f"{image_id_of('cat')}.txt"].decode() == "'cat' asleep", "a line is a text: line ends go"
    assert found[f"{image_id_of('tree')}.txt"] == b"", "an image that nothing asks for only distracts"
    assert Image.open(io.BytesIO(found[f"{image_id_of('tree')}.jpg"])).height == 16


@pytest.mark.parametrize("name", ["webdataset", "karpathy", "label_studio"])
def test_a_squashed_image_is_exported_with_its_own_size_and_that_of_its_original(name: str, tmp_path: Path) -> None:
    squashed = publish_small_set(tmp_path, small_tables(graded=False), render={"size": 24, "mode": "squash"})
    out = tmp_path / "out"
    exporters.export_set(name, squashed, out, allow_loss=True)
    if name == "webdataset":
        described = json.loads(members(out / "test" / "0.tar")[f"{image_id_of('dog')}.json"])
    elif name == "karpathy":
        entries = json.loads((out / "dataset.json").read_text())["images"]
        described = next(entry for entry in entries if entry["image_id"] == image_id_of("dog"))
    else:
        tasks = [task["data"] for task in json.loads((out / "tasks-00000.json").read_text())]
        described = next(task for task in tasks if task["image_id"] == image_id_of("dog"))
    sizes = {name: described[name] for name in ("width", "height", "original_width", "original_height")}
    assert sizes == {"width": 24, "height": 24, "original_width": 640, "original_height": 480}


def test_a_query_with_two_right_images_is_split_in_webdataset(stored: StoredSet, tmp_path: Path) -> None:
    exporters.export_set("webdataset", stored, tmp_path / "out", allow_loss=True)
    found = members(tmp_path / "out" / "test" / "0.tar")
    holding = [name for name, data in found.items() if name.endswith(".txt") and b"a dog, wet" in data]
    assert sorted(holding) == sorted(f"{image_id_of(name)}.txt" for name in ("dog", "beach"))


def test_shards_hold_so_many_images(plain: StoredSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webdataset, "SHARD_IMAGES", 3)
    exporters.export_set("webdataset", plain, tmp_path / "out")
    assert (tmp_path / "out" / "test" / "nshards.txt").read_text() == "2\n"
    assert [len(members(tmp_path / "out" / "test" / f"{number}.tar")) for number in (0, 1)] == [9, 3]


def test_webdataset_reads_its_shards(plain: StoredSet, tmp_path: Path) -> None:
    wds = pytest.importorskip("webdataset", reason="webdataset is not installed")
    exporters.export_set("webdataset", plain, tmp_path / "out")
    pattern = str(tmp_path / "out" / "test" / "{0..0}.tar")
    read = list(wds.WebDataset(pattern, shardshuffle=False).decode("pil").to_tuple("jpg", "txt"))
    assert [image.height for image, _ in read] == [16] * 4
    assert sum(len(text.splitlines()) for _, text in read) == 4


def test_a_kind_of_image_that_clip_benchmark_does_not_read_is_refused(plain: StoredSet, tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, "GIF")
    (plain.path / plain.tables.images["path"].iloc[0]).write_bytes(out.getvalue())
    reseal(plain.path)
    with pytest.raises(UserError, match="is a GIF, which CLIP_benchmark does not read"):
        exporters.export_set("webdataset", set_files.read_set(plain.path), tmp_path / "out")


def test_chinese_clip_has_whole_numbers_for_ids_and_images_in_base64(stored: StoredSet, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exporters.export_set("chinese_clip", stored, out, allow_loss=True)
    ids = [line.split("\t") for line in (out / "test_image_ids.tsv").read_text().splitlines()[1:]]
    images = [line.split("\t") for line in (out / "test_imgs.tsv").read_text().splitlines()]
    assert sorted(images)[0][0] == "0"
    for _, encoded in images:
        assert Image.open(io.BytesIO(base64.urlsafe_b64decode(encoded))).height == 16, "as Chinese-CLIP decodes them"
    texts = [json.loads(line) for line in (out / "test_texts.jsonl").read_text("utf-8").splitlines()]
    numbers = {image: int(number) for number, image in ids}
    dog = next(line for line in texts if line["text"] == "a dog, wet")
    assert dog["image_ids"] == sorted(numbers[image_id_of(name)] for name in ("dog", "beach"))
    assert all(set(line) == {"text_id", "text", "image_ids"} and isinstance(line["text_id"], int) for line in texts)
    assert [line["text_id"] for line in texts] == list(range(3)), "a query without a right image is left out"


def test_karpathy_counts_images_and_sentences(plain: StoredSet, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exporters.export_set("karpathy", plain, out)
    data = json.loads((out / "dataset.json").read_text("utf-8"))
    assert data["dataset"] == "small"
    assert [image["imgid"] for image in data["images"]] == list(range(4))
    assert [number for image in data["images"] for number in image["sentids"]] == list(range(4))
    for image in data["images"]:
        assert (out / image["filepath"] / image["filename"]).is_file()
    sentence = next(s for image in data["images"] for s in image["sentences"] if s["query_id"] == query_id_of("dog"))
    assert sentence["tokens"] == ["a", "dog", "wet"]
    assert sentence["raw"] == "a dog, wet"


def test_chinese_is_cut_by_the_character() -> None:
    assert tokenize_caption("沙滩上的狗, iPhone's box!") == ["沙", "滩", "上", "的", "狗", "iphone's", "box"]


def test_label_studio_gets_a_task_for_every_judgment(
    stored: StoredSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_studio, "TASKS_PER_FILE", 2)
    out = tmp_path / "out"
    exporters.export_set("label_studio", stored, out)
    files = sorted(out.glob("tasks-*.json"))
    tasks = [task for file in files for task in json.loads(file.read_text("utf-8"))]
    assert [len(json.loads(file.read_text("utf-8"))) for file in files] == [2, 2, 1]
    grades = sorted(task["predictions"][0]["result"][0]["value"]["choices"][0] for task in tasks)
    assert grades == ["0", "1", "2", "2", "2"]
    for task in tasks:
        assert (out / task["data"]["image"].removeprefix("/data/local-files/?d=")).is_file()
    config = ElementTree.fromstring((out / "config.xml").read_text("utf-8"))
    choices = {choice.get("value"): choice.get("hint") for choice in config.iter("Choice")}
    assert choices == {"2": "all that is asked for", "1": "a part of it", "0": "not relevant"}
    assert {task["predictions"][0]["result"][0]["from_name"] for task in tasks} == {"grade"}


def test_a_grades_meaning_cannot_break_the_interface(tmp_path: Path) -> None:
    stored = publish_small_set(tmp_path, small_tables())
    stored.manifest["grades"] = {"2": '"/><script>alert(1)</script>'}
    exporters.export_set("label_studio", stored, tmp_path / "out")
    config = ElementTree.fromstring((tmp_path / "out" / "config.xml").read_text("utf-8"))
    assert not list(config.iter("script"))


def test_csv_is_read_by_pandas_and_by_duckdb(stored: StoredSet, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exporters.export_set("csv", stored, out)
    qrels = pd.read_csv(out / "qrels.csv")
    assert sorted(qrels["relevance"]) == [0, 1, 2, 2, 2]
    images = pd.read_csv(out / "images.csv", dtype=str, keep_default_na=False, na_filter=False)
    assert all((out / path).is_file() for path in images["path"])
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    counted = duckdb.sql(f"select count(*) from read_csv('{out}/qrels.csv') where relevance > 0").fetchall()
    assert counted == [(4,)]


def test_csv_runs_no_formula_and_tells_nothing_from_empty(stored: StoredSet, tmp_path: Path) -> None:
    exporters.export_set("csv", stored, tmp_path / "out")
    with (tmp_path / "out" / "images.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["file_name"]: row for row in csv.DictReader(file)}
    assert rows["holiday/beach 1.jpg"]["licence"] == "'=SUM(A1)"
    assert rows["holiday/beach 1.jpg"]["source_url"] == "'", "an empty text"
    assert rows["holiday/cat 1.jpg"]["source_url"] == "", "no text"
