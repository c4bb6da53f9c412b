"""Labels in another language: a chat model proposes, people decide, and a precision set speaks both languages."""

import csv
import json
import re
from pathlib import Path

import pytest

from builders.precision.label_files import read_label_csv
from querytruth.errors import UserError
from tests.command_runner import invoke
from tests.loopback import CannedResponse, ReceivedRequest, loopback
from tests.worlds import chat_reply

NAMES = {"cup": "杯子", "mouse": "鼠标", "mug": "杯子", "=cmd": "命令"}
BACK = {"杯子": "cup", "鼠标": "mouse", "命令": "command"}


def answer(request: ReceivedRequest) -> CannedResponse:
    question = request.json["messages"][-1]["content"]
    text = question if isinstance(question, str) else question[-1]["text"]
    word = text[text.index("“") + 1 : text.index("”")]
    if "就是这种东西吗" in text:
        return chat_reply("是。")
    content = NAMES[word] if "图片数据集" in text else BACK[word]
    return chat_reply(content)


@pytest.fixture
def coco(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    categories = [{"id": 3 + n, "name": name, "supercategory": "thing"} for n, name in enumerate(NAMES)]
    path = tmp_path / "instances.json"
    path.write_text(json.dumps({"images": [], "annotations": [], "categories": categories}))
    return path


def run(*arguments: object) -> str:
    done = invoke(*arguments)
    if done.exception is not None:
        raise done.exception
    return done.output


def test_proposals_are_flagged_reviewed_and_become_a_label_table(coco: Path) -> None:
    with loopback(answer) as endpoint:
        model = [f"--model-option=base_url={endpoint.url}/v1", "--model-option=name=m"]
        printed = run("labels", "translate", coco, "--language", "zh", *model)
        asked = len(endpoint.asked)
        assert asked == 11, "four labels, three different words back, and four times whether it is this sense"
        with pytest.raises(UserError, match=r"labels\.zh\.csv.*exists"):
            run("labels", "translate", coco, "--language", "zh", *model)
    assert "4 labels, 3 to check (1 changed_meaning, 2 duplicate, 1 homonym)" in printed
    file = coco.parent / "labels.zh.csv"
    rows = list(csv.DictReader(file.read_text("utf-8-sig").splitlines()))
    assert [(row["name"], row["proposal"], row["problems"]) for row in rows] == [
        ("cup", "杯子", "duplicate"),
        ("mouse", "鼠标", ""),
        ("mug", "杯子", "duplicate homonym"),
        ("'=cmd", "命令", "changed_meaning"),
    ]
    rows[2]["proposal"] = "马克杯"
    with file.open("w", encoding="utf-8-sig", newline="") as out:
        writer = csv.DictWriter(out, rows[0].keys())
        writer.writeheader()
        writer.writerows(row | {"verdict": "accept" if number < 3 else ""} for number, row in enumerate(rows))
    printed = run("labels", "accept", file, coco, "--to", "my-labels")
    assert "3 names accepted, 1 rows without a verdict" in " ".join(printed.split())
    table = list(csv.DictReader((coco.parent / "my-labels" / "labels.csv").read_text("utf-8-sig").splitlines()))
    assert [(row["id"], row["en"], row["zh"]) for row in table] == [
        ("3", "cup", "杯子"), ("4", "mouse", "鼠标"), ("5", "mug", "马克杯"), ("6", "'=cmd", ""),
    ]  # fmt: skip
    read, _ = read_label_csv(coco.parent / "my-labels" / "labels.csv")
    assert read["name"].tolist() == list(NAMES), "a name that a spreadsheet would run is read back"


def test_a_shipped_table_keeps_its_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text("name,language,proposal,verdict\nperson,zh,行人,accept\n")
    run("labels", "accept", "r.csv", "coco80", "--to", "mine")
    assert {path.name for path in (tmp_path / "mine").iterdir()} >= {"labels.csv", "tree.csv"}
    with pytest.raises(UserError, match="exists"):
        run("labels", "accept", "r.csv", "coco80", "--to", "mine")


BOXES = {  # labels on the same images, two of each
    "Crane": "Truck Machinery",
    "Mouse": "Keyboard Laptop",
    "Bat": "Ball Glove",
}


def write_homonyms(folder: Path) -> Path:
    """COCO's form of images on which each of three homonyms stands beside what tells its sense."""
    names = [*BOXES, *(name for around in BOXES.values() for name in around.split())]
    place = {name: number for number, name in enumerate(names, start=1)}
    images, boxes = [], []
    for number, (label, around) in enumerate((one for one in BOXES.items() for _ in range(3)), start=1):
        images.append({"id": number, "width": 100, "height": 100, "file_name": f"{number}.jpg"})
        for name in (label, *around.split()):
            box = {"id": len(boxes) + 1, "image_id": number, "category_id": place[name], "bbox": [1, 1, 50, 50]}
            boxes.append(box)
    categories = [{"id": key, "name": name} for name, key in place.items()]
    path = folder / "homonyms.json"
    path.write_text(json.dumps({"images": images, "annotations": boxes, "categories": categories}))
    return path


def test_a_name_of_another_sense_is_flagged_and_a_right_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model takes a crane for the bird, which is called crane again when it is translated back."""
    monkeypatch.chdir(tmp_path)
    proposed = {"Crane": "鹤", "Mouse": "鼠标", "Bat": "球棒"}
    back = {"鹤": "crane", "鼠标": "computer mouse", "球棒": "baseball bat"}
    sense = {"鹤": "否", "鼠标": "是", "球棒": "是"}
    asked = []

    def reply(request: ReceivedRequest) -> CannedResponse:
        text = request.json["messages"][-1]["content"]
        text = text if isinstance(text, str) else text[-1]["text"]
        asked.append(text)
        quoted = re.findall("“([^”]*)”", text)
        if "就是这种东西吗" in text:
            return chat_reply(sense.get(quoted[-1], "是"))
        return chat_reply(
            proposed.get(quoted[0], quoted[0]) if "图片数据集" in text else back.get(quoted[0], quoted[0])
        )

    with loopback(reply) as endpoint:
        model = [f"--model-option=base_url={endpoint.url}/v1", "--model-option=name=m"]
        run("labels", "translate", write_homonyms(tmp_path), "--language", "zh", *model)
    rows = {row["name"]: row for row in csv.DictReader(Path("labels.zh.csv").read_text("utf-8-sig").splitlines())}
    assert rows["Crane"]["back"] == "crane" and rows["Crane"]["problems"] == "other_sense"
    assert rows["Mouse"]["problems"] == rows["Bat"]["problems"] == "", "a computer mouse is the mouse"
    assert rows["Crane"]["context"] == "它常和“Truck”“Machinery”出现在同一张图片里。"
    of_mouse = (text for text in asked if re.findall("“([^”]*)”", text)[0] == "Mouse")  # a keyboard's names it, too
    first = next(text for text in of_mouse if "就是这种东西吗" not in text)
    assert "它常和“Keyboard”“Laptop”出现在同一张图片里。" in first, "the model sees what tells the sense"
