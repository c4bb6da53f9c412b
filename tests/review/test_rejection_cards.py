"""The view of rejects: rescues on disk at once, files by the rows of the ledger and by nothing else."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from querytruth.records import image_id_of_bytes
from querytruth.review.deck import ActionError
from querytruth.review.similar_images import RejectedFiles
from querytruth.sets import decision_log, set_files
from querytruth.sets.decision_records import Override
from querytruth.sets.published_files import record_own_version
from querytruth.sets.set_files import StoredSet
from tests.images import draw_scene
from tests.resealed_sets import reseal
from tests.review.server.pages import ReviewClient, open_client
from tests.worlds import build_of, define_gallery
from tests.worlds import save_photo as photo

NAME = "一 <b>wide & long.jpg"


@pytest.fixture
def pile(tmp_path: Path) -> Path:
    """Three photos of which two are wanted, one too wide, one broken, and a smaller copy."""
    folder = tmp_path / "pile"
    for n in range(3):
        photo(folder / f"{n}.jpg", n, day=n + 1)
    draw_scene(7, (300, 40)).save(folder / NAME)
    draw_scene(0).resize((120, 90)).save(folder / "0 small.jpg", quality=80)
    (folder / "broken.jpg").write_bytes((folder / "1.jpg").read_bytes()[:300])
    return folder


@pytest.fixture
def stored(tmp_path: Path, pile: Path) -> StoredSet:
    return set_files.read_set(build_of("gallery", define_gallery(tmp_path, pile, select={"count": 2})).path)


@pytest.fixture
def page(stored: StoredSet) -> ReviewClient:
    return open_client(stored)


def cards(page: ReviewClient, **wanted: str) -> dict[str, dict[str, Any]]:
    keys = page.get("/api/rejects/queue", params=wanted).json()["keys"]
    found = page.cards("rejects", *keys) if keys else []
    return {card["name"]: card for card in found}


def rescue(page: ReviewClient, card: dict[str, Any], note: str = "好照片", **more: Any) -> Any:
    seen = (card["shown"] or {"id": ""})["id"]
    said = {"view": "rejects", "key": card["key"], "decision": "rescue", "note": note, "seen": seen}
    return page.post("/api/rejects/decide", said | more)


def log(page: ReviewClient) -> list[Override]:
    return decision_log.read_decisions(page.stored.path.parent, Override)


def left_out(page: ReviewClient) -> dict[str, Any]:
    (card,) = cards(page, reason="not_selected").values()
    return card


@pytest.mark.thorough
def test_the_page_offers_the_stages_and_reasons_that_there_are(page: ReviewClient) -> None:
    assert 'href="/rejects"' in page.get("/captions").text
    text = page.get("/rejects").text
    for option in ("too wide (1)", "near duplicate (1)", "not selected (1)", "quarantined (1)", "filter (1)"):
        assert f">{option}</option>" in text
    assert "too dark" not in text
    found = cards(page)
    assert next(iter(found)) == NAME and set(found) > {"0 small.jpg", "broken.jpg"} and len(found) == 4
    assert found[NAME]["overridable"] and not found["broken.jpg"]["overridable"]
    assert found["0 small.jpg"]["link"].startswith("dup_"), "its pair is in Duplicates"
    assert page.get("/duplicates").status_code == 200


@pytest.mark.thorough
def test_a_rescue_is_on_disk_when_it_is_answered_under_the_digest_of_the_file(page: ReviewClient, pile: Path) -> None:
    card = cards(page)[NAME]
    answer = rescue(page, card).json()["card"]
    assert answer["own"]["note"] == "好照片" and answer["shown"] == card["shown"]
    (word,) = log(page)
    assert (word.decision, word.name, word.note, word.reviewer, word.view) == (
        "rescue", NAME, "好照片", "lin", "rejects",
    )  # fmt: skip
    assert word.item == image_id_of_bytes(hashlib.sha256((pile / NAME).read_bytes()).hexdigest())
    assert list(cards(page, state="decided")) == [NAME] and NAME not in cards(page, state="open")
    other = open_client(page.stored, "mei")
    assert cards(other)[NAME]["own"] is None and cards(other)[NAME]["other_overrides"][0]["reviewer"] == "lin"
    assert other.undo("rejects").status_code == 409, "lin's is lin's"
    assert rescue(other, left_out(other), "mine").status_code == 200
    assert left_out(page)["other_overrides"][0]["reviewer"] == "mei", "heard by the page that is open"
    assert page.undo("rejects").json()["card"]["own"] is None and page.undo("rejects").status_code == 409
    assert [one.decision for one in log(page)] == ["rescue", "rescue", "undo"] and page.log == []


def test_the_reason_can_be_changed(page: ReviewClient) -> None:
    card = cards(page)[NAME]
    rescue(page, card, "one")
    assert rescue(page, card, "two").json()["card"]["own"]["note"] == "two"
    assert page.undo("rejects").json()["card"]["own"]["note"] == "one"


@pytest.mark.thorough
def test_a_file_that_became_another_or_is_gone_is_not_rescued_unseen(page: ReviewClient, pile: Path) -> None:
    card, left = cards(page)[NAME], left_out(page)
    first = page.get(f"/rejects/image/320/{card['shown']['id']}").content
    draw_scene(99, (300, 40)).save(pile / NAME)
    answer = rescue(page, card)
    assert answer.status_code == 409 and "changed or removed" in answer.json()["error"]
    again = cards(page)[NAME]
    assert again["shown"]["id"] != card["shown"]["id"], "another address: no old image is shown for the new file"
    assert page.get(f"/rejects/image/320/{again['shown']['id']}").content != first
    assert page.get(f"/rejects/image/1280/{card['shown']['id']}").status_code == 404
    (pile / left["name"]).unlink()
    assert left_out(page)["shown"] is None
    for seen in ("", left["shown"]["id"]):
        assert rescue(page, left, seen=seen).status_code == 409
    (pile / left["name"]).write_bytes(b"no image")
    assert "can no longer be read" in rescue(page, left, seen="").json()["error"] and log(page) == []
    assert rescue(page, again).status_code == 200


@pytest.mark.thorough
def test_files_are_shown_by_their_rows_and_nothing_else_of_the_disk(page: ReviewClient, pile: Path) -> None:
    found = cards(page)
    for name in (NAME, "0 small.jpg", left_out(page)["name"]):
        answer = page.get(f"/rejects/image/320/{found[name]['shown']['id']}")
        assert answer.headers["content-type"] == "image/jpeg" and answer.content.startswith(b"\xff\xd8")
    good = found[NAME]["shown"]["id"]
    key, _, stamp = good.partition("_")
    names = ["0.jpg", NAME, "..%2f..%2fetc%2fpasswd", str(pile / "0.jpg"), "%00", key, f"{key}_", f"{key}_../../x"]
    for name in [*names, f"{key}_{stamp[::-1]}", f"0-000000000000_{stamp}"]:
        assert page.get(f"/rejects/image/320/{name}").status_code in (403, 404), name
    assert page.get(f"/rejects/image/321/{good}").status_code == 404
    assert page.get(f"/rejects/image/320/{found['broken.jpg']['shown']['id']}").status_code == 404, "no image"


def test_a_ledger_that_names_files_out_of_its_source_shows_none_of_them(stored: StoredSet, tmp_path: Path) -> None:
    files = RejectedFiles(stored)
    secret, pile = tmp_path / "secret.jpg", tmp_path / "pile"
    shutil.copy(pile / "0.jpg", secret)
    (pile / "link.jpg").symlink_to(secret)
    escaped = "bytes:" + str(secret).replace("/", "%2F")
    outside = ["../secret.jpg", str(secret), escaped, f"file://{secret}", "link.jpg", "", ".", "\x00", "x" * 300]
    assert files.get_stamps([*outside, "http://127.0.0.1/secret.jpg", "0.jpg"]).keys() == {"0.jpg"}
    for item in outside:
        assert files.load_thumbnail(item, "0" * 16, 320) is None
        with pytest.raises(ActionError, match="no longer where"):
            files.compute_image_id(item)


def defined(stored: StoredSet, **definition: Any) -> StoredSet:
    return replace(stored, manifest=stored.manifest | {"envelope": {"definition": definition}})


@pytest.mark.thorough
def test_a_list_may_name_files_anywhere_but_not_the_web(stored: StoredSet, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("pile/0.jpg\n")
    files = RejectedFiles(defined(stored, images=str(tmp_path / "list.txt")))
    anywhere = str(tmp_path / "pile/1.jpg")
    assert files.get_stamps(["pile/0.jpg", anywhere]).keys() == {"pile/0.jpg", anywhere}
    for item in ("http://127.0.0.1:9/1.jpg", "https://127.0.0.1:9/1.jpg", "zip://1.jpg::http://127.0.0.1:9/1.zip"):
        assert files.get_stamps([item]) == {}
        with pytest.raises(ActionError, match="no longer where"):
            files.compute_image_id(item)


@pytest.mark.thorough
def test_what_a_search_found_is_shown_as_it_was_kept(stored: StoredSet, tmp_path: Path) -> None:
    from querytruth.backends.web.page_store import PageStore
    from querytruth.backends.web.web_records import FetchedResource, WebRequest

    url, data = "https://example.org/1.jpg", (tmp_path / "pile/0.jpg").read_bytes()
    files = RejectedFiles(defined(stored, collect={"search": "openverse"}))
    assert files.get_stamps([url]) == {}, "nothing was kept"
    store = PageStore(stored.path.parent / "pages")
    sha256 = hashlib.sha256(data).hexdigest()
    store.save(WebRequest(url), FetchedResource(url, 200, {}, sha256, len(data)), data)
    store.close()
    found = files.get_stamps([url, "https://example.org/2.jpg", "../pages/fetches.sqlite", ""])
    assert found.keys() == {url} and files.compute_image_id(url) == image_id_of_bytes(sha256)
    jpeg = files.load_thumbnail(url, found[url], 320)
    assert jpeg is not None and jpeg.startswith(b"\xff\xd8")
    album = RejectedFiles(
        defined(
            stored, collect={"search": "folder", "options": {"index": "captions.csv", "images": str(tmp_path / "pile")}}
        )
    )
    assert album.get_stamps(["0.jpg", "9.jpg", url]).keys() == {"0.jpg"}


@pytest.mark.parametrize("definition", [{}, {"images": None}, {"images": 7}, {"images": "/no/where"}, {"collect": {}}])
@pytest.mark.thorough
def test_a_set_without_a_source_shows_no_file(stored: StoredSet, definition: dict[str, Any]) -> None:
    assert RejectedFiles(defined(stored, **definition)).get_stamps(["0.jpg"]) == {}


@pytest.mark.thorough
def test_without_its_source_the_view_still_tells(stored: StoredSet, page: ReviewClient, pile: Path) -> None:
    pile.rename(pile.with_name("moved"))
    found = cards(open_client(stored))
    assert len(found) == 4 and all(card["shown"] is None for card in found.values())
    answer = rescue(page, found[NAME])
    assert answer.status_code == 409 and "no longer where the set found it" in answer.json()["error"]


def rewritten(stored: StoredSet, ledger: pd.DataFrame, **manifest: Any) -> StoredSet:
    ledger.to_parquet(stored.path / "ledger.parquet")
    whole = json.loads((stored.path / "manifest.json").read_text()) | manifest
    (stored.path / "manifest.json").write_text(json.dumps(whole))
    reseal(stored.path)
    record_own_version(stored.path)
    return set_files.read_set(stored.path)


@pytest.mark.thorough
def test_a_ledger_without_a_row_has_no_view(stored: StoredSet) -> None:
    page = open_client(rewritten(stored, stored.tables.ledger.iloc[:0]))
    assert "/rejects" not in page.get("/captions").text and page.get("/rejects").status_code == 404
