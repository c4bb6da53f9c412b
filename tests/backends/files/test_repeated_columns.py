"""A table that names a column twice is refused by every reader that would have to choose one of the two."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from builders.precision.label_files import read_label_csv
from querytruth.audit.overlap import find_text_column
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.images.source_readers import list_table
from querytruth.backends.models.chat.captions_file import read_caption_file
from querytruth.errors import UserError
from querytruth.evaluation.run_files import read_run
from querytruth.evaluation.run_formats import read_image_texts

IMAGES = pd.DataFrame({"image_id": ["a"], "file_name": ["a.jpg"]})


def read_image_list(path: Path) -> object:
    with path.open("rb") as file:
        return list_table(file, str(path), remote=False)


READERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "captions": (read_caption_file, "image,caption", "caption"),
    "run": (read_run, "query_id,image_id,score", "score"),
    "texts of images": (lambda path: read_image_texts(path, IMAGES), "image_id,text", "text"),
    "list of images": (read_image_list, "path,taken_at", "path"),
    "publisher's table": (lambda path: list(iterate_rows(path, ["id", "text"])), "id,text", "text"),
    "labels": (read_label_csv, "id,name", "name"),
    "texts of an overlap": (find_text_column, "url,caption", "caption"),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_column_that_is_there_twice_is_named(tmp_path: Path, reader: str) -> None:
    read, header, repeated = READERS[reader]
    path = tmp_path / "table.csv"
    cells = ",".join("1" for _ in header.split(","))
    path.write_text(f"{header},{repeated}\n{cells},2\n")
    with pytest.raises(UserError, match=f"column '{repeated}' twice") as raised:
        read(path)
    assert "\n" not in str(raised.value) and "table.csv" in str(raised.value)


@pytest.mark.parametrize("reader", sorted(set(READERS) - {"labels"}))
def test_other_columns_may_repeat(tmp_path: Path, reader: str) -> None:
    read, header, _ = READERS[reader]
    path = tmp_path / "table.csv"
    cells = ",".join("a" if name == "image_id" else "" if name == "taken_at" else "1" for name in header.split(","))
    path.write_text(f"{header},note,note\n{cells},x,y\n")
    assert read(path) is not None
