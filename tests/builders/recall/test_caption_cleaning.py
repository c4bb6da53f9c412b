"""Cleaning: nothing useless stays in front, nothing of the content goes, and what is no caption says why."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import prompts
from builders.recall.caption_cleaning import (
    CAPTION_REJECTION_REASONS,
    MAX_CAPTION_CHARS,
    CleanedCaption,
    clean_caption,
)
from builders.recall.caption_rules import parse_cleaning_rules
from builders.recall.captions import frequent_openings
from querytruth.errors import UserError

SOURCES = {language: prompts.load_template(f"{language}/cleaning.yaml").text for language in ("zh", "en")}
RULES = parse_cleaning_rules(SOURCES)
ASKED = prompts.load_template("zh/caption").text
COUNTED = "".join(f"{number}只猫坐在沙发上，" for number in range(9))


def text_of(raw: str, language: str = "zh", finish_reason: str = "stop") -> str:
    cleaned = clean_caption(raw, finish_reason, language, RULES)
    assert not cleaned.reason, cleaned
    return cleaned.text


def reason_of(raw: str, language: str = "zh", finish_reason: str = "stop") -> str:
    cleaned = clean_caption(raw, finish_reason, language, RULES, ASKED)
    assert cleaned.reason == "" or (cleaned.text == "" and cleaned.reason in CAPTION_REJECTION_REASONS)
    return cleaned.reason


@pytest.mark.parametrize(
    ("raw", "caption"),
    [
        ("图中大象的颜色是灰色", "大象的颜色是灰色"),
        ("图片中的狗是黑色的", "狗是黑色的"),
        ("图中展示了三个打开的比萨盒", "三个打开的比萨盒"),
        ("图像的主要焦点是一只猫", "一只猫"),
        ("场景中的一辆黑色汽车停放在路边", "一辆黑色汽车停放在路边"),
        ("这张图片展示了画面中的一只猫在睡觉", "一只猫在睡觉"),
        ("这是一张照片，展示了一只猫坐在沙发上", "一只猫坐在沙发上"),
        ("从画面中可以清晰地看到一只猫在树上", "一只猫在树上"),
        ("如图所示，一只猫趴在窗台上", "一只猫趴在窗台上"),
        ("画面捕捉了两架客机的景色", "两架客机的景色"),
        ("图中人物正在跳舞", "人物正在跳舞"),
        ("图中年轻女子在跑步", "年轻女子在跑步"),
        ("图中有轨电车驶过街道", "有轨电车驶过街道"),
        ("图中的士停在路边", "的士停在路边"),
        ("图中有人在骑车", "有人在骑车"),
        ("图中有许多人在排队", "许多人在排队"),
        ("画面中央有一只黑色的狗", "中央有一只黑色的狗"),
        ("照片显示女人在跑步", "女人在跑步"),
        ("图中的男人在做什么？", "男人在做什么？"),
    ],
)
def test_a_useless_chinese_opening_goes_and_a_whole_sentence_stays(raw: str, caption: str) -> None:
    assert text_of(raw) == caption


@pytest.mark.parametrize(
    "caption",
    [
        "图书馆里坐满了学生",
        "画中画是一只猫的肖像",
        "照片墙上挂满了全家福",
        "图案复杂的地毯铺在客厅",
        "图中心形的气球飘在空中",
        "图片显示器上有一只猫",
        "图片上传界面的截图",
        "该图标是一个红色的圆形",
        "场景布置得很漂亮的婚礼",
        "这幅油画描绘了一个女孩",
        "三、四个人站在门口",
        "6号球员想要拦截17号球员",
        "白板上写着答案：四十二",
        "“TYCHY MIASTO”火车站。",
        "哪张图片里有一只黑狗",
        "背景中有一座山",
        "图中和图外各有一只猫",
    ],
)
def test_the_same_words_stay_where_they_are_content(caption: str) -> None:
    assert clean_caption(caption, "stop", "zh", RULES) == CleanedCaption(caption)


@pytest.mark.parametrize(
    ("raw", "caption"),
    [
        ("The image shows a dog on a beach.", "a dog on a beach."),
        ("A photo of a cat", "a cat"),
        ("In this image, there is a cat on the sofa.", "a cat on the sofa."),
        ("In the photo are two dogs", "two dogs"),
        ("The main subject of the image is a red truck", "a red truck"),
        ("Sure! Here is a caption for the image: A dog runs.", "A dog runs."),
        ('Caption: "A dog runs on the beach."', "A dog runs on the beach."),
        ("A black and white photo of a dog", "A black and white photo of a dog"),
        ("In the image frame on the wall is a cat", "In the image frame on the wall is a cat"),
        ("An image of a cat is on the wall", "An image of a cat is on the wall"),
        ("In the image of a man on a poster is a dog", "In the image of a man on a poster is a dog"),
        ("Image windows line the wall of a house", "Image windows line the wall of a house"),
    ],
)
def test_english_openings_go_where_they_are_no_content(raw: str, caption: str) -> None:
    assert text_of(raw, "en") == caption


@pytest.mark.parametrize(
    "raw",
    [
        "答案：一只猫坐在沙发上",
        "**描述：** 一只猫坐在沙发上",
        "好的，以下是对图片的描述：\n\n一只猫坐在沙发上",
        "1. 一只猫坐在沙发上",
        "- 一只猫坐在沙发上",
        "# 描述\n：一只猫坐在沙发上",
        "“一只猫坐在沙发上”",
        "```\n一只猫坐在沙发上\n```",
        "<think>图中有一只猫。\n用户要40字</think>\n\n一只猫坐在沙发上",
        "用户要40字。</think>一只猫坐在沙发上",
        "<|im_start|>assistant\n一只猫坐在沙发上<|im_end|>",
        "一只猫坐在沙发上（共40字）",
        '{"caption": "一只猫坐在沙发上"}',
        "{'objects': ['猫', '沙发'], 'caption': '一只猫坐在沙发上', }",
        '```json\n[{"result": {"caption": "一只猫坐在沙发上", "confidence": 0.9}}]\n```',
        "caption: 一只猫坐在沙发上\nobjects:\n  - 猫\n  - 沙发",
        "```yaml\nimage: cat.jpg\ndescription: |\n  一只猫坐在沙发上\n\nconfidence: 0.9\n```",
        '[reply]\nscore = 0.9\ncaption = "一只猫坐在沙发上"\nobjects = ["猫"]',
        "主体：猫\n描述：一只猫坐在沙发上\n背景：沙发",
        "\ufeff一只猫\u200b坐在\x00沙发\ud800上\ufffd",
        "Caption: 一只猫坐在沙发上",
    ],
)
def test_what_surrounds_the_words_goes(raw: str) -> None:
    assert text_of(raw) == "一只猫坐在沙发上"


@pytest.mark.parametrize(
    "reply",
    [
        "Failed to fetch the image.",
        "404 Not Found",
        "Unsupported image format",
        "No visual content to describe.",
        "The picture is too blurry to make anything out.",
        "A completely black image.",
        "Output truncated.",
        "该图片未通过内容安全审核",
        "图片内容触发风控",
        "图片链接已失效",
        "网页不存在",
        "下载超时",
        "当前对话中没有图片",
        "麻烦发一下图片",
        "不便描述此图",
        "账户欠费，服务已停用",
    ],
)
def test_a_reply_about_the_file_or_the_service_is_no_caption(reply: str) -> None:
    assert reason_of(reply, "en" if reply.isascii() else "zh") in ("talk", "refusal", "empty", "too_short")


@pytest.mark.parametrize(
    "caption",
    [
        "一张照片挂在空白的墙上",
        "一块字迹难以辨认的招牌",
        "其他球员试图拦截",
        "一片漆黑的夜空中没有星星",
        "工人按安全规定戴着安全帽",
        "一台显示错误信息的电脑",
        "The photo frame on the desk is missing its glass.",
        "A black and white photo of an empty street",
        "A chain link fence is broken.",
        "A police officer blocks access to a photo exhibit",
        "A hotel service cart is empty.",
        "A street sign with no text on it",
    ],
)
def test_the_same_words_of_what_the_image_shows_stay(caption: str) -> None:
    assert clean_caption(caption, "stop", "en" if caption.isascii() else "zh", RULES).text == caption


def test_lines_become_one_and_quotes_inside_stay() -> None:
    assert text_of("一只猫坐着，\n看着窗外。\n\n旁边是一只狗") == "一只猫坐着，看着窗外。旁边是一只狗"
    assert text_of('A sign that\nsays "stop" ', "en") == 'A sign that says "stop"'


@pytest.mark.parametrize(
    ("raw", "finish_reason", "caption"),
    [
        ("女孩站在蓝色的海边，手里拿着气球，背景是大海和", "length", "女孩站在蓝色的海边，手里拿着气球"),
        ("一只猫坐在红色的沙发上，当它看着窗外时，阳", "length", "一只猫坐在红色的沙发上"),
        ("一只猫坐在红色的沙发上。此外，旁边", "length", "一只猫坐在红色的沙发上。"),
        ("猫看着窗外，因为外面有一只鸟。旁边", "length", "猫看着窗外，因为外面有一只鸟。"),
        ("一只猫坐在红色的沙发上（共11字），旁边", "length", "一只猫坐在红色的沙发上"),
        ("一只黑色的猫坐在沙发上。", "length", "一只黑色的猫坐在沙发上。"),
        ("一只猫坐在红色的沙发上。旁边有一", "unknown", "一只猫坐在红色的沙发上。"),
        ("一只猫坐在红色的沙发上，旁边有一只狗", "unknown", "一只猫坐在红色的沙发上，旁边有一只狗"),
        ("一只猫坐在红色的沙发上。旁边有一只狗", "stop", "一只猫坐在红色的沙发上。旁边有一只狗"),
    ],
)
def test_a_cut_tail_goes_back_to_the_last_complete_clause(raw: str, finish_reason: str, caption: str) -> None:
    assert text_of(raw, finish_reason=finish_reason) == caption


@pytest.mark.parametrize(
    ("raw", "language", "caption"),
    [
        ("一盘番茄炒蛋在木桌上，旁边有一双筷子放在", "zh", "一盘番茄炒蛋在木桌上"),
        ("一只猫坐在红色的沙发上，旁边是一只狗和", "zh", "一只猫坐在红色的沙发上"),
        ("女孩站在蓝色的海边，手里拿着一个", "zh", "女孩站在蓝色的海边"),
        ("A man rides a wave, with a dog on the", "en", "A man rides a wave"),
        ("Two dogs run on a beach; behind them a boat and", "en", "Two dogs run on a beach"),
    ],
)
def test_an_end_that_asks_for_more_is_cut_whatever_the_server_says(raw: str, language: str, caption: str) -> None:
    assert text_of(raw, language) == caption


@pytest.mark.parametrize("raw", ["一盘番茄炒蛋和一双筷子放在", "A plate of scrambled eggs and a"])
def test_a_sentence_that_was_cut_and_has_no_whole_clause_is_rejected(raw: str) -> None:
    assert reason_of(raw, "en" if raw.isascii() else "zh") == "cut_off"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("古老的建筑至今依然存在", "zh"),
        ("一个人抱住另一个", "zh"),
        ("床上铺着一床棉被", "zh"),
        ("一把椅子和桌子的颜色不同", "zh"),
        ("A boy slides down a rope while another looks on", "en"),
        ("A dog with its owner behind", "en"),
        ("A frisbee that someone is holding", "en"),
    ],
)
def test_an_end_that_is_complete_stays(text: str, language: str) -> None:
    assert text_of(text, language) == text


def test_an_english_comma_within_a_phrase_ends_no_clause() -> None:
    assert reason_of("A man wearing a red, white and", "en", "length") == "cut_off"
    assert text_of("A man rides a wave, with a large", "en", "length") == "A man rides a wave"


@pytest.mark.parametrize("raw", ["在一个阳光明媚的日子里，一个", "一只猫，旁边有一个很大很大的", "图中"])
def test_too_little_before_the_cut_is_rejected(raw: str) -> None:
    assert reason_of(raw, finish_reason="length") == "cut_off"


@pytest.mark.parametrize(
    ("reason", "raws"),
    [
        (
            "empty",
            ["", " \n", "图中。", "好的。", "1234", "。" * 100_000],
        ),
        (
            "refusal",
            [
                "抱歉，我无法查看图片",
                "作为AI语言模型，我看不到图片",
                "请提供图片",
                "I’m sorry, I can’t help.",
                "答案：无",
            ],
        ),
        ("only_reasoning", ["<think>一只猫</think>", "<think>图中有一只猫。", "**思考过程：**\n图中有一只猫。"]),
        ("echo", [ASKED, f"{ASKED}：一只猫坐在沙发上", f"**{ASKED}**", "图片的主要内容用于检索"]),
        ("repetition", ["猫" * 100_000, "一只猫" * 6, "一张木桌上放着几本书和一台电脑" + "，很大" * 5, COUNTED]),
        ("too_long", ["".join(chr(0x4E00 + n) for n in range(MAX_CAPTION_CHARS + 1))]),
        ("too_short", ["猫", "图中的猫。"]),
        ("wrong_language", ["A dog on a beach", "この写真には猫がいます", "Собака на пляже"]),
    ],
)
def test_what_is_no_caption_says_why(reason: str, raws: list[str]) -> None:
    assert [reason_of(raw) for raw in raws] == [reason] * len(raws)


def test_chinese_is_no_english_and_a_few_foreign_words_do_no_harm() -> None:
    assert reason_of("一只狗在海滩上", "en") == "wrong_language"
    assert text_of("一辆BMW X5停在Starbucks门口") == "一辆BMW X5停在Starbucks门口"


def test_a_caption_of_its_rivals_is_no_echo_of_the_template() -> None:
    asked = prompts.load_template("zh/recaption").text
    assert clean_caption("一只黑狗躺在厨房地板上", "stop", "zh", RULES, asked).reason == ""
    assert clean_caption("写明它与那些图片的不同之处", "stop", "zh", RULES, asked).reason == "echo"


def test_an_echo_is_seen_before_its_opening_is_stripped() -> None:
    assert clean_caption("这张图片展示了什么动物？", "stop", "zh", RULES, "这张图片展示了什么动物？").reason == "echo"


def test_the_openings_that_no_rule_touched_are_counted() -> None:
    cleaned = [
        clean_caption(raw, "stop", "zh", RULES)
        for raw in ["画册里是一只猫", "画册里是狗", "图中一只猫", "抱歉", "两只狗"]
    ]
    first, second = frequent_openings(cleaned, "zh")
    assert first == {"text": "画册里是", "count": 2, "share": 0.6667, "example": "画册里是狗"}
    assert (second["text"], second["count"]) == ("两只狗", 1)
    english = [CleanedCaption("Shown here is a dog"), CleanedCaption("shown here is a red cat")]
    assert [(o["text"], o["count"]) for o in frequent_openings(english, "en", most=1)] == [("shown here is", 2)]
    assert frequent_openings([], "zh") == []


@pytest.mark.parametrize(
    ("bad", "named"),
    [("  - '['", "\\["), ("  - '{nowhere}'", "nowhere"), ("  - [", "zh/cleaning.yaml")],
)
def test_a_fault_in_the_rules_names_the_file_and_the_pattern(bad: str, named: str) -> None:
    broken = SOURCES["zh"].replace("broken_starts:", f"broken_starts:\n{bad}")
    with pytest.raises(UserError, match=named):
        parse_cleaning_rules({"zh": broken})


TRICKY = ["**", "# ", "1. ", "① ", "<think>", "</think>", "<br>", "<b", ">", "](", '"}', "’s", "assistant", "The image"]
TRICKY += [
    *"图中的是在有，。“”、[()]`*{-' \"\n\x00\ud800\ufffd",
    "图片",
    "这张",
    "展示了",
    "一只猫",
    "（40字）",
    "抱歉",
    "答案：",
]
PIECES = st.sampled_from([*TRICKY, " shows", " a", " photo of"])
REPLIES = st.one_of(st.text(st.characters(codec=None), max_size=60), st.lists(PIECES, max_size=14).map("".join))


def is_within(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(char in rest for char in part if char != " ")


@settings(max_examples=400)
@given(REPLIES, st.sampled_from(["stop", "length", "unknown"]), st.sampled_from(["zh", "en"]))
@example("0000000在,", "length", "zh")  # a clause that ends in the middle of a sentence
@pytest.mark.thorough
def test_whatever_comes_nothing_is_invented_and_a_clean_caption_stays_as_it_is(
    raw: str, finish_reason: str, language: str
) -> None:
    cleaned = clean_caption(raw, finish_reason, language, RULES, ASKED)
    assert bool(cleaned.text) != bool(cleaned.reason)
    assert len(cleaned.text) <= len(raw)
    assert is_within(cleaned.text, raw)
    assert cleaned.text == " ".join(cleaned.text.split())
    cleaned.text.encode()
    if cleaned.text:
        assert clean_caption(cleaned.text, "stop", language, RULES, ASKED) == CleanedCaption(cleaned.text)


@pytest.mark.parametrize(
    "unit", ["图中", "“", "<think>", "1. ", "[", "**", " ", "在图中，", "an image of ", "猫\n", "\ud800"]
)
def test_a_hundred_thousand_characters_are_answered_at_once(unit: str) -> None:
    for length in (MAX_CAPTION_CHARS, 100_000):
        before = time.process_time()
        clean_caption((unit * length)[:length], "length", "zh", RULES, ASKED)
        assert time.process_time() - before < 2


@pytest.mark.parametrize(
    ("language", "reply", "caption"),
    [
        ("en", "1. A man rides a horse.\n2. A horse in a field.", "A man rides a horse."),
        ("en", "Sure! Here are three captions:\n\n1. **A man rides a horse**\n2. A field", "A man rides a horse"),
        ("en", "1) A man rides a horse 2) A horse in a field", "A man rides a horse"),
        ("en", "**1.** Caption: A man rides a horse\n**2.** Caption: A field", "A man rides a horse"),
        ("zh", "以下是几个描述：\n1、一个男人骑着马\n2、草地上的马", "一个男人骑着马"),
        ("zh", "①一个男人骑着马\n②草地上的马", "一个男人骑着马"),
        ("en", "A bus with the number 10. Two men wait for it.", "A bus with the number 10. Two men wait for it."),
        ("en", "Runner 3. and runner 4. cross the line", "Runner 3. and runner 4. cross the line"),
    ],
)
def test_of_a_numbered_list_the_first_item_is_the_caption(language: str, reply: str, caption: str) -> None:
    for finish_reason in ("stop", "length") if "\n" in reply else ("stop",):
        cleaned = clean_caption(reply, finish_reason, language, RULES)
        assert (cleaned.text, cleaned.reason) == (caption, "")


def test_a_sentence_before_a_list_is_not_lost() -> None:
    reply = "大厅里有一辆装满行李的小推车。工作人员要做的有：\n1.整理行李；\n2.送到房间。"
    assert clean_caption(reply, "stop", "zh", RULES).text.startswith("大厅里有一辆装满行李的小推车。")


@pytest.mark.parametrize(
    ("language", "reply"),
    [
        ("zh", "图中没有提供关于这个人的身份的信息，他站在海边。"),
        ("zh", "一个男人站在海边，无法确定他的身份。"),
        ("zh", "两个人在桌旁，但不清楚他们是谁。"),
        ("en", "A man stands by the sea, I cannot tell who he is."),
        ("en", "A man by the sea; it is not possible to determine who he is."),
        ("en", "A woman whose name cannot be determined sits on a bench."),
    ],
)
def test_a_model_that_says_in_passing_what_it_cannot_tell_writes_no_query(language: str, reply: str) -> None:
    assert clean_caption(reply, "stop", language, RULES).reason == "refusal"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_caption_over_the_cap_ends_with_its_last_complete_clause(language: str) -> None:
    long = {
        "zh": "一位老人坐在公园的长椅上看报纸，旁边有一只棕色的狗，远处有两个孩子在放风筝，天上有几朵白云。",
        "en": "An old man reads a newspaper on a bench, with a brown dog beside him, while two children fly a kite.",
    }[language]
    most = {"zh": 30, "en": 16}[language]
    short = clean_caption(long, "stop", language, RULES, "", most)
    ends = {"zh": "旁边有一只棕色的狗", "en": "with a brown dog beside him"}
    assert short.text.endswith(ends[language]) and not short.reason
    assert clean_caption(long, "stop", language, RULES).text == long, "without a cap"
    endless = {"zh": "大" * 20 + "小" * 20, "en": "very " * 30 + "large"}[language]
    assert clean_caption(endless, "stop", language, RULES, "", most).reason in ("too_long", "repetition")


# In these descriptions of images (by GPT-4, translated) 54 begin with a word about the image as such, and one (72)
# with an answer's “是的”; 26, 71 and 86 lose a line break or a blank alone.
ABOUT_THE_IMAGE = re.findall(
    r"\d+",
    "0 1 3 4 6 7 9 10 13 14 15 16 18 22 24 25 28 30 31 33 34 35 36 37 38 40 42 43 45 46 48 49 55 56 57 58 60 61 63 64 "
    "67 68 69 70 72 73 75 76 78 79 82 83 84 85 88",
)
USELESS = re.compile(r"(从|在|由)?(这|该|此)?(一?[张幅个])?(图|照片|画面|场景|画(?=的特点)|是的，|可以看)")


def test_every_real_description_is_stripped_and_keeps_its_content(shared: Callable[[str], Path]) -> None:
    lines = shared("llm_transcripts/vlm_zh_gpt4_answers.jsonl").read_text("utf-8").splitlines()
    raws = {str(row["question_id"]): row["text"] for row in map(json.loads, lines)}
    cleaned = {number: clean_caption(raw, "stop", "zh", RULES) for number, raw in raws.items()}
    assert len(raws) == 90
    assert [number for number, caption in cleaned.items() if caption.reason] == []
    assert [number for number, caption in cleaned.items() if caption.openings] == ABOUT_THE_IMAGE
    assert [number for number, raw in raws.items() if USELESS.match(raw)] == ABOUT_THE_IMAGE
    assert [number for number, caption in cleaned.items() if USELESS.match(caption.text)] == []
    for number, raw in raws.items():
        text, front = cleaned[number].text, "".join(cleaned[number].openings)
        whole = re.sub(r"\s|(?<=\n)\d\.", "", raw)
        assert whole.endswith(text) and len(front) + len(text) >= len(whole) - 1, number
    assert cleaned["46"].text.startswith("一位老人，他幽默地将牙刷头戴在鼻子下")
    assert cleaned["78"].text == "安装在杆上或短塔上，立在建筑物旁边人行道上的钟。"


@pytest.mark.thorough
def test_captions_that_people_wrote_pass_nearly_untouched(shared: Callable[[str], Path]) -> None:
    coco = json.loads(shared("captions/coco_captions_val2017.json").read_text("utf-8"))["annotations"][::5]
    before = [" ".join(row["caption"].split()) for row in coco]
    after = [clean_caption(text, "stop", "en", RULES) for text in before]
    changed = [text for text, caption in zip(before, after, strict=True) if text != caption.text and not caption.reason]
    assert 0 < len(changed) < 0.015 * len(before)
    assert all(re.match(r"(?i).{0,24}\b(image|picture|photo|photograph) |(we see|yes), ?", text) for text in changed)
    reasons = Counter(caption.reason for caption in after)
    assert set(reasons) == {"", "refusal", "talk"}  # “I am unable to see an image above.”, “Strike a pose, you hunky …”
    assert reasons["talk"] <= 0.001 * len(before)
    written = shared("captions/flickr8k_test_zh_written.txt").read_text("utf-8").splitlines()
    texts = [line.split(" ", 1)[1] for line in written]
    assert [text for text in texts if clean_caption(text, "stop", "zh", RULES) != CleanedCaption(text)] == []
