"""Files of another form than their name says, and keys that a file repeats."""

import csv
import gzip
import json
from pathlib import Path

import msgspec
import pytest

from querytruth.backends.files.json_stream import JsonObjectReader
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_files import iterate_json_lines, read_json_file
from querytruth.backends.models.chat.captions_file import read_caption_file
from querytruth.backends.models.hub_models import check_weight_format
from querytruth.errors import UserError
from querytruth.evaluation.run_files import read_run
from querytruth.formats import importers
from querytruth.formats.set_images import ImageStore
from tests.publisher_files import write_shard


class Pair(msgspec.Struct):
    name: str
    rank: int = 0


class Pairs(msgspec.Struct):
    pairs: list[Pair]


def test_a_line_with_a_key_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"name": "a"}\n{"name": "b", "name": "c"}\n')
    lines = iterate_json_lines(tmp_path / "pairs.jsonl", Pair)
    assert next(lines) == (1, Pair("a"))
    with pytest.raises(UserError, match=r"pairs\.jsonl line 2.*key 'name' occurs twice"):
        next(lines)


def test_a_file_with_a_key_twice_anywhere_is_named(tmp_path: Path) -> None:
    file = tmp_path / "pairs.json"
    file.write_text('{"pairs": [{"name": "a", "other": {"x": 1}}]}')
    assert read_json_file(file, Pairs) == Pairs([Pair("a")])
    file.write_text('{"pairs": [{"name": "a", "other": {"x": 1, "\\u0078": 2}}]}')
    with pytest.raises(UserError, match=r"pairs\.json.*key 'x' occurs twice"):
        read_json_file(file, Pairs)


def test_a_sample_of_a_shard_with_a_key_twice_is_named(tmp_path: Path) -> None:
    ids = b'{"image_id": "i", "query_ids": ["q"], "image_id": "j"}'
    write_shard(tmp_path, {"0.jpg": b"?", "0.txt": b"a dog", "0.json": ids})
    with pytest.raises(UserError, match=r"0\.json.*key 'image_id' occurs twice"):
        importers.import_tables("webdataset", tmp_path, None, ImageStore(tmp_path / "unpacked"))


@pytest.mark.parametrize("name", ["config.json", "modules.json", "preprocessor_config.json"])
def test_a_model_with_a_key_twice_in_a_configuration_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"a": 1')  # reported by the library that reads it
    check_weight_format("tiny", tmp_path, "embed")
    (tmp_path / name).write_text('{"hidden_size": 4, "hidden_size": 8}')
    with pytest.raises(UserError, match=f"has a damaged {name}: key 'hidden_size' occurs twice"):
        check_weight_format("tiny", tmp_path, "embed")


def test_a_table_left_half_read_leaves_the_limit_of_other_readers(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("id,text\n1,a\n2,b\n")
    limit = csv.field_size_limit()
    rows = iterate_rows(tmp_path / "table.csv", ["id"])
    next(rows)
    assert csv.field_size_limit() == limit


TEXT = json.dumps({"images": [], "annotations": []})
OTHERS = {
    "gzip": gzip.compress(TEXT.encode()),
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-16 or a binary": TEXT.encode("utf-16-le"),
    "web page": b"\n <!DOCTYPE html><title>404</title>",
    "ZIP archive": b"PK\x03\x04" + bytes(40),
    "Parquet": b"PAR1" + bytes(40),
    "Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
}


def read_annotations(path: Path) -> None:
    with JsonObjectReader(path) as reader:
        for _ in reader.keys():  # noqa: SIM118 - not a dict
            reader.skip()


READERS = {
    "a.json": read_annotations,
    "b.json": lambda path: read_json_file(path, dict),
    "c.csv": lambda path: list(iterate_rows(path, ["id"])),
    "d.json": read_caption_file,
    "e.trec": read_run,
    "f.json": read_run,
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in READERS for kind in OTHERS if name not in ("c.csv", "d.json") or "UTF" not in kind],
)
def test_another_format_is_named_with_the_next_step(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(OTHERS[kind])
    with pytest.raises(UserError, match=kind) as caught:
        READERS[name](path)
    assert name in str(caught.value) and "Next: " in str(caught.value)


def test_text_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    read_annotations(tmp_path / "a.json")
    assert read_json_file(tmp_path / "a.json", dict) == json.loads(TEXT)
