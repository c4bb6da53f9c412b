"""Replies read: every form that models write, nothing that they did not, in bounded time whatever comes."""

import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prompts
from builders.generated.reply_grammar import (
    ParsedAnswer,
    parse_element_class,
    parse_objects,
    parse_phrase_reply,
    parse_topics,
)
from querytruth.backends.models.reply_envelope import strip_regions
from tests.builders.generated.messy_replies import EN, ZH, break_reply, make_object_reply, make_topic_reply

FOOD = "思考：选择主题#食物#\n答案：根据#食物#主题，我想出了#物体#：#饺子#，#意大利面#，#汉堡#"


def topics(reply: str, was_cut: bool = False) -> list[tuple[str, list[str]]]:
    return [(listed.topic, list(listed.objects)) for listed in parse_topics(reply, was_cut)]


def objects(reply: str, was_cut: bool = False) -> list[str]:
    return list(parse_objects(reply, was_cut).objects)


@pytest.mark.parametrize(
    "reply",
    [
        FOOD,
        FOOD.replace("#", "＃").replace("：", ":").replace("，", ", "),
        FOOD.replace("#", ""),
        FOOD.replace("\n", "\r\n"),
        FOOD.replace("\n", "<br/>"),
        FOOD.replace("\n", " "),
        FOOD.replace("思考：", "**思考：**").replace("答案：", "**答案：**"),
        FOOD.replace("思考：", "### 思考\n").replace("答案：", "### 答案\n"),
        "好的，我来想一想。\n\n1. " + FOOD.replace("\n", "\n   ") + "。\n\n希望这些对你有帮助！",
        "<think>主题可以是#动物#，物体：#狮子#</think>" + FOOD,
        "思考：选择主题#食物#\n答案：根据#食物#主题，我想出了#物体#：#饺子 #意大利面 #汉堡",
        "思考：选择主题#食物#\n答案：根据#食物#主题，我想出了#物体#：#饺子#，#意大利面，#汉堡#",
        "思考：我选择“食物”作为主题\n答案：\n1. #饺子#\n2. #意大利面#\n3. #汉堡#",
        "答案：根据#食物#主题，我想出了#物体#：\n- **饺子**\n- **意大利面**：一种面食\n- **汉堡**",
        "主题：食物\n物体：饺子、意大利面、汉堡",
    ],
)
def test_one_answer_is_read_however_it_is_dressed_up(reply: str) -> None:
    assert topics(reply) == [("食物", ["饺子", "意大利面", "汉堡"])]


@pytest.mark.parametrize(
    "reply",
    [
        FOOD,
        FOOD.replace("#", "＃"),
        FOOD.replace("#", ""),
        FOOD.replace("\n", " "),
        FOOD.replace("#物体#：", ""),
        "答案：根据#食物#主题，我想出了#物体#：#饺子 #意大利面 #汉堡",
        "答案：根据#食物#主题，我想出了#物体#：\n- **饺子**\n- **意大利面**：一种面食\n- **汉堡**",
    ],
)
def test_objects_alone_are_read_from_the_form_with_a_topic_without_the_sentence_before_them(reply: str) -> None:
    """A model that has seen the first stage's form may answer the second one in it, too."""
    assert objects(reply) == ["饺子", "意大利面", "汉堡"]
    both = FOOD + "\n" + FOOD.replace("#饺子#，#意大利面#，#汉堡#", "#主题公园#")
    assert objects(both) == ["饺子", "意大利面", "汉堡", "主题公园"]


def test_english_objects_alone_are_read_alike() -> None:
    marked = "Answer: for the topic #food#, I came up with these #objects#: #ramen#, #sushi#"
    assert objects(marked) == ["ramen", "sushi"]
    assert objects("Answer: for the topic #parks#, I came up with #a theme park#") == ["a theme park"]


def test_english_answers_are_read_alike() -> None:
    marked = "Thought: choose the topic #food#\nAnswer: for the topic #food#, I came up with these #objects#: #ramen#, "
    bare = "Thought: I choose the topic food.\n**Answer:** For the topic food, I came up with these objects: ramen, "
    assert topics(marked + "#rice and beans#, and #sushi#.") == [("food", ["ramen", "rice and beans", "sushi"])]
    assert topics(bare + "rice and beans, and sushi.") == [("food", ["ramen", "rice and beans", "sushi"])]


def test_several_answers_are_several_with_labels_or_without() -> None:
    animals = FOOD.replace("食物", "动物").replace("#饺子#，#意大利面#，#汉堡#", "#狮子#、#老虎#")
    both = [("食物", ["饺子", "意大利面", "汉堡"]), ("动物", ["狮子", "老虎"])]
    assert topics(f"1. {FOOD}\n\n2. {animals}") == both
    assert topics(FOOD + "\n" + animals.partition("答案：")[2]) == both


def test_an_answer_that_contradicts_its_thought_wins_and_a_thought_alone_is_none() -> None:
    assert topics(FOOD.replace("选择主题#食物#", "选择主题#动物#"))[0][0] == "食物"
    assert topics("思考：选择主题#食物#，比如#饺子#和#汉堡#") == []
    assert topics("思考：选择主题#食物#，比如#饺子#\n答案：#汉堡#，#炸鸡#") == [("食物", ["汉堡", "炸鸡"])]


def test_what_a_thought_only_weighs_is_not_read() -> None:
    weighed = "思考：我先想到一个答案：#狮子#，但是不合适，选择主题#食物#\n答案：#饺子#，#汉堡#"
    assert topics(weighed) == [("食物", ["饺子", "汉堡"])]
    assert objects("<think>1. 狮子\n2. 老虎\n</think>1. 拉面\n2. 烤鸭") == ["拉面", "烤鸭"]


def test_marks_before_items_only_are_told_from_marks_around_them() -> None:
    assert objects("答案：#饺子 #汉堡") == topics("答案：#饺子 #汉堡")[0][1] == ["饺子", "汉堡"]
    assert objects("答案：#饺子# 和 #汉堡# 等等") == ["饺子", "汉堡"]


def test_without_a_topic_the_objects_are_read_and_the_topic_is_empty() -> None:
    assert topics("答案：#饺子#，#汉堡#") == [("", ["饺子", "汉堡"])]


@pytest.mark.parametrize(
    "reply",
    [
        "1. 拉面\n2. 烤鸭\n3. 寿司",
        "以下是额外的3个答案：\n\n6、拉面\n7、烤鸭\n8、寿司\n\n希望这些对你有帮助。",
        "１．拉面\r\n２．烤鸭\r\n３．寿司",
        "(1) 拉面\n（2）烤鸭\n(3)寿司",
        "① 拉面\n② 烤鸭\n③ 寿司",
        "一、拉面\n二、烤鸭\n三、寿司",
        "- 拉面\n* **烤鸭**\n• “寿司”",
        "**1. 拉面**\n**2. 烤鸭**\n**3. 寿司**",
        "1. **拉面** - 日式面食\n2. **烤鸭**：北京名菜\n3. **寿司**（日本）",
        "1. 拉面；是一种面食；通常是黄色\n2. 烤鸭；是一种菜\n3. 寿司；通常是白色",
        "1.拉面 2.烤鸭 3.寿司",
        "拉面、烤鸭、寿司",
        "好的\n拉面\n烤鸭\n寿司",
        "答案1：拉面\n答案2：烤鸭\n答案3：寿司",
        "1. 答案：拉面\n2. 答案：烤鸭\n3. 答案：寿司",
        "思考：选择（1）个视觉元素，最终选择的是（面）\n答案：拉面\n\n思考：……\n答案：烤鸭。\n思考：\n答案：寿司",
        "#拉面#\n#烤鸭#\n#寿司#",
    ],
)
def test_a_list_is_read_however_it_is_numbered(reply: str) -> None:
    assert objects(reply) == ["拉面", "烤鸭", "寿司"]


def test_numbers_of_a_list_are_told_from_numbers_in_an_object() -> None:
    assert objects("2. 激光打印机\n3.3D打印机\n4. 3.5英寸软盘") == ["激光打印机", "3D打印机", "3.5英寸软盘"]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " \n\n",
        "抱歉，我无法提供这样的内容。",
        "Sorry, I cannot help with that.",
        "好的",
        "一句没有标点的闲话",
        "答案：",
        "答案：\n\n\n",
        "思考：",
        "<think>1. 拉面",
        "#",
        "1.",
        "1. \n2. \n",
    ],
)
def test_where_nothing_is_listed_nothing_is_read(reply: str) -> None:
    assert objects(reply) == []
    assert topics(reply) == []


def test_a_reply_cut_by_the_limit_loses_its_last_item_and_says_which() -> None:
    assert parse_topics(FOOD[:-2], True) == [ParsedAnswer("食物", ("饺子", "意大利面"), "汉")]
    assert parse_topics(FOOD, True) == [ParsedAnswer("食物", ("饺子", "意大利面"), "汉堡")]
    assert parse_objects("1. 拉面\n2. 烤鸭\n3. 寿", True) == ParsedAnswer("", ("拉面", "烤鸭"), "寿")
    assert parse_topics(FOOD + "\n思考：选择主题#动", True) == [ParsedAnswer("食物", ("饺子", "意大利面"), "汉堡")]
    assert parse_objects("1. 拉", True) == ParsedAnswer("", (), "拉")


def test_every_cut_of_a_reply_leaves_whole_items_only() -> None:
    whole = {"饺子", "意大利面", "汉堡"}
    for end in range(len(FOOD)):
        for _, listed in topics(FOOD[:end], was_cut=True):
            assert set(listed) <= whole, FOOD[:end]


def test_what_stands_beyond_twenty_thousand_characters_is_not_read_and_the_item_there_is_lost() -> None:
    reply = "\n".join(f"{number % 900}. 第{number}号楼" for number in range(1, 4000))
    listed = parse_objects(reply, False)
    assert 900 < len(listed.objects) < 2500
    assert all(re.fullmatch(r"第\d+号楼", text) for text in listed.objects)
    assert listed.truncated_item


@pytest.mark.thorough
def test_of_ten_thousand_dressed_up_replies_99_percent_are_read_and_no_row_is_untrue() -> None:
    missed = 0
    for seed in range(10_000):
        rng = random.Random(seed)
        language = rng.choice(["zh", "en"])
        if seed % 2:
            messy = make_topic_reply(rng, language)
            found = topics(messy.text)
        else:
            messy = make_object_reply(rng, language)
            found = [("", objects(messy.text))]
        true = {text for topic, listed in messy.expected for text in (topic, *listed)}
        assert {text for topic, listed in found for text in (topic, *listed)} <= true | {""}, messy.text
        missed += found != messy.expected
    assert missed <= 100, missed


@pytest.mark.thorough
def test_broken_replies_do_no_harm_and_give_nothing_that_does_not_stand_in_them() -> None:
    asked = {language: prompts.load_template(f"{language}/topics").text for language in ("zh", "en")}
    for seed in range(3_000):
        rng = random.Random(seed)
        language = rng.choice(["zh", "en"])
        made = make_topic_reply(rng, language).text, make_object_reply(rng, language).text, dressed_up(rng)[0]
        text = break_reply(rng, made[seed % 3], asked[language])
        for was_cut in (False, True):
            check_literal(text, was_cut)


def check_literal(text: str, was_cut: bool) -> None:
    phrases = parse_phrase_reply(text, was_cut)
    assert len(phrases.objects) == len(phrases.thoughts)
    for listed in [*parse_topics(text, was_cut), parse_objects(text, was_cut), phrases]:
        for item in (listed.topic, *listed.objects, *listed.thoughts, listed.truncated_item):
            assert item in text or item in strip_regions(text)
            assert "\n" not in item
        assert "" not in listed.objects


PIECES = st.sampled_from(["思考", "答案", "：", "#", "＃", "主题", "物体", "Answer:", "1. ", "\n", "、", "**", " "])


@pytest.mark.thorough
@settings(max_examples=300)
@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join)), st.booleans())
def test_any_text_at_all_is_read_without_harm(text: str, was_cut: bool) -> None:
    check_literal(text, was_cut)


@pytest.mark.parametrize(
    "piece", ["#a", "答案：", "物体：", "主题", "1. ", "\n", "，", "<think>", "“", "a and ", "#\t"]
)
@pytest.mark.thorough
def test_time_is_bounded_whatever_is_said_again_and_again(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    start = time.process_time()
    for was_cut in (False, True):
        parse_topics(text, was_cut)
        parse_objects(text, was_cut)
    assert time.process_time() - start < 3


@pytest.mark.thorough
def test_what_real_models_wrote_goes_through(shared: Callable[[str], Path]) -> None:
    folder = shared("llm_transcripts")
    texts = [path.read_text("utf-8") for path in sorted(folder.rglob("*.md"))]
    texts += [cell for text in texts for cell in text.split("|")]
    for name, key in (("self_instruct_davinci_predictions.jsonl", "response"), ("vlm_zh_gpt4_answers.jsonl", "text")):
        texts += [str(json.loads(line).get(key, line)) for line in (folder / name).read_text("utf-8").splitlines()]
    assert len(texts) > 1000
    for text in texts:
        check_literal(text, False)
    lists = [cell.strip() for cell in texts if re.match(r"\s*1[.、]", cell) and "<br/>2" in cell]
    assert len(lists) > 30
    assert all(len(parse_objects(cell, False).objects) >= 2 for cell in lists)


CAT = "我决定选择（1）个视觉元素，该视觉元素选取（动物）分类中的（猫），最终选择的视觉元素是（猫）"
LONG = "我决定选择（2）个视觉元素，可搭配（猫）的是形容词（长毛），最终选择的视觉元素是（猫）和（长毛）"
REPLY = f"思考：{CAT}\n答案：猫\n\n思考：{LONG}\n答案：长毛的猫"
READ = ParsedAnswer("", ("猫", "长毛的猫"), "", (CAT, LONG))


@pytest.mark.parametrize(
    "reply",
    [
        REPLY,
        REPLY.replace("：", ":"),
        REPLY.replace("\n", "\r\n"),
        REPLY.replace("思考：", "**思考：** ").replace("答案：", "**答案：** "),
        REPLY.replace("答案：", "答案：\n"),
        REPLY.replace("答案：", "答案：好的\n"),
        f"好的，以下是结果：\n\n{REPLY}。\n\n希望对您有帮助！",
        REPLY.replace("答案：猫", "答案：“猫”。"),
        REPLY.replace("答案：猫", "答案：#猫#"),
        "1. " + REPLY.replace("\n\n", "\n\n2. "),
        f"<think>答案：狗</think>{REPLY}",
    ],
)
def test_each_answer_is_one_phrase_with_its_thought_however_dressed_up(reply: str) -> None:
    assert parse_phrase_reply(reply, False) == READ


def test_english_phrases_are_read_alike() -> None:
    thought = "I choose (2) visual elements, so they are (cat) and (long hair)"
    assert parse_phrase_reply(f"Thought: {thought}\nAnswer: a cat with long hair.", False) == ParsedAnswer(
        "", ("a cat with long hair",), "", (thought,)
    )


def test_an_answer_is_not_cut_at_its_commas_and_one_that_lists_several_has_no_thought_of_its_own() -> None:
    assert parse_phrase_reply(f"思考：{LONG}\n答案：猫，在草地上", False).objects == ("猫，在草地上",)
    several = parse_phrase_reply(f"思考：{LONG}\n答案：\n1. 猫\n2. 狗", False)
    assert several == ParsedAnswer("", ("猫", "狗"), "", ("", ""))


def test_a_thought_too_long_to_be_a_sample_is_not_told_and_a_phrase_without_label_is_none() -> None:
    assert parse_phrase_reply(f"思考：{'想' * 201}\n答案：猫", False).thoughts == ("",)
    assert parse_phrase_reply("猫", False) == ParsedAnswer("", ())
    assert parse_phrase_reply("抱歉，我无法提供。", False) == ParsedAnswer("", ())


@pytest.mark.parametrize(
    ("thought", "named"),
    [
        (CAT, "动物"),
        ("第一个视觉元素选择( 交通工具 )分类中的(火车)，第二个选择（颜色）分类中的（绿）", "交通工具"),
        ("I choose (1) visual element, which is (cat) of the class (wild animals), so it is (cat)", "wild animals"),
        (LONG, ""),
        ("该视觉元素选取（）分类中的（猫）", ""),
        ("该视觉元素选取（=cmd|x）分类中的（猫）", ""),
        (f"该视觉元素选取（{'动' * 11}）分类中的（猫）", ""),
        ("", ""),
    ],
)
def test_a_thought_names_the_class_that_it_starts_from_or_none(thought: str, named: str) -> None:
    assert parse_element_class(thought) == named


def test_the_samples_that_the_model_is_shown_name_their_class() -> None:
    for language, topic in (("zh", "动物"), ("en", "animals")):
        assert (
            parse_element_class(
                prompts.load_template(f"{language}/visual_elements_sample").fill(topic=topic, object="x")
            )
            == topic
        )


def test_a_reply_cut_by_the_limit_loses_its_last_phrase() -> None:
    assert parse_phrase_reply(REPLY, True) == ParsedAnswer("", ("猫",), "长毛的猫", (CAT,))


def test_of_dressed_up_phrases_99_percent_are_read_and_no_row_is_untrue() -> None:
    missed = 0
    for seed in range(5_000):
        rng = random.Random(seed)
        text, truth = dressed_up(rng)
        found = parse_phrase_reply(text, False)
        assert set(found.objects) <= {phrase for phrase, _ in truth}, text
        missed += [*zip(found.objects, found.thoughts, strict=True)] != truth
    assert missed <= 50, missed


def dressed_up(rng: random.Random) -> tuple[str, list[tuple[str, str]]]:
    zh = rng.random() < 0.5
    world = ZH if zh else EN
    form = (
        "我决定选择（1）个视觉元素，最终选择的视觉元素是（{}）" if zh else "I choose (1) visual element, which is ({})"
    )
    things = rng.sample(world[rng.choice(sorted(world))], rng.randint(1, 5))
    truth = [(thing, form.format(thing)) for thing in things]
    bold, colon, break_ = rng.choice(["", "**"]), rng.choice("：:"), rng.choice(["\n", "\n\n", "\r\n", "<br/>"])
    number, stop = rng.choice(["", "", "{}. ", "({}) "]), rng.choice(["", "", "。" if zh else "."])
    words = ("思考", "答案") if zh else ("Thought", "Answer")
    blocks = [
        f"{number.format(n)}{bold}{words[0]}{bold}{colon}{thought}{break_}{bold}{words[1]}{bold}{colon}{phrase}{stop}"
        for n, (phrase, thought) in enumerate(truth, start=1)
    ]
    before = rng.choice(["", "好的，以下是结果：\n\n" if zh else "Sure, here are some more:\n\n"])
    after = rng.choice(["", "\n\n希望对您有帮助！" if zh else "\n\nI hope this helps!"])
    return before + rng.choice(["\n", "\n\n"]).join(blocks) + after, truth
