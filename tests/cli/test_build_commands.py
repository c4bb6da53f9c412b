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
from querytruth.errors import UserError
from tests.cli.conftest import Run
from tests.command_runner import invoke
from tests.flows.bars_set import write_bars_set
from tests.images import draw_scene
from tests.loopback import CannedResponse, ReceivedRequest, loopback
from tests.worlds import chat_reply

CAPTIONS = {"a": "公园里有一只棕色的狗", "b": "一只棕色的狗，在公园里", "c": "湖边有一条船"}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three images, a caption for each, and the definition of a recall set."""
    (tmp_path / "images").mkdir()
    for number, name in enumerate(CAPTIONS):
        draw_scene(number).save(tmp_path / "images" / f"{name}.png")
    with (tmp_path / "captions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["file_name", "caption"], *[[f"{n}.png", text] for n, text in CAPTIONS.items()]])
    (tmp_path / "album.yaml").write_text(
        "name: album\nkind: recall\nimages: images\nrender: {size: 64}\n"
        "captions: {model: captions_file, options: {path: captions.csv}}\n"
        "ambiguity: {policy: review, text_embedder: char_ngrams}\nsizes: [2]\n"
    )
    return tmp_path


@pytest.mark.slow
def test_planned_built_judged_by_a_person_and_checked(run: Run, photos: Path) -> None:
    plan = run.json("build", "recall", "album.yaml", "--plan")
    assert (plan["images"], plan["captions"], plan["model_calls"]) == (3, 3, 0)
    assert "3 images, 3 captions" in run("build", "recall", "album.yaml", "--plan")[0]
    built = run.json("build", "recall", "album.yaml")
    assert all(
        (photos / one["page"]).is_file() and "shown/v1.html" in one["page"] for one in (built, *built["smaller"])
    )
    assert built["published"] and [small["name"] for small in built["smaller"]] == ["album-2"]
    said = run("build", "recall", "album.yaml", "--offline")[0]
    assert "ambiguous: 2 of 3 captions (66.7%) before, 2 of 3 after review" in said and "album-2/v1 unchanged" in said
    assert "same content digest" in run("rebuild", "album", "--check")[0]
    assert "same content digest" in run("rebuild", "album-2", "--check")[0]
    run("show", "album", "--page", "album.html")
    assert CAPTIONS["a"] in (photos / "album.html").read_text("utf-8")

    run("review", "export-csv", "album")
    path = photos / "review" / "judgments.csv"
    rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    places = {name: place for place, name in enumerate(rows[0])}
    marked = [row for row in rows[1:] if not row[places["relevance"]]]
    assert len(marked) == 2, "the pairs that may be right come to people's eyes"
    for row in marked:
        row[places["decision"]] = "1"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)
    run("review", "import-csv", "album", path)
    run("apply", "album")
    counts = run.json("show", "album")["counts"]
    assert counts["judgments"] == 5 and counts["by_judge"]["human"] == 2
    run("lint", "album")


@pytest.mark.slow
def test_what_cannot_be_is_one_line(run: Run, photos: Path) -> None:
    assert run("init", "recall", "--images", "images")[0].endswith("--plan\n")
    assert "unknown chat model" in run.error("build", "recall", "album.yaml", "--set", "captions.model=qwn_vl")
    assert "is not a known prompt" in run.error("build", "recall", "album.yaml", "--set", "captions.prompt=zh/poem")
    gallery = ["--set", "gallery=nowhere", "--set", "images=null", "--set", "render=null"]
    assert "no published version" in run.error("build", "recall", "album.yaml", *gallery)
    (photos / "captions.csv").write_text("file_name,caption\nother.png,a dog\n")
    failed = run.error("build", "recall", "album.yaml")
    assert "got no reply to any of the 3 questions (no_caption" in failed and failed.count("error ") == 1


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


def test_a_name_of_another_sense_is_flagged_and_a_right_one_is_not(run: Run, tmp_path: Path) -> None:
    """The model takes a crane for the bird, which is called crane again when it is translated back."""
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


@pytest.mark.thorough
def test_a_place_that_cannot_be_written_is_one_line(definition: Path, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where a folder must be")
    call = ["train", str(definition), "--set", f"out={tmp_path / 'models'}"]
    with pytest.raises(
        UserError, match="is a file, but the sets need a folder here\\. Next: set `out` to another folder"
    ):
        invoke(*call, catch=False)


def test_help_has_an_example() -> None:
    assert "querytruth train training.yaml" in invoke("train", "--help").stdout


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
