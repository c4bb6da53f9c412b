"""Captioners beside each other: two scripted endpoints on the same images, with the faults of real ones."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.recall.captioners import measure_captions
from flows.set_kinds import plan_set
from querytruth.backends.steps import BuildRun, active_run
from tests.command_runner import invoke
from tests.flows.test_recall_set import draw
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.worlds import chat_reply

IMAGES = ["a", "b", "c", "d", "e", "f"]
PLAIN = ["沙滩上有一把红色的遮阳伞", "街边停着一辆蓝色公交车", "桌上放着两只白色的杯子", "雪山下有一座小木屋",
         "草地上一只棕色的狗在奔跑", "湖面上停着三条小船"]  # fmt: skip


class Captioner:
    """Answers in the order in which it is asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.asked = 0

    def __call__(self, _request: ReceivedRequest) -> CannedResponse:
        self.asked += 1
        usage = {"prompt_tokens": 300, "completion_tokens": 24}
        return chat_reply(self.answers[(self.asked - 1) % len(self.answers)], usage=usage)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Captioner, Captioner]]:
    """Six images, and the definitions of a plain captioner and of one that refuses and repeats itself."""
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "album", IMAGES)
    plain = Captioner(*PLAIN)
    odd = Captioner("抱歉，我无法查看图片。", "图中有一只可爱的动物", "图中有一只可爱的动物", "图中有一只狗在跑")
    with ExitStack() as stack:
        for name, captioner in (("plain", plain), ("odd", odd)):
            server: Loopback = stack.enter_context(loopback(captioner))
            options = f"{{base_url: {server.url}/v1, name: {name}-model, pause: 0, tries: 1, concurrency: 1}}"
            (tmp_path / f"{name}.yaml").write_text(
                f"kind: recall\nname: {name}\nimages: album\nrender: {{size: 64}}\n"
                f"captions: {{model: openai_compatible, options: {options}}}\n"
                "ambiguity: {text_embedder: char_ngrams}\nnear_duplicates: {distance: null}\n"
            )
        yield tmp_path, plain, odd


def test_two_captioners_stand_beside_each_other_on_the_same_images(place: tuple[Path, Captioner, Captioner]) -> None:
    folder, plain, odd = place
    ended = invoke("captioners", "plain.yaml", "--beside", "odd.yaml", "--count", "4", "--json")
    said = json.loads(ended.stdout)
    first, second = said["captioners"]
    assert (plain.asked, odd.asked) == (4, 4), "each is asked about four images"
    assert (first["captions"], first["asked"], first["refused"], first["repeated"]) == (4, 4, {}, 0.0)
    assert second["model"] == "odd-model" and second["captions"] == 3 and sum(second["refused"].values()) == 1
    assert second["repeated"] == pytest.approx(2 / 3) and second["opening_share"] > 0.6 and first["tokens"] == 24
    page = Path(said["page"]).read_text("utf-8")
    assert all(text in page for text in PLAIN[:4]) and "抱歉，我无法查看图片" in page
    assert page.count("data:image/jpeg") == 4 and "<script" not in page
    assert not list((folder / "datasets").rglob("manifest.json")), "nothing is published"
    invoke("captioners", "plain.yaml", "--beside", "odd.yaml", "--count", "4", "--offline")
    assert (plain.asked, odd.asked) == (4, 4)


def test_the_build_of_the_first_pays_for_none_of_its_captions_again(place: tuple[Path, Captioner, Captioner]) -> None:
    from flows.definition_loader import load_definition

    invoke("captioners", "plain.yaml", "--beside", "odd.yaml", "--count", "4")
    with active_run(BuildRun()):
        assert plan_set(load_definition(Path("plain.yaml"), [], "recall"))["model_calls"] == len(IMAGES) - 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plain.yaml"], "has nothing beside it"),
        (["plain.yaml", "--beside", "plain.yaml"], "names a second plain"),
        (["plain.yaml", "--beside", "gone.yaml"], "gone.yaml"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    place: tuple[Path, Captioner, Captioner], words: list[str], says: str
) -> None:
    ended = invoke("captioners", *words)
    assert ended.exit_code and says in str(ended.exception) and "Traceback" not in ended.output


def test_words_count_in_english_and_characters_in_chinese() -> None:
    english = measure_captions("a", "m", {"1": [("a red bus on a street", "")], "2": [("a red bus on a bridge", "")]})
    assert (english.length, english.opening, english.opening_share, english.repeated) == (6, "a red bus on", 1.0, 0.0)
    chinese = measure_captions("a", "m", {"1": [("一只狗", "")], "2": [("", "empty_caption")]})
    assert (chinese.length, chinese.captions, chinese.refused, chinese.opening) == (3, 1, {"empty_caption": 1}, "")
