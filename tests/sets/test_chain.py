"""The chain of a log: whatever is done to its lines by hand or by a bad disk is named."""

import json

from querytruth.sets.decision_log import CHAIN_START, chain_lines, find_chain_breaks, split_chain

LINES = [json.dumps({"text": f'{n}, "chain": "{"0" * 32}"}}'}) for n in range(8)]
CHAINED = chain_lines(LINES, CHAIN_START)


def broken(lines: list[str]) -> list[int]:
    return [number for number, _ in find_chain_breaks(lines)]


def test_a_log_that_nobody_touched_is_whole_and_holds_what_was_written() -> None:
    assert not broken(CHAINED) and not broken([])
    assert [split_chain(line)[0] for line in CHAINED] == LINES
    assert all(
        json.loads(line)["text"] == json.loads(plain)["text"] for line, plain in zip(CHAINED, LINES, strict=True)
    )
    again = chain_lines(LINES[3:], split_chain(CHAINED[2])[1])
    assert CHAINED[:3] + again == CHAINED, "a later session continues it"


def test_each_flipped_bit_of_each_line_is_named() -> None:
    for number, line in enumerate(CHAINED, start=1):
        for place in range(0, len(line), 3):
            flipped = line[:place] + chr(ord(line[place]) ^ 1) + line[place + 1 :]
            problems = broken([*CHAINED[: number - 1], flipped, *CHAINED[number:]])
            assert number in problems


def test_lines_that_are_deleted_moved_doubled_or_added_are_named() -> None:
    for n in range(len(CHAINED) - 1):
        assert n + 1 in broken(CHAINED[:n] + CHAINED[n + 1 :])
        assert broken([*CHAINED[:n], CHAINED[n + 1], CHAINED[n], *CHAINED[n + 2 :]])
    assert broken([*CHAINED[:3], CHAINED[2], *CHAINED[3:]]) == [4]
    assert broken([*CHAINED[:3], LINES[0], *CHAINED[3:]]) == [4]


def test_a_log_whose_chains_were_taken_out_is_named_line_by_line() -> None:
    assert broken(LINES) == list(range(1, 9))
