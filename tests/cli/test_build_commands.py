"""`querytruth build`, `labels` and `train` as they are typed."""

import csv
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from builders.precision.label_files import read_label_csv
from tests.cli.conftest import Run
from tests.command_runner import invoke
from tests.flows.bars_set import write_bars_set
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
def coco(tmp_path: Path) -> Path:
    categories = [{"id": 3 + n, "name": name, "supercategory": "thing"} for n, name in enumerate(NAMES)]
    path = tmp_path / "instances.json"
    path.write_text(json.dumps({"images": [], "annotations": [], "categories": categories}))
    return path


def test_proposals_are_flagged_reviewed_and_become_a_label_table(run: Run, coco: Path) -> None:
    with loopback(answer) as endpoint:
        model = [f"--model-option=base_url={endpoint.url}/v1", "--model-option=name=m"]
        printed, _ = run("labels", "translate", coco, "--language", "zh", *model)
        asked = len(endpoint.asked)
        assert asked == 11, "four labels, three different words back, and four times whether it is this sense"
        assert re.search(r"labels\.zh\.csv.*exists", run.error("labels", "translate", coco, "--language", "zh", *model))
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
    printed, _ = run("labels", "accept", file, coco, "--to", "my-labels")
    assert "3 names accepted, 1 rows without a verdict" in " ".join(printed.split())
    table = list(csv.DictReader((coco.parent / "my-labels" / "labels.csv").read_text("utf-8-sig").splitlines()))
    assert [(row["id"], row["en"], row["zh"]) for row in table] == [
        ("3", "cup", "杯子"), ("4", "mouse", "鼠标"), ("5", "mug", "马克杯"), ("6", "'=cmd", ""),
    ]  # fmt: skip
    read, _ = read_label_csv(coco.parent / "my-labels" / "labels.csv")
    assert read["name"].tolist() == list(NAMES), "a name that a spreadsheet would run is read back"


def test_a_shipped_table_keeps_its_tree(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("name,language,proposal,verdict\nperson,zh,行人,accept\n")
    run("labels", "accept", "r.csv", "coco80", "--to", "mine")
    assert {path.name for path in (tmp_path / "mine").iterdir()} >= {"labels.csv", "tree.csv"}
    assert "exists" in run.error("labels", "accept", "r.csv", "coco80", "--to", "mine")


@pytest.fixture(scope="module")
def definition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    write_bars_set(folder)
    sizes = {"embedding_size": 4, "hidden_sizes": [4, 4, 4, 4], "depths": [1, 1, 1, 1], "layer_type": "basic"}
    told = {
        "name": "bars-model", "kind": "training", "set": "sets/bars", "out": str(folder / "models"), "size": 32,
        "images": {"architecture": "resnet", "options": sizes},
        "texts": {"architecture": "lstm", "options": {"embedding": 8, "hidden": 8}},
        "heads": {"width": 8, "hidden": 8, "dimensions": 8},
        "split": {"validation": 8, "test": 8}, "steps": {"epochs": 1, "batch": 8, "stages": []},
    }  # fmt: skip
    (folder / "training.yaml").write_text(yaml.safe_dump(told))
    return folder / "training.yaml"


@pytest.mark.thorough
def test_training_says_where_the_model_lies_and_what_to_do_next(definition: Path) -> None:
    call = ["train", str(definition), "--workers", "1"]
    shown = invoke(*call, catch=False)
    assert shown.exit_code == 0 and "querytruth: reading" in shown.stderr
    assert "epoch 1/1: loss" in shown.stderr and "pairs/s" in shown.stderr
    assert "R@10" in shown.stdout and "bars-model-test/v1 --model" in shown.stdout
    told = json.loads(invoke(*call, "--json", catch=False).stdout)
    assert not told["is_new"] and told["epochs"] == 1 and set(told["figures"]) == {
        "text_to_image", "image_to_text", "mean",
    }  # fmt: skip


def test_a_plan_counts_what_would_be_trained_on_and_writes_nothing(definition: Path) -> None:
    call = ["train", str(definition), "--plan", "--set", "name=planned"]
    planned = json.loads(invoke(*call, "--json", catch=False).stdout)
    assert planned["pictures"]["validation"] == planned["pictures"]["test"] == 8
    assert planned["pairs"] >= 8 * planned["steps_an_epoch"] > 0 and planned["epochs_at_most"] == 1
    assert "training pairs" in " ".join(invoke(*call, catch=False).stdout.split())
    assert not (definition.parent / "models" / "planned").exists()


STOP_ITSELF = """
import os, sys
from querytruth.cli import app
app.run_command = lambda *_: os.kill(os.getpid(), int(sys.argv[1]))
app.main()
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.thorough
def test_a_stop_is_one_line_and_the_status_of_the_signal(number: signal.Signals, status: int) -> None:
    command = [sys.executable, "-c", STOP_ITSELF, str(int(number))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == status
    assert ended.stderr.splitlines() == ["stopped; run the same command again to continue"]
