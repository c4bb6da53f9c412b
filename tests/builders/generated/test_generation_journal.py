"""What a journal holds: every row with its reason, and nothing read that is no wave."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.generated.generation_journal import (
    ReplyRecord,
    ReplyRow,
    count_outcomes,
    format_wave,
    parse_wave,
    record_in_ledger,
)
from querytruth.sets.ledger import Ledger

TEXTS = st.text(st.characters(categories=None), max_size=8)
ROWS = st.builds(ReplyRow, TEXTS, TEXTS, TEXTS, TEXTS, st.none() | st.integers(-10_000, 10_000), TEXTS)
HEARD = st.builds(
    ReplyRecord, st.integers(1, 99), TEXTS, TEXTS, TEXTS, st.integers(0, 9999), st.lists(ROWS, max_size=4).map(tuple)
)

WAVES = [
    [
        ReplyRecord(
            1,
            "食物",
            "a1",
            "stop",
            40,
            (ReplyRow("食物", "烤鸭"), ReplyRow("食物", "鸭", "too_similar", "", 8700, "烤鸭")),
        ),
        ReplyRecord(1, "动物", "b2", "content_filter", 0),
    ],
    [
        ReplyRecord(2, "食物", "c3", "length", 40, (ReplyRow("食物", "包", "cut_off"),)),
        ReplyRecord(2, "动物", "d4", "stop", 9),
    ],
]


@given(st.lists(HEARD, max_size=4))
def test_a_line_gives_its_wave_back_half_characters_and_all(wave: list[ReplyRecord]) -> None:
    line = format_wave(wave)
    assert line.isascii() and "\n" not in line
    assert parse_wave(line) == wave


@pytest.mark.parametrize(
    "line",
    [
        *("", "{", "null", "1", "[1]", "[" * 100_000),
        *('[{"round": 1}]', '[{"round":"1","tokens":1}]', '[{"round":true,"tokens":1}]'),
        '[{"round":1,"tokens":1,"rows":[{"txt":"a"}]}]',
        '[{"round":1,"tokens":1,"rows":[{"score":1.5}]}]',
    ],
)
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        parse_wave(line)


def test_all_replies_and_all_rows_are_booked_with_their_reasons() -> None:
    ledger = Ledger()
    record_in_ledger(ledger, "objects", WAVES)
    replies, rows = ledger.stages
    assert (replies.stage, replies.entered, replies.accepted) == ("objects_replies", 4, 2)
    assert replies.rejected == {"content_filter": 1, "nothing_listed": 1}
    assert (rows.stage, rows.entered, rows.accepted) == ("objects_rows", 3, 1)
    assert rows.rejected == {"cut_off": 1, "too_similar": 1}
    rows_of_ledger = ledger.rows()
    assert ("烤鸭", 0.87) in set(zip(rows_of_ledger["related_item"], rows_of_ledger["value"], strict=True))


def test_rows_are_counted_by_what_became_of_them() -> None:
    assert count_outcomes(WAVES) == {"accepted": 1, "cut_off": 1, "too_similar": 1}
    assert len(json.loads(format_wave(WAVES[1]))) == 2
