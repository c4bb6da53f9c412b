"""A caption speaks of the image, to nobody: a reply that talks, or that holds markup, is none."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prompts
from builders.recall.caption_cleaning import clean_caption
from builders.recall.caption_rules import (
    caption_ledger_item,
    caption_query_id,
    parse_cleaning_rules,
    select_caption_overrides,
)
from querytruth.sets.decision_records import Override, latest_by_target

RULES = parse_cleaning_rules({one: prompts.load_template(f"{one}/cleaning.yaml").text for one in ("zh", "en")})


def reason_of(text: str, prompt: str = "caption") -> str:
    language = "en" if text.isascii() else "zh"
    template = prompts.load_template(f"{language}/{prompt}.txt").text
    cleaned = clean_caption(text, "stop", language, RULES, template)
    assert cleaned.reason or cleaned.text == text
    return cleaned.reason


@pytest.mark.parametrize(
    "reply",
    [
        "What would you like to know about this image?",
        "The image did not come through.",
        "There doesn't seem to be an image attached here.",
        "Internal error, request id 123.",
        "Okay, the user wants a 25-word caption. The image shows a cat on a sofa.",
        "Let me look at the image. There is a cat on a mat.",
        "First, I need to identify the main subject. It is a dog.",
        "So the caption should be: A dog on the beach.",
        "Hmm, the image shows a cat. Wait, maybe it is a dog.",
        "Your image shows a cat.",
        "Here is the step-by-step reasoning behind the caption, which should be short.",
        "Apologies, but there was a problem loading the file.",
        "To caption this image, identify the main subject first: the cat.",
        "No image detected.",
        "I see no image here",
        "您想了解这张图片的什么内容呢？",
        "这张图需要用40字左右来描述，主要是一只猫",
        "你可以告诉我图片里有什么吗",
        "未找到图片",
        "我看到一只猫坐在沙发上，需要压缩到四十个字",
        "接下来，要把这些要素整合成一句话：猫坐在沙发上",
    ],
)
def test_a_reply_that_talks_to_the_asker_or_about_the_task_is_no_caption(reply: str) -> None:
    assert reason_of(reply) in ("talk", "refusal")


@pytest.mark.parametrize(
    "reply",
    [
        '{"bbox_2d": [10, 20, 30, 40], "label": "cat"}',
        '[{"bbox_2d": [10, 20, 30, 40], "label": "cat"}]',
        "A cat at coordinates 12, 40",
        "cat 0.12 0.30 0.55 0.71",
        "A cat <|vision_pad|> on a mat",
        "A cat \\\\boxed{on a mat}",
        "一只猫，坐标 120，340，趴在窗台上",
    ],
)
def test_a_caption_has_no_markup_and_no_coordinates(reply: str) -> None:
    assert reason_of(reply) == "markup"


@pytest.mark.parametrize(
    "caption",
    [
        'A sign that says "You are here" on a wooden post',
        "A poster reads please do not feed the animals near a pond",
        "A man wears a t-shirt with the words I love NY",
        "A thank you card on a table",
        "A whiteboard shows 3 x 4 = 12 in blue marker",
        "Two boys wear jerseys with the numbers 10, 20 and 30",
        "A box where you pay for your parking",
        "A clock tower shows 10:30 under a cloudy sky",
        "A woman describes an image to her students",
        "A computer user types one handed on a keyboard",
        "An empty image frame hangs without a photo on a wall",
        "A bus (number 42) stops at the station",
        "A man (left) and a woman (right) shake hands",
        "A screen shows an error message in a server room",
        "A dog is attached to a leash beside an image of a cat",
        "A dog sitting on top of stairs [indoors] with a red bow tie",
        "A street where no cars are parked",
        'A book titled "How to help your dog" lies on a desk',
        "A neon sign reading OPEN 24 HOURS",
        "A cat, no collar, sits beside a not yet finished puzzle",
        "A plate of 12 cookies, 3 muffins and 4 croissants",
        "A person uploads a photo on a laptop",
        "A license plate with the numbers 12 34 56 78 on a car",
        "A man reads the instructions of a washing machine",
        "Four players wait for the server to serve the ball",
        "A wall of photos without any text attached",
        "一块写着“请勿吸烟”的牌子挂在墙上",
        "墙上贴着请保持安静的标语",
        "一名女子穿着印有我爱北京的T恤",
        "一张邀请函放在桌上",
        "你追我赶的孩子们在操场上奔跑",
        "用户界面的截图，上面有三个按钮",
        "一块路牌，上面写着“您已进入校园”",
        "没有人的街道，两旁停着汽车（车牌12345）",
        "时钟显示10:30，桌上有3杯咖啡",
        "迷你汽车模型摆在架子上",
        "学生们正在思考问题",
        "两个人在分析图表",
        "墙上没有挂照片，只有一面钟",
        "空白的画布放在画架上",
        "一台服务器机柜里亮着绿灯",
        "一位老师请学生回答问题",
        "“欢迎您”三个字的横幅挂在门口",
        "一家名为“你好”的餐厅",
        "一个孩子在思考，前面是棋盘",
        "海报标题为“我和我的祖国”",
        "一辆车牌为京A·12345的黑色轿车",
        "（左）一只猫，（右）一只狗",
        "【促销】红色横幅挂在商店门口",
    ],
)
def test_a_caption_with_the_same_words_in_the_image_stays(caption: str) -> None:
    assert reason_of(caption) == ""


def test_a_question_that_was_asked_for_may_say_you() -> None:
    question = "Can you find the image of two dogs on a beach?"
    assert (reason_of(question), reason_of(question, "question")) == ("talk", "")
    assert (reason_of("请找出两只狗在海滩上的照片"), reason_of("请找出两只狗在海滩上的照片", "question")) == (
        "talk",
        "",
    )
    assert reason_of("It seems that no image was attached.", "question") == "talk"


def test_a_json_answer_is_unwrapped() -> None:
    for reply in ('{"caption": "A cat on a mat"}', '```json\n{"description": "A cat on a mat", "n": 1}\n```'):
        assert clean_caption(reply, "stop", "en", RULES).text == "A cat on a mat"


def test_the_ids_of_published_sets_stay_what_they_are() -> None:
    assert caption_query_id("img_a", "zh/caption", 0) == "q_729ddcefb2dd8e321fe0"
    assert caption_ledger_item("a.jpg", "img_a", "zh/caption", 0) == "a.jpg · zh/caption"
    assert caption_ledger_item("", "img_a", "zh/caption", 2) == "img_a · zh/caption 3"


ROWS = pd.DataFrame(
    [("q_a", "img_1", "zh", "caption"), ("q_b", "img_1", "zh", "caption"), ("q_c", "img_1", "en", "caption"),
     ("q_d", "img_2", "zh", "caption")],
    columns=["query_id", "image_id", "language", "style"],
)  # fmt: skip


def word(item: str, caption: str = "", at: str = "") -> Override:
    return Override(item, "rescue", item, caption, "why", at=at)


def test_words_on_images_are_none_on_captions() -> None:
    wanted = select_caption_overrides(ROWS, {"img_1": word("img_1"), "http://a/1.jpg": word("http://a/1.jpg")})
    assert (
        not wanted.effective_ids and not wanted.decision_outcome([]).in_effect and not wanted.decision_outcome([]).stale
    )


@pytest.mark.parametrize("caption", ["……", " . ", "123", "！"])
def test_a_caption_has_words(caption: str) -> None:
    wanted = select_caption_overrides(ROWS, {"q_a": word("q_a", caption)})
    assert not wanted.texts and not wanted.effective_ids and "no words" in wanted.decision_outcome(["q_a"]).stale[0][1]


def test_a_text_is_one_line_and_alike_only_for_one_image_language_and_style() -> None:
    rescues = {name: word(name, " 一只\n 狗 a dog ") for name in ("q_a", "q_b", "q_c", "q_d")}
    wanted = select_caption_overrides(ROWS, rescues)
    assert wanted.texts == dict.fromkeys(["q_a", "q_c", "q_d"], "一只 狗 a dog")
    assert wanted.effective_ids == {"q_a", "q_c", "q_d"} and list(wanted.stale) == ["q_b"]
    assert wanted.reason("q_a") == "why" and wanted.reason("q_b") is None


def test_one_that_wants_no_other_words_counts_where_there_are_some() -> None:
    wanted = select_caption_overrides(ROWS, {"q_a": word("q_a", " ")})
    assert wanted.effective_ids == {"q_a"} and wanted.texts == {}
    assert (
        wanted.decision_outcome(["q_a"]).in_effect and "no person wrote" in wanted.decision_outcome(["q_d"]).stale[0][1]
    )


@given(st.permutations([word("q_a", "狗"), word("q_b", "狗"), word("q_d", "猫"), word("q_e", "鸟")]), st.randoms())
@pytest.mark.thorough
def test_no_order_matters(log: list[Override], chance: object) -> None:
    rows = ROWS.sample(frac=1, random_state=chance.randrange(99))  # type: ignore[attr-defined]
    wanted = select_caption_overrides(rows, {one.item: one for one in log})
    assert wanted == select_caption_overrides(ROWS, latest_by_target([word("q_a", "狗"), *log[::-1]]))
    assert wanted.texts == {"q_a": "狗", "q_d": "猫"} and list(wanted.stale) == ["q_b", "q_e"]
    told = wanted.decision_outcome(["q_a", "q_b", "q_d"])
    assert told.in_effect == sorted([word("q_a", "狗").decision_id, word("q_d", "猫").decision_id])
    assert [one.text for one, _ in told.stale] == ["q_b", "q_e"]
