"""Every member that a reader sees is counted: one that it cannot use is in the ledger, or named in the error."""

import base64
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querytruth.errors import UserError
from querytruth.formats import exporters, importers
from querytruth.formats.set_images import ImageStore
from tests.images import make_jpeg
from tests.publisher_files import write_files, write_shard
from tests.small_sets import publish_small_set, small_tables

JPEG = base64.b64encode(make_jpeg()).decode()
COCO = '{{"images": [{}], "annotations": [{}]}}'
IMAGE, CAPTION = '{"id": 1, "file_name": "1.jpg"}', '{"id": 7, "image_id": 1, "caption": "a dog"}'
SENTENCE = '{"raw": "a dog", "sentid": 1}'
KARPATHY = '{{"images": [{{"filename": "1.jpg", "split": "test", "imgid": 1, "sentences": [{}]}}{}]}}'
MUGE = '{"query_id": 1, "query_text": "狗", "item_ids": [5]}\n'
CLIP = '{"text_id": 1, "text": "狗", "image_ids": [5]}\n'
DOCUMENT, QUERY = '{"_id": "d1", "text": "a/1.jpg"}\n', '{"_id": "q1", "text": "a dog"}\n'
ECCV = {"original_caption_to_image.json": '{"70": [7]%s}', "eccv_caption_to_image.json": '{"70": [7]%s}'}
ZERO = '{"text": "狗", "image_path": "a/1.jpg"}\n'

# By format: the text of each of its files, and the lines that are added to it, one at a time.
LINES: dict[str, dict[str, tuple[str, list[str]]]] = {
    "flickr8k": {
        "Flickr8k.token.txt": ("1.jpg#0\tA dog\n", ["1.jpg#1\t \n", "1.jpg#0\tagain\n", "1.jpg\tno number\n"]),
        "Flickr_8k.testImages.txt": ("1.jpg\n", ["1.jpg\n", "no text.jpg\n"]),
    },
    "flickr8k_cn": {
        "flickr8kzhc.caption.txt": ("1.jpg#zhc#0 狗\n", ["1.jpg#zhc#1\n", "1.jpg#zhc#0 又\n"]),
        "flickr8ktest.txt": ("1\n", ["1\n", "9\n"]),
    },
    "flickr30k_cn": {
        "ImageSets/s.txt": ("1\n", ["1\n"]),
        "TextData/seg.s.caption.txt": ("1#zhm#0 狗:n\n", ["1#zhm#0 又:n\n", "1\n"]),
    },
    "coco_cn": {
        "coco-cn_test.txt": ("a\n", ["a\n", "b\n"]),
        "imageid.human-written-caption.txt": ("a#0\t狗\n", ["a#1\t\n", "a#0\t又\n"]),
    },
    "taisu": {
        "taisu.csv": (
            "url,caption\nhttps://x.cn/1.jpg,狗#$#猫\n",
            ["https://x.cn/2.jpg, #$#马\n", "https://x.cn/1.jpg,鸟\n", ",鸟\n"],
        )
    },
    "wukong_test": {
        "wukong_test.csv": ("dir,url,text\n1.jpg,https://x.cn/1,狗\n", ["1.jpg,,猫\n", "2.jpg,,\n", ",,马\n"])
    },
    "zero": {"short_itr_val.json": (ZERO, [ZERO, ZERO.replace("狗", " "), '{"text": "狗"}\n'])},
    "beir": {
        "corpus.jsonl": (DOCUMENT, [DOCUMENT]),
        "queries.jsonl": (QUERY, ['{"_id": "q2", "text": "nobody judged it"}\n', '{"_id": "q2", "text": ""}\n']),
        "qrels/test.tsv": ("query-id\tcorpus-id\tscore\nq1\td1\t1\n", ["q9\td1\t1\n", "q1\td9\t1\n", "q1\td1\t0\n"]),
    },
    "trec": {
        "qrels.txt": ("q1 0 d1 1\n", ["q1 0 d9 0\n", "q9 0 d1 1\n"]),
        "queries.tsv": ("q1\ta dog\n", ["q2\t \n", "q1\tagain\n"]),
        "images.txt": ("d1\n", ["d1\n", "d2\n"]),
    },
    "muge": {
        "MR_valid_queries.jsonl": (MUGE, [MUGE.replace("狗", ""), MUGE.replace("[5]", "[]"), MUGE.replace("5", "6")]),
        "MR_valid_imgs.tsv": (f"5\t{JPEG}\n", ["6\tno image\n", f"5\t{JPEG}\n"]),
    },
    "chinese_clip": {
        "test_texts.jsonl": (CLIP, [CLIP, CLIP.replace("狗", " ")]),
        "test_imgs.tsv": (f"5\t{JPEG}\n", ["6\t\n"]),
    },
    "pairs": {"pairs.csv": ("file_name,text\n1.jpg,a dog\n", ["1.jpg,\n", ",a cat\n", "1.jpg,a dog\n"])},
}
MORE_CAPTIONS = [CAPTION, '{"id": 8, "image_id": 1}', '{"id": 8, "image_id": 9, "caption": "x"}']
MORE_SENTENCES = [SENTENCE, '{"raw": " ", "sentid": 2}']
SAME_IMAGE = ', {"filename": "2.jpg", "split": "test", "imgid": 1, "sentences": []}'
OBJECTS = {
    "coco_captions": (
        "captions_val2017.json",
        COCO.format(IMAGE, CAPTION),
        [
            COCO.format(f"{IMAGE}, {IMAGE}", CAPTION),
            *(COCO.format(IMAGE, f"{CAPTION}, {one}") for one in MORE_CAPTIONS),
        ],
    ),
    "karpathy": (
        "dataset_coco.json",
        KARPATHY.format(SENTENCE, ""),
        [KARPATHY.format(SENTENCE, SAME_IMAGE), *(KARPATHY.format(f"{SENTENCE}, {one}", "") for one in MORE_SENTENCES)],
    ),
}


def count(name: str, source: Path) -> int:
    """How many entries of any kind a reader hands on, of which each is accepted or in the ledger."""
    read = importers.import_tables(name, source, None, ImageStore(source.parent / "unpacked"))
    return len(read.queries) + len(read.images) + len(read.qrels) + len(read.rejections)


def check(name: str, folder: Path, place: str, before: int) -> None:
    try:
        assert count(name, folder) > before
    except UserError as error:
        assert Path(place).name in str(error)


@pytest.mark.parametrize(
    ("name", "place", "added"),
    [(name, place, text) for name, files in LINES.items() for place, (_, odd) in files.items() for text in odd],
)
def test_an_odd_line_is_counted_or_named(name: str, place: str, added: str, tmp_path: Path) -> None:
    files = {place: text for place, (text, _) in LINES[name].items()}
    before = count(name, write_files(tmp_path / "s", files))
    check(name, write_files(tmp_path / "s", files | {place: files[place] + added}), place, before)


@pytest.mark.parametrize(("name", "odd"), [(name, odd) for name, (_, _, all_odd) in OBJECTS.items() for odd in all_odd])
def test_an_odd_object_of_a_json_file_is_counted_or_named(name: str, odd: str, tmp_path: Path) -> None:
    place, plain, _ = OBJECTS[name]
    before = count(name, write_files(tmp_path / "s", {place: plain}))
    check(name, write_files(tmp_path / "s", {place: odd}), place, before)


@pytest.mark.parametrize("added", [', "71": []', ', "71": [9]', ', "x": [7]', ', "70": [7]'])
def test_an_odd_caption_of_eccv_is_counted_or_named(added: str, tmp_path: Path) -> None:
    before = count("eccv_caption", write_files(tmp_path / "s", {name: text % "" for name, text in ECCV.items()}))
    check(
        "eccv_caption",
        write_files(tmp_path / "s", {name: text % added for name, text in ECCV.items()}),
        "image.json",
        before,
    )


@pytest.mark.parametrize("name", ["huggingface", "mteb"])
@pytest.mark.parametrize("table", ["queries", "qrels"])
def test_an_odd_row_of_parquet_is_counted_or_named(name: str, table: str, tmp_path: Path) -> None:
    exporters.export_set(name, publish_small_set(tmp_path, small_tables()), tmp_path / "out", facts={"places"})
    before, path = count(name, tmp_path / "out"), next((tmp_path / "out" / table).glob("*.parquet"))
    rows = pq.read_table(path)
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), path)
    check(name, tmp_path / "out", table, before)


@pytest.mark.parametrize("table", ["queries", "images", "qrels"])
def test_an_odd_row_of_an_export_as_tables_is_counted_or_named(table: str, tmp_path: Path) -> None:
    exporters.export_set("csv", publish_small_set(tmp_path, small_tables()), tmp_path / "out", facts={"places"})
    before, path = count("csv", tmp_path / "out"), tmp_path / "out" / f"{table}.csv"
    lines = path.read_text("utf-8-sig").splitlines()
    path.write_text("\n".join([*lines, lines[-1], ""]), "utf-8-sig")
    check("csv", tmp_path / "out", table, before)


@pytest.mark.parametrize("member", ["b.txt", "b.jpg", "a.npy", "a.b.c.txt", "README", "deep/er/c.jpg"])
def test_an_odd_member_of_a_shard_is_counted_or_named(member: str, tmp_path: Path) -> None:
    members = {name: make_jpeg() if name.endswith("jpg") else b"a dog" for name in ("a.jpg", "a.txt", member)}
    write_shard(tmp_path / "s", {name: members[name] for name in ("a.jpg", "a.txt")})
    before = count("webdataset", tmp_path / "s")
    write_shard(tmp_path / "s", members)
    check("webdataset", tmp_path / "s", member, before)


@pytest.mark.parametrize(
    "added", ["query: b, nothing: true", "query: b, must: 9.jpg", "query: a, must: 1.jpg", "must: 1.jpg"]
)
def test_an_odd_case_of_a_golden_file_is_counted_or_named(added: str, tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(make_jpeg())
    path, text = tmp_path / "golden.yaml", "run: a.trec\nimages: .\ncases:\n- {query: a, must: 1.jpg}\n"
    path.write_text(text)
    before = count("golden", path)
    path.write_text(f"{text}- {{{added}}}\n")
    check("golden", path, "golden.yaml", before)


def test_no_format_is_forgotten() -> None:
    tested = {*LINES, *OBJECTS, "eccv_caption", "golden", "huggingface", "mteb", "csv", "webdataset"}
    assert tested == set(importers.IMPORTERS.list_plugins())
