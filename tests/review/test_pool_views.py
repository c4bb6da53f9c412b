"""A table of topics or objects at the page: every answer is in the file to the letter; strangers stay out."""

import fcntl
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from builders.generated import pool_tables as pool_exports
from flows.review_site import build_pool_routes
from flows.review_targets import find_pool_table
from querytruth.backends.files import durable_files
from querytruth.errors import UserError
from querytruth.review.deck import ActionError
from querytruth.review.pool_views import PoolTable, RowAnswer
from querytruth.review.server import create_app
from querytruth.sets import review_csv
from querytruth.sets.review_tables import ReviewExport
from tests.review.page_reader import HOSTILE
from tests.review.pool_tables import (
    decision_by_text,
    edit_as_spreadsheet,
    object_table,
    read_decisions,
    topic_table,
    write_export,
)
from tests.review.server.pages import DOOR, HOME, ORIGIN_HEADERS, TOKEN, check_guards


class PoolPage:
    """A browser's side of the page: it sends the epoch that it read last."""

    def __init__(self, table: Path, export: ReviewExport, enter: bool = True) -> None:
        self.table, self.export = table, export
        routes, about = build_pool_routes(table)
        self.client = TestClient(
            create_app(routes, DOOR, f"/{about['views'][0].lower()}"), base_url=HOME, raise_server_exceptions=False
        )
        if enter:
            self.client.get("/", params={"token": TOKEN})
            self.read()

    def read(self, **filters: str) -> Any:
        found = self.client.get("/api/pools/queue", params=filters).json()
        self.epoch = found.get("epoch")
        return found

    def texts(self, **filters: str) -> list[str]:
        return [card["text"] for card in self.read(**filters)["cards"]]

    def card(self, text: str) -> dict[str, Any]:
        return next(card for card in self.read()["cards"] if card["text"] == text)

    def say(self, *texts: str, decision: str = "keep", **more: Any) -> Any:
        ids = dict(zip(self.export.rows["text"], self.export.rows["query_id"], strict=True))
        rows = [ids.get(text, text) for text in texts]
        body = {"view": "pools", "epoch": self.epoch, "rows": rows, "decision": decision, **more}
        return self.client.post("/api/pools/decide", json=body, headers=ORIGIN_HEADERS)

    def undo(self) -> Any:
        return self.client.post("/api/pools/undo", json={"view": "pools"}, headers=ORIGIN_HEADERS)

    def words(self) -> dict[str, str]:
        return decision_by_text(self.table, self.export)


@pytest.fixture
def page(tmp_path: Path) -> PoolPage:
    export = topic_table("汤包")
    return PoolPage(write_export(tmp_path, "topics", export), export)


def test_one_view_with_the_rows_by_topic(page: PoolPage) -> None:
    html = page.client.get("/").text
    assert 'href="/topics" aria-current="page"' in html and 'href="/queries"' not in html
    assert page.texts() == ["食物", "饺子", "烤鸭", "汤包", "乐器", "钢琴"]
    card = page.card("食物")
    assert card.pop("key") == card.pop("query_id")
    shown = {"text": "食物", "topic": "食物", "kind": "topic", "origin": "people", "round": "", "also": "小吃"}
    assert card == {**shown, "own": None, "dropped_with_topic": False}


def test_an_answer_is_in_the_table_when_it_is_answered(page: PoolPage) -> None:
    assert page.say("烤鸭", decision="drop", note="吃完了").json()["card"]["own"]["decision"] == "drop"
    assert page.say("饺子", decision="edit", new_text=" 水饺 ").json()["card"]["own"]["new_text"] == "水饺"
    assert page.say("钢琴").status_code == 200
    assert page.words() == {"饺子": "水饺", "烤鸭": "drop", "钢琴": "keep"}
    assert [one.note for one in read_decisions(page.table, page.export)] == ["", "吃完了", ""]
    chosen = pool_exports.select_topics(page.export, read_decisions(page.table, page.export))
    assert chosen == {"食物": ["水饺", "汤包"], "乐器": ["钢琴"]}
    again = PoolPage(page.table, page.export)
    assert again.card("饺子")["own"] == {"decision": "edit", "new_text": "水饺", "note": ""}


def test_a_table_is_on_disk_before_the_answer(page: PoolPage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and then the folder's entry are waited for, and the table is never half a table."""
    done: list[str] = []
    real, replace = os.fsync, Path.replace
    monkeypatch.setattr(durable_files.os, "fsync", lambda handle: (done.append("fsync"), real(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (done.append(Path(to).name), replace(self, to))[1])
    page.say("烤鸭", decision="drop")
    assert done == ["fsync", ".topics.csv.page", "topics.csv", "fsync"]
    assert sorted(path.name for path in page.table.parent.iterdir()) == ["topics.csv"]


def test_filters(page: PoolPage, tmp_path: Path) -> None:
    page.say("饺子", decision="edit", new_text="Dumpling")
    page.say("钢琴", decision="drop", note="太响")
    assert page.texts(origin="people") == ["食物", "饺子"] and page.texts(topic="乐器") == ["乐器", "钢琴"]
    assert page.texts(state="decided") == ["饺子", "钢琴"]
    assert page.texts(state="open") == ["食物", "烤鸭", "汤包", "乐器"]
    assert page.texts(search="dumpLING") == ["饺子"] and page.texts(search="响") == ["钢琴"]
    assert page.texts(search="烤鸭", origin="people") == [] and page.read(origin="people")["done"] == [0, 1]
    assert page.client.get("/api/pools/queue", params={"colour": "red"}).status_code == 422
    html = page.client.get("/topics").text
    assert '<option value="乐器">' in html and 'name="flag"' not in html
    export = object_table()
    objects = PoolPage(write_export(tmp_path, "objects", export), export)
    assert objects.texts(flag="alike") == ["烤鸭卷"] and objects.card("烤鸭卷")["nearest"] == "烤鸭"
    html = objects.client.get("/objects").text
    assert 'name="flag"' in html and 'name="topic"' not in html, "one topic is no choice"


def test_a_dropped_topic_takes_its_objects_along(page: PoolPage) -> None:
    page.say("食物", decision="drop")
    assert [card["text"] for card in page.read()["cards"] if card["dropped_with_topic"]] == ["饺子", "烤鸭", "汤包"]


def test_undo_puts_back_what_was_there_act_by_act(page: PoolPage) -> None:
    page.say("烤鸭", decision="drop", note="first")
    page.say("烤鸭", decision="edit", new_text="北京烤鸭")
    page.say("烤鸭", "汤包", "钢琴")
    assert page.words() == {"烤鸭": "keep", "汤包": "keep", "钢琴": "keep"}
    assert page.undo().json()["card"]["undone"] == 3 and page.words() == {"烤鸭": "北京烤鸭"}
    back = page.undo().json()["card"]
    assert back["text"] == "烤鸭" and back["own"] == {"decision": "drop", "new_text": "", "note": "first"}
    assert page.undo().status_code == 200 and page.words() == {}
    assert page.card("烤鸭")["own"] is None and page.texts(state="decided") == []
    assert page.undo().status_code == 409


def test_what_a_spreadsheet_wrote_is_never_overwritten(page: PoolPage) -> None:
    page.say("烤鸭", decision="drop")
    edit_as_spreadsheet(page.table, "饺子", "drop")
    answer = page.say("饺子")
    assert answer.status_code == 409 and "another program changed the table" in answer.json()["error"]
    assert page.words() == {"烤鸭": "drop", "饺子": "drop"}
    assert page.undo().status_code == 409, "what was there before may be older than the other's words"
    assert page.say("饺子").status_code == 409, "not before the page has read it"
    assert page.card("饺子")["own"]["decision"] == "drop"
    assert page.say("饺子").status_code == 200 and page.words() == {"烤鸭": "drop", "饺子": "keep"}


def test_another_tab_that_read_the_change_does_not_let_this_one_overwrite_it(page: PoolPage) -> None:
    seen = page.epoch
    edit_as_spreadsheet(page.table, "饺子", "drop")
    page.read()
    page.epoch = seen
    assert page.say("饺子").status_code == 409 and page.words() == {"饺子": "drop"}


def test_a_write_between_reading_and_writing_is_seen(page: PoolPage, monkeypatch: pytest.MonkeyPatch) -> None:
    write = review_csv.write_review_csv

    def late(export: ReviewExport, path: Path) -> None:
        write(export, path)
        monkeypatch.undo()
        edit_as_spreadsheet(page.table, "饺子", "drop")

    monkeypatch.setattr(review_csv, "write_review_csv", late)
    assert page.say("烤鸭", decision="drop").status_code == 409 and page.words() == {"饺子": "drop"}
    assert sorted(path.name for path in page.table.parent.iterdir()) == ["topics.csv"]
    assert page.card("烤鸭")["own"] is None


def test_a_write_while_the_table_is_read_is_read_too(page: PoolPage, monkeypatch: pytest.MonkeyPatch) -> None:
    read, late = review_csv.read_review_csv, [True]

    def reading(path: Path, *more: Any) -> Any:
        found = read(path, *more)
        if path == page.table and late.pop():
            late.append(False)
            edit_as_spreadsheet(page.table, "烤鸭", "drop")
        return found

    edit_as_spreadsheet(page.table, "饺子", "drop")
    monkeypatch.setattr(review_csv, "read_review_csv", reading)
    assert page.texts(state="decided") == ["饺子", "烤鸭"]


def test_pages_take_turns_at_the_folder(page: PoolPage) -> None:
    handle = os.open(page.table.parent, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(page.say, "烤鸭", decision="drop")
        assert wait([answer], 0.3).not_done and page.words() == {}
        os.close(handle)
        assert answer.result().status_code == 200
    assert page.words() == {"烤鸭": "drop"}


def test_a_table_that_is_open_in_libreoffice_is_left_to_it(page: PoolPage) -> None:
    lock = page.table.with_name(".~lock.topics.csv#")
    lock.write_text("")
    answer = page.say("烤鸭", decision="drop")
    assert answer.status_code == 409 and "LibreOffice" in answer.json()["error"] and page.words() == {}
    lock.unlink()
    assert page.say("烤鸭", decision="drop").status_code == 200


@pytest.mark.parametrize(
    ("decision", "more", "why"),
    [("burn", {}, "not one of keep, drop, edit"), ("", {}, "known decisions: keep, drop, edit"),
     ("edit", {}, "needs a new text"),
     ("edit", {"new_text": "烤鸭"}, "needs a new text"), ("drop", {"new_text": "x"}, "the decision is drop"),
     ("edit", {"new_text": "#REF!"}, "damaged"), ("edit", {"new_text": "a\x00b"}, "damaged"),
     ("keep", {"note": "\ufffd"}, "damaged"), ("edit", {"new_text": "x" * 255}, "damaged"),
     ("grade", {}, "not one of"), ("", {"note": "so"}, "note")],
)  # fmt: skip
@pytest.mark.thorough
def test_what_a_table_cannot_hold_is_refused(page: PoolPage, decision: str, more: dict[str, str], why: str) -> None:
    answer = page.say("烤鸭", decision=decision, **more)
    assert answer.status_code == 409 and why in answer.json()["error"] and page.words() == {}


def test_no_row_but_those_of_the_table_and_one_text_for_one_row(page: PoolPage) -> None:
    before = page.table.read_bytes()
    assert page.say("q_none").status_code == 409 and page.say().status_code == 409
    assert page.say("烤鸭", "钢琴", decision="edit", new_text="一样").status_code == 409
    assert page.say("烤鸭", note="x" * 4001).status_code == 422
    assert page.table.read_bytes() == before


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.thorough
def test_hostile_texts_stay_texts_in_the_page_and_in_the_table(tmp_path: Path, hostile: str) -> None:
    """In a spreadsheet no formula, in HTML no element."""
    export = topic_table(hostile)
    page = PoolPage(write_export(tmp_path, "topics", export), export)
    assert hostile in page.texts()
    assert page.say("烤鸭", decision="drop", note=hostile).status_code == 200
    note = read_decisions(page.table, page.export)[0].note
    assert note == hostile.strip() and page.card("烤鸭")["own"]["note"] == note
    assert "<script>alert" not in page.client.get("/topics").text
    assert page.client.get("/api/pools/queue").headers["content-type"] == "application/json"


def test_a_full_disk_takes_nothing(page: PoolPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_export: ReviewExport, _path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(review_csv, "write_review_csv", full)
    answer = page.say("烤鸭", decision="drop")
    assert answer.status_code == 500 and "No space left" in answer.json()["error"]
    assert page.card("烤鸭")["own"] is None and page.undo().status_code == 409


def test_a_table_that_cannot_be_taken_is_not_opened(tmp_path: Path) -> None:
    export = topic_table()
    table = write_export(tmp_path, "topics", export)
    edit_as_spreadsheet(table, "饺子", "burn")
    with pytest.raises(UserError, match="1 problems, the first: row 3, decision: 'burn'"):
        build_pool_routes(table)
    with pytest.raises(UserError, match="does not exist"):
        find_pool_table(str(table.with_name("objects.csv")))
    with pytest.raises(UserError, match="is not a table of topics, objects or facts"):
        find_pool_table(str(table.with_name("queries.csv")))
    elsewhere = tmp_path / "other" / "review" / "topics.csv"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(table.read_bytes())
    with pytest.raises(UserError, match="did not come from here"):
        build_pool_routes(elsewhere)
    shutil.copytree(tmp_path / "tiny" / "generated", elsewhere.parents[1] / "generated")
    with pytest.raises(UserError, match="of tiny/v0, which did not come from here"):
        build_pool_routes(elsewhere)


def test_a_table_that_is_damaged_or_gone_meanwhile_says_so_and_heals(page: PoolPage) -> None:
    before = page.table.read_bytes()
    edit_as_spreadsheet(page.table, "饺子", "burn")
    damaged = page.table.read_bytes()
    answer = page.say("烤鸭", decision="drop")
    assert answer.status_code == 500 and "burn" in answer.json()["error"] and page.table.read_bytes() == damaged
    page.table.unlink()
    assert "does not exist" in page.say("烤鸭", decision="drop").json()["error"] and not page.table.exists()
    page.table.write_bytes(before)
    page.read()
    assert page.say("烤鸭", decision="drop").status_code == 200


def test_a_newer_table_of_the_stage_takes_its_place_on_the_page(page: PoolPage, tmp_path: Path) -> None:
    newer = topic_table("汤包", "春卷")
    write_export(tmp_path, "topics", newer)
    assert page.say("烤鸭", decision="drop").status_code == 409
    assert "春卷" in page.texts() and page.say("烤鸭", decision="drop").status_code == 200
    assert decision_by_text(page.table, newer) == {"烤鸭": "drop"}


def test_guards_stand_before_the_routes_of_tables(page: PoolPage) -> None:
    reads = ["/topics", "/api/pools/queue", "/static/pools.js", "/static/deck.js"]
    posts = ["/api/pools/decide", "/api/pools/undo"]
    body = {"view": "pools", "epoch": page.epoch, "rows": [page.export.rows["query_id"][1]], "decision": "drop"}
    stranger = PoolPage(page.table, page.export, enter=False)
    check_guards(page.client, stranger.client, reads, posts, body)
    assert stranger.client.get("/").status_code == 403
    many = body | {"rows": ["x"] * 5001}
    assert page.client.post(posts[0], json=many, headers=ORIGIN_HEADERS).status_code == 422
    assert page.client.get(reads[0]).headers["cache-control"] == "no-store" and page.words() == {}
    strange = body | {"note": 7, "extra": "<script>secret</script>"}
    answer = page.client.post(posts[0], json=strange, headers=ORIGIN_HEADERS)
    assert answer.status_code == 422 and "secret" not in answer.text and set(answer.json()) == {"error"}
    half = json.dumps(body | {"note": "\ud800"}).encode()
    as_json = {**ORIGIN_HEADERS, "content-type": "application/json"}
    answer = page.client.post(posts[0], content=half, headers=as_json)
    assert answer.status_code == 422 and page.words() == {}, "half a character is no text"
    for path in ("/queries", "/objects", "/decisions", "/csv/queries.csv", "/topics.csv", "/image/320/x", "/docs"):
        assert page.client.get(path).status_code == 404, path


TABLE = topic_table("汤包")
IDS = dict(zip(TABLE.rows["text"], TABLE.rows["query_id"], strict=True))


def opened() -> PoolTable:
    return PoolTable(TABLE, [])


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(max_examples=150)
@given(st.sampled_from(["keep", "drop", "edit"]), TEXTS, TEXTS)
@pytest.mark.thorough
def test_an_answer_that_is_taken_comes_back_from_the_file_as_it_is(decision: str, new_text: str, note: str) -> None:
    table = opened()
    try:
        changed = table.check_answer([IDS["烤鸭"]], RowAnswer(decision, new_text if decision == "edit" else "", note))
    except ActionError:
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "topics.csv"
        review_csv.write_review_csv(table.fill_in_answers(changed), file)
        (answer,) = changed.values()
        assert decision_by_text(file, TABLE) == {"烤鸭": answer.new_text or answer.decision}
