"""Days, months and years of photos as tags."""

import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from builders.precision.date_tags import TAG_COLUMNS, list_date_tags
from builders.precision.tag_files import read_tags
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.files.text_formats import write_csv
from querytruth.sets.set_files import read_set
from tests.command_runner import invoke

PHOTOS = Path(__file__).parents[4] / "shared/data/photos_exif"


def test_a_photo_has_the_tags_of_its_day_month_and_year() -> None:
    images = pd.DataFrame({"file_name": ["a.jpg", "b.jpg", "c.jpg"],
                           "taken_at": ["2019-05-03T10:00:00+08:00", None, "0000-00-00T00:00:00"]})  # fmt: skip
    assert list(list_date_tags(images, "zh")) == [
        ("a.jpg", "2019年5月3日", "2019年5月"), ("a.jpg", "2019年5月", "2019年"), ("a.jpg", "2019年", "")
    ]  # fmt: skip
    assert [tag for _, tag, _ in list_date_tags(images, "en")] == ["3 May 2019", "May 2019", "2019"]


def test_a_name_that_a_spreadsheet_would_take_for_a_formula_is_read_as_it_is(tmp_path: Path) -> None:
    images = pd.DataFrame({"file_name": ["-1.jpg", "=x.jpg"], "taken_at": ["2019-05-03T10:00:00"] * 2})
    write_csv(tmp_path / "dates.csv", TAG_COLUMNS, list_date_tags(images, "en"))
    assert read_tags(tmp_path / "dates.csv").images["file_name"].tolist() == ["-1.jpg", "=x.jpg"]


@pytest.mark.thorough
@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the real photos are not here")
def test_real_photos_answer_dates_as_sql_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number, file in enumerate(sorted(one for one in PHOTOS.rglob("*") if one.suffix.lower() in (".jpg", ".jpeg"))):
        shutil.copy(file, tmp_path / "photos" / f"{number:03}.jpg")
    build_set(load_definition(None, ["images=photos", "name=album", "render.size=64"], "gallery"))
    said = invoke("labels", "dates", "album", "--language", "zh", "--to", "dates.csv", catch=False).stdout
    assert "tags of" in said
    keys = ["annotations=dates.csv", "images=photos", "name=dated", "render.size=64", "texts=[word]", "languages=[zh]"]
    keys += ["searchable.min_images=2", "mixes.levels=1"]
    tables = read_set(build_set(load_definition(None, keys, "precision")).path).tables

    with sqlite3.connect(":memory:") as database:
        photos = read_set(tmp_path / "datasets/album/v1").tables.images
        photos[["file_name", "taken_at"]].to_sql("photos", database)
        rows = database.execute(
            "SELECT substr(taken_at, 1, 4) || '年' || CAST(substr(taken_at, 6, 2) AS INTEGER) || '月', file_name "
            "FROM photos WHERE taken_at > '0001-01-01' ORDER BY 1, 2"
        ).fetchall()
    oracle = {month: " ".join(name for one, name in rows if one == month) for month, _ in rows}
    oracle = {month: listed for month, listed in oracle.items() if " " in listed}
    names = tables.images.set_index("image_id")["file_name"]
    found = tables.qrels[tables.qrels["relevance"] > 0].merge(tables.queries[["query_id", "text"]], on="query_id")
    of_text = found.groupby("text")["image_id"].agg(lambda ids: " ".join(sorted(names[one] for one in ids)))
    assert len(oracle) >= 3
    assert {month: of_text[month] for month in oracle} == oracle
