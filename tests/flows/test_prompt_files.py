"""A definition's own prompts and cleaning rules: named by path, used, recorded, and refused in one line."""

import json
from pathlib import Path

import pytest

import prompts
from builders.recall.caption_rules import load_cleaning_rules
from flows.definition_checks import check_before_build
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.questions import load_prompt
from querytruth.sets import set_files
from tests.flows.test_recall_set import draw, said
from tests.loopback import CannedResponse, ReceivedRequest, loopback

QUESTION = "用五个字说出图片里有什么，{花括号}也照写"
RULES = prompts.load_template("zh/cleaning.yaml").text


def write_definition(folder: Path, keys: str) -> Path:
    (folder / "mine.yaml").write_text(f"name: mine\nkind: recall\nimages: {folder / 'album'}\n{keys}", encoding="utf-8")
    return folder / "mine.yaml"


@pytest.mark.thorough
def test_own_files_are_asked_applied_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths are relative to the definition, and not to where the command runs."""
    draw(tmp_path / "album", ["lake", "park"])
    (tmp_path / "question.txt").write_text(f"\ufeff{QUESTION}\r\n", encoding="utf-8")
    (tmp_path / "rules.yaml").write_text(RULES.replace("openings:\n", "openings:\n  - '诗曰'\n", 1), encoding="utf-8")
    keys = "prompt_files: {zh/poem: question.txt}\ncleaning_files: {zh: rules.yaml}\ncaptions: {prompt: zh/poem}"
    path = write_definition(tmp_path, keys)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    asked_texts = []

    def answer(asked: ReceivedRequest) -> CannedResponse:
        asked_texts.append(json.dumps(asked.json, ensure_ascii=False))
        return said(["诗曰湖边有一只白色的鸟", "公园里有一辆红色的自行车"][len(asked_texts) - 1])

    with loopback(answer) as server:
        options = f"captions.options={{base_url: {server.url}/v1, name: m, pause: 0, tries: 1, concurrency: 1}}"
        given = ["captions.model=openai_compatible", options, f"out={tmp_path / 'sets'}", "render.size=64"]
        definition = load_definition(path, [*given, "ambiguity.text_embedder=char_ngrams"], "recall")
        with active_run(BuildRun()):
            built = set_files.read_set(build_set(definition).path)
    assert len(asked_texts) == 2 and all(QUESTION in text for text in asked_texts)
    queries = built.tables.queries
    assert sorted(queries["text"]) == ["公园里有一辆红色的自行车", "湖边有一只白色的鸟"]
    assert set(queries["style"]) == {"poem"}
    recorded = {prompt["name"]: prompt["sha256"] for prompt in built.manifest["prompts"]}
    assert recorded["zh/poem"] == prompts.PromptTemplate("zh/poem", QUESTION).sha256
    assert recorded["zh/cleaning.yaml"] != prompts.load_template("zh/cleaning.yaml").sha256
    assert recorded["en/cleaning.yaml"] == prompts.load_template("en/cleaning.yaml").sha256


def test_a_file_that_is_gone_stops_a_build_before_it_reads_an_image(tmp_path: Path) -> None:
    path = write_definition(tmp_path, "prompt_files: {zh/mine: gone.txt}\ncaptions: {prompt: zh/mine, model: human}")
    definition = load_definition(path, ["captions.options.path=x"], "recall")
    with pytest.raises(UserError, match=r"gone\.txt \(read prompt\).*fix the path in the definition"):
        check_before_build(definition)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ("prompt_files: {zh/mine: a.txt}", "prompt_files has zh/mine, but the definition uses no prompt of that name"),
        ("prompt_files: {mine: a.txt}\ncaptions: {prompt: mine}", "'mine' is not a prompt name; write language/name"),
        ("cleaning_files: {fr: a.yaml}", "cleaning_files"),
    ],
)
def test_a_file_that_nothing_would_use_is_refused(tmp_path: Path, keys: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        load_definition(write_definition(tmp_path, keys), [], "recall")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("no field", r"does not have the same fields as zh/topics.* it needs .*{topic_samples}"),
        ("{topic_samples} {typo}", r"does not have the same fields as zh/topics"),
        ("x" * ((1 << 20) + 1), "is larger than one megabyte"),
    ],
)
def test_a_prompt_that_could_not_be_asked_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "mine.txt").write_text(text)
    with pytest.raises(UserError, match=reason):
        load_prompt("zh/mine", {"zh/mine": str(tmp_path / "mine.txt")}, like="zh/topics")
    (tmp_path / "mine.txt").write_text("Such as:\n{topic_samples}")
    own = load_prompt("zh/mine", {"zh/mine": str(tmp_path / "mine.txt")}, like="zh/topics")
    assert own.fill(topic_samples="a tree") == "Such as:\na tree"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("openings:", "openings: a\nformer:", "openings is not a list of patterns"),
        ("openings:\n", "openings:\n  - '(open'\n", r"\(open"),
        ("openings:\n", "openings:\n  - 12\n", "12"),
        ("openings:\n", "openings:\n  - '{nothing}'\n", "nothing"),
        ("words:", "names:", "words"),
        ("openings:\n", "openings: [\n", "is not valid YAML"),
    ],
)
def test_rules_with_a_fault_name_the_file(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = tmp_path / "rules.yaml"
    assert old in RULES
    path.write_text(RULES.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError, match=reason) as caught:
        load_cleaning_rules({"zh": str(path)})
    assert "rules.yaml" in str(caught.value) and "read cleaning rules" in str(caught.value)
