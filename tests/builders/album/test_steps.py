"""A folder of photos as tables: every document beside them, what is hostile, and what people corrected."""

import json
import os
from pathlib import Path

import pytest

from builders.album.fact_table import FactRow
from builders.album.steps import add_pseudonyms, read_album, read_events, read_fact_table, refresh_tables
from querytruth.backends.files.text_formats import write_csv
from querytruth.errors import UserError
from tests.images import make_jpeg

TAKEOUT = {"photoTakenTime": {"timestamp": "1556877600"}, "people": [{"name": "Gracie"}], "favorited": True}


def _photo(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(make_jpeg())


def _values(rows: list[FactRow], image: str) -> set[tuple[str, str, str]]:
    return {(row.kind, row.used_value, row.source) for row in rows if row.image == image}


def test_documents_exports_and_folders_say_what_is_true_of_a_photo(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for name in ("Trip/a.jpg", "b.jpg"):
        _photo(photos, name)
    (photos / "Trip/a.jpg.json").write_text(json.dumps(TAKEOUT))
    (photos / "Trip/metadata.json").write_text(json.dumps({"title": "Our trip", "access": "protected"}))
    assets = [{"originalFileName": "b.jpg", "people": [{"name": "Tom"}]}]
    (tmp_path / "immich.json").write_text(json.dumps(assets))
    found = read_album(photos, [tmp_path / "immich.json"], albums=True)
    assert _values(found.rows, "Trip/a.jpg") == {
        ("person", "Gracie", "takeout"),
        ("favourite", "yes", "takeout"),
        ("date", "2019-05-03T10:00:00Z", "takeout"),
        ("album", "Our trip", "takeout_album"),
        ("album", "Trip", "folder"),
    }
    assert _values(found.rows, "b.jpg") == {("person", "Tom", "immich")}
    assert (found.photos, found.problems) == (2, [])


def test_a_hostile_folder_costs_a_line_each_and_loses_nothing(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for name in ("a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"):
        _photo(photos, name)
    (tmp_path / "secret.xmp").write_text("<x/>")
    (photos / "a.jpg.xmp").symlink_to(tmp_path / "secret.xmp")
    (photos / "b.jpg.json").write_text("[" * 10_000)
    (photos / "c.jpg.json").write_text(json.dumps(TAKEOUT))
    os.mkfifo(photos / "d.jpg.xmp")
    (photos / "e.jpg.xmp").write_bytes(b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    (photos / "f.jpg").write_bytes(b"")
    found = read_album(photos)
    assert ("person", "Gracie", "takeout") in _values(found.rows, "c.jpg")
    assert sorted(line.partition(":")[0] for line in found.problems) == [
        "a.jpg.xmp",
        "b.jpg.json",
        "d.jpg.xmp",
        "e.jpg.xmp",
        "f.jpg",
    ]
    assert all("\n" not in line and len(line) < 300 for line in found.problems)


def test_a_folder_without_photos_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains no photos"):
        read_album(tmp_path)


def test_reading_again_keeps_what_people_changed_in_all_three_tables(tmp_path: Path) -> None:
    _photo(tmp_path / "photos", "a.jpg")
    (tmp_path / "photos/a.jpg.json").write_text(json.dumps(TAKEOUT))
    facts = tmp_path / "facts.csv"
    _, events = refresh_tables(tmp_path / "photos", facts)
    assert (events.name, add_pseudonyms(facts).name) == ("facts.events.csv", "facts.pseudonyms.csv")
    rows = [row._replace(corrected="Grace") if row.kind == "person" else row for row in read_fact_table(facts)]
    write_csv(facts, FactRow._fields, [*rows, FactRow("a.jpg", "keyword", "=sea")])
    events.write_text("event,start,end\nWedding,2019-05-03T09:00:00,2019-05-03T12:00:00\n")
    found, _ = refresh_tables(tmp_path / "photos", facts)
    assert read_fact_table(facts) == found.rows
    assert {("person", "Grace", "takeout"), ("keyword", "=sea", "person")} <= _values(found.rows, "a.jpg")
    assert read_events(events)[0].event == "Wedding"
    names = add_pseudonyms(facts).read_text("utf-8-sig").splitlines()
    assert names == ["name,pseudonym", "Gracie,Person 1", "Grace,Person 2"]


@pytest.mark.parametrize("row", ["Wedding,2019-05-03,2019-05-02", ",2019-05-03,2019-05-04", "Wedding,soon,later"])
def test_an_event_that_ends_before_it_starts_is_refused_with_its_row(tmp_path: Path, row: str) -> None:
    (tmp_path / "events.csv").write_text(f"event,start,end\n{row}\n")
    with pytest.raises(UserError, match="line 2"):
        read_events(tmp_path / "events.csv")
