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
from builders.generated.topic_pools import STRATEGIES
from querytruth.records import stable_hash
from tests.flows.stub_generator import StubGenerator
from tests.flows.test_topics_and_objects import SOURCE, both, definition, prompt_of, said
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(lambda asked: said(StubGenerator(refusal_rate=0).reply(prompt_of(asked)))) as running_server:
        yield running_server


def under(strategy: str, folder: Path, server: Loopback, **keys: Any) -> GeneratedDefinition:
    return definition(folder, server.url, strategy=strategy, **keys)


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
    topics, objects = both(wanted)
    assert (topics.calls, topics.stop_counts, topics.rows) == (0, {"topics_of_people": 1}, {})
    first = prompt_of(server.asked[0])
    assert re.search("需要是(.*)的名词", first) and "有特定的颜色和形状" in first
    assert objects.rows["accepted"] > 50
    assert set(load_chosen_objects(wanted, SOURCE)["topic"]) == {"食物", "动物", "交通工具", "乐器", "自然景观"}
    assert [one["name"] for one in load_stage_summary(wanted, "objects", SOURCE)["prompts"]] == ["zh/by_topic"]


def test_visual_elements_asks_about_no_topic_and_gives_the_model_its_own_thoughts_back(
    server: Loopback, tmp_path: Path
) -> None:
    wanted = under("visual_elements", tmp_path, server, objects={"rounds": 12})
    topics, objects = both(wanted)
    assert (topics.calls, objects.calls, objects.stop_counts) == (0, 12, {"round_limit": 1})
    first, last = prompt_of(server.asked[0]), prompt_of(server.asked[-1])
    assert first.count("该视觉元素选取（") == 7, "seven of people's, with their topics"
    assert "思考：我决定选择（1）个视觉元素，该视觉元素选取（" in last
    own = [line for line in last.split("\n") if line.startswith("思考：我决定选择（1）个视觉元素，最终")]
    assert len(own) == 3, "three thoughts of the model's own, as it wrote them"
    kept = load_chosen_objects(wanted, SOURCE)
    of_people = {"食物", "动物", "交通工具", "乐器", "自然景观"}
    assert set(kept["topic"]) == {"视觉元素", *of_people}, "this model's thoughts name no class"
    assert kept.set_index("text")["topic"]["饺子"] == "食物"
    names = [one["name"] for one in load_stage_summary(wanted, "objects", SOURCE)["prompts"]]
    assert names == ["zh/visual_elements", "zh/visual_elements_sample"]


@pytest.mark.thorough
def test_visual_elements_warns_of_the_collapse_that_the_article_saw(tmp_path: Path) -> None:
    with loopback(lambda asked: said(StubGenerator(repeated_word="教堂").reply(prompt_of(asked)))) as server:
        _, objects = both(under("visual_elements", tmp_path, server, objects={"rounds": 30}))
    assert objects.health.warnings[0].code == "collapse" and "教堂" in objects.health.warnings[0].text


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.thorough
def test_each_strategy_ends_the_same_again_without_a_call(strategy: str, server: Loopback, tmp_path: Path) -> None:
    wanted = under(strategy, tmp_path, server)
    first = both(wanted)
    again = both(wanted)
    assert [one.digest for one in again] == [one.digest for one in first]
    assert [one.calls for one in again] == [0, 0]
    for journal in (tmp_path / "tiny" / "generated").glob("*.jsonl"):
        journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])
    assert [one.digest for one in both(wanted, offline=True)] == [one.digest for one in first]


@pytest.mark.thorough
def test_runs_under_all_strategies_stay_side_by_side_with_their_health(server: Loopback, tmp_path: Path) -> None:
    for strategy in STRATEGIES:
        both(under(strategy, tmp_path, server))
    wanted = under("self_instruct", tmp_path, server)
    runs = list_finished_runs(wanted, "objects")
    assert sorted(run["strategy"] for run in runs) == sorted(STRATEGIES)
    assert [run["strategy"] for run in runs if run["is_current"]] == ["visual_elements"]
    assert len(list_finished_runs(wanted, "topics")) == 3
    assert all(run["health"]["accepted"] == run["rows"]["accepted"] > 0 for run in runs)
    assert all(sum(sum(new) for new in run["new_by_round"].values()) == run["rows"]["accepted"] for run in runs)


def test_a_prompt_of_another_language_than_the_topics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of different languages"):
        definition(tmp_path, "http://127.0.0.1:1", strategy="by_topic", objects={"prompt": "en/by_topic"})


def english(asked: ReceivedRequest) -> CannedResponse:
    """Five phrases with their thoughts, or five nouns, that no other prompt gets."""
    text = prompt_of(asked)
    words = [f"{name} {chr(97 + stable_hash(text) % 26)}{n}".replace("1", "one") for n, name in enumerate(NAMES)]
    if "visual elements" in text:
        form = "Thought: I choose (1) visual element, which is ({0})\nAnswer: {0}"
        return said("Sure, here are some more:\n\n" + "\n\n".join(form.format(word) for word in words))
    return said("\n".join(f"{n}. {word}; common" for n, word in enumerate(words, start=1)))


NAMES = ("bridge", "tunnel", "lantern", "kettle", "hammock")


@pytest.mark.parametrize("strategy", ["by_topic", "visual_elements"])
def test_strategies_in_english_by_the_topics_prompt_alone(strategy: str, tmp_path: Path) -> None:
    topics = {"prompt": "en/topics"}
    with loopback(english) as server:
        wanted = under(strategy, tmp_path, server, topics=topics, objects={"rounds": 3, "from_people": 5})
        _, objects = both(wanted)
        first, last = prompt_of(server.asked[0]), prompt_of(server.asked[-1])
    assert objects.rows["accepted"] >= 5 and objects.stop_counts == {"round_limit": 5 if strategy == "by_topic" else 1}
    assert "particular colour and shape" in first if strategy == "by_topic" else "of the class (" in first
    if strategy == "visual_elements":
        assert last.count("Thought: I choose (1) visual element, which is (") == 5 + 3
        of_people = {"food", "animals", "vehicles", "musical instruments", "landscapes"}
        assert set(load_chosen_objects(wanted, SOURCE)["topic"]) == {"visual elements", *of_people}
