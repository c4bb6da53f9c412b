"""Labels in another language: a chat model proposes, people decide, and a precision set speaks both languages."""

import csv
import json
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
        assert asked == 7, "four labels, and three different words back"
        with pytest.raises(UserError, match=r"labels\.zh\.csv.*exists"):
            run("labels", "translate", coco, "--language", "zh", *model)
    assert "4 labels, 3 to look at (1 changed_meaning, 2 duplicate, 1 homonym)" in printed
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
