"""Texts that still hold what was to be taken out of them are told from those that read like something said."""

import pytest

from querytruth.sets.query_texts import find_text_residue


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
