"""What the page shows and takes: decisions that are on disk when they are answered, and undone by new lines."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from builders.publication import publish_decisions
from querytruth.errors import UserError
from querytruth.records import from_arrow, to_arrow
from querytruth.sets import decision_log, set_files
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.set_files import StoredSet
from tests.review.page_reader import HOSTILE
from tests.review.server.pages import ORIGIN_HEADERS, ReviewClient, open_client
from tests.small_sets import gallery_tables, image_id_of, publish_small_set, query_id_of, small_tables

DOG, BEACH, CAT = query_id_of("dog"), query_id_of("狗"), query_id_of("cat")


def waiting(tables: Tables) -> Tables:
    """One pair that nobody judged and that may be right."""
    rows = [(BEACH, image_id_of("dog"), 0.8, "三只狗")]
    frame = pd.DataFrame(rows, columns=["query_id", "image_id", "score", "evidence"]).astype({"score": "float32"})
    return replace(tables, candidate_judgments=from_arrow(to_arrow("candidate_judgments", frame)))


@pytest.fixture
def stored(tmp_path: Path) -> StoredSet:
    return publish_small_set(tmp_path, waiting(small_tables()))


@pytest.fixture
def page(stored: StoredSet) -> ReviewClient:
    return open_client(stored)


def test_what_is_doubtful_comes_first(page: ReviewClient) -> None:
    found = page.queue("queries")
    assert len(found["keys"]) == 4 and found["done"] == [0] * 4
    assert found["keys"][0] == BEACH, "a pair of it waits for a judgment"
    assert page.keys("queries", flag="ambiguous") == [BEACH]
    assert page.keys("queries", language="zh", level=2) == [BEACH]
    assert page.keys("queries", search="WET") == [DOG]
    assert page.keys("queries", topic="beach") == [BEACH]
    few = page.keys("queries", order="images")
    assert few[0] == query_id_of("none"), "the one without a right image"
    assert page.get("/api/queries/queue", params={"order": "x"}).status_code == 422


def test_a_card_has_the_truth_and_what_waits(page: ReviewClient) -> None:
    card = page.card(DOG)
    assert [(p["image_id"], p["relevance"]) for p in card["images"]] == [
        (image_id_of("dog"), 2), (image_id_of("beach"), 1), (image_id_of("cat"), 0),
    ]  # fmt: skip
    assert card["image_total"] == 3 and card["own"] is None and card["language"] == "en"
    first = page.card(BEACH)["images"][0]
    assert (first["image_id"], first["relevance"], first["evidence"]) == (image_id_of("dog"), None, "三只狗")
    assert page.get("/api/queries/cards", params={"key": ["q_none", BEACH]}).json()["cards"][0]["key"] == BEACH
    assert page.get("/api/queries/cards", params={"key": ["q"] * 49}).status_code == 422


def test_an_edited_caption_asks_its_images_anew_unless_the_person_says_otherwise(tmp_path: Path) -> None:
    tables = small_tables()
    told = tables.queries["query_id"] == DOG
    queries = tables.queries.assign(labels=None).assign(source_image_id=None).astype({"source_image_id": "object"})
    queries.loc[told, "source_image_id"] = image_id_of("dog")
    qrels = tables.qrels.assign(judged_by="caption", evidence="its captions say all of it: a wet dog")
    frames = {name: from_arrow(to_arrow(name, one)) for name, one in (("queries", queries), ("qrels", qrels))}
    page = open_client(publish_small_set(tmp_path, replace(tables, **frames)))
    before = page.card(DOG)
    text = next(one for one in before["queries"] if one["query_id"] == DOG)
    assert text["rests_on_text"] and [one["is_source"] for one in before["images"]] == [True, False, False]
    page.decide(DOG, text["text"], "edit", new_text="a dry dog", keeps_truth=True)
    assert [one["grade"] for one in page.card(DOG)["images"]] == [2, 1, 0]
    page.undo()
    page.decide(DOG, text["text"], "edit", new_text="a cat")
    after = page.card(DOG)["images"]
    assert [(one["image_id"], one["grade"]) for one in after] == [(image_id_of(n), None) for n in ("dog", "beach")]
    assert {one["evidence"] for one in after} == {f"judged for the text before an edit: {text['text']}"}
    page.decide(DOG, "a cat", "keep", accept=[one["image_id"] for one in after])
    assert [(line.decision, line.image_id) for line in page.log[-1:]] == [("keep", None)], "nobody confirmed them"


def test_a_decision_is_on_disk_before_it_is_answered(page: ReviewClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = page.decide(DOG, "a dog, wet", "grade", image_id=image_id_of("beach"), relevance=0, note="too far")
    (said,) = page.log
    assert answer.status_code == 200
    assert (said.query_id, said.image_id, said.decision, said.relevance) == (DOG, image_id_of("beach"), "grade", 0)
    assert (said.reviewer, said.view, said.note, said.text) == ("lin", "queries", "too far", "a dog, wet")
    assert said.at and said.source
    shown = answer.json()["card"]["images"][1]
    assert shown["grade"] == 0 and shown["relevance"] == 1 and shown["own"]["note"] == "too far"

    def full(*_: object) -> None:
        raise UserError("save decisions", "decisions.jsonl", "cannot be written (No space left on device)", "mend that")

    monkeypatch.setattr(decision_log.DecisionLog, "append", full)
    answer = page.decide(DOG, "a dog, wet", "drop")
    assert answer.status_code == 500 and "No space left" in answer.json()["error"]
    assert page.card(DOG)["own"] is None and len(page.log) == 1, "what is not on disk was not said"


def test_all_right_confirms_what_has_a_grade_and_no_word_yet(page: ReviewClient) -> None:
    page.decide(DOG, "a dog, wet", "grade", image_id=image_id_of("dog"), relevance=1)
    accept = [image_id_of(name) for name in ("dog", "beach", "cat", "tree")]
    assert page.decide(DOG, "a dog, wet", "keep", accept=accept).status_code == 200
    assert [(d.image_id, d.decision, d.relevance) for d in page.log[1:]] == [
        (image_id_of("beach"), "keep", 1), (image_id_of("cat"), "keep", 0), (None, "keep", None),
    ]  # fmt: skip
    assert page.undo().json()["card"]["undone"] == 3, "what was said at once is taken back at once"
    card = page.card(DOG)
    assert card["own"] is None and [p["grade"] for p in card["images"]] == [1, 1, 0]


def test_undo_is_a_new_line_and_goes_back_one_act_at_a_time(page: ReviewClient, stored: StoredSet) -> None:
    page.decide(DOG, "a dog, wet", "edit", new_text="a soaked dog")
    page.decide(DOG, "a soaked dog", "grade", image_id=image_id_of("dog"), relevance=0)
    page.decide(BEACH, "沙滩上的狗", "drop")
    for left in (2, 1, 0):
        assert page.undo().status_code == 200
        assert [d.decision for d in page.log[3:]] == ["undo"] * (3 - left)
    assert page.undo().status_code == 409 and len(page.log) == 6
    assert page.card(DOG)["text"] == "a dog, wet"
    assert not publish_decisions(stored.path).is_new, "what was taken back changes nothing"


def test_a_page_that_is_started_again_knows_all_of_it(page: ReviewClient, stored: StoredSet) -> None:
    page.decide(DOG, "a dog, wet", "edit", new_text="湿狗")
    page.decide(BEACH, "沙滩上的狗", "drop", note="dull")
    again = open_client(stored)
    assert again.card(DOG)["text"] == "湿狗" and again.card(BEACH)["own"]["note"] == "dull"
    assert sum(again.queue("queries")["done"]) == 2
    assert again.keys("queries", search="湿") == [DOG]
    assert set(again.keys("queries", state="decided")) == {DOG, BEACH}
    assert again.undo().json()["card"]["key"] == BEACH, "the last act of an earlier day can be taken back"


def test_two_tabs_see_each_other_s_words(stored: StoredSet) -> None:
    one, other = open_client(stored), open_client(stored)
    one.decide(DOG, "a dog, wet", "edit", new_text="a soaked dog")
    answer = other.decide(DOG, "a dog, wet", "drop")
    assert answer.status_code == 409 and "now reads “a soaked dog”" in answer.json()["error"]
    assert other.card(DOG)["text"] == "a soaked dog"
    assert [d.decision for d in other.log] == ["edit"], "nothing was decided on a text that nobody sees any more"


REFUSED = [
    {"query_id": "q_none", "text": "x", "decision": "drop"},
    {"decision": "grade", "relevance": 1},
    {"decision": "grade", "relevance": 7, "image_id": image_id_of("dog")},
    {"decision": "grade", "relevance": -1, "image_id": image_id_of("dog")},
    {"decision": "grade", "image_id": image_id_of("dog")},
    {"decision": "drop", "image_id": "img_none"},
    {"decision": "drop", "image_id": "../x"},
    {"decision": "edit", "new_text": "x", "image_id": image_id_of("dog")},
    {"decision": "edit", "new_text": "   "},
    {"decision": "edit"},
    {"decision": "edit", "new_text": "a dog, wet"},
    {"decision": "edit", "new_text": "two\nlines"},
    {"decision": "edit", "new_text": "nul\x00"},
    {"decision": "edit", "new_text": "x" * 4001},
    {"decision": "edit", "new_text": "\ufffd"},
    {"decision": "burn"},
    {"decision": "undo"},
    {"decision": "drop", "view": "csv"},
    {"decision": "drop", "note": "\x1b[31m"},
    {"decision": "drop", "text": "another text"},
]


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
@pytest.mark.thorough
def test_what_cannot_be_meant_is_refused_in_one_sentence(page: ReviewClient, body: dict[str, object]) -> None:
    whole = {"query_id": DOG, "text": "a dog, wet", "view": "queries", **body}
    answer = page.post("/api/queries/decide", whole)
    assert answer.status_code == 409 and "\n" not in answer.json()["error"]
    assert page.log == []


def test_half_a_character_is_refused(page: ReviewClient) -> None:
    said = {"query_id": DOG, "text": "a dog, wet", "decision": "drop", "view": "queries", "note": "\ud800"}
    body = json.dumps(said)  # as an escape: no browser sends the half itself
    answer = page.client.post(
        "/api/queries/decide", content=body.encode(), headers={**ORIGIN_HEADERS, "content-type": "application/json"}
    )
    assert answer.status_code in (409, 422) and page.log == []


def test_pairs_that_wait_are_judged_one_by_one(page: ReviewClient, stored: StoredSet) -> None:
    (key,) = page.keys("pairs", source="candidates")
    card = page.card(key, "pairs")
    assert card["image"]["relevance"] is None and card["image"]["score"] == pytest.approx(0.8)
    answer = page.decide(BEACH, "沙滩上的狗", "grade", image_id=image_id_of("dog"), relevance=2, view="pairs")
    assert answer.json()["card"]["image"]["grade"] == 2
    assert page.queue("pairs", source="candidates")["done"] == [1]
    assert page.keys("pairs", source="candidates", state="open") == []
    audit = page.keys("pairs", source="sample")
    assert len(audit) == 5 and len({key.partition("/")[0] for key in audit[:3]}) == 3, "every query has its turn"
    second = page.publish()
    assert open_client(second).keys("pairs", source="candidates") == []


def test_others_words_are_seen_only_where_two_differ(page: ReviewClient, stored: StoredSet) -> None:
    mei = open_client(stored, "mei")
    for name, first, second in (("dog", 2, 2), ("beach", 1, 0), ("cat", 0, 0)):
        page.decide(DOG, "a dog, wet", "grade", image_id=image_id_of(name), relevance=first)
        shown = {p["image_id"]: p for p in mei.card(DOG)["images"]}
        assert shown[image_id_of(name)]["own"] is None, "mei judges afresh"
        mei.decide(DOG, "a dog, wet", "grade", image_id=image_id_of(name), relevance=second)
    (key,) = mei.keys("pairs", source="disagreements")
    assert key == f"{DOG}/{image_id_of('beach')}"
    card = mei.card(key, "pairs")
    assert [(one["reviewer"], one["verdict"]) for one in card["disputed_by"]] == [("lin", "1"), ("mei", "0")]
    html = mei.get("/decisions").text
    assert "0.50" in html and "1 point is in dispute" in html, "kappa of (2,2), (1,0), (0,0)"
    body = {"image_id": image_id_of("beach"), "relevance": 1, "view": "disagreements"}
    page.decide(DOG, "a dog, wet", "grade", **body)
    assert mei.keys("pairs", source="disagreements") == []


def test_queries_in_dispute_are_a_queue_of_their_own(page: ReviewClient, stored: StoredSet) -> None:
    page.decide(DOG, "a dog, wet", "keep")
    open_client(stored, "mei").decide(DOG, "a dog, wet", "drop")
    assert page.keys("queries", flag="disagreements") == [DOG]
    assert page.card(DOG)["disputed_by"] == [
        {"reviewer": "lin", "verdict": "keep"},
        {"reviewer": "mei", "verdict": "drop"},
    ]


def test_what_no_longer_applies_is_listed(page: ReviewClient, stored: StoredSet) -> None:
    page.decide(DOG, "a dog, wet", "drop")
    second = page.publish()
    page.decide(DOG, "a dog, wet", "keep")
    html = open_client(second).get("/decisions").text
    assert "the query is no longer in the set" in html and "a dog, wet" in html


def test_what_is_published_is_not_taken_back(page: ReviewClient, stored: StoredSet) -> None:
    page.decide(BEACH, "沙滩上的狗", "grade", image_id=image_id_of("beach"), relevance=1)
    second = open_client(page.publish())
    assert second.undo().status_code == 409
    assert second.card(BEACH)["images"][-1]["relevance"] == 1 and second.card(BEACH)["images"][-1]["own"] is None


def test_an_image_is_made_small_once(page: ReviewClient, stored: StoredSet) -> None:
    first = page.get(f"/image/320/{image_id_of('dog')}")
    assert first.headers["content-type"] == "image/jpeg" and first.content.startswith(b"\xff\xd8")
    kept = list((stored.path.parent / ".thumbnails").rglob("*.jpg"))
    assert [file.name for file in kept] == [f"{image_id_of('dog')}.jpg"]
    kept[0].write_bytes(b"\xff\xd8kept\xff\xd9")
    assert page.get(f"/image/320/{image_id_of('dog')}").content == b"\xff\xd8kept\xff\xd9"
    kept[0].write_bytes(first.content[:-9])
    assert page.get(f"/image/320/{image_id_of('dog')}").content == first.content, "a torn one is made again"
    assert list(set_files.verify_set(stored.path)) == [], "nothing is written into the version"


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.thorough
def test_a_hostile_text_is_data_in_every_view(hostile: str, tmp_path: Path) -> None:
    tables = waiting(small_tables())
    tables.queries["text"] = [f"{hostile} {n}" for n in range(4)]
    tables.queries["labels"] = [[hostile, "b"]] * 4
    tables.queries["topic"] = hostile
    tables.images["file_name"] = hostile
    tables.candidate_judgments["evidence"] = hostile
    stored = publish_small_set(tmp_path, tables)
    page = open_client(stored, hostile)
    text = page.card(DOG)["text"]
    page.decide(DOG, text, "drop", note=hostile)
    open_client(stored, "mei").decide(DOG, text, "keep")
    for path in ("/queries", "/pairs", "/decisions"):
        answer = page.get(path)
        assert answer.status_code == 200 and "<script>alert" not in answer.text and "<img src=x" not in answer.text
        assert answer.text.count("<script") == (3 if path != "/decisions" else 2), "only the page's own"
    answer = page.get("/api/queries/cards", params={"key": DOG})  # data: no browser renders it
    assert answer.headers["content-type"].startswith("application/json") and answer.json()["cards"][0]["text"] == text


def test_a_set_without_queries_has_no_page_to_judge_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no queries"):
        open_client(publish_small_set(tmp_path, gallery_tables()))


def test_a_set_without_doubts_and_of_one_kind_has_fewer_filters(tmp_path: Path) -> None:
    tables = small_tables(graded=False)
    plain = tables.queries.assign(language="en", level=1, labels=None)
    page = open_client(publish_small_set(tmp_path, replace(tables, queries=from_arrow(to_arrow("queries", plain)))))
    answer = page.get("/queries")
    assert answer.status_code == 200 and 'name="order"' in answer.text
    assert not [name for name in ("flag", "level", "language", "topic") if f'name="{name}"' in answer.text]
    assert page.queue("pairs", source="candidates") == {"keys": [], "done": []}
