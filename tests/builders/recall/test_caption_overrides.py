"""Which of people's words on captions count, whatever their order."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.recall.caption_rules import select_caption_overrides
from querytruth.sets.decision_records import Override, latest_by_target

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
