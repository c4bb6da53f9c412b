"""Sets with judgments in files of their own: MUGE, Chinese-CLIP, BEIR, TREC, MTEB and webdataset, in miniature."""

import base64
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.errors import UserError
from querytruth.formats import importers
from querytruth.formats.importers import ImportedTables
from querytruth.formats.set_images import ImageStore
from tests.images import make_jpeg
from tests.publisher_files import write_shard

RED, BLUE = make_jpeg((200, 0, 0)), make_jpeg((0, 0, 200))


def read(name: str, source: Path, split: str | None = None) -> ImportedTables:
    return importers.import_tables(name, source, split, ImageStore(source.parent / "unpacked"))


def scores(said: ImportedTables) -> list[tuple[str, str, int]]:
    rows = zip(said.qrels["query"], said.qrels["image"], said.qrels["relevance"], strict=True)
    return sorted((query, image, int(relevance)) for query, image, relevance in rows)


def muge(folder: Path, queries: list[dict[str, Any]], images: list[tuple[object, str]]) -> Path:
    folder.mkdir()
    (folder / "MR_valid_queries.jsonl").write_text(
        "\n".join(json.dumps(q, ensure_ascii=False) for q in queries) + "\n", "utf-8"
    )
    (folder / "MR_valid_imgs.tsv").write_text("".join(f"{number}\t{text}\n" for number, text in images))
    return folder


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_muge_has_several_images_a_query_and_brings_them_along(tmp_path: Path) -> None:
    source = muge(
        tmp_path / "muge",
        [{"query_id": 1, "query_text": "红色 连衣裙", "item_ids": [10, 11]}],
        [(10, b64(RED)), (11, base64.urlsafe_b64encode(BLUE).decode())],
    )
    said = read("muge", source)
    assert scores(said) == [("1", "10", 1), ("1", "11", 1)]
    unpacked = [(tmp_path / "unpacked" / place).read_bytes() for place in said.images["place"]]
    assert unpacked == [RED, BLUE], "both alphabets of base64"


def test_the_truth_of_a_test_split_that_is_not_public_is_said_to_be_missing(tmp_path: Path) -> None:
    source = muge(tmp_path / "muge", [{"query_id": 1, "query_text": "花"}], [(10, b64(RED))])
    with pytest.raises(UserError, match=r"MR_valid_queries.jsonl line 1 .*has no item_ids.*read another split"):
        read("muge", source)


def test_base64_that_is_rubbish_goes_to_the_ledger_with_its_line(tmp_path: Path) -> None:
    queries = [{"query_id": 1, "query_text": "花", "item_ids": [10, 11, 12]}]
    source = muge(tmp_path / "muge", queries, [(10, b64(RED)), (11, "@@@@"), (12, b64(b"<html>"))])
    said = read("muge", source)
    assert list(said.images["image"]) == ["10"]
    assert said.rejections == [
        ("image", "11", "not_base64", "MR_valid_imgs.tsv line 2"),
        ("image", "12", "not_an_image", "MR_valid_imgs.tsv line 3"),
    ]


def test_chinese_clip_reads_numbers_and_texts(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "test_texts.jsonl").write_text(
        '{"text_id": 4, "text": "a dog", "image_ids": [0]}\n{"text_id": 5, "text": "狗", "image_ids": []}\n', "utf-8"
    )
    (folder / "test_imgs.tsv").write_text(f"0\t{b64(RED)}\n")
    said = read("chinese_clip", folder)
    assert scores(said) == [("4", "0", 1)]
    assert list(said.queries["language"]) == ["en", "zh"]
    assert not said.keeps_ids


def beir(folder: Path, qrels: str = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n") -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "", "text": "a/1.jpg"}\n'
        '{"_id": "d2", "text": "a/2.jpg", "metadata": {"width": "wide"}}\n'
    )
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "a dog"}\n{"_id": "q2", "text": "of the training split"}\n'
    )
    (folder / "qrels" / "test.tsv").write_text(qrels)
    return folder


def test_beir_keeps_grades_and_zeros_and_leaves_other_splits(tmp_path: Path) -> None:
    folder = beir(tmp_path / "beir")
    assert list(read("beir", folder).queries["query"]) == ["q1", "q2"], "q2 waits: no split judges it"
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n")
    said = read("beir", folder)
    assert scores(said) == [("q1", "d1", 2), ("q1", "d2", 0)]
    assert list(said.queries["query"]) == ["q1"]
    assert list(said.images["file_name"]) == ["a/1.jpg", "a/2.jpg"]
    assert said.grades == {"2": "score 2", "0": "score 0"}


@pytest.mark.parametrize(
    ("qrels", "says"),
    [
        (
            "query\tcorpus-id\tscore\nq1\td1\t1\n",
            r"test.tsv line 1 .*no column 'query-id' \(it has query, corpus-id, score\)",
        ),
        ("query-id\tcorpus-id\tscore\nq1\td1\thigh\n", "test.tsv line 2 .*score 'high' is not a whole number"),
        ("query-id\tcorpus-id\tscore\nq1\td1\n", "test.tsv line 2 .*has 2 cells, but the header has 3"),
    ],
)
def test_beir_with_broken_scores_names_the_line(qrels: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        read("beir", beir(tmp_path / "beir", qrels))


def test_trec_is_a_gallery_of_what_was_judged(tmp_path: Path) -> None:
    folder = tmp_path / "trec"
    folder.mkdir()
    (folder / "qrels.txt").write_text("301 0 FBIS-1 1\n301 0 FBIS-2 -2\n\n302 Q0 FBIS-1 3\n")
    (folder / "queries.tsv").write_text("301\ta dog\n302\t一只狗\n", "utf-8")
    said = read("trec", folder)
    assert scores(said) == [("301", "FBIS-1", 1), ("301", "FBIS-2", -2), ("302", "FBIS-1", 3)]
    assert list(said.images["image"]) == ["FBIS-1", "FBIS-2"]
    assert said.grades == {"3": "grade 3", "1": "grade 1", "0": "grade 0"}
    (folder / "qrels.txt").write_text("301 0 FBIS-1 1\n301 FBIS-2 1\n")
    with pytest.raises(UserError, match=r"qrels.txt line 2 .*has 3 columns, not 4"):
        read("trec", folder)


def mteb(folder: Path, old: bool = False) -> Path:
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    name = "_id" if old else "id"
    tables = {
        "corpus": pa.table(
            {
                name: ["1", "2"],
                "image": pa.array([{"bytes": RED, "path": None}, {"bytes": BLUE, "path": None}], image),
            }
        ),
        "query" if old else "queries": pa.table({name: ["a"], "text": ["a red thing"]}),
        "default" if old else "qrels": pa.table({"query-id": ["a", "a"], "corpus-id": ["1", "2"], "score": [1, 0]}),
    }
    configs = []
    for config, table in tables.items():
        (folder / config).mkdir(parents=True)
        pq.write_table(table, folder / config / "test-00000-of-00001.parquet")
        configs.append({"config_name": config, "data_files": [{"split": "test", "path": f"{config}/test-*"}]})
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n# X\n")
    return folder


@pytest.mark.parametrize("old", [False, True])
def test_mteb_of_other_people_is_read_by_its_readme(old: bool, tmp_path: Path) -> None:
    said = read("mteb", mteb(tmp_path / "m", old))
    assert scores(said) == [("a", "1", 1), ("a", "2", 0)]
    assert [(tmp_path / "unpacked" / place).read_bytes() for place in said.images["place"]] == [RED, BLUE]
    assert not said.keeps_ids


def test_mteb_without_a_readme_is_read_by_its_folders(tmp_path: Path) -> None:
    (mteb(tmp_path / "m") / "README.md").unlink()
    assert len(scores(read("mteb", tmp_path / "m"))) == 2


def test_parquet_that_was_cut_is_refused(tmp_path: Path) -> None:
    path = mteb(tmp_path / "m") / "corpus" / "test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"test-00000-of-00001.parquet .*is not a complete Parquet file"):
        read("mteb", tmp_path / "m")


def test_parquet_that_lacks_a_column_is_refused(tmp_path: Path) -> None:
    path = mteb(tmp_path / "m") / "qrels" / "test-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["score"]), path)
    with pytest.raises(UserError, match=r"has no column 'score' \(it has query-id, corpus-id\)"):
        read("mteb", tmp_path / "m")


@pytest.mark.parametrize("named", ["../secret.parquet", "/secret.parquet", "corpus/../../*.parquet"])
def test_a_readme_names_no_files_outside(named: str, tmp_path: Path) -> None:
    folder = mteb(tmp_path / "m")
    pq.write_table(pa.table({"id": ["1"]}), tmp_path / "secret.parquet")
    configs = json.dumps([{"config_name": "corpus", "data_files": named}])
    (folder / "README.md").write_text(f"---\nconfigs: {configs}\n---\n")
    with pytest.raises(UserError, match="has no Parquet files"):
        read("mteb", folder)


def test_webdataset_reads_images_with_their_texts(tmp_path: Path) -> None:
    write_shard(
        tmp_path / "wds",
        {"s0.jpg": RED, "s0.txt": "a dog\n一只狗".encode(), "s1.txt": b"lost", "s1.png": b"none"},
    )
    said = read("webdataset", tmp_path / "wds")
    assert scores(said) == [("s0#0", "s0", 1), ("s0#1", "s0", 1), ("s1#0", "s1", 1)]
    assert list(said.images["image"]) == ["s0"]
    assert said.rejections == [("image", "s1", "not_an_image", "0.tar s1")]
    assert list(said.queries["language"]) == ["en", "zh", "en"]


@pytest.mark.parametrize("cut", [0, 100, 512, 700, 1100])
@pytest.mark.parametrize("member", [0, 1, 9, 17])
def test_a_tar_that_was_cut_is_refused_wherever_it_was(member: int, cut: int, tmp_path: Path) -> None:
    """Even where one member ends and the next would begin: Python's tarfile is content with that."""
    files = {f"s{n}.{kind}": RED if kind == "jpg" else b"dog" * 400 for n in range(9) for kind in ("jpg", "txt")}
    path = write_shard(tmp_path / "wds", files)
    with tarfile.open(path) as tar:
        start = tar.getmembers()[member].offset
    path.write_bytes(path.read_bytes()[: start + cut])
    with pytest.raises(UserError, match=r"0.tar .*is truncated or damaged"):
        read("webdataset", tmp_path / "wds")


@pytest.mark.parametrize(
    ("name", "file", "line"),
    [
        ("flickr8k_cn", "flickr8kzhc.caption.txt", "1.jpg#zhc#0 一只狗"),
        ("wukong_test", "wukong_test.csv", "dir,url,text\n1.jpg,u,一只狗"),
        ("chinese_clip", "test_texts.jsonl", '{"text_id": 1, "text": "一只狗", "image_ids": []}'),
        ("trec", "queries.tsv", "1\t一只狗"),
    ],
)
def test_gbk_is_refused_with_file_and_line(name: str, file: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "qrels.txt").write_text("1 0 a 1\n")
    (tmp_path / "s" / file).write_bytes(line.encode("gb18030"))
    number = line.count("\n") + 1
    with pytest.raises(
        UserError, match=rf"{file} (?:line {number} )?.*is not UTF-8 .*(?:GBK.*iconv|gb18030: “一只狗”)"
    ):
        read(name, tmp_path / "s")


def test_json_that_is_not_as_expected_names_the_line_and_the_key(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "test_texts.jsonl").write_text(
        '{"text_id": 1, "text": "a", "image_ids": []}\n{"text_id": 1, "image_ids": []}\n'
    )
    with pytest.raises(UserError, match=r"test_texts.jsonl line 2 .*missing required field `text`"):
        read("chinese_clip", tmp_path / "s")
    (tmp_path / "s" / "captions_val2017.json").write_text('{"images": [{"id": 1}], "annotations": []}')
    with pytest.raises(UserError, match=r"captions_val2017.json .*`file_name` - at `images\[0\]`"):
        read("coco_captions", tmp_path / "s")


@pytest.mark.parametrize("form", ["bytes and path", "bytes alone", "two of one path", "a path alone"])
def test_images_in_the_cells_of_a_table_are_unpacked(form: str, tmp_path: Path) -> None:
    """As hubs store them; nobody reads a printed dictionary."""
    pictures = [make_jpeg((40 * n, 90, 20), (32, 32)) for n in (1, 2)]
    cells: list[object] = [{"bytes": data, "path": f"{n}.jpg"} for n, data in enumerate(pictures)]
    if form == "bytes alone":
        cells = list(pictures)
    if form == "two of one path":
        cells = [{"bytes": data, "path": "image.jpg"} for data in pictures]
    if form == "a path alone":
        cells = [{"bytes": None, "path": f"{n}.jpg"} for n in (0, 1)]
    pq.write_table(pa.table({"image": cells, "caption": [["red", "warm"], ["green"]]}), tmp_path / "train.parquet")
    said = read("pairs", tmp_path / "train.parquet")
    assert len(said.images) == 2 and len(said.queries) == 3
    assert said.images["place"].notna().sum() == (0 if form == "a path alone" else 2)
    assert not said.images["image"].str.contains("bytes").any()


@pytest.mark.parametrize("form", ["a list", "base64", "a data URL"])
def test_images_in_lists_and_in_base64_are_unpacked(form: str, tmp_path: Path) -> None:
    pictures = [make_jpeg((40 * n, 90, 20), (64, 64)) for n in (1, 2, 3)]
    encoded = [{"a data URL": "data:image/jpeg;base64,"}.get(form, "") + b64(data) for data in pictures]
    cells: list[Any] = [[b64(data) for data in pictures[:2]], b64(pictures[2])] if form == "a list" else encoded
    rows = [{"image": cell, "text": f"text {n}"} for n, cell in enumerate(cells)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = read("pairs", tmp_path / "t.jsonl")
    assert sorted((tmp_path / "unpacked" / one).read_bytes() for one in said.images["place"]) == sorted(pictures)
    assert len(said.qrels) == 3


def test_a_cell_whose_image_is_damaged_is_in_the_ledger_and_the_others_stay(tmp_path: Path) -> None:
    cells = [{"bytes": make_jpeg((9 * n, 9, 9)), "path": f"{n}.jpg"} for n in range(20)]
    cells[3]["bytes"] = b"<html>not found</html>"
    pq.write_table(pa.table({"image": cells, "text": [f"text {n}" for n in range(20)]}), tmp_path / "t.parquet")
    said = read("pairs", tmp_path / "t.parquet")
    assert list(said.rejections) == [("image", "t.parquet row 4", "not_an_image", "")]
    assert len(said.images) == len(said.queries) == 19


def test_a_cell_that_is_no_text_is_named_and_not_printed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": ["a.jpg"], "caption": [{"en": "a dog"}]}), tmp_path / "t.parquet")
    with pytest.raises(UserError, match="has a dict where a text is needed"):
        read("pairs", tmp_path / "t.parquet")
