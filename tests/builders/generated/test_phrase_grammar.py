"""Phrases with the thoughts that led to them: read as models write them, and nothing that they did not."""

import random

import pytest

import prompts
from builders.generated.reply_grammar import ParsedAnswer, parse_element_class, parse_phrase_reply
from tests.builders.generated.messy_replies import EN, ZH, break_reply, make_object_reply

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


@pytest.mark.thorough
def test_broken_replies_give_nothing_that_does_not_stand_in_them() -> None:
    asked = prompts.load_template("zh/visual_elements").text
    for seed in range(2_000):
        rng = random.Random(seed)
        text, _ = dressed_up(rng)
        if seed % 3 == 0:
            text = make_object_reply(rng, "zh").text
        spoilt = break_reply(rng, text, asked)
        for was_cut in (False, True):
            found = parse_phrase_reply(spoilt, was_cut)
            assert len(found.objects) == len(found.thoughts)
            for piece in (*found.objects, *found.thoughts, found.truncated_item):
                assert piece in spoilt and "\n" not in piece
            assert "" not in found.objects
