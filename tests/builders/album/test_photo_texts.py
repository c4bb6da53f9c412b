"""Texts that a program reads in photos: which count, which wait for a person, and how they are asked for."""

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from starlette.testclient import TestClient

from builders.album import steps
from builders.album.fact_table import FactRow, make_reading
from builders.album.fact_tags import derive_tags
from builders.album.reading_cards import build_reading_routes
from builders.album.steps import read_album, read_fact_table, refresh_tables
from querytruth.backends.files.text_formats import write_csv
from querytruth.backends.images import text_reading
from querytruth.backends.images.rendering import PixelsJob
from querytruth.review.server import build_site
from querytruth.sets.set_files import read_set
from tests.command_runner import invoke
from tests.images import draw_scene, encode_image

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
