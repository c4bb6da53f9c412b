"""Texts of queries: broken encodings, spelling, what was left in them, and which of them ask the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders.generated.row_rules import normalize_text
from querytruth.sets.query_texts import (
    describe_code_points,
    find_alike_names,
    find_joined_names,
    find_text_residue,
    group_equivalent_queries,
    is_broken,
    join_spellings,
)
from tests.review.recall_sets import queries_table

CAPTIONS = [
    "红色的汽车停在路边",
    "两只猫在沙发上睡觉",
    "窗外下着大雨，街上没有人。",
    "一个穿蓝色衬衫的金发女人似乎要搭车。",
]
READINGS = [  # written in, read in
    *[("utf-8", wrong) for wrong in ("latin-1", "mac_roman", "cp437", "gb18030", "big5", "shift_jis", "euc_kr")],
    *[("gb18030", wrong) for wrong in ("latin-1", "mac_roman", "utf-8")],
    *[("big5", wrong) for wrong in ("latin-1", "gb18030")],
]


@pytest.mark.parametrize("caption", CAPTIONS)
@pytest.mark.parametrize(("written", "read"), READINGS)
def test_a_text_that_was_read_in_another_encoding_is_broken(caption: str, written: str, read: str) -> None:
    assert is_broken(caption.encode(written, "ignore").decode(read, "replace"))


@pytest.mark.parametrize("caption", CAPTIONS)
def test_a_text_that_was_misread_twice_is_broken(caption: str) -> None:
    once = caption.encode().decode("latin-1")
    assert is_broken(once.encode().decode("latin-1"))
    assert is_broken(caption.encode("gb18030").decode("utf-8", "replace").encode().decode("gb18030", "replace"))


@pytest.mark.parametrize(
    "text",
    [
        "锟斤拷锟斤拷",
        "一只猫锟斤拷锟斤拷在沙发上",
        "烫烫烫烫",
        "屯屯屯",
        "绐楀栦笅鐫澶ч洦",
        "çº¢è‰²çš„æ±½è½¦åœåœ¨è·¯è¾¹",
        "don\u00e2\u20ac\u2122t",
        "a caf\ufffd table",
        "\\u4e00\\u53ea\\u732b",
        "%E4%B8%80%E5%8F%AA%E7%8C%AB",
        "a private \ue001 sign",
    ],
)
def test_lost_characters_and_escapes_are_broken(text: str) -> None:
    assert is_broken(text)


@pytest.mark.parametrize(
    "text",
    [
        "饕餮纹青铜鼎",
        "魑魅魍魉的面具",
        "𠮷野家门口",
        "鼋头渚的樱花",
        "爨底下村",
        "一隻貓趴在窗臺上",
        "囍字剪纸",
        "气球飘在空中🎈",
        "両手を上げる",
        "한국어 간판",
        "Москва река",
        "смешной кот",
        "árvíztűrő tükörfúrógép",
        "Zażółć gęślą jaźń",
        "a café in Straße 5",
        "naïve façade",
        "Ελληνικά γράμματα",
        "½ cup at 5°C, €20 ©2020",
        "50% off %20 words",
    ],
)
def test_rare_characters_and_other_languages_are_whole(text: str) -> None:
    assert not is_broken(text)


@pytest.mark.thorough
def test_no_real_caption_is_broken(shared: Callable[[str], Path]) -> None:
    texts = [
        line.split(" ", 1)[1]
        for name in ("zh_written", "zh_human_translation", "en")
        for line in shared(f"captions/flickr8k_test_{name}.txt").read_text("utf-8").splitlines()
        if " " in line
    ]
    rows = shared("captions/coco_val2014_80_captions_boxes_zh.jsonl").read_text("utf-8").splitlines()
    texts += [caption for row in rows for caption in json.loads(row)["captions"]]
    texts += [json.loads(row)["text"] for row in shared("llm_transcripts/vlm_zh_gpt4_answers.jsonl").open("rb")]
    assert len(texts) > 14_000 and [text for text in texts if is_broken(text)] == []


def groups(rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    return set(group_equivalent_queries(queries_table(rows)).values())


def test_languages_styles_and_wordings_of_the_same_labels_ask_the_same_chinese_first() -> None:
    rows = [
        {"query_id": "q_1", "text": "dog", "language": "en", "style": "word", "labels": ["dog"]},
        {"query_id": "q_2", "text": "一张狗的图片", "style": "sentence", "labels": ["dog"]},
        {"query_id": "q_3", "text": "狗", "style": "word", "labels": ["dog"]},
        {"query_id": "q_4", "text": "狗&猫", "style": "word", "labels": ["dog", "cat"]},
        {"query_id": "q_5", "text": "cat and dog", "language": "en", "labels": ["cat", "dog"]},
    ]
    assert groups(rows) == {("q_3", "q_2", "q_1"), ("q_4", "q_5")}


def test_captions_of_one_image_in_one_style_ask_the_same() -> None:
    rows = [
        {"query_id": "q_1", "text": "Three dogs", "language": "en", "source_image_id": "img_dog"},
        {"query_id": "q_2", "text": "狗 沙滩", "style": "keywords", "source_image_id": "img_dog"},
        {"query_id": "q_3", "text": "三只狗在沙滩", "source_image_id": "img_dog"},
        {"query_id": "q_4", "text": "三只狗在沙滩", "source_image_id": "img_other"},
    ]
    assert groups(rows) == {("q_3", "q_1"), ("q_2",), ("q_4",)}


def test_an_object_of_two_topics_is_asked_for_twice() -> None:
    rows = [
        {"query_id": "q_1", "text": "Cup", "topic": "kitchen"},
        {"query_id": "q_2", "text": "cup ", "topic": "kitchen"},
        {"query_id": "q_3", "text": "cup", "topic": "sports"},
    ]
    assert groups(rows) == {("q_1", "q_2"), ("q_3",)}


def test_a_query_of_which_nothing_is_known_asks_for_itself() -> None:
    rows = [{"query_id": "q_1", "text": "a", "labels": []}, {"query_id": "q_2", "text": "a"}]
    assert groups(rows) == {("q_1",), ("q_2",)}
    bare = queries_table(rows).drop(columns=["labels", "topic", "source_image_id"])
    assert group_equivalent_queries(bare) == {"q_1": ("q_1",), "q_2": ("q_2",)}
    assert group_equivalent_queries(pd.DataFrame(columns=bare.columns)) == {}


@pytest.mark.parametrize(
    "other",
    [
        "cafe\u0301 bar",
        "café  bar",
        "café\u00a0bar",
        "\ufeffcafé bar ",
        "ca\u200bfé bar",
        "cafe\u200d\u0301 bar",
        "café\u3000bar",
    ],
)
def test_the_same_text_in_another_spelling_is_joined(other: str) -> None:
    assert join_spellings(other) == "café bar"
    assert find_joined_names(["café bar", other, "tea"]) == {"café bar": "café bar", other: "café bar"}
    assert normalize_text(other) == normalize_text("café bar")


def test_a_name_of_its_own_stays_as_it_is() -> None:
    assert find_joined_names(["Wild Bird ", "cafe\u0301", "Dog", "dog"]) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cat", "сat"),
        ("OPERA", "ΟPERA"),
        ("ＴＶ", "TV"),
        ("part IV", "part Ⅳ"),
        ("Сat", "cat"),
        ("face", "fаcе"),
    ],
)
def test_names_that_look_the_same_are_found_in_either_order(one: str, other: str) -> None:
    for names in ([one, "dog", other], [other, "dog", one]):
        found = find_alike_names(names)
        assert found is not None and set(found) == {one, other}


def test_names_that_differ_to_the_eye_are_not() -> None:
    assert find_alike_names(["cat", "кот", "Dog", "dog", "dogs", "狗", "T恤", "cafe", "café", "cafe\u0301"]) is None


def test_the_code_points_are_those_that_the_other_does_not_have() -> None:
    assert describe_code_points("сat", "cat") == "U+0441 CYRILLIC SMALL LETTER ES"
    assert describe_code_points("cafe\u0301", "café") == "U+0065 LATIN SMALL LETTER E, U+0301 COMBINING ACUTE ACCENT"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("一个:m 小:a 男孩:n 在:p 草地:n 上:f 奔跑:v", "tags_of_words"),
        ("两/m 只/q 狗/n 在/p 雪地/n 里/f", "tags_of_words"),
        ("a_DT dog_NN runs_VBZ on_IN grass_NN", "tags_of_words"),
        ("a dog &amp; a cat", "markup"),
        ("<b>a dog</b> on grass", "markup"),
        ("a <unk> on a bench", "placeholder"),
        ("a [UNK] dog", "placeholder"),
        ("a photo of {}", "placeholder"),
        ("3. a dog runs", "number_of_a_list"),
        ("2、一只狗", "number_of_a_list"),
        ("(1) a dog runs", "number_of_a_list"),
        ("#4 a dog", "number_of_a_list"),
        ("a caf\N{REPLACEMENT CHARACTER} table", "broken_encoding"),
        ("a cafÃ© table", "broken_encoding"),
        ("一个 男孩 在 草地 上 奔跑", "spaces_between_words"),
        *(
            (text, "empty_value")
            for text in ("null", "None", "NaN", "N/A", "undefined", "[]", "{ }", '""', "nil", "#REF!")
        ),
        *(
            (text, "empty_value")
            for text in ("#DIV/0!", "无", "暂无描述", "---", "？？", "[object Object]", "(null)", "...")
        ),
        ("a dog!!!!!!!!!!", "repeated_marks"),
    ],
)
def test_residue_is_told_by_its_kind(text: str, kind: str) -> None:
    assert find_text_residue(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "A train leaves at 9:30 am",
        "a man and/or a woman",
        "2 dogs run",
        "3.5 litres of milk",
        "10 a.m., a quiet street",
        "两只狗在雪地里",
        "红色 汽车",
        "iPhone 手机 放在 a wooden table",
        "R&D office: a desk",
        "3 < 4 on a blackboard",
        "a café in Straße 5",
        "ratio 1:2 and 16:9",
        "men and/or women, his/her dogs",
        "a man with no hat",
        "an empty street",
        "无人的街道",
        "nan bread on a plate",
        "what?!",
        "",
    ],
)
def test_what_people_write_is_no_residue(text: str) -> None:
    assert find_text_residue(text) is None
