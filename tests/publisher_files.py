"""Two images with a text each, in the layout of every import format."""

import base64
import csv
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.images import make_jpeg

OTHER_IMAGE, OTHER_QUERY = "img_" + "b" * 20, "q_" + "b" * 20
RED, BLUE = make_jpeg((200, 0, 0), (24, 16)), make_jpeg((0, 0, 200), (32, 16))


class FirstEntry(NamedTuple):
    """What the files say of their first image and its text."""

    image: str = "img_" + "a" * 20
    query: str = "q_" + "a" * 20
    text: str = "a red dog"
    file_name: str = "red.jpg"
    grade: str = "1"
    url: str = "https://example.org/red.jpg"


def write_source(name: str, folder: Path, entry: FirstEntry) -> None:
    """Write the files of a layout, and the images of `--images` to `photos` beside the folder."""
    photos = folder.with_name("photos")
    names = {"red.jpg": RED, "blue.jpg": BLUE, FirstEntry().image: RED, OTHER_IMAGE: BLUE}
    names |= {"exampleorgredjpg.jpg": RED, "xexamplebjpg.jpg": BLUE}  # as TaiSu names what it downloads
    for path, data in names.items():
        photos.mkdir(parents=True, exist_ok=True)
        (photos / path).write_bytes(data)
    for path, content in PUBLISHER_FILES[name](entry).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        (folder / path).write_bytes(data)


def _json(value: Any) -> str:
    return json.dumps(value) + "\n"


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _parquet(columns: Mapping[str, Any]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({name: _encoded(column) for name, column in columns.items()}), sink)
    return sink.getvalue()


def _encoded(column: Any) -> Any:
    """Texts as Arrow has them, half characters too."""
    if not isinstance(column, list) or not isinstance(column[0], str):
        return column
    return pa.array([text and text.encode("utf-8", "surrogatepass") for text in column], pa.binary()).view(pa.string())


def _number(grade: str) -> Any:
    """A grade as JSON and Parquet have it, where it can be a number."""
    return int(grade) if grade.isdigit() and len(grade) < 400 else grade


def _image_column(name: str) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array([RED, BLUE]), _encoded([name, "blue.jpg"])], ["bytes", "path"])


def _beir(e: FirstEntry) -> dict[str, Any]:
    metadata = {"width": 24, "height": 16, "source_url": e.url, "style": "word", "level": _number(e.grade)}
    return {
        "corpus.jsonl": _json({"_id": e.image, "text": e.file_name, "metadata": metadata})
        + _json({"_id": OTHER_IMAGE, "text": "blue.jpg"}),
        "queries.jsonl": _json({"_id": e.query, "text": e.text, "metadata": metadata})
        + _json({"_id": OTHER_QUERY, "text": "a blue cat"}),
        "qrels/test.tsv": f"query-id\tcorpus-id\tscore\n{e.query}\t{e.image}\t{e.grade}\n"
        f"{OTHER_QUERY}\t{OTHER_IMAGE}\t1\n",
    }


def _trec(e: FirstEntry) -> dict[str, Any]:
    return {
        "qrels.txt": f"{e.query} 0 {e.image} {e.grade}\n{OTHER_QUERY} 0 {OTHER_IMAGE} 1\n",
        "queries.tsv": f"{e.query}\t{e.text}\n{OTHER_QUERY}\ta blue cat\n",
    }


def _chinese_clip(e: FirstEntry) -> dict[str, Any]:
    lines = _json({"text_id": 7, "text": e.text, "image_ids": [1]}) + _json(
        {"text_id": 8, "text": "狗", "image_ids": [2]}
    )
    images = f"1\t{base64.b64encode(RED).decode()}\n2\t{base64.b64encode(BLUE).decode()}\n"
    return {
        "test_texts.jsonl": lines,
        "test_imgs.tsv": images,
        "test_image_ids.tsv": f"number\timage_id\n1\t{e.image}\n2\t{OTHER_IMAGE}\n",
        "test_text_ids.tsv": f"number\tquery_id\n7\t{e.query}\n8\t{OTHER_QUERY}\n",
    }


def _muge(e: FirstEntry) -> dict[str, Any]:
    return {
        "MR_valid_queries.jsonl": _json({"query_id": e.query, "query_text": e.text, "item_ids": [e.image]})
        + _json({"query_id": 8, "query_text": "狗", "item_ids": [2]}),
        "MR_valid_imgs.tsv": f"{e.image}\t{base64.b64encode(RED).decode()}\n2\t{base64.b64encode(BLUE).decode()}\n",
    }


def _coco(e: FirstEntry) -> dict[str, Any]:
    size = {"width": _number(e.grade), "height": 16}
    return {
        "images": [
            {"id": e.image, "file_name": e.file_name, "coco_url": e.url, "license": 4, **size},
            {"id": 2, "file_name": "blue.jpg"},
        ],
        "annotations": [
            {"id": e.query, "image_id": e.image, "caption": e.text},
            {"id": 8, "image_id": 2, "caption": "a blue cat"},
        ],
        "licenses": [{"id": 4, "name": e.url}],
    }


def _eccv(e: FirstEntry) -> dict[str, Any]:
    numbers = _json({e.query if e.query != FirstEntry().query else "7": [_number(e.grade), 2], "8": [2]})
    captions = _coco(e)
    captions["annotations"][0]["id"], captions["images"][0]["id"] = 7, 1
    return {
        "eccv_caption_to_image.json": numbers,
        "original_caption_to_image.json": numbers,
        "captions_val2014.json": _json(captions),
    }


def _karpathy(e: FirstEntry) -> dict[str, Any]:
    first = {
        "filename": e.file_name,
        "split": "test",
        "imgid": _number(e.grade),
        "image_id": e.image,
        "sentences": [{"raw": e.text, "sentid": 7, "query_id": e.query}],
    }
    other = {"filename": "blue.jpg", "split": "test", "imgid": 2, "image_id": OTHER_IMAGE}
    sentences = [{"raw": "a blue cat", "sentid": 8, "query_id": OTHER_QUERY}]
    return {"dataset.json": _json({"images": [first, other | {"sentences": sentences}], "dataset": e.url})}


def _segmented(e: FirstEntry) -> dict[str, Any]:
    name = "flickr30kzhmbosontest"
    return {
        f"{name}/ImageSets/{name}.txt": f"{e.file_name.removesuffix('.jpg')}\nblue\n",
        f"{name}/TextData/seg.{name}.caption.txt": f"{e.file_name.removesuffix('.jpg')}#zhm#0 {e.text}\n"
        "blue#zhm#0 狗:n 跑:v\n",
    }


def _huggingface(e: FirstEntry) -> dict[str, Any]:
    configs = [{"config_name": one, "data_files": f"{one}/*.parquet"} for one in ("images", "queries", "qrels")]
    images = {"image": _image_column(e.file_name), "image_id": [e.image, OTHER_IMAGE]}
    sizes = {"width": pa.array([24, 32], pa.int32()), "height": pa.array([16, 16], pa.int32())}
    queries = {"query_id": [e.query, OTHER_QUERY], "text": [e.text, "a blue cat"], "language": ["en", "en"]}
    qrels = {"query_id": [e.query, OTHER_QUERY], "image_id": [e.image, OTHER_IMAGE], "judged_by": ["human", "human"]}
    grades = [_number(e.grade), 1] if isinstance(_number(e.grade), int) and len(e.grade) < 18 else [e.grade, "1"]
    return {
        "README.md": f"---\n{json.dumps({'configs': configs})}\n---\n# {e.text}\n",
        "querytruth.json": _description(e),
        "images/test-0.parquet": _parquet(
            images | sizes | {"file_name": [e.file_name, "blue.jpg"], "source_url": [e.url, None]}
        ),
        "queries/test-0.parquet": _parquet(queries | {"style": ["word", "word"], "level": [1, 1]}),
        "qrels/test-0.parquet": _parquet(qrels | {"relevance": grades}),
    }


def _mteb(e: FirstEntry) -> dict[str, Any]:
    grades = [_number(e.grade), 1] if isinstance(_number(e.grade), int) and len(e.grade) < 18 else [e.grade, "1"]
    return {
        "corpus/test-0.parquet": _parquet({"id": [e.image, OTHER_IMAGE], "image": _image_column(e.file_name)}),
        "queries/test-0.parquet": _parquet({"id": [e.query, OTHER_QUERY], "text": [e.text, "a blue cat"]}),
        "qrels/test-0.parquet": _parquet(
            {"query-id": [e.query, OTHER_QUERY], "corpus-id": [e.image, OTHER_IMAGE], "score": grades}
        ),
    }


def _description(e: FirstEntry) -> str:
    fields = {"name": e.file_name, "version": 1, "kind": "precision", "title": e.text, "licence": e.url}
    return _json({**fields, "content_digest": e.image, "grades": {e.grade: e.text}, "faults": [e.text]})


def _csv_tables(e: FirstEntry) -> dict[str, Any]:
    return {
        "queries.csv": _csv(
            [
                ["query_id", "text", "language", "style", "level", "labels"],
                [e.query, e.text, "en", "word", "1", '["dog"]'],
                [OTHER_QUERY, "a blue cat", "en", "word", "1", ""],
            ]
        ),
        "images.csv": _csv(
            [
                ["image_id", "path", "file_name", "width", "height", "source_url"],
                [e.image, e.file_name, e.file_name, "24", "16", e.url],
                [OTHER_IMAGE, "blue.jpg", "blue.jpg", "32", "16", ""],
            ]
        ),
        "qrels.csv": _csv(
            [
                ["query_id", "image_id", "relevance", "judged_by", "evidence"],
                [e.query, e.image, e.grade, "human", e.text],
                [OTHER_QUERY, OTHER_IMAGE, "1", "human", ""],
            ]
        ),
        "querytruth.json": _description(e),
        "red.jpg": RED,
        "blue.jpg": BLUE,
    }


def make_tar(members: Mapping[str, bytes]) -> bytes:
    """The members as a tar."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return sink.getvalue()


def write_shard(folder: Path, members: Mapping[str, bytes]) -> Path:
    """Write a folder of webdataset with one shard, and return the shard."""
    (folder / "test").mkdir(parents=True, exist_ok=True)
    (folder / "test" / "nshards.txt").write_text("1")
    (folder / "test" / "0.tar").write_bytes(make_tar(members))
    return folder / "test" / "0.tar"


def _webdataset(e: FirstEntry) -> dict[str, Any]:
    ids = json.dumps({"image_id": e.image, "query_ids": [e.query]}).encode()
    other = json.dumps({"image_id": OTHER_IMAGE, "query_ids": [OTHER_QUERY]}).encode()
    stem = e.file_name.removesuffix(".jpg").encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    text = e.text.encode("utf-8", "surrogatepass")
    first = {f"{stem}.jpg": RED, f"{stem}.txt": text, f"{stem}.json": ids}
    shard = make_tar({**first, "blue.jpg": BLUE, "blue.txt": b"a blue cat", "blue.json": other})
    return {"test/nshards.txt": "1\n", "test/0.tar": shard}


def _zero(e: FirstEntry) -> dict[str, Any]:
    first = {"text": e.text, "image_path": e.file_name, "label": _number(e.grade)}
    return {"long_itm_val.json": _json(first) + _json({"text": "狗", "image_path": "x/blue.jpg", "label": 1})}


PUBLISHER_FILES: dict[str, Callable[[FirstEntry], dict[str, Any]]] = {
    "beir": _beir,
    "chinese_clip": _chinese_clip,
    "coco_captions": lambda e: {"annotations/captions_val2017.json": _json(_coco(e))},
    "coco_cn": lambda e: {
        "coco-cn_test.txt": f"{e.file_name.removesuffix('.jpg')}\nblue\n",
        "imageid.human-written-caption.txt": f"{e.file_name.removesuffix('.jpg')}#0\t{e.text}\nblue#0\t狗\n",
    },
    "csv": _csv_tables,
    "eccv_caption": _eccv,
    "flickr30k_cn": lambda e: {"flickr30k_cn_test.txt": f"{e.file_name}#0\t{e.text}\nblue.jpg#0\t狗\n"},
    "flickr30k_cn segmented": _segmented,
    "flickr8k": lambda e: {
        "Flickr8k.token.txt": f"{e.file_name}#0\t{e.text}\nblue.jpg#0\ta cat\n",
        "Flickr_8k.testImages.txt": f"{e.file_name}\nblue.jpg\n",
    },
    "flickr8k_cn": lambda e: {
        "flickr8kzhc.caption.txt": f"{e.file_name}#zhc#0 {e.text}\nblue.jpg#zhc#0 狗\n",
        "flickr8ktest.txt": f"{e.file_name}\nblue\n",
    },
    "huggingface": _huggingface,
    "karpathy": _karpathy,
    "mteb": _mteb,
    "muge": _muge,
    "taisu": lambda e: {"taisu.csv": _csv([["url", "caption"], [e.url, e.text], ["https://x.example/b.jpg", "狗"]])},
    "trec": _trec,
    "webdataset": _webdataset,
    "wukong_test": lambda e: {
        "wukong_test.csv": _csv([["dir", "url", "text"], [e.file_name, e.url, e.text], ["blue.jpg", "", "狗"]])
    },
    "zero": _zero,
}


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def write_muge(folder: Path, images: dict[int, bytes]) -> Path:
    folder.mkdir()
    queries = [
        {"query_id": 1, "query_text": "红色连衣裙", "item_ids": [10, 11]},
        {"query_id": 2, "query_text": "蓝色的鞋", "item_ids": [12]},
        {"query_id": 3, "query_text": "无", "item_ids": [99]},
    ]
    lines = "".join(json.dumps(query, ensure_ascii=False) + "\n" for query in queries)
    (folder / "MR_valid_queries.jsonl").write_text(lines, "utf-8")
    rows = [f"{number}\t{base64.b64encode(data).decode()}\n" for number, data in images.items()]
    (folder / "MR_valid_imgs.tsv").write_text("".join(rows))
    return folder
