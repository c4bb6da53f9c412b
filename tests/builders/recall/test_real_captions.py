"""Cleaning on what models and people wrote of real images."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import prompts
from builders.recall.caption_cleaning import CleanedCaption, clean_caption
from builders.recall.caption_rules import parse_cleaning_rules

RULES = parse_cleaning_rules(
    {language: prompts.load_template(f"{language}/cleaning.yaml").text for language in ("zh", "en")}
)

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
