"""A folder of photos as tables: every document beside them, what is hostile, and what people corrected."""

import calendar
import csv
import io
import json
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from starlette.testclient import TestClient

from builders.album import steps
from builders.album.fact_table import FactRow, keep_corrections, make_reading
from builders.album.fact_tags import derive_tags
from builders.album.reading_cards import build_reading_routes
from builders.album.steps import add_pseudonyms, read_album, read_events, read_fact_table, refresh_tables
from querytruth.backends.files.text_formats import write_csv
from querytruth.backends.images import text_reading
from querytruth.backends.images.rendering import PixelsJob
from querytruth.errors import UserError
from querytruth.review.server import build_site
from querytruth.sets.set_files import read_set
from tests.command_runner import invoke
from tests.drawn_albums import PEOPLE, PLACES, DrawnPhoto, draw_album, write_album
from tests.images import draw_scene, encode_image, make_jpeg

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
    named = sorted(line.partition(":")[0] for line in found.problems)
    assert named == ["a.jpg.xmp", "b.jpg.json", "d.jpg.xmp", "e.jpg.xmp", "f.jpg"]
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


SURE, UNSURE = ("EXIT", "0.1 0.2 0.3 0.1", 0.95), ("Ex1t", "0.5 0.5 0.2 0.1", 0.7)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three photos; a stand-in reads a certain text in the first, an uncertain one in the second, and fails at the
    third."""

    def read_texts(locations: list[str], *_options: Any) -> Iterator[Any]:
        yield from ({"a": [SURE], "b": [UNSURE], "c": "damaged"}[Path(one).stem] for one in locations)

    monkeypatch.setattr(steps, "read_texts", read_texts)
    (tmp_path / "photos").mkdir()
    for number, name in enumerate("abc"):
        (tmp_path / f"photos/{name}.jpg").write_bytes(encode_image(draw_scene(number, (200, 160)), "JPEG"))
    return tmp_path / "photos"


def _used(rows: list[FactRow]) -> dict[str, str]:
    return {row.image: row.used_value for row in rows if row.kind == "text"}


def test_a_text_below_the_threshold_waits_and_says_why(photos: Path, tmp_path: Path) -> None:
    found = read_album(photos, texts=tmp_path / "texts.jsonl")
    assert _used(found.rows) == {"a.jpg": "EXIT", "b.jpg": ""}
    row = next(one for one in found.rows if one.image == "b.jpg")
    assert (row.source, row.region, row.confidence) == ("ocr", UNSURE[1], "0.7")
    assert row.detail == "to confirm: confidence below 0.9"
    assert found.problems == ["c.jpg: texts: damaged"]
    assert str(found) == "of 3 photos 1 have a text (1); 0 contradictions; 1 readings to confirm"


@pytest.mark.parametrize(("corrected", "counts"), [("Exit", "Exit"), ("-", ""), ("", "")])
def test_a_person_confirms_or_rejects_it_and_reading_again_keeps_that(
    photos: Path, tmp_path: Path, corrected: str, counts: str
) -> None:
    facts = tmp_path / "facts.csv"
    refresh_tables(photos, facts, texts=True)
    rows = [row._replace(corrected=corrected * (row.image == "b.jpg")) for row in read_fact_table(facts)]
    write_csv(facts, FactRow._fields, rows)
    for texts in (True, False):  # without --texts, what was read stays
        found, _ = refresh_tables(photos, facts, texts=texts)
        assert _used(found.rows) == {"a.jpg": "EXIT", "b.jpg": counts}
    assert ("1 readings to confirm" in str(found)) == (not corrected)


def test_a_stopped_reading_goes_on_where_it_was(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def read_texts(locations: list[str], *_options: Any) -> Iterator[Any]:
        for one in locations:
            asked.append(Path(one).name)
            if Path(one).name == "b.jpg" and asked.count("b.jpg") == 1:
                raise KeyboardInterrupt
            yield [SURE]

    monkeypatch.setattr(steps, "read_texts", read_texts)
    journal = tmp_path / "facts.texts.jsonl"
    with pytest.raises(KeyboardInterrupt):
        refresh_tables(photos, tmp_path / "facts.csv", texts=True)
    with journal.open("a") as file:
        file.write('{"damaged"\n["c.jpg", null, [["EXIT", 3]]]\n')
    refresh_tables(photos, tmp_path / "facts.csv", texts=True)
    assert asked == ["a.jpg", "b.jpg", "b.jpg", "c.jpg"]
    (photos / "a.jpg").write_bytes(encode_image(draw_scene(9, (200, 160)), "JPEG"))  # another photo by this name
    found, _ = refresh_tables(photos, tmp_path / "facts.csv", texts=True)
    assert asked[4:] == ["a.jpg"] and _used(found.rows) == dict.fromkeys(("a.jpg", "b.jpg", "c.jpg"), "EXIT")


def test_a_text_is_a_tag_of_its_own_and_never_certainly_absent() -> None:
    rows = [FactRow(*one) for one in (("a", "city", "Bath"), ("b", "text", "BATH"), ("c", "text", "bath"))]
    concepts, pairs, known = derive_tags([*rows, FactRow("d", "text", "x", detail="to confirm: x")])
    named = {(image, concepts[code].kind, concepts[code].en) for image, code in pairs}
    assert named >= {("a", "city", "Bath"), ("b", "text", "“BATH”"), ("c", "text", "“BATH”")}
    assert not [one for one in named if one[0] == "d" and one[1] == "text"] and "text" not in known


def test_a_name_in_the_image_does_not_pass_by_its_pseudonym() -> None:
    rows = [FactRow("a", "person", "Gracie"), FactRow("b", "text", "GRACIE")]
    assert [one.en for one in derive_tags(rows, pseudonyms={"Gracie": "Person 1"})[0]] == ["Person 1"]
    assert {one.en for one in derive_tags(rows)[0]} == {"Gracie", "“GRACIE”"}


@pytest.fixture
def page(photos: Path, tmp_path: Path) -> TestClient:
    """The page of the readings of a table, with a second one that waits."""
    facts = tmp_path / "facts.csv"
    refresh_tables(photos, facts, texts=True)
    other = make_reading("a.jpg", "PARIS", "0 0 0.5 0.5", 0.4)
    write_csv(facts, FactRow._fields, [*read_fact_table(facts), other])
    routes, _ = build_reading_routes(facts, photos)
    return TestClient(build_site(routes, "/readings"))


def _judge(page: TestClient, key: str, text: str) -> Any:
    return page.post("/api/readings/decide", json={"view": "readings", "key": key, "text": text})


def _corrected(tmp_path: Path) -> dict[str, str]:
    return {row.value: row.corrected for row in read_fact_table(tmp_path / "facts.csv") if row.kind == "text"}


def test_a_person_judges_each_doubtful_text_beside_its_place_in_the_photo(page: TestClient, tmp_path: Path) -> None:
    assert "readings.js" in page.get("/readings").text
    first, second = page.get("/api/readings/queue").json()["keys"]  # EXIT was certain
    (card,) = page.get("/api/readings/cards", params={"key": first}).json()["cards"]
    assert (card["text"], card["name"], card["boxes"][0]["sides"], card["own"]) == (
        "Ex1t", "b.jpg", pytest.approx([0.5, 0.5, 0.7, 0.6]), None,
    )  # fmt: skip
    sizes = [Image.open(io.BytesIO(page.get(f"/image/{side}/{first}").content)).size for side in (320, 1280)]
    assert sizes == [(60, 36), (200, 160)]
    assert _judge(page, first, " Exit ").json()["card"]["own"] == {"text": "Exit"}
    assert _judge(page, second, "").json()["card"]["own"] == {"text": ""}
    assert _corrected(tmp_path) == {"EXIT": "", "Ex1t": "Exit", "PARIS": "-"}
    assert page.get("/api/readings/queue", params={"state": "open"}).json()["keys"] == []
    assert page.post("/api/readings/undo").json()["card"]["own"] is None
    assert _corrected(tmp_path) == {"EXIT": "", "Ex1t": "Exit", "PARIS": ""}


def test_what_a_spreadsheet_wrote_meanwhile_stays(page: TestClient, tmp_path: Path) -> None:
    first, second = page.get("/api/readings/queue").json()["keys"]
    rows = read_fact_table(tmp_path / "facts.csv")
    kept = [row._replace(corrected="Exit") if row.value == "Ex1t" else row for row in rows if row.value != "PARIS"]
    write_csv(tmp_path / "facts.csv", FactRow._fields, kept)
    assert (_judge(page, second, "Paris").status_code, _judge(page, "x", "Paris").status_code) == (409, 409)
    assert _judge(page, first, "EXIT 1").json()["card"]["own"] == {"text": "EXIT 1"}
    assert _corrected(tmp_path) == {"EXIT": "", "Ex1t": "EXIT 1"}


@pytest.mark.parametrize("region", ["", "a b c d", "0 0 1", "nan 0 1 1", "0.2 0.2 0 0.1", "-3 0 9 1"])
def test_a_region_that_a_spreadsheet_changed_shows_the_whole_photo(
    page: TestClient, tmp_path: Path, region: str
) -> None:
    rows = read_fact_table(tmp_path / "facts.csv")
    changed = [row._replace(region=region) if row.value == "PARIS" else row for row in rows]
    write_csv(tmp_path / "facts.csv", FactRow._fields, changed)
    keys = page.get("/api/readings/queue", params={"search": "paris"}).json()["keys"]
    (card,) = page.get("/api/readings/cards", params={"key": keys}).json()["cards"]
    assert card["boxes"][0]["sides"] == [0, 0, 1, 1]
    assert Image.open(io.BytesIO(page.get(f"/image/320/{keys[0]}").content)).size == (200, 160)


def test_the_page_of_a_table_of_facts_needs_the_folder_of_its_photos(page: TestClient, tmp_path: Path) -> None:
    done = invoke("review", str(tmp_path / "facts.csv"), "--no-open")
    assert str(done.exception).endswith("needs the folder of its photos. Next: give it once: --images FOLDER")
    (tmp_path / "other.csv").write_text("a,b\n")
    done = invoke("review", str(tmp_path / "other.csv"), "--no-open")
    assert "is not a table of topics, objects or facts" in str(done.exception)


def test_a_reading_is_a_line_with_two_letters_or_digits_its_region_and_confidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (200, 100)).save(tmp_path / "a.png")
    box = np.array([[20, 10], [120, 20], [118, 40], [18, 30]])
    answer = SimpleNamespace(
        txts=("7", "--", "No  Parking", "出口"), boxes=[box] * 4, scores=(0.99, 0.99, 0.804, 0.9549)
    )
    monkeypatch.setattr(text_reading, "_load_reader", lambda: lambda _pixels: answer)
    lines = text_reading.read_lines(PixelsJob(str(tmp_path / "a.png"), 200, None))
    assert lines == [("出口", "0.09 0.1 0.51 0.3", 0.95), ("No Parking", "0.09 0.1 0.51 0.3", 0.8)]
    monkeypatch.setattr(text_reading, "_load_reader", lambda: lambda _pixels: 1 / 0)
    assert (
        text_reading.read_lines(PixelsJob(str(tmp_path / "a.png"), 200, None))
        == "the text reader failed (ZeroDivisionError)"
    )
    (tmp_path / "b.png").write_bytes(b"x")
    assert text_reading.read_lines(PixelsJob(str(tmp_path / "b.png"), 200, None)) == "not an image"


def test_without_the_extra_the_error_is_one_line(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "read_texts", text_reading.read_texts)
    monkeypatch.setattr(text_reading, "find_spec", lambda _name: None)
    done = invoke("labels", "facts", str(photos), "--texts", "--to", str(tmp_path / "facts.csv"))
    assert str(done.exception) == "texts (read texts): needs the extra ocr. Next: pip install 'querytruth[ocr]'"


@pytest.mark.thorough
def test_the_real_reader_reads_english_and_chinese_in_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("rapidocr", "onnxruntime"):
        pytest.importorskip(module, reason=f"{module} is not installed: texts in images are not read")
    font = Path("/usr/share/fonts/opentype/noto/NotoSansCJK-Bold.ttc")
    if not font.is_file():
        pytest.skip(f"no font with Chinese characters at {font}")
    (tmp_path / "photos").mkdir()
    for name, text in {"en": "No Parking", "zh": "禁止停车"}.items():
        image = Image.new("RGB", (640, 480), "white")
        ImageDraw.Draw(image).text((160, 120), text, "black", ImageFont.truetype(font, 48, index=2))
        image.save(tmp_path / f"photos/{name}.png")
    rows = read_album(tmp_path / "photos", texts=tmp_path / "texts.jsonl").rows
    assert _used(rows) == {"en.png": "No Parking", "zh.png": "禁止停车"}
    left, top, width, height = map(float, rows[0].region.split())
    assert left == pytest.approx(0.25, abs=0.03) and 0.2 < top < 0.3 and 0.3 < width < 0.6 and 0.05 < height < 0.2


@pytest.mark.thorough
def test_a_doubtful_text_is_unjudged_in_the_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    rows = []
    for number in range(60):
        name = f"{number:03}.jpg"
        (tmp_path / "photos" / name).write_bytes(encode_image(draw_scene(number, (64, 48)), "JPEG"))
        rows.append(FactRow(name, "date", f"2019-0{1 + number % 4}-03T10:00:00", source="exif"))
        if number % 3 == 0:
            rows.append(make_reading(name, "EXIT", "0 0 1 1", 0.99 if number % 2 else 0.6))
    write_csv(tmp_path / "facts.csv", FactRow._fields, rows)
    words = ("annotations=facts.csv", "images=photos", "languages=[en]", "render.size=32")
    done = invoke("build", "precision", *[part for one in words for part in ("--set", one)], catch=False)
    assert done.exit_code == 0, done.output
    tables = read_set(tmp_path / "datasets/facts/v1").tables
    asked = tables.queries[[("“EXIT”" in labels) for labels in tables.queries["labels"]]]
    assert {"“EXIT”", "photos with the text “EXIT”"} & {*asked["text"]} and {*asked["source"]} == {"picture"}
    files = tables.images.set_index("image_id")["file_name"]
    judged = tables.qrels[tables.qrels["query_id"].isin(asked["query_id"])]
    certain = {row.image for row in rows if row.kind == "text" and row.is_used}
    assert {*files.loc[judged["image_id"].astype(str)]} == certain


def list_answers(photos: list[DrawnPhoto], events: Path) -> dict[str, tuple[set[str], set[str]]]:
    """By English name of a tag: the photos that have it, and those that certainly do not."""
    answers: dict[str, tuple[set[str], set[str]]] = {}

    def add(tag: str, yes: set[str], known: set[str]) -> None:
        former = answers.get(tag, (set(), known))
        answers[tag] = (former[0] | yes, (former[1] & known) - yes - former[0])

    faces = {photo.name for photo in photos if photo.has_faces}
    for person in PEOPLE:
        add(person, {one.name for one in photos if person in one.people | one.listed}, faces)
    placed = {one.name for one in photos if one.city}
    for part in (lambda city: city, lambda city: PLACES[city][0], lambda city: PLACES[city][1]):
        for tag in {part(city) for city in PLACES}:
            add(tag, {one.name for one in photos if one.city and part(one.city) == tag}, placed)
    for keyword in {word for one in photos for word in one.keywords}:
        add(keyword, {one.name for one in photos if keyword in one.keywords}, set())
    for stars in (3, 5):
        add(f"{stars} stars", {one.name for one in photos if one.rating == stars}, set())
    dated = {one.name for one in photos if one.taken_at}
    tags: dict[str, set[str]] = {}
    for one in photos:
        if one.taken_at:
            south = one.city == "Sydney"
            season = ("winter", "spring", "summer", "autumn")[(one.taken_at.month % 12 // 3 + 2 * south) % 4]
            year, first = one.taken_at.year, one.taken_at.year - (one.taken_at.month < 3)
            years = f"{first}/{(first + 1) % 100:02}" if one.taken_at.month in (12, 1, 2) else str(year)
            month = f"{calendar.month_name[one.taken_at.month]} {year}"
            for tag in (str(year), month, f"{one.taken_at.day} {month}", f"{season} of {years}"):
                tags.setdefault(tag, set()).add(one.name)
    for tag, yes in tags.items():
        add(tag, yes, dated)
    with events.open(encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            start, end = datetime.fromisoformat(row["start"]), datetime.fromisoformat(row["end"])
            inside = {one.name for one in photos if one.taken_at and start <= one.taken_at <= end}
            for column in ("event", "trip"):
                if row[column]:
                    add(row[column], inside, dated)
    return answers


def judge_by_oracle(query: Any, photos: list[DrawnPhoto], answers: dict[str, tuple[set[str], set[str]]]) -> Any:
    """The right images by name with their grades, and those that may be judged wrong."""
    labels = [answers[label] for label in query.labels]
    people = {one.name: one.people | one.listed for one in photos}
    faces = {one.name: len(one.people) + one.unnamed for one in photos}
    marked = {one.name for one in photos if one.has_faces}
    unnamed = {one.name for one in photos if one.unnamed}
    if query.family == "people/only":
        alone = {name for name in labels[0][0] & marked if len(people[name]) == 1 and name not in unnamed}
        return dict.fromkeys(alone, 2), (labels[0][0] & marked) - alone
    if query.family == "people/without":
        without = {name for name in labels[0][0] & marked if query.labels[1] not in people[name]} - unnamed
        return dict.fromkeys(without, 2), labels[0][0] & labels[1][0]
    if query.family == "people/group":
        group = {name for name in labels[0][0] if max(faces[name], len(people[name])) >= 3}
        grades = {name: 2 if len(people[name]) >= 3 else 1 for name in group}
        return grades, (labels[0][0] & marked) - group
    right = set.intersection(*[yes for yes, _ in labels])
    wrong = {
        name
        for missing, (_, no) in enumerate(labels)
        for name in no
        if all(name in yes for other, (yes, _) in enumerate(labels) if other != missing)
    }
    return dict.fromkeys(right, 2), wrong if len(labels) > 1 else set()


def check_set(folder: Path, photos: list[DrawnPhoto]) -> Any:
    tables = read_set(folder / "datasets/photos/v1").tables
    answers = list_answers(photos, folder / "album.facts.events.csv")
    file_of = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    qrels = tables.qrels.assign(file=tables.qrels["image_id"].astype(str).map(file_of))
    assert not tables.queries.duplicated(["language", "style", "text"]).any()
    by_query = dict(iter(qrels.groupby("query_id", observed=True)))
    for query in tables.queries.itertuples():
        right, may_be_wrong = judge_by_oracle(query, photos, answers)
        rows = by_query[query.query_id]
        found = {name: grade for name, grade in zip(rows["file"], rows["relevance"], strict=True) if grade > 0}
        assert found == right, query.text
        wrong = set(rows.loc[rows["relevance"] == 0, "file"])
        assert wrong <= may_be_wrong, (query.text, wrong - may_be_wrong)
        assert len(wrong) == min(len(may_be_wrong), 100), query.text
    return tables.queries


def build_album(folder: Path, photos: list[DrawnPhoto], monkeypatch: pytest.MonkeyPatch, *keys: str) -> str:
    monkeypatch.chdir(folder)
    write_album(photos, folder / "photos")
    printed = invoke("init", "album", "--images", "photos", "--language", "en", catch=False).output
    words = [word for key in ("render.size=32", *keys) for word in ("--set", key)]
    assert invoke("build", "precision", "album.yaml", *words, catch=False).exit_code == 0
    return printed


@pytest.mark.thorough
def test_an_album_becomes_queries_whose_every_judgment_the_oracle_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = draw_album(60)
    printed = build_album(tmp_path, photos, monkeypatch)
    named = sum(bool(one.people | one.listed) for one in photos)
    assert f"of 60 photos {named} name people (5)" in printed
    queries = check_set(tmp_path, photos)
    kinds = {kind for some in queries["fact_kinds"] for kind in some}
    assert kinds >= {"person", "place", "date", "keyword", "event"}
    texts = set(queries["text"])
    assert "Gracie" in texts and any(text.startswith("only ") for text in texts), texts
    assert any(" without " in text for text in texts) and any(" and " in text for text in texts)
    assert set(queries["source"]) == {"file", "both"}


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("gps", "Bath", "'Bath' is not a point. Next: write degrees like 51.37,-2.36"),
        ("gps", "51.37,-236", "'51.37,-236' is not a point"),
        ("gps", "nan,nan", "'nan,nan' is not a point"),
        ("date", "last summer", "'last summer' is not a date. Next: write it like 2019-05-03T10:00:00 or 2019-05"),
    ],
)
@pytest.mark.parametrize("column", ["value", "corrected"])
def test_a_date_or_a_point_that_a_person_wrote_and_nothing_can_read_is_named_with_its_row(
    tmp_path: Path, kind: str, text: str, reason: str, column: str
) -> None:
    row = FactRow("a.jpg", kind, {"gps": "1,2", "date": "2019"}[kind])
    write_csv(tmp_path / "facts.csv", FactRow._fields, [row, row._replace(**{column: text})])
    with pytest.raises(UserError, match=re.escape(reason)) as error:
        read_fact_table(tmp_path / "facts.csv")
    assert "3" in error.value.item


def test_a_date_as_a_camera_writes_it_is_read_in_a_correction(tmp_path: Path) -> None:
    row = FactRow("a.jpg", "date", "2019-05-03", corrected="2019:05:04 10:00")
    write_csv(tmp_path / "facts.csv", FactRow._fields, [row])
    assert read_fact_table(tmp_path / "facts.csv")[0].used_value == "2019-05-04T10:00:00"


def test_a_correction_of_a_time_with_a_fraction_is_kept_when_the_photo_is_read_again(tmp_path: Path) -> None:
    """A row is known by its value: what a camera wrote stays as it is in the table."""
    row = FactRow("a.jpg", "date", "2019-05-03T10:00:00.12+02:00", source="exif", corrected="2019-05-04")
    write_csv(tmp_path / "facts.csv", FactRow._fields, [row])
    assert keep_corrections([row._replace(corrected="")], read_fact_table(tmp_path / "facts.csv")) == [row]


def test_a_point_outside_the_earth_is_no_fact_and_the_table_can_be_read_again(tmp_path: Path) -> None:
    _photo(tmp_path / "photos", "a.jpg")
    point = {"geoData": {"latitude": 951.0, "longitude": 10.0}}
    (tmp_path / "photos/a.jpg.json").write_text(json.dumps(TAKEOUT | point))
    refresh_tables(tmp_path / "photos", tmp_path / "facts.csv")
    assert "gps" not in {row.kind for row in read_fact_table(tmp_path / "facts.csv")}
