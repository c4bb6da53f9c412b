"""A text that was read in a wrong encoding is found by reading it again; rare characters and other languages pass."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from querytruth.sets.query_texts import is_broken

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
