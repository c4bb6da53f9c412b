"""The pools of the first stage: who joins whom, what is rejected, and the same state from a journal as live."""

import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import prompts
from builders.generated.definition import CollectOptions, ObjectOptions, TopicOptions
from builders.generated.generation_journal import ReplyRecord, ReplyRow
from builders.generated.reply_grammar import ParsedAnswer, parse_objects, parse_topics
from builders.generated.row_rules import RowRules
from builders.generated.topic_pools import (
    MAX_OBJECTS_PER_TOPIC,
    MAX_TOPICS,
    TopicPools,
    build_object_prompt,
    build_topic_prompt,
)

RULES = RowRules("zh", 10, "名词物体", re.compile("我无法"))
SAMPLES = {"食物": ["饺子", "汉堡"], "动物": ["狮子"]}


def hear(pools: TopicPools, *answers: ParsedAnswer, shown: frozenset[str] = frozenset()) -> tuple[ReplyRow, ...]:
    rows = pools.classify_rows(answers, RULES, shown)
    pools.add(ReplyRecord(1, "", "key", "stop", 10, rows))
    return rows


def contents(pools: TopicPools) -> dict[str, list[str]]:
    return {pool.name: list(pool.objects.values()) for pool in pools.pools.values()}


def test_a_new_topic_of_which_an_object_is_known_joins_that_pool_with_all_its_objects() -> None:
    pools = TopicPools(SAMPLES)
    rows = hear(pools, ParsedAnswer("小吃", ("烤串", "汉堡", "糖葫芦")))
    assert [(row.topic, row.topic_in_reply, row.reason) for row in rows] == [
        ("食物", "小吃", ""),
        ("食物", "小吃", "known"),
        ("食物", "小吃", ""),
    ]
    assert contents(pools)["食物"] == ["饺子", "汉堡", "烤串", "糖葫芦"]
    assert list(pools.pools["食物"].aliases.values()) == ["小吃"]


def test_an_object_that_the_prompt_showed_leads_to_its_pool_but_is_no_row() -> None:
    pools = TopicPools(SAMPLES)
    rows = hear(pools, ParsedAnswer("小吃", ("汉堡", "烤串")), shown=frozenset({"汉堡"}))
    assert [(row.text, row.topic, row.reason) for row in rows] == [("汉堡", "食物", "in_prompt"), ("烤串", "食物", "")]


def test_an_object_of_a_known_topic_is_not_lost_because_the_prompt_showed_it_under_another() -> None:
    pools = TopicPools(SAMPLES)
    rows = hear(pools, ParsedAnswer("动物", ("饺子", "狮子", "老虎")), shown=frozenset({"饺子", "狮子"}))
    assert [row.reason for row in rows] == ["", "in_prompt", ""]
    assert contents(pools)["动物"] == ["狮子", "饺子", "老虎"]


def test_of_pools_with_as_many_of_the_objects_the_one_with_the_likest_name_is_joined() -> None:
    pools = TopicPools({"食物": ["鱼"], "海洋动物": ["鱼"], "宠物": ["鱼"]})
    assert pools.find_pool(["鱼"], "淡水动物") == "海洋动物"
    assert pools.find_pool(["鱼"], "家养宠物") == "宠物"
    assert pools.find_pool(["鱼"], "商品") == "食物", "the oldest, where no name is like it"


def test_of_several_pools_the_one_with_most_of_the_objects_is_joined_and_of_equals_the_oldest() -> None:
    pools = TopicPools({"食物": ["饺子", "鱼"], "动物": ["狮子", "鱼", "虾"]})
    assert pools.find_pool(["虾", "狮子", "饺子"]) == "动物"
    assert pools.find_pool(["狮子", "饺子"]) == "食物"
    assert pools.find_pool(["鱼"]) == "食物"
    assert pools.find_pool(["云"]) == ""


def test_an_unknown_topic_with_unknown_objects_is_a_new_pool_if_any_object_is_sound() -> None:
    pools = TopicPools(SAMPLES)
    hear(pools, ParsedAnswer("乐器", ("钢琴", "小提琴")), ParsedAnswer("天气", ("#云", "ramen")))
    assert list(contents(pools)) == ["食物", "动物", "乐器"]


def test_later_answers_of_one_reply_see_what_the_earlier_ones_began() -> None:
    pools = TopicPools({})
    rows = hear(
        pools,
        ParsedAnswer("乐器", ("钢琴",)),
        ParsedAnswer("键盘", ("钢琴", "风琴")),
        ParsedAnswer("乐器", ("笛子", "风琴")),
    )
    assert [(row.topic, row.text, row.reason) for row in rows] == [
        ("乐器", "钢琴", ""),
        ("乐器", "钢琴", "repeated"),
        ("乐器", "风琴", ""),
        ("乐器", "笛子", ""),
        ("乐器", "风琴", "repeated"),
    ]


def test_rows_without_a_topic_that_can_be_one_go_nowhere() -> None:
    pools = TopicPools(SAMPLES)
    for topic in ("", "物体", "#食物", "food", "一个长得不能再长的主题名"):
        assert {row.reason for row in hear(pools, ParsedAnswer(topic, ("云", "雨")))} == {"no_topic"}
    assert contents(pools) == SAMPLES


def test_faults_cuts_and_the_topic_s_own_name_are_kept_with_their_reason() -> None:
    rows = hear(TopicPools(SAMPLES), ParsedAnswer("云朵", ("云朵", "积雨云", "名词", "云，雨"), "卷"))
    assert [(row.text, row.reason) for row in rows] == [
        ("云朵", "word_of_prompt"),
        ("积雨云", ""),
        ("名词", "word_of_prompt"),
        ("云，雨", "bad_characters"),
        ("卷", "cut_off"),
    ]


def test_judging_leaves_the_pools_as_they_are() -> None:
    pools = TopicPools(SAMPLES)
    pools.classify_rows([ParsedAnswer("乐器", ("钢琴",)), ParsedAnswer("食物", ("包子",))], RULES, frozenset())
    assert contents(pools) == SAMPLES


NAMES = st.sampled_from(["食物", "动物", "乐器", "小吃", "物体", "food", ""])
OBJECTS = st.lists(st.sampled_from(["饺子", "狮子", "钢琴", "云", "雨", "ＡＢ茶", "ab茶", "a，b", "名词"]), max_size=5)
ANSWERS = st.lists(st.builds(lambda t, o: ParsedAnswer(t, tuple(o)), NAMES, OBJECTS), max_size=4)


@given(st.lists(ANSWERS, max_size=6))
def test_every_row_ends_in_one_pool_or_with_a_reason(replies: list[list[ParsedAnswer]]) -> None:
    pools = TopicPools(SAMPLES)
    for answers in replies:
        before = sum(len(objects) for objects in contents(pools).values())
        rows = hear(pools, *answers)
        assert len(rows) == sum(len(answer.objects) for answer in answers)
        after = sum(len(objects) for objects in contents(pools).values())
        assert after - before == sum(not row.reason for row in rows)


MANY = {f"主题{n}": [f"物{n}之{m}" for m in range(30)] for n in range(80)}


def topics_prompt(pools: dict[str, list[str]], number: int = 1, seed: int = 0, language: str = "zh") -> str:
    prompt, form = prompts.load_template(f"{language}/topics"), prompts.load_template(f"{language}/topic_sample")
    return build_topic_prompt(prompt, form, pools, language, seed, number).text


def test_up_to_fifty_topics_with_up_to_ten_objects_each_are_shown() -> None:
    prompt, form = prompts.load_template("zh/topics"), prompts.load_template("zh/topic_sample")
    asking = build_topic_prompt(prompt, form, MANY, "zh", 0, 1)
    shown = parse_topics(asking.text, False)
    assert (len(shown), {len(sample.objects) for sample in shown}) == (MAX_TOPICS, {MAX_OBJECTS_PER_TOPIC})
    assert asking.shown_objects == {text for sample in shown for text in sample.objects}
    assert asking.text.startswith(prompt.text.partition("{")[0])


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_samples_have_the_form_that_is_read(language: str) -> None:
    pools = {"zh": {"食物": ["饺子", "汉堡"]}, "en": {"food": ["fried chicken", "sushi"]}}[language]
    text = topics_prompt(pools, language=language)
    samples = text[text.rindex("思考" if language == "zh" else "Thought") :]
    listed = parse_topics(samples, False)
    assert [(one.topic, sorted(one.objects)) for one in listed] == [(t, sorted(o)) for t, o in pools.items()]


def test_every_round_draws_anew_the_order_of_the_pools_is_no_matter() -> None:
    backwards = {topic: MANY[topic][::-1] for topic in reversed(MANY)}
    assert topics_prompt(MANY) == topics_prompt(backwards)
    assert len({topics_prompt(MANY, number) for number in range(5)} | {topics_prompt(MANY, seed=1)}) == 6


def test_seven_objects_of_people_and_three_of_the_model_are_listed_and_five_asked_for() -> None:
    people, model = [f"人选{n}号" for n in range(20)], [f"模型{n}号" for n in range(20)]
    ask = partial(build_object_prompt, prompts.load_template("zh/objects"), "食物")
    asking = ask(people, model, ObjectOptions(), 0, 1)
    listed = parse_objects(asking.text.rpartition("想象力：")[2], False).objects
    assert (len(set(listed) & set(people)), len(set(listed) & set(model)), len(listed)) == (7, 3, 10)
    assert asking.shown_objects == set(listed)
    assert asking.text.count("食物") == 2 and "额外的5个答案" in asking.text
    assert ask(people[::-1], model[::-1], ObjectOptions(), 0, 1) == asking
    askings = [ask(people, model, ObjectOptions(), 0, n) for n in range(5)]
    assert any(a.text.index("模型") < a.text.rindex("人选") for a in askings), "people's do not always come first"


def test_with_few_objects_all_are_shown_in_an_order_of_the_round() -> None:
    prompt, people = prompts.load_template("en/objects"), ["harp", "violin", "drum kit", "banjo"]
    askings = [
        build_object_prompt(prompt, "instruments", people, [], ObjectOptions(per_prompt=8), 0, n) for n in range(8)
    ]
    assert {asking.shown_objects for asking in askings} == {frozenset(people)}
    assert len({asking.text for asking in askings}) > 3
    assert "give 8 more answers" in askings[0].text


@pytest.mark.parametrize(
    "hostile", ["{object_samples}", "{}", "{0.__class__}", "#\n答案：", "\\1\\g<0>", "%s $x", "{topic}"]
)
def test_what_a_pool_holds_is_never_read_as_a_template(hostile: str) -> None:
    prompt = prompts.load_template("zh/objects")
    text = build_object_prompt(prompt, hostile, [hostile + "1"], [], ObjectOptions(), 0, 1).text
    before, between, _ = prompt.text.split("{topic}")
    assert text.startswith(f"{before}{hostile}{between}{hostile}")
    assert text.endswith(f"\n\n1. {hostile}1")
    assert f"#{hostile}#" in topics_prompt({hostile: [hostile]})


def test_an_endpoint_is_asked_for_varied_replies_unless_its_temperature_is_given() -> None:
    options = {"base_url": "http://127.0.0.1:1/v1", "name": "chat"}
    asked = TopicOptions(model="openai_compatible", options=options)
    assert asked.options["temperature"] == 1.0
    assert (
        TopicOptions(model="openai_compatible", options={**options, "temperature": 0.2}).options["temperature"] == 0.2
    )
    assert "temperature" not in TopicOptions().options


def test_queries_of_ones_own_folder_may_share_an_image() -> None:
    assert CollectOptions(search="folder").same_url == "merge" and CollectOptions().same_url == "drop"
    assert CollectOptions(search="folder", same_url="drop").same_url == "drop"
