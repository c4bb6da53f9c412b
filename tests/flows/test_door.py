"""The page of a folder: a search that is only an address, ten judgments, and a figure that `evaluate` confirms."""

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

import querytruth as qt
from flows.door import Door, read_shown_page, recognise_file, write_static
from flows.set_kinds import write_set_page
from querytruth.checks.answers import NO_IMAGE
from querytruth.errors import UserError
from tests.checks.golden_world import PHOTOS, Search, serve, write_photos
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback
from tests.small_sets import publish_small_set, small_tables


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    monkeypatch.chdir(tmp_path)
    with serve(tmp_path) as running:
        yield running


def open_photos() -> Door:
    return Door(Path("photos"), Path("datasets"), "lin")


def answer_its_own_way(request: ReceivedRequest) -> LoopbackAnswer:
    """POST alone; a form of its own, in which an id is a part of an address."""
    if request.method != "POST" or "text" not in request.json:
        return CannedResponse({"error": "no"}, 422)
    names = PHOTOS if request.json["text"] == "red" else PHOTOS[::-1]
    found = [{"media": {"uri": f"https://cdn/{name}"}, "near": 0.9 - 0.01 * n} for n, name in enumerate(names)]
    return CannedResponse(json.dumps({"took": 3, "payload": {"found": found, "facets": [{"name": "p01"}]}}))


def test_an_address_and_ten_judgments_are_a_figure_that_evaluate_confirms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos")
    door = open_photos()
    with loopback(answer_its_own_way) as server:
        file = str(door.propose_system(server.url, "red"))
        keys = yaml.safe_load(Path(file).read_text())
        assert keys["results"] == "payload.found" and keys["id"] == "media.uri" and keys["score"] == "near"
        assert [hit.id for hit in door.search(file, "red")] == PHOTOS[:10]
        for number, name in enumerate(PHOTOS[:10]):
            door.judge("red", name, int(number not in (0, 4, 5)))
        door.judge("blue", "p11.jpg", 1)
        door.judge("blue", "p10.jpg", 1)
        door.judge("blue", "p10.jpg", None)
        measured = door.measure(file)
        assert (measured["queries"], measured["judgments"]) == (2, 11)
        first, second = measured["figures"]
        assert (first["value"], second["value"]) == (pytest.approx(0.4), 0.5) and first["at_most"] == pytest.approx(
            0.85
        )
        imported = qt.import_set("pairs", "judgments.csv", "datasets/my-queries", images="photos")
        result = qt.evaluate(imported.path, system=file, metrics=["p@10", "hit@1"])
        assert [result["p@10"], result["hit@1"]] == [first["value"], second["value"]]
        assert result.figures["low"].tolist() == [first["low"], second["low"]]


def test_a_query_without_a_fitting_result_counts_as_nought(search: Search) -> None:
    door = open_photos()
    for number, name in enumerate(PHOTOS[:10]):
        door.judge("blue", name, 0)
        door.judge("red", name, int(number < 5))
    first, second = door.measure("mine.yaml")["figures"]
    assert (first["value"], second["value"]) == (pytest.approx(0.25), 0.5)
    Path("judgments.csv").unlink()
    door.judge("blue", "p01.jpg", 0)
    assert [one["value"] for one in door.measure("mine.yaml")["figures"]] == [0, 0]


def test_a_name_that_two_photos_have_is_no_photo_and_the_others_are_shown(search: Search) -> None:
    for folder in ("a", "b"):
        Path("photos", folder).mkdir()
        Path("photos", folder, "same.jpg").write_bytes(Path("photos/p01.jpg").read_bytes())
    search.lists["red"] = ["same.jpg", "p03.jpg"]
    assert [hit.id for hit in open_photos().search("mine.yaml", "red")] == [f"{NO_IMAGE}same.jpg", "p03.jpg"]


def test_the_newest_search_comes_first_and_each_shows_its_address(search: Search) -> None:
    Path("other.yaml").write_text("system: http\nurl: http://lin:secret@localhost:8000/find\n")
    os.utime("mine.yaml", (1, 1))
    door = open_photos()
    labels = door.name_systems(door.read_index())
    assert [*labels] == ["other.yaml", "mine.yaml"]
    assert labels["other.yaml"] == "other.yaml (http://localhost:8000/find)"


def test_results_say_how_the_sets_of_the_folder_judge_them(search: Search) -> None:
    Path("truth.csv").write_text("query,image,grade\nred,p01.jpg,2\nred,p02.jpg,0\nblue,p03.jpg,1\n")
    qt.import_set("pairs", "truth.csv", "datasets/colours", images="photos")
    door = open_photos()
    assert door.read_stated_grades("red") == {"p01.jpg": "colours: 2", "p02.jpg": "colours: 0"}
    assert door.read_stated_grades("green") == {}
    Path("datasets/colours/v1/queries.parquet").write_bytes(b"damaged")
    assert door.read_stated_grades("red") == {}


def test_a_set_page_older_than_what_the_set_would_notice_is_made_anew(search: Search) -> None:
    Path("truth.csv").write_text("query,image,grade\nred,p01.jpg,1\nblue,p03.jpg,1\n")
    built = qt.import_set("pairs", "truth.csv", "datasets/colours", images="photos")
    page = Path("datasets/colours/shown/v1.html")
    page.parent.mkdir(exist_ok=True)
    write_set_page(built.path, page)
    found = qt.notice(built.path, draws=10)
    os.utime(page, (1, 1))
    (one,) = open_photos().read_index().sets
    assert found["line"] in read_shown_page(one.page, one) and found["line"] not in page.read_text("utf-8")


def test_ten_people_judge_at_once_and_no_judgment_is_lost(search: Search) -> None:
    door = open_photos()
    with ThreadPoolExecutor(10) as people:
        list(people.map(lambda n: door.judge(f"query {n % 10}", PHOTOS[n // 10], n % 2), range(100)))
    kept = open_photos().read_judgments()
    assert len(kept) == 100 and all(row["reviewer"] == "lin" for row in kept.values())


def test_a_damaged_judgment_is_one_line(search: Search) -> None:
    Path("judgments.csv").write_text("query,image,grade,reviewer\nred,p01.jpg,yes,lin\n")
    with pytest.raises(UserError, match=r"judgments\.csv"):
        open_photos().read_judgments()


def test_what_fits_becomes_golden_queries_and_a_second_time_only_what_is_new(search: Search) -> None:
    door = open_photos()
    door.judge("red", "p01.jpg", 1)
    door.judge("red", "p02.jpg", 0)
    assert door.write_golden("mine.yaml") == 1 and door.write_golden("mine.yaml") == 0
    door.judge("blue", "p03.jpg", 1)
    assert door.write_golden("mine.yaml") == 1
    cases = yaml.safe_load(Path("golden.yaml").read_text())["cases"]
    assert cases == [{"query": "red", "must": ["p01.jpg"]}, {"query": "blue", "must": ["p03.jpg"]}]
    assert not qt.check("golden.yaml").failures


def test_what_cannot_be_used_is_one_line(search: Search, tmp_path: Path) -> None:
    door = open_photos()
    with pytest.raises(UserError, match="is not a search of this folder"):
        door.search("../elsewhere.yaml", "red")
    with pytest.raises(UserError, match="no case"):
        door.write_golden("mine.yaml")
    with (
        loopback(lambda _: CannedResponse(json.dumps({"hits": [{"id": "elsewhere.png"}]}))) as server,
        pytest.raises(
            UserError,
            match=r"returned 'elsewhere.png', which names no image of the folder, such as 'p00.jpg'",
        ),
    ):
        door.propose_system(server.url, "red")
    with pytest.raises(UserError, match="is not a folder"):
        Door(tmp_path / "gone", Path("datasets"))
    Path("judgments.csv").write_text("something,else\n1,2\n")
    with pytest.raises(UserError, match=r"judgments\.csv"):
        door.judge("red", "p01.jpg", 1)


@pytest.mark.thorough
def test_one_command_runs_at_a_time_and_its_last_lines_are_shown(search: Search) -> None:
    door = open_photos()
    job = door.start(door.list_work(Path("photos"))["gallery"])
    with pytest.raises(UserError, match="is already running a command"):
        door.start([["list"]])
    deadline = time.monotonic() + 180
    while job.state == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert job.state == "done", job.lines
    (built,) = Door(Path(), Path("datasets")).read_index().sets
    assert built.manifest is not None and built.manifest.kind == "gallery" and built.page is not None


@pytest.mark.parametrize(
    ("name", "content", "what", "line"),
    [
        ("mine.csv", "image,text\na.jpg,a dog\n", "texts and their images", "import pairs mine.csv datasets/mine"),
        ("log.csv", "query,count\ndog,3\n", "queries", "init queries --queries log.csv --images photos"),
        ("list.txt", "a dog\na cat\n", "queries", "init queries --queries list.txt"),
        ("golden.yaml", "cases:\n- {query: dog, must: a.jpg}\n", "golden queries", "check golden.yaml"),
        ("s.yaml", "system: http\n", "a search", "check init --images photos --system s.yaml"),
        ("b.json", '{"annotations": [{"bbox": [1, 2, 3, 4]}]}', "boxes of objects", "init precision --annotations"),
        ("c.json", '{"annotations": [{"caption": "a"}]}', "captions of COCO", "import coco_captions c.json"),
    ],
)
def test_a_file_is_recognised_and_the_command_that_takes_it_is_proposed(
    tmp_path: Path, name: str, content: str, what: str, line: str
) -> None:
    (tmp_path / name).write_text(content)
    found, lines = recognise_file(tmp_path / name, Path("photos"))
    assert found == what and lines[0].startswith(f"querytruth {line}")


def test_a_file_that_nothing_takes_is_named_with_its_columns(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("width,height\n1,2\n")
    with pytest.raises(UserError, match="width, height"):
        recognise_file(tmp_path / "odd.csv", Path("photos"))


def test_the_static_page_links_what_lies_below_it_and_copies_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = publish_small_set(tmp_path, small_tables())
    page = write_static(Door(Path("sets"), Path("sets")), Path("site"))
    html = page.read_text("utf-8")
    copies = [one.relative_to(page.parent).as_posix() for one in (page.parent / "pages").iterdir()]
    assert len(copies) == 1 and f'href="{copies[0]}"' in html and "small/v1" in html and "<script" not in html
    assert (stored.path.parent / "shown" / "v1.html").is_file()
    inside = write_static(Door(Path("sets"), Path("sets")), Path("sets")).read_text("utf-8")
    assert 'href="small/shown/v1.html"' in inside
    assert '<html lang="zh">' in (tmp_path / "sets" / "index.zh.html").read_text("utf-8")
