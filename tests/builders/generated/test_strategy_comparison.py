"""The same samples under each strategy: who names the topics, what is asked, what goes back into the prompts, and the
health of all of them side by side."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import prompts
from builders.generated.definition import GeneratedDefinition
from builders.generated.stages import list_finished_runs, load_chosen_objects, load_stage_summary
from builders.generated.strategy_comparison import compare_strategies
from builders.generated.topic_pools import STRATEGIES
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.records import stable_hash
from tests.flows.stub_generator import SOURCE, StubGenerator, define_stages, prompt_of, run_both_stages, stub_reply
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(lambda asked: stub_reply(StubGenerator(refusal_rate=0).reply(prompt_of(asked)))) as running_server:
        yield running_server


def under(strategy: str, folder: Path, server: Loopback, **keys: Any) -> GeneratedDefinition:
    return define_stages(folder, server.url, strategy=strategy, **keys)


def test_the_definition_offers_all_strategies_and_each_has_its_prompts_in_both_languages() -> None:
    offered = get_args(GeneratedDefinition.model_fields["strategy"].annotation)
    assert set(offered) == set(STRATEGIES) and offered[0] == GeneratedDefinition.model_fields["strategy"].default
    for strategy in STRATEGIES.values():
        for language in ("zh", "en"):
            text = prompts.load_template(f"{language}/{strategy.prompt_name}").text
            fields = set(re.findall(r"\{([a-z_]+)\}", text))
            assert fields == {"object_samples", "count"} | (set() if strategy.asks_for_thoughts else {"topic"})


def test_by_topic_asks_about_people_s_topics_alone(server: Loopback, tmp_path: Path) -> None:
    wanted = under("by_topic", tmp_path, server)
    topics, objects = run_both_stages(wanted)
    assert (topics.calls, topics.stop_counts, topics.rows) == (0, {"topics_of_people": 1}, {})
    first = prompt_of(server.asked[0])
    assert re.search("需要是(.*)的名词", first) and "有特定的颜色和形状" in first
    shown = "\n".join(prompt_of(asked) for asked in server.asked)
    assert "鲨鱼；是鲨总目动物的通称；通常是灰色" in shown and re.search(r"^\d+\. 长毛的猫$", shown, re.MULTILINE)
    assert objects.rows["accepted"] > 50
    assert set(load_chosen_objects(wanted, SOURCE)["topic"]) == {"食物", "动物", "交通工具", "乐器", "自然景观"}
    assert [one["name"] for one in load_stage_summary(wanted, "objects", SOURCE)["prompts"]] == ["zh/by_topic"]


def test_visual_elements_asks_about_no_topic_and_gives_the_model_its_own_thoughts_back(
    server: Loopback, tmp_path: Path
) -> None:
    wanted = under("visual_elements", tmp_path, server, objects={"rounds": 12})
    topics, objects = run_both_stages(wanted)
    assert (topics.calls, objects.calls, objects.stop_counts) == (0, 12, {"round_limit": 1})
    first, last = prompt_of(server.asked[0]), prompt_of(server.asked[-1])
    one, two = first.count("该视觉元素选取（"), first.count("（2）个视觉元素，第一个视觉元素选择（")
    assert one and two and one + two == 7, "seven of people's, with their topics, of one visual element or of two"
    assert "思考：我决定选择（1）个视觉元素，该视觉元素选取（" in last
    own = [line for line in last.split("\n") if line.startswith("思考：我决定选择（1）个视觉元素，最终")]
    assert len(own) == 3, "three thoughts of the model's own, as it wrote them"
    kept = load_chosen_objects(wanted, SOURCE)
    of_people = {"食物", "动物", "交通工具", "乐器", "自然景观"}
    assert set(kept["topic"]) == {"视觉元素", *of_people}, "this model's thoughts name no class"
    assert kept.set_index("text")["topic"]["饺子"] == "食物"
    names = [one["name"] for one in load_stage_summary(wanted, "objects", SOURCE)["prompts"]]
    assert names == ["zh/visual_elements", "zh/visual_elements_sample", "zh/visual_elements_pair"]


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.thorough
def test_each_strategy_ends_the_same_again_without_a_call(strategy: str, server: Loopback, tmp_path: Path) -> None:
    wanted = under(strategy, tmp_path, server)
    first = run_both_stages(wanted)
    again = run_both_stages(wanted)
    assert [one.digest for one in again] == [one.digest for one in first]
    assert [one.calls for one in again] == [0, 0]
    for journal in (tmp_path / "tiny" / "generated").glob("*.jsonl"):
        journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])
    assert [one.digest for one in run_both_stages(wanted, offline=True)] == [one.digest for one in first]


@pytest.mark.thorough
def test_runs_under_all_strategies_stay_side_by_side_with_their_health(server: Loopback, tmp_path: Path) -> None:
    for strategy in STRATEGIES:
        run_both_stages(under(strategy, tmp_path, server))
    wanted = under("self_instruct", tmp_path, server)
    runs = list_finished_runs(wanted, "objects")
    assert sorted(run["strategy"] for run in runs) == sorted(STRATEGIES)
    assert [run["strategy"] for run in runs if run["is_current"]] == ["visual_elements"]
    assert len(list_finished_runs(wanted, "topics")) == 3
    assert all(run["health"]["accepted"] == run["rows"]["accepted"] > 0 for run in runs)
    assert all(sum(sum(new) for new in run["new_by_round"].values()) == run["rows"]["accepted"] for run in runs)


def test_a_prompt_of_another_language_than_the_topics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be in the same language"):
        define_stages(tmp_path, "http://127.0.0.1:1", strategy="by_topic", objects={"prompt": "en/by_topic"})


def english(asked: ReceivedRequest) -> CannedResponse:
    """Five phrases with their thoughts, or five nouns, that no other prompt gets."""
    text = prompt_of(asked)
    words = [f"{name} {chr(97 + stable_hash(text) % 26)}{n}".replace("1", "one") for n, name in enumerate(NAMES)]
    if "visual elements" in text:
        form = "Thought: I choose (1) visual element, which is ({0})\nAnswer: {0}"
        return stub_reply("Sure, here are some more:\n\n" + "\n\n".join(form.format(word) for word in words))
    return stub_reply("\n".join(f"{n}. {word}; common" for n, word in enumerate(words, start=1)))


NAMES = ("bridge", "tunnel", "lantern", "kettle", "hammock")


@pytest.mark.parametrize("strategy", ["by_topic", "visual_elements"])
def test_strategies_in_english_by_the_topics_prompt_alone(strategy: str, tmp_path: Path) -> None:
    topics = {"prompt": "en/topics"}
    with loopback(english) as server:
        wanted = under(strategy, tmp_path, server, topics=topics, objects={"rounds": 3, "from_people": 5})
        _, objects = run_both_stages(wanted)
        first, last = prompt_of(server.asked[0]), prompt_of(server.asked[-1])
    assert objects.rows["accepted"] >= 5 and objects.stop_counts == {"round_limit": 5 if strategy == "by_topic" else 1}
    assert "particular colour and shape" in first if strategy == "by_topic" else "of the class (" in first
    if strategy == "visual_elements":
        assert (
            len(re.findall(r"Thought: I choose \((?:1\) visual element, which is|2\) visual elements\.)", last))
            == 5 + 3
        )
        of_people = {"food", "animals", "vehicles", "musical instruments", "landscapes"}
        assert set(load_chosen_objects(wanted, SOURCE)["topic"]) == {"visual elements", *of_people}


def test_a_thought_of_two_elements_reads_as_in_the_article(server: Loopback, tmp_path: Path) -> None:
    samples = tmp_path / "samples.yaml"
    samples.write_text("动物: [猫, 长毛的猫；猫；长毛]\n", "utf-8")
    run_both_stages(under("visual_elements", tmp_path, server, topics={"samples": str(samples)}, objects={"rounds": 1}))
    asked = prompt_of(server.asked[0])
    assert (
        "思考：我决定选择（1）个视觉元素，该视觉元素选取（动物）分类中的（猫），最终选择的视觉元素是（猫）\n答案：猫"
        in asked
    )
    assert (
        "思考：我决定选择（2）个视觉元素，第一个视觉元素选择（动物）分类中的（猫），（猫）有不同的外形和颜色，"
        "第二个可搭配（猫）的视觉元素选择形容词（长毛），最终选择的视觉元素是（猫）和（长毛）\n答案：长毛的猫"
    ) in asked


def test_a_described_object_goes_back_to_the_model_with_its_description(tmp_path: Path) -> None:
    def reply(asked: ReceivedRequest) -> CannedResponse:
        number = len(re.findall("老虎", prompt_of(asked)))
        said_first = "1. 老虎；是猫科动物；通常是黄色\n2. 猫；是宠物；多种颜色\n3. 斑马；有条纹；黑白相间"
        return stub_reply("1. 企鹅；是不会飞的鸟；黑白相间" if number else said_first)

    samples = tmp_path / "samples.yaml"
    samples.write_text("动物: [鲨鱼；是鲨总目动物的通称；通常是灰色, 大象]\n", "utf-8")
    with loopback(reply) as running:
        wanted = under("by_topic", tmp_path, running, topics={"samples": str(samples)}, objects={"rounds": 2})
        _, objects = run_both_stages(wanted)
        last = prompt_of(running.asked[-1])
    assert set(load_chosen_objects(wanted, SOURCE)["text"]) == {"鲨鱼", "大象", "老虎", "斑马", "企鹅"}
    assert objects.rows["too_short"] == 1, "猫 has one character"
    assert re.search(r"^\d\. 老虎；是猫科动物；通常是黄色$", last, re.MULTILINE)
    assert re.search(r"^\d\. 大象$", last, re.MULTILINE), "people said nothing of it"


def test_all_strategies_run_on_one_budget_and_a_collapse_shows(tmp_path: Path) -> None:
    def reply(asked: ReceivedRequest) -> CannedResponse:
        """The model says one word again and again where it is given no topic, and never where it is given one."""
        prompt = prompt_of(asked)
        repeated_word = "教堂" if "视觉元素" in prompt else ""
        return stub_reply(StubGenerator(refusal_rate=0, repeated_word=repeated_word).reply(prompt))

    with loopback(reply) as running, active_run(BuildRun()):
        wanted = define_stages(tmp_path, running.url)
        rows, path = compare_strategies(wanted, SOURCE, 40)
        assert len(running.asked) == 120
        assert compare_strategies(wanted, SOURCE, 40) == (rows, path)
        assert len(running.asked) == 120, "a second comparison asks nothing"
    assert [row["strategy"] for row in rows] == ["self_instruct", "by_topic", "visual_elements"]
    assert [row["questions"] for row in rows] == [40, 40, 40]
    shares = [row["head_share"] for row in rows]
    assert shares[2] > 0.5 > 0.1 > max(shares[:2])
    assert [row["warnings"] for row in rows[:2]] == [[], []] and "collapse" in rows[2]["warnings"]
    page = path.read_text("utf-8")
    assert path == tmp_path / "tiny" / "review" / "strategies.html"
    assert page.count("<figure>") == page.count("<svg") == 6 and "教堂" in page
    assert not (tmp_path / "tiny" / "review" / "topics.csv").exists(), "the set's own tables stay people's"


def test_too_few_questions_are_refused(server: Loopback, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is too few to show a trend"):
        compare_strategies(under("by_topic", tmp_path, server), SOURCE, 2)
    assert not server.asked
