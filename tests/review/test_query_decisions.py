"""A person captions a gallery by hand: on disk at once, taken back by new lines, and read by the chat model `human`."""

import json
from pathlib import Path
from typing import Any

import pytest

from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatImage, ChatRequest, Message, Reply
from querytruth.errors import UserError
from querytruth.sets.decision_log import DecisionLog, read_decisions
from querytruth.sets.decision_records import HumanCaption, latest_by_target
from tests.resealed_sets import reseal
from tests.review.server.pages import ReviewClient, open_client
from tests.small_sets import gallery_tables, image_id_of, publish_small_set

DOG, CAT = image_id_of("dog"), image_id_of("cat")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReviewClient:
    """The page of a gallery of four images."""
    stored = publish_small_set(tmp_path, gallery_tables(), name="album")
    manifest = {**json.loads((stored.path / "manifest.json").read_text()), "kind": "gallery"}
    (stored.path / "manifest.json").write_text(json.dumps(manifest))
    reseal(stored.path)
    return open_client(stored)


def write(page: ReviewClient, image_id: str, language: str, text: str) -> Any:
    body = {"view": "captions", "image_id": image_id, "language": language, "text": text}
    return page.post("/api/captions/decide", body)


def lines(page: ReviewClient) -> list[HumanCaption]:
    return read_decisions(page.stored.path.parent, HumanCaption)


def test_a_gallery_has_one_view_its_images_in_order(page: ReviewClient) -> None:
    html = page.get("/").text
    assert 'href="/captions"' in html and 'href="/queries"' not in html
    found = page.queue("captions")
    assert found["keys"][0] == DOG, "the only one with a day" and len(found["keys"]) == 4
    assert page.keys("captions", search="CAT 1") == [CAT]
    assert page.get(f"/image/320/{DOG}").headers["content-type"] == "image/jpeg"
    assert page.get("/image/320/..%2f").status_code == 404


def test_a_caption_is_on_disk_when_it_is_answered(page: ReviewClient) -> None:
    answer = write(page, DOG, "zh", "  一只狗 \r\n\r\n 草地上的狗 ")
    assert answer.json()["card"]["texts"] == {"zh": "一只狗\n草地上的狗", "en": ""}
    (said,) = lines(page)
    assert (said.image_id, said.language, said.lines) == (DOG, "zh", ["一只狗", "草地上的狗"])
    assert said.reviewer == "lin" and said.at
    assert page.keys("captions", state="open") == [key for key in page.keys("captions") if key != DOG]
    again = open_client(page.stored)
    assert again.queue("captions", search="草地") == {"keys": [DOG], "done": [1]}


def test_undo_puts_back_what_was_there(page: ReviewClient) -> None:
    for text in ("a dog", "a wet dog"):
        write(page, DOG, "en", text)
    other = open_client(page.stored, "mei")
    write(other, CAT, "en", "a cat")
    for expected in ("a dog", ""):
        assert page.undo("captions").json()["card"]["texts"]["en"] == expected
    assert page.undo("captions").status_code == 409, "mei's is mei's"
    assert len(lines(page)) == 5 and [one.undo for one in lines(page)[3:]] == [True, True]
    assert [text.text for text in latest_by_target(lines(page)).values() if text.lines] == ["a cat"]


@pytest.mark.parametrize(
    ("image_id", "language", "text"),
    [(DOG, "fr", "x"), ("img_none", "en", "x"), ("../x", "en", "x"), (DOG, "en", "x" * 4001), (DOG, "en", "a\x00b"),
     (DOG, "en", "\ufffd"), (DOG, "en", "a\u2028b")],
)  # fmt: skip
@pytest.mark.thorough
def test_what_is_no_caption_is_refused(page: ReviewClient, image_id: str, language: str, text: str) -> None:
    assert write(page, image_id, language, text).status_code == 409 and lines(page) == []


@pytest.mark.parametrize("line", [b"{}", b"[]", b'{"image_id": 1, "language": "zh", "text": "a"}', b"\xff",
                                  b'{"image_id": "i", "language": "zh", "text": "a", "colour": "red"}'])  # fmt: skip
def test_a_damaged_line_is_named(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").write_bytes(line + b"\n")
    with pytest.raises(UserError, match=r"captions\.jsonl line 1"):
        DecisionLog(tmp_path, HumanCaption).read_from(0)


def asked(image_id: str, language: str, number: int = 0) -> ChatRequest:
    image = ChatImage(Path("/rendered/x.jpg"), "cd" * 32, "holiday/x.jpg", image_id)
    return ChatRequest((Message("user", "caption?", (image,)),), number=number, language=language)


def test_the_person_answers_as_a_chat_model(page: ReviewClient) -> None:
    write(page, DOG, "zh", "一只狗\n草地上的狗")
    write(page, DOG, "en", "a dog")
    write(page, CAT, "en", "a cat")
    write(page, CAT, "en", "")
    for path in (page.stored.path, page.stored.path.parent):
        model = chat.load_chat_model("human", path=str(path))
        answers = model.reply([asked(DOG, "zh"), asked(DOG, "zh", 1), asked(DOG, "en"), asked(CAT, "en")])
        assert [one.text if isinstance(one, Reply) else one.reason for one in answers] == [
            "一只狗", "草地上的狗", "a dog", "no_caption",
        ]  # fmt: skip
    assert model.identity.name == "human" and model.is_recorded
    before = model.identity.revision
    page.undo("captions")
    assert chat.load_chat_model("human", path=page.stored.path).identity.revision != before


@pytest.mark.thorough
def test_without_a_word_the_model_says_where_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="querytruth review"):
        chat.load_chat_model("human", path=tmp_path)
    with pytest.raises(UserError, match="unknown option"):
        chat.load_chat_model("human", path=tmp_path, colour="red")
