"""Captions that are written already, matched to images by name or digest and never by guessing."""

import json
from pathlib import Path
from typing import Any

import pytest

from querytruth.backends.models import chat
from querytruth.backends.models.chat import ChatAnswer, ChatImage, ChatRequest, Failure, Message, Reply
from querytruth.backends.models.chat.captions_file import StoredCaptionModel
from querytruth.errors import UserError

SHA = "ab" * 32


def model(path: Path, text: str | bytes, **options: Any) -> StoredCaptionModel:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    loaded = chat.load_chat_model("captions_file", path=path, **options)
    assert isinstance(loaded, StoredCaptionModel)
    return loaded


def about(file_name: str, number: int = 0, sha256: str = "", image_id: str = "") -> ChatRequest:
    image = ChatImage(Path("/rendered/x.jpg"), sha256 or "cd" * 32, file_name, image_id)
    return ChatRequest((Message("user", "caption?", (image,)),), number=number)


def told(answers: list[ChatAnswer]) -> list[str]:
    return [answer.text if isinstance(answer, Reply) else answer.reason for answer in answers]


COCO = {
    "images": [{"id": 7, "file_name": "a/1.jpg"}, {"id": 8, "file_name": "2.jpg"}],
    "annotations": [
        {"image_id": 8, "caption": "two"},
        {"image_id": 7, "caption": "one"},
        {"image_id": 7, "caption": "uno"},
    ],
}
FORMS = {
    "x.csv": "\ufefffile_name,caption\r\na/1.jpg,one\r\na/1.jpg,uno\r\n2.jpg,two\r\n",
    "x.tsv": "path\tcaption\na/1.jpg\tone\na/1.jpg\tuno\n2.jpg\ttwo\n",
    "x.jsonl": '{"image": "a/1.jpg", "captions": ["one", "uno"]}\n\n{"file_name": "2.jpg", "caption": "two"}\n',
    "x.json": json.dumps(COCO),
    "list.json": json.dumps([{"path": "a/1.jpg", "captions": ["one", "uno"]}, {"path": "2.jpg", "text": "two"}]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(tmp_path: Path, form: str) -> None:
    captions = model(tmp_path / form, FORMS[form])
    asked = [about("a/1.jpg"), about("2.jpg"), about("a/1.jpg", 1), about("a/1.jpg", 2), about("3.jpg")]
    assert told(captions.reply(asked)) == ["one", "two", "uno", "no_caption", "no_caption"]


def test_a_reply_is_the_caption_as_it_stands_with_nothing_made_up(tmp_path: Path) -> None:
    captions = model(tmp_path / "x.csv", 'file_name,caption\n1.jpg," ""图中"", 一只狗\n第二行 "\n')
    [answer] = captions.reply([about("1.jpg")])
    assert answer == Reply(' "图中", 一只狗\n第二行 ', "stop", None, None, "")


@pytest.mark.parametrize(
    ("listed", "asked"),
    [("a/1.jpg", "./a/1.jpg"), ("a\\1.jpg", "a/1.jpg"), ("caf\u0065\u0301.jpg", "caf\u00e9.jpg"), (" 1.jpg", "1.jpg")],
)
def test_a_name_is_the_same_however_a_system_writes_it(tmp_path: Path, listed: str, asked: str) -> None:
    assert told(model(tmp_path / "x.csv", f"file_name,caption\n{listed},one\n").reply([about(asked)])) == ["one"]


def test_a_bare_name_will_do_where_it_is_one_images_only(tmp_path: Path) -> None:
    captions = model(tmp_path / "x.csv", "file_name,caption\ntrain/1.jpg,one\ntrain/2.jpg,two\nval/2.jpg,zwei\n")
    asked = [about("1.jpg"), about("photos/2.jpg"), about("val/2.jpg")]
    answers = captions.reply(asked)
    assert told(answers) == ["one", "ambiguous_name", "zwei"]
    assert isinstance(answers[1], Failure)
    assert answers[1].detail == "fits train/2.jpg, val/2.jpg"


def test_two_images_of_one_bare_name_do_not_share_a_caption(tmp_path: Path) -> None:
    captions = model(tmp_path / "x.csv", "file_name,caption\n1.jpg,one\n2.jpg,two\n")
    answers = captions.reply([about("a/1.jpg"), about("b/1.jpg"), about("a/2.jpg"), about("a/2.jpg")])
    assert told(answers) == ["ambiguous_name", "ambiguous_name", "two", "two"]
    assert isinstance(answers[0], Failure)
    assert answers[0].detail == "the caption matches several images: a/1.jpg, b/1.jpg"


def test_a_digest_or_an_id_says_it_better_than_a_name(tmp_path: Path) -> None:
    rows = f"sha256,image_id,file_name,caption\n{SHA},,x.jpg,by digest\n,img_7,y.jpg,by id\n,,z.jpg,by name\n"
    captions = model(tmp_path / "x.csv", rows)
    asked = [about("z.jpg", sha256=SHA), about("z.jpg", image_id="img_7"), about("z.jpg"), about("d/x.jpg")]
    assert told(captions.reply(asked)) == ["by digest", "by id", "by name", "by digest"]


def test_several_names_in_a_row_are_one_image(tmp_path: Path) -> None:
    captions = model(tmp_path / "x.csv", "file_name,path,caption\na/1.jpg,/photos/a/1.jpg,one\n")
    assert told(captions.reply([about("1.jpg"), about("/photos/a/1.jpg")])) == ["one", "one"]


def test_a_language_leaves_the_others_out(tmp_path: Path) -> None:
    rows = "file_name,language,caption\n1.jpg,en,a dog\n1.jpg,zh,一只狗\n1.jpg,,?\n2.jpg,en,a cat\n3.jpg,zh,  \n"
    asked = [about("1.jpg"), about("1.jpg", 1), about("2.jpg"), about("3.jpg")]
    chinese = model(tmp_path / "x.csv", rows, language="zh")
    assert told(chinese.reply(asked)) == ["一只狗", "?", "no_caption", "no_caption"]
    assert chinese.identity != model(tmp_path / "x.csv", rows).identity


def test_a_question_about_no_image_or_two_has_no_caption(tmp_path: Path) -> None:
    captions = model(tmp_path / "x.csv", FORMS["x.csv"])
    image = about("2.jpg").messages[0].images[0]
    asked = [ChatRequest((Message("user", "?"),)), ChatRequest((Message("user", "?", (image, image)),))]
    assert told(captions.reply(asked)) == ["not_one_image"] * 2


def test_the_identity_is_the_files_and_not_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one, other = model(tmp_path / "x.csv", FORMS["x.csv"]), model(tmp_path / "b" / "x.csv", FORMS["x.csv"])
    assert one.identity == other.identity
    assert model(tmp_path / "x.csv", FORMS["x.csv"] + "3.jpg,x\n").identity != other.identity
    assert one.is_recorded


def test_real_files_of_captions_are_read(shared: Any) -> None:
    coco = chat.load_chat_model("captions_file", path=shared("captions/coco_captions_val2017.json"))
    lines = chat.load_chat_model("captions_file", path=shared("captions/coco_val2014_80_captions_boxes_zh.jsonl"))
    assert told(lines.reply([about("000000296284.jpg", 1)])) == ["水果味的甜甜圈整齐地排列在玻璃橱窗里"]
    answers = coco.reply([about("000000179765.jpg", number) for number in range(6)])
    assert told(answers)[0] == "A black Honda motorcycle parked in front of a garage."
    assert told(answers)[5] == "no_caption"


@pytest.mark.parametrize(
    ("name", "data", "told_so"),
    [
        ("x.txt", "a b", "suffix"),
        ("x.csv", "name,words\na,b\n", "has only the columns name, words"),
        ("x.csv", "file_name,caption\n,one\n", "line 2.*does not name an image"),
        ("x.csv", "file_name,caption\n1.jpg,一只狗\n".encode("gb18030"), "is not UTF-8.*gb18030"),
        ("x.jsonl", '{"image": "1.jpg", "caption": "one"}\n{"image"\n', "line 2.*is not JSON"),
        ("x.jsonl", '{"image": "1.jpg", "caption": [1]}\n', "line 1.*not a text"),
        ("x.jsonl", "[" * 100_000 + "\n", "is not JSON"),
        ("x.json", '{"images": []}', "no lists"),
        ("x.json", '{"images": [], "annotations": [{"image_id": 1, "caption": "x"}]}', "annotation 1"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, name: str, data: str | bytes, told_so: str) -> None:
    with pytest.raises(UserError, match=told_so) as error:
        model(tmp_path / name, data)
    assert "\n" not in str(error.value)
