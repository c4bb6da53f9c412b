"""Prompts: samples drawn by hash, put in verbatim, and nothing evaluated twice."""

import pytest

import prompts
from builders.generated.definition import CollectOptions, ObjectOptions, TopicOptions
from builders.generated.reply_grammar import parse_objects, parse_topics
from builders.generated.topic_pools import (
    MAX_OBJECTS_PER_TOPIC,
    MAX_TOPICS,
    build_object_prompt,
    build_topic_prompt,
    sample_by_hash,
)

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
    asking = build_object_prompt(prompts.load_template("zh/objects"), "食物", people, model, ObjectOptions(), 0, 1)
    listed = parse_objects(asking.text.rpartition("想象力：")[2], False).objects
    assert (len(set(listed) & set(people)), len(set(listed) & set(model)), len(listed)) == (7, 3, 10)
    assert asking.shown_objects == set(listed)
    assert asking.text.count("食物") == 2 and "额外的5个答案" in asking.text
    other = build_object_prompt(
        prompts.load_template("zh/objects"), "食物", people[::-1], model[::-1], ObjectOptions(), 0, 1
    )
    assert other == asking
    askings = [
        build_object_prompt(prompts.load_template("zh/objects"), "食物", people, model, ObjectOptions(), 0, n)
        for n in range(5)
    ]
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


def test_a_draw_hangs_on_the_texts_alone() -> None:
    assert sample_by_hash(["a", "b", "c"], 2, "x") == sample_by_hash(["c", "b", "a"], 2, "x")
    assert {tuple(sample_by_hash("abcdef", 3, str(n))) for n in range(50)} > {tuple(sample_by_hash("abcdef", 3, "1"))}
    assert sample_by_hash("abc", 9, "x") == sample_by_hash("abc", 3, "x")


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
