"""What a served model leaves in its text: reasoning, further turns, marks of regions. The answer alone is read."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querytruth.backends.models.reply_envelope import ReplyAnswer, read_answer, read_labelled_answer, strip_regions

CAPTION = "A black cat lies on a wooden windowsill"


@pytest.mark.parametrize(
    "reply",
    [
        "<think>\nThe user wants one sentence.\n</think>\n\n{}",
        "The user wants one sentence.\n</think>\n\n{}",
        "<thinking>hm</thinking>{}",
        "<Reasoning>hm</Reasoning><Answer>{}</Answer>",
        "<think>hm <answer>{}</answer>",
        "[THINK]The user wants one sentence.[/THINK]{}",
        "◁think▷The user wants one sentence.◁/think▷{}",
        "<seed:think>The user wants one sentence.</seed:think>{}",
        "＜think＞hm＜/think＞{}",
        "【思考】用户想要一句话【/思考】{}",
        "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>",
        "<|begin_of_thought|>hm<|end_of_thought|>\n<|begin_of_solution|>{}<|end_of_solution|>",
        "<|channel|>analysis<|message|>We describe it.<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
        "<|channel>thought\nThe user wants one sentence.\n<channel|>{}",
        "analysisThe user wants one sentence.assistantfinal{}",
        "<unused94>thought\nThe user wants one sentence.<unused95>{}",
        "<SUMMARY>plan</SUMMARY><CAPTION>a cat</CAPTION><REASONING>hm</REASONING><CONCLUSION>{}</CONCLUSION>",
        "<|im_start|>think\nhm<|im_end|><|im_start|>answer\n{}<|im_end|>",
        "<|im_start|>assistant\n{}<|im_end|>\n<|im_start|>user\nshorter<|im_end|>",
        "<start_of_turn>model\n{}<end_of_turn>\n<start_of_turn>user\nshorter",
        "<|start_header_id|>assistant<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nmore",
        "[INST] describe [/INST] {}</s>[INST] shorter [/INST] A cat",
        "<|user|>\ndescribe<|assistant|>\n<think>hm</think>{}<|user|>",
        "<｜User｜>describe<｜Assistant｜>{}<｜end▁of▁sentence｜>",
        "<|turn>model\n{}<turn|>\n<|turn>user\nmore",
        "{}\n\nUSER: make it shorter\nASSISTANT: A cat.",
        "{}\n### Human: thanks\n### Assistant: welcome",
        "{}\n**User:** more",
        "{}\nuser\nmore",
        "{}\n用户：再短一点\n助手：一只猫",
        "ASSISTANT: {}",
        "User: describe it\nAssistant: {}",
    ],
)
def test_of_every_family_of_models_the_answer_alone_is_read(reply: str) -> None:
    found = read_answer(reply.replace("{}", CAPTION))
    assert (found.text.strip(), found.is_only_reasoning) == (CAPTION, False)


@pytest.mark.parametrize(
    "reply",
    [
        "<think>The user wants one sentence. There is a",
        "<think>a cat</think>",
        "[THINK]There is a cat",
        "◁think▷There is a cat",
        "<|channel|>analysis<|message|>We need to describe",
        "analysisWe need to describe",
        "<|channel>thought\nThere is a cat",
    ],
)
def test_a_reply_that_was_cut_in_its_reasoning_has_no_answer(reply: str) -> None:
    assert read_answer(reply) == ReplyAnswer("", True)


@pytest.mark.parametrize(
    "reply",
    [
        "**Reasoning:** it is a cat.\n\n**Answer:** {}",
        "### Thinking process\n1. A cat.\n2. A sill.\n### Final caption\n{}",
        "Here is my thought process:\nThe image shows a cat.\n\nHere is my response:\n{}",
        "**思考过程：**\n图里有猫。\n\n**最终答案：**\n{}",
        "思考：图里有猫。答案：{}",
        "【分析】\n图里有猫\n【结论】\n{}",
        "Reasoning: it is a cat. Answer: {}",
        "The image shows a cat at a window.\n\nCaption: {}",
        "{}\n\nExplanation: I named the animal first.",
        "{}\n\nNote: I kept it within 25 words.",
    ],
)
def test_labels_tell_reasoning_from_the_answer(reply: str) -> None:
    assert read_labelled_answer(reply.replace("{}", CAPTION)).text.strip() == CAPTION


@pytest.mark.parametrize(
    "reply", ["Thinking Process:\n\n1. **Analyze the image:** a cat", "思考过程：图里有猫，在窗台上"]
)
def test_labelled_reasoning_alone_is_no_answer(reply: str) -> None:
    assert read_labelled_answer(reply) == ReplyAnswer("", True)


@pytest.mark.parametrize(
    "text",
    [
        "A person thinking: a statue in a park",
        "Two students analyze results on a chart",
        "白板上写着答案：四十二",
        "一名学生正在分析数据：图表",
        "A store with an [OPEN] sign",
        "A clock at 10:30 (left) and a sign",
        "A man in thought\nbeside a river",
        "A user interface with three buttons",
    ],
)
def test_the_same_words_are_content_where_they_are_no_marks(text: str) -> None:
    assert read_labelled_answer(read_answer(text).text) == ReplyAnswer(text)
    assert strip_regions(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "<ref>一只猫</ref><box>(12,30),(500,700)</box>趴在<ref>窗台</ref><box>(0,6),(9,9)</box>上",
            "一只猫趴在窗台上",
        ),
        ("<|object_ref_start|>一盘<|object_ref_end|><|box_start|>(120,80),(640,500)<|box_end|>放着", "一盘放着"),
        ("A red car [120, 340, 480, 620] and two tents [500, 300, 700, 580].", "A red car and two tents."),
        ("<ref>一位老人</ref><box>[[88, 120, 430, 910]]</box>在看报", "一位老人在看报"),
        ("<p>行人</p>{<23><45><67><89>}撑着伞", "行人撑着伞"),
        ("A dog<loc_52><loc_332><loc_7><loc_9> runs", "A dog runs"),
        ("<phrase>A cat</phrase><object><patch_index_0044><patch_index_0863></object> sits.", "A cat sits."),
        ("<|ref|>a cat<|/ref|><|det|>[[1, 2, 3, 4]]<|/det|> sits", "a cat sits"),
        ('<point x="10.5" y="20" alt="cat">a cat</point> sits', "a cat sits"),
        ("a cat (x1=0.12, y1=0.3, x2=0.5, y2=0.7) sits", "a cat sits"),
        ("cat <quad>(1,2),(3,4),(5,6),(7,8)</quad>on a mat", "cat on a mat"),
    ],
)
def test_coordinates_go_and_the_words_that_they_tie_to_a_region_stay(text: str, words: str) -> None:
    assert strip_regions(text) == words


def test_numbers_in_brackets_that_are_no_coordinates_stay() -> None:
    for text in ("Players with the numbers (23, 45)", "A poster (1998) of a film", "Three boats (2 of them red)"):
        assert strip_regions(text) == text


PIECES = [
    *("<think>", "</think>", "<|im_start|>", "user:", "<box>", "(1,2)", "[1,", "＜", "◁", "/", "▷", "<|channel|>"),
    *("final", "思考：", "答案：", "\n", "A", "猫", "。", "|", ">", "【", "】"),
]


@given(st.lists(st.sampled_from([*PIECES, " "]), max_size=24).map("".join))
def test_every_answer_is_a_part_of_its_reply(reply: str) -> None:
    answer = read_answer(reply).text
    assert set(answer) <= set(reply) and len(answer) <= len(reply)
    assert len(strip_regions(answer)) <= len(answer)
    read_labelled_answer(reply)


@pytest.mark.parametrize("piece", [*PIECES, "[1, 2  ", "的", "the ", "<|a", "( 1", "\n> user"])
def test_the_time_grows_with_the_length_and_no_faster(piece: str) -> None:
    begin = time.process_time()
    reply = (piece or " ") * (20_000 // max(len(piece), 1))
    strip_regions(read_labelled_answer(read_answer(reply).text).text)
    assert time.process_time() - begin < 2
