"""Groups follow people's words: a partition, the words win, nothing else moves, and order does not matter."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.gallery.duplicate_overrides import UNTIED_DISTANCE, OverriddenGroups, apply_duplicate_overrides
from builders.gallery.near_duplicates import DuplicateGroups, find_duplicates
from querytruth.records import to_arrow
from querytruth.sets.decision_records import ImagePairDecision
from tests.drawn_views import frame_of, image_row


def word(decision: str, one: str, other: str) -> ImagePairDecision:
    return ImagePairDecision((min(one, other), max(one, other)), decision)


same, different = partial(word, "same"), partial(word, "different")


def grouped(
    places: dict[str, int], words: list[ImagePairDecision], reach: int = 2
) -> tuple[set[str], OverriddenGroups]:
    """Images on a line, tied where they are at most `reach` apart; the groups as words such as 'ab'."""
    names, line = list(places), np.array(list(places.values()), dtype=np.int64)
    before = np.arange(len(names), dtype=np.int64)
    for row in range(len(names)):
        for other in range(len(names)):
            if abs(line[row] - line[other]) <= reach:
                before[before == before[other]] = before[row]
    firsts = {int(name): int(np.flatnonzero(before == name)[0]) for name in set(before.tolist())}
    before = np.array([firsts[int(name)] for name in before], dtype=np.int64)

    def apart(ones: np.ndarray, others: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        far = np.abs(line[ones] - line[others])
        return np.where(far <= reach, far, far + UNTIED_DISTANCE)

    found = apply_duplicate_overrides(before, pd.Series(names, dtype="str"), words, apart)
    rows: dict[int, list[str]] = {}
    for name, group in zip(names, found.group.tolist(), strict=True):
        rows.setdefault(group, []).append(name)
    return {"".join(sorted(group)) for group in rows.values()}, found


LINE = {"a": 0, "b": 1, "c": 2, "x": 50, "y": 51}


def test_two_that_were_told_apart_part_and_the_third_goes_with_the_nearer_one() -> None:
    assert grouped({"a": 0, "b": 3, "c": 2}, [different("a", "b")])[0] == {"a", "bc"}
    assert grouped({"a": 0, "b": 3, "c": 1}, [different("a", "b")])[0] == {"ac", "b"}
    assert grouped({"a": 0, "b": 2, "c": 1}, [different("a", "b")])[0] == {"ac", "b"}, "as near to both: the smaller id"


def test_same_joins_whole_groups_and_what_was_told_apart_stays_apart() -> None:
    assert grouped(LINE, [same("a", "x")])[0] == {"abcxy"}
    assert grouped(LINE, [same("a", "x"), different("a", "y")])[0] == {"abcx", "y"}
    assert grouped(LINE, [same("b", "c"), different("a", "b")])[0] == {"a", "bc", "xy"}


def test_those_that_nobody_told_apart_from_each_other_stay_together_where_a_tie_leads() -> None:
    assert grouped({"a": 0, "b": 1, "c": 2}, [different("a", "b"), different("b", "c")])[0] == {"ac", "b"}
    assert grouped({"a": 0, "b": 2, "c": 4}, [different("a", "b"), different("b", "c")])[0] == {"a", "b", "c"}


def test_words_that_contradict_each_other_tell_apart_and_are_named() -> None:
    groups, found = grouped(LINE, [same("a", "b"), same("b", "c"), different("a", "c")])
    assert groups == {"ab", "c", "xy"}
    ((refused, why),) = found.outcome.stale
    assert refused == same("b", "c") and "decided to be different" in why
    assert found.outcome.in_effect == sorted([same("a", "b").decision_id, different("a", "c").decision_id])


def test_a_contradiction_is_seen_through_larger_blocks() -> None:
    words = [same("a", "b"), same("a", "z"), same("d", "e"), same("e", "z"), different("a", "e")]
    groups, found = grouped({name: 100 * number for number, name in enumerate("abdez")}, words)
    assert groups == {"abz", "de"} and [one for one, _ in found.outcome.stale] == [same("e", "z")]


def test_a_word_on_an_image_that_is_gone_is_stale_and_changes_nothing() -> None:
    groups, found = grouped(LINE, [different("a", "gone")])
    assert groups == {"abc", "xy"} and not found.outcome.in_effect
    assert found.outcome.stale[0][0] == different("a", "gone") and "missing" in found.outcome.stale[0][1]


NAMES = "abcdefghij"
PLACES = st.lists(st.integers(0, 25), min_size=2, max_size=len(NAMES))
WORDS = st.lists(st.tuples(st.sampled_from(["same", "different"]), st.sampled_from(NAMES), st.sampled_from(NAMES)))


@settings(max_examples=300)
@given(places=PLACES, said=WORDS, order=st.randoms(use_true_random=False))
@pytest.mark.thorough
def test_the_groups_are_a_partition_that_obeys_the_words_in_whatever_order(places, said, order) -> None:  # type: ignore[no-untyped-def]
    line = dict(zip(NAMES, places, strict=False))
    words = [
        word(decision, *pair) for pair, decision in {(min(a, b), max(a, b)): d for d, a, b in said if a != b}.items()
    ]
    groups, found = grouped(line, words)
    assert sorted("".join(groups)) == sorted(line)
    refused = [one for one, _ in found.outcome.stale]
    for one in words:
        if one in refused:
            continue
        together = any(set(one.images) <= set(group) for group in groups)
        assert together == (one.decision == "same"), one
    assert all(one.decision == "same" or not set(one.images) <= set(line) for one in refused)
    before, _ = grouped(line, [])
    named = {name for one in words for name in one.images}
    assert {group for group in before if not named & set(group)} <= groups, "groups that nobody spoke of stay"
    shuffled = list(line.items())
    order.shuffle(shuffled)
    order.shuffle(words)
    again, _ = grouped(dict(shuffled), words)
    assert again == groups


def test_the_duplicates_table_follows_and_says_what_a_person_joined() -> None:
    rows = [
        image_row("large", phash=0, size=(80, 60)),
        image_row("middle", phash=1, size=(60, 45)),
        image_row("small", phash=3),
        image_row("elsewhere", phash=(1 << 40) - 1),
    ]
    ids = {row["item"]: row["image_id"] for row in rows}

    def found(*words: ImagePairDecision) -> DuplicateGroups:
        return find_duplicates(frame_of(rows), distance=4, decisions=list(words))

    plain = found()
    assert plain.is_kept.tolist() == [True, False, False, True]
    parted = found(different(ids["large"], ids["small"]))
    assert parted.is_kept.tolist() == [True, False, True, True], "a candidate again"
    assert set(parted.table["item"]) == {"large", "middle"} and len(parted.rejections) == 1
    joined = found(same(ids["large"], ids["elsewhere"]))
    to_arrow("duplicates", joined.table)
    ways = dict(zip(joined.table["item"], joined.table["matched_by"], strict=True))
    assert ways["elsewhere"] == "person" and ways["small"] == "views" and pd.isna(ways["large"])
    assert joined.rejections["related_item"].unique().tolist() == ["large"]
    assert joined.table.loc[joined.table["item"] == "elsewhere", "distance"].isna().all()
