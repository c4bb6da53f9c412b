"""The pools of the second stage: what joins, what is rejected and why, when a topic stops, and the journal's fold."""

import re
from collections.abc import Sequence

import numpy as np
import pytest

from builders.generated.generation_journal import ReplyRecord, ReplyRow
from builders.generated.object_pools import NoveltyFilter, NoveltyVerdict, ObjectPools, ParsedReply
from builders.generated.reply_grammar import ParsedAnswer
from builders.generated.row_rules import RowRules
from querytruth.array_types import Vectors
from querytruth.backends.models import nearest_neighbours
from querytruth.backends.models.embedders import char_ngrams

RULES = RowRules("zh", 10, "图片素材", re.compile("我无法"))
CHOSEN = {"食物": ["饺子", "汉堡"], "动物": ["狮子", "汉堡"]}
ENCODE = char_ngrams.CharNgramEmbedder().encode_texts


def pools_of(chosen: dict[str, list[str]] = CHOSEN, cut: float = 0.6) -> ObjectPools:
    return ObjectPools(chosen, NoveltyFilter(ENCODE, cut))


def hear(
    pools: ObjectPools, replies: dict[str, tuple[str, ...]], shown: frozenset[str] = frozenset()
) -> list[ReplyRecord]:
    going = [pool for pool in pools.pools.values() if pool.topic in replies]
    told = [ParsedReply(pool.topic, ParsedAnswer("", replies[pool.topic]), shown) for pool in going]
    judged = pools.classify_rows(told, RULES)
    wave = [
        ReplyRecord(pool.rounds + 1, pool.topic, "key", "stop", 1, rows)
        for pool, rows in zip(going, judged, strict=True)
    ]
    pools.add(wave)
    return wave


def reasons(heard: ReplyRecord) -> list[str]:
    return [row.reason for row in heard.rows]


def test_topics_and_people_s_objects_stand_in_canonical_order_each_object_under_one_topic() -> None:
    pools = pools_of({"食物": ["汉堡", "饺子"], "动物": ["狮子", "汉堡"]})
    assert [(p.topic, p.human_objects) for p in pools.pools.values()] == [
        ("动物", ["汉堡", "狮子"]),
        ("食物", ["饺子"]),
    ]
    assert pools.duplicate_rows == [ReplyRow("食物", "汉堡", "known")]


def test_each_row_has_its_reason() -> None:
    pools = pools_of()
    said = ("烤鸭", "烤鸭", "饺子", "汉堡", "食物", "图片", "a，b", "北京烤鸭店")
    food = hear(pools, {"食物": said}, shown=frozenset({"汉堡"}))[0]
    assert reasons(food) == [
        "",
        "repeated",
        "known",
        "in_prompt",
        "word_of_prompt",
        "word_of_prompt",
        "bad_characters",
        "",
    ]
    again = hear(pools, {"食物": ("烤鸭", "北京烤鸭店铺")})[0]
    assert reasons(again) == ["known", "too_similar"]
    assert again.rows[1].nearest == "北京烤鸭店" and (again.rows[1].score or 0) > 6000


def test_a_row_is_compared_with_the_objects_of_all_topics_and_of_the_same_wave() -> None:
    pools = pools_of()
    animals, food = hear(pools, {"动物": ("北京烤鸭店", "老虎"), "食物": ("北京烤鸭店铺", "老虎")})
    assert [animals.topic, food.topic] == ["动物", "食物"]
    assert reasons(animals) == ["", ""]
    assert reasons(food) == ["too_similar", "repeated"]


def test_what_was_too_similar_once_is_not_compared_again() -> None:
    compared: list[str] = []

    def encode(texts: list[str]) -> object:
        compared.extend(texts)
        return ENCODE(texts)

    pools = ObjectPools({"食物": ["北京烤鸭店"]}, NoveltyFilter(encode, 0.6))  # type: ignore[arg-type]
    first = hear(pools, {"食物": ("北京烤鸭店铺",)})
    second = hear(pools, {"食物": ("北京烤鸭店铺",)})
    assert first[0].rows == second[0].rows
    assert compared.count("北京烤鸭店铺") == 1


def test_a_topic_stops_at_its_limit_or_after_barren_rounds_in_a_row_and_a_new_object_starts_the_count_anew() -> None:
    pools = pools_of()
    for number in range(1, 4):
        hear(pools, {"食物": (), "动物": ("饺子",) if number != 2 else ("老虎",)})
    animals, food = pools.pools.values()
    assert (animals.rounds, animals.barren_rounds, food.rounds, food.barren_rounds) == (3, 1, 3, 3)
    assert [pool.topic for pool in pools.active_pools(max_rounds=50, max_barren_rounds=3)] == ["动物"]
    assert food.stop_reason(max_rounds=50, max_barren_rounds=3) == "barren"
    assert food.stop_reason(max_rounds=3, max_barren_rounds=10) == "round_limit"
    assert food.stop_reason(max_rounds=50, max_barren_rounds=10) == ""


def test_the_item_in_which_a_reply_was_cut_is_kept_as_such() -> None:
    pools = pools_of()
    rows = pools.classify_rows([ParsedReply("食物", ParsedAnswer("", ("包子",), "馒"), frozenset())], RULES)[0]
    assert [(row.text, row.reason) for row in rows] == [("包子", ""), ("馒", "cut_off")]


def test_after_a_replay_rows_are_compared_with_what_the_model_found_before() -> None:
    live = pools_of()
    wave = hear(live, {"食物": ("北京烤鸭店",)})
    again = pools_of()
    again.replay([wave])
    assert hear(again, {"动物": ("北京烤鸭店铺",)})[0].rows[0].reason == "too_similar"


ANGLES = {
    "north": 0,
    "north too": 0,
    "nearly north": 30,
    "between": 22.5,
    "north east": 45,
    "east": 90,
    "far east": 93,
    "south": 180,
}


def compass(texts: Sequence[str]) -> Vectors:
    """Directions in a plane: a similarity is the cosine of the angle between."""
    angles = np.radians([ANGLES[text] for text in texts])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("threshold", "verdict"),
    [
        (0.866, NoveltyVerdict(True, 8660, "north")),
        (0.8659, NoveltyVerdict(False, 8660, "north")),
        (0.9, NoveltyVerdict(True)),  # 0.034 below is not near
        (0.89, NoveltyVerdict(True, 8660, "north")),
    ],
)
def test_the_cut_itself_still_passes_and_is_flagged_as_near(threshold: float, verdict: NoveltyVerdict) -> None:
    assert NoveltyFilter(compass, threshold).classify(["north", "nearly north"])[1] == verdict


def test_of_equals_the_oldest_is_named() -> None:
    novelty = NoveltyFilter(compass, threshold=0.85)
    novelty.add(["south", "north", "north too"])
    assert novelty.classify(["nearly north"]) == [NoveltyVerdict(False, 8660, "north")]


def test_of_the_pool_and_the_batch_the_pool_is_the_older() -> None:
    novelty = NoveltyFilter(compass, threshold=0.92)
    novelty.add(["north"])
    assert novelty.classify(["north east", "between"]) == [NoveltyVerdict(True), NoveltyVerdict(False, 9239, "north")]


def test_nothing_is_encoded_before_a_question_and_each_text_once() -> None:
    encoded: list[str] = []

    def encode(texts: Sequence[str]) -> Vectors:
        encoded.extend(texts)
        return compass(texts)

    novelty = NoveltyFilter(encode, threshold=0.85)
    novelty.add(["north"])
    novelty.add(["south"])
    assert not encoded and novelty.classify([]) == [] and not encoded
    novelty.classify(["east"])
    novelty.classify(["nearly north"])
    assert encoded == ["north", "south", "east", "nearly north"]


def crowd(count: int, dimensions: int = 24, seed: int = 0) -> dict[str, Vectors]:
    """Rows of length one, many of them close to each other, with noise of single precision."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(count // 6, 1), dimensions))
    rows = centres[rng.integers(0, len(centres), count)] + rng.standard_normal((count, dimensions)) * 0.25
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return {f"text {number}": row for number, row in enumerate(rows)}


@pytest.mark.parametrize("block", [1, 700, 1 << 24])
@pytest.mark.parametrize("batch", [1, 5, 300])
def test_neither_batches_nor_blocks_change_a_verdict(block: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = crowd(300)

    def verdicts(block: int, batch: int) -> list[NoveltyVerdict]:
        monkeypatch.setattr(nearest_neighbours, "_PRODUCTS_PER_BLOCK", block)
        novelty = NoveltyFilter(lambda texts: np.stack([rows[text] for text in texts]), 0.85)
        texts = list(rows)
        novelty.add(texts[:50])
        return [v for at in range(50, 300, batch) for v in novelty.classify(texts[at : at + batch])]

    expected = verdicts(5000, 17)
    assert verdicts(block, batch) == expected
    assert 20 < sum(verdict.is_new for verdict in expected) < 230


def test_the_verdicts_are_those_of_comparing_all_with_all() -> None:
    rows = crowd(200, seed=3)
    found = NoveltyFilter(lambda texts: np.stack([rows[text] for text in texts]), 0.8).classify(list(rows))
    kept: list[str] = []
    for text, verdict in zip(rows, found, strict=True):
        scores = [round(float(rows[text].astype(float) @ rows[other].astype(float)) * 10_000) for other in kept]
        best = max(scores, default=-10_000)
        assert verdict.is_new == (best <= 8000)
        if best > 7700:
            assert (verdict.score, verdict.nearest) == (best, kept[scores.index(best)])
        else:
            assert (verdict.score, verdict.nearest) == (None, "")
        kept += [text] if verdict.is_new else []
