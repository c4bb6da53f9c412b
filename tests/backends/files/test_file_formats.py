"""A file of another format in place of a text: its format is named, and the next step."""

import gzip
import json
from pathlib import Path

import pytest

from querytruth.backends.files.json_stream import JsonObjectReader
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_files import read_json_file
from querytruth.backends.models.chat.captions_file import read_caption_file
from querytruth.errors import UserError
from querytruth.evaluation.run_files import read_run

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
