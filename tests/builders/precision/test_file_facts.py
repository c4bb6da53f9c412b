"""What files say of photos as tags: days, months, years, places, cameras, texts, and objects beside them."""

import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from builders.precision import fact_files
from builders.precision.file_facts import TAG_COLUMNS, NamedPlace, list_date_tags, list_fact_tags
from builders.precision.tag_files import read_tags
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.files.text_formats import write_csv
from querytruth.backends.images.exif import find_camera
from querytruth.errors import UserError
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


# ---- facts of all kinds

PHOTO = {"file_name": "a.jpg", "taken_at": "2019-05-03T10:00:00", "latitude": 51.38, "longitude": -2.36}
BATH = NamedPlace("Bath", 51.3781, -2.3597, 5)


def one_photo(**changes: object) -> pd.DataFrame:
    return pd.DataFrame([{**PHOTO, "camera": "NIKON D70", "texts": ["Sale; today"], **changes}])


def test_each_fact_of_a_photo_is_a_query() -> None:
    tags = list(list_fact_tags(one_photo(), "en", [BATH, NamedPlace("Rome", 41.9, 12.5, 20)]))
    assert tags == [
        ("a.jpg", "photos of 2019", "year"),
        ("a.jpg", "photos of May 2019", "month"),
        ("a.jpg", "photos of 3 May 2019", "day"),
        ("a.jpg", "photos taken in Bath", "place"),
        ("a.jpg", "photos taken with NIKON D70", "camera"),
        ("a.jpg", "photos that say “Sale, today”", "text"),
    ]
    in_chinese = [tag for _, tag, _ in list_fact_tags(one_photo(), "zh", [BATH])]
    assert in_chinese[1:] == [
        *("2019年5月的照片", "2019年5月3日的照片", "在Bath拍的照片", "用NIKON D70拍的照片", "写着“Sale, today”的照片")
    ]


def test_facts_with_objects() -> None:
    tags = [
        tag
        for _, tag, kind in list_fact_tags(one_photo(texts=None), "en", [BATH], {"a.jpg": {"dog"}})
        if " and " in kind
    ]
    assert tags == [
        *("photos with dog, 2019", "photos with dog, May 2019", "photos with dog, 3 May 2019"),
        *("photos with dog, taken in Bath", "photos with dog, taken with NIKON D70"),
    ]
    in_chinese = [tag for _, tag, _ in list_fact_tags(one_photo(texts=None), "zh", [BATH], {"a.jpg": {"狗"}})]
    assert {"2019年5月有狗的照片", "在Bath拍的有狗的照片", "用NIKON D70拍的有狗的照片"} <= set(in_chinese)


def test_what_a_file_does_not_say_is_no_fact() -> None:
    silent = one_photo(taken_at=None, latitude=None, longitude=float("nan"), camera=None, texts=[])
    assert list(list_fact_tags(silent, "en", [BATH], {"a.jpg": {"dog"}})) == []


def test_a_place_across_the_date_line_and_at_a_pole() -> None:
    assert NamedPlace("Fiji", -17.0, 179.9, 50).has(-17.0, -179.9) and not NamedPlace("Fiji", -17.0, 179.9, 10).has(
        -17.0, -179.9
    )
    assert NamedPlace("Pole", 90, 0, 5).has(89.99, 123) and NamedPlace("Earth", 0, 0, 20_100).has(0.0, 180.0)


@pytest.mark.parametrize("row", [",1,2,3", "x,91,0,1", "x,0,181,1", "x,nan,0,1", "x,0,0,far", "x,0,0,30000"])
def test_what_is_no_place_is_named_by_its_row(tmp_path: Path, row: str) -> None:
    (tmp_path / "places.csv").write_text(f"name,latitude,longitude,km\nBath,51.4,-2.4,5\n{row}\n")
    with pytest.raises(UserError, match=r"places.csv line 3 .*is no place"):
        fact_files.read_places(tmp_path / "places.csv")


def test_cameras_stand_in_jpeg_png_webp_and_tiff(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "NIKON CORPORATION\0", "NIKON  D70"
    for suffix in ("jpg", "png", "webp", "tif"):
        Image.new("RGB", (8, 8)).save(tmp_path / f"a.{suffix}", exif=exif)
        assert find_camera((tmp_path / f"a.{suffix}").read_bytes()) == "NIKON D70", suffix
    assert find_camera(b"") is find_camera(b"Exif\0\0II*\0") is find_camera(b"Exif\0\0II*\0\xff\xff\xff\xff") is None


def test_a_file_that_leads_out_of_the_folder_has_no_camera(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    exif = Image.Exif()
    exif[0x0110] = "secret"
    Image.new("RGB", (8, 8)).save(tmp_path / "outside.jpg", exif=exif)
    (tmp_path / "photos/link.jpg").symlink_to(tmp_path / "outside.jpg")
    for name in ("../outside.jpg", "link.jpg", "missing.jpg", str(tmp_path / "outside.jpg")):
        photos = pd.DataFrame([{**PHOTO, "file_name": name}])
        assert fact_files.read_photos(photos, tmp_path / "photos", None)["camera"].tolist() == [None]


PLACES = {"London": (51.5072, -0.1276, 40), "Tokyo": (35.6762, 139.6503, 50), "Arezzo": (43.4633, 11.8797, 10)}
SQL = """
CREATE TABLE tag AS
  SELECT 'photos of ' || monthname(t) || ' ' || year(t) AS query, file_name AS file FROM dated
  UNION SELECT 'photos of ' || day(t) || ' ' || monthname(t) || ' ' || year(t), file_name FROM dated
  UNION SELECT 'photos of ' || year(t), file_name FROM dated
  UNION SELECT 'photos with thing, ' || year(t), file_name FROM dated JOIN thing USING (file_name)
  UNION SELECT 'photos taken in ' || name, file_name FROM photo JOIN place ON
    6371.0088 * acos(least(1, sin(radians(photo.latitude)) * sin(radians(place.latitude)) +
      cos(radians(photo.latitude)) * cos(radians(place.latitude)) *
      cos(radians(photo.longitude - place.longitude)))) <= km
    WHERE isfinite(photo.latitude)
  UNION SELECT 'photos taken with ' || CASE WHEN starts_with(lower(model), lower(split_part(make, ' ', 1)))
    THEN model ELSE make || ' ' || model END, file_name FROM camera WHERE model <> ''
"""


def read_cameras(folder: Path) -> pd.DataFrame:
    """Make and model by Pillow, where it reads the file."""
    rows = []
    for file in sorted(folder.iterdir()):
        try:
            exif = Image.open(file).getexif()
        except OSError:
            continue
        texts = (str(exif.get(tag) or "").partition("\0")[0] for tag in (0x010F, 0x0110))
        rows.append((file.name, *(" ".join(text.split()) for text in texts)))
    return pd.DataFrame(rows, columns=["file_name", "make", "model"])


@pytest.mark.thorough
@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the real photos are not here")
def test_facts_of_real_photos_have_the_truth_that_sql_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number, file in enumerate(sorted(one for one in PHOTOS.rglob("*") if one.suffix.lower() in (".jpg", ".jpeg"))):
        shutil.copy(file, tmp_path / "photos" / f"{number:03}.jpg")
    build_set(load_definition(None, ["images=photos", "name=album", "render.size=64"], "gallery"))
    lines = [f"{name},{','.join(map(str, numbers))}" for name, numbers in PLACES.items()]
    (tmp_path / "places.csv").write_text("\n".join(["name,latitude,longitude,km", *lines]))
    (tmp_path / "things.csv").write_text("file_name,tag\n" + "".join(f"{n:03}.jpg,thing\n" for n in range(0, 190, 3)))
    words = ("--images", "photos", "--places", "places.csv", "--objects", "things.csv")
    out = invoke("labels", "facts", "album", "--language", "en", *words, catch=False).stdout
    assert "of camera" in out and "of place" in out
    keys = ["annotations=facts.csv", "images=photos", "name=facts", "render.size=64", "texts=[word]", "languages=[en]"]
    keys += ["searchable.min_images=2", "mixes.levels=1", "parents=false"]
    tables = read_set(build_set(load_definition(None, keys, "precision")).path).tables

    photo = read_set(tmp_path / "datasets/album/v1").tables.images[["file_name", "taken_at", "latitude", "longitude"]]
    is_clock = (photo["taken_at"].str[-1:] != "Z") & (photo["taken_at"].str[5:19] != "01-01T00:00:00")
    dated = photo[(photo["taken_at"].str[:4] > "0000") & is_clock].assign(t=lambda rows: rows["taken_at"].str[:10])
    place = pd.DataFrame([(name, *of) for name, of in PLACES.items()], columns=["name", "latitude", "longitude", "km"])
    thing, camera = pd.read_csv("things.csv"), read_cameras(tmp_path / "photos")
    camera = camera[camera["file_name"].isin(photo["file_name"])]
    with duckdb.connect() as database:
        for name, table in {"photo": photo, "place": place, "thing": thing, "camera": camera}.items():
            database.register(
                f"{name}_rows", table.astype({one: "object" for one in table.columns if table[one].dtype == "str"})
            )
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
        database.register("dated_rows", dated[["file_name", "t"]].astype("object"))
        database.execute("CREATE TABLE dated AS SELECT file_name, CAST(t AS DATE) AS t FROM dated_rows")
        database.execute(SQL)
        rows = database.execute("SELECT query, string_agg(file, ' ' ORDER BY file) FROM tag GROUP BY query "
                                "HAVING count(DISTINCT file) >= 2").fetchall()  # fmt: skip
    names = tables.images.set_index("image_id")["file_name"]
    found = tables.qrels[tables.qrels["relevance"] > 0].merge(tables.queries[["query_id", "text"]], on="query_id")
    of_text = found.groupby("text")["image_id"].agg(lambda ids: " ".join(sorted(names[one] for one in ids))).to_dict()
    mine = {text: files for text, files in of_text.items() if not text.startswith("photos with") or "20" in text[-4:]}
    assert {text: mine.get(text) for text, _ in rows} == dict(rows)
    assert len([text for text, _ in rows if "taken with" in text]) >= 5
    assert len([text for text, _ in rows if "taken in" in text]) >= 2


@pytest.mark.parametrize(
    ("taken_at", "days"),
    [
        ("2024-05-03T10:00:00+02:00", 1),
        ("2024-01-01T00:20:00", 1),
        ("2000-01-01T03:12:00", 0),
        ("1980-01-01T00:00:05", 0),
        ("2098-07-01T10:00:00", 0),
        ("2024-05-03T10:00:00Z", 0),
        ("1985-01-01T00:00:00", 0),
        ("1985-07-12T00:00:00", 1),
    ],
)
def test_a_clock_that_cannot_be_right_says_no_day(taken_at: str, days: int) -> None:
    """A reset clock, one ahead of today, that of satellites, and a scan of which the year alone is known."""
    images = pd.DataFrame({"file_name": ["a.jpg"], "taken_at": [taken_at]})
    assert len(list(list_date_tags(images, "en"))) == 3 * days
