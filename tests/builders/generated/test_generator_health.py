"""Health: the seed article's two failures are called by name, and a sound run is left alone."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from builders.generated.generation_journal import ReplyRecord, ReplyRow, Wave
from builders.generated.generator_health import GeneratorHealth, HealthMonitor, count_new_by_round

PEOPLE = {
    "食物": ["饺子", "汉堡", "寿司"],
    "动物": ["大熊猫", "狮子", "金鱼"],
    "交通工具": ["自行车", "高铁", "帆船"],
    "乐器": ["古筝", "小提琴", "唢呐"],
}
STYLES = [f"{first}{second}" for first in "古白石雪" for second in "老色头中边"]
THINGS = [chr(0x6E00 + n) + chr(0x7E00 + n) for n in range(20)]


def waves(texts: Sequence[str], reason: Callable[[int], str] = lambda _number: "") -> list[list[ReplyRecord]]:
    """A reply of five rows about each topic in turn, a wave for every round."""
    topics = list(PEOPLE)
    replies = [texts[at : at + 5] for at in range(0, len(texts), 5)]
    heard = [
        ReplyRecord(
            number // len(topics) + 1,
            topics[number % len(topics)],
            f"key {number}",
            "stop",
            30,
            tuple(
                ReplyRow(topics[number % len(topics)], text, reason(5 * number + at)) for at, text in enumerate(five)
            ),
        )
        for number, five in enumerate(replies)
    ]
    return [heard[at : at + len(topics)] for at in range(0, len(heard), len(topics))]


def health_of(waves: Iterable[Wave], people: Mapping[str, Sequence[str]], language: str) -> GeneratorHealth:
    """The state after these waves."""
    watch = HealthMonitor(people, language)
    for wave in waves:
        watch.add(wave)
    return watch.compute_health()


def codes(health: GeneratorHealth) -> list[str]:
    return [warning.code for warning in health.warnings]


def test_everything_a_church_is_a_collapse_that_names_it() -> None:
    texts = THINGS * 2 + [f"{style}教堂" for style in STYLES] * 6
    health = health_of(waves(texts), PEOPLE, "zh")
    assert codes(health) == ["collapse"]
    assert (health.head, round(health.head_share)) == ("教堂", 1)
    assert "教堂" in health.warnings[0].text and "100%" in health.warnings[0].text


def test_it_is_seen_also_where_the_pools_let_no_church_through() -> None:
    texts = [f"{style}教堂" for style in STYLES] * 6
    health = health_of(waves(texts, lambda number: "too_similar" if number % 9 else ""), PEOPLE, "zh")
    assert codes(health) == ["collapse"]
    same = health_of(waves(["教堂"] * 100, lambda number: "known" if number else ""), PEOPLE, "zh")
    assert codes(same) == ["collapse", "few_new", "poor_topics"]


def test_a_drift_is_seen_though_the_limit_of_length_rejects_it_and_one_topic_has_long_names_by_nature() -> None:
    def grown(number: int) -> str:
        return THINGS[number % 20] + chr(0x4E00 + number) * min(number // 20, 12)

    cut = health_of(waves([grown(n) for n in range(400)], lambda n: "too_long" if n > 60 else ""), PEOPLE, "zh")
    assert "drift" in codes(cut)
    long_names = {**PEOPLE, "乐器": ["管风琴演奏台", "中世纪手摇风琴", "电子合成键盘"]}
    even = [chr(0x4E00 + n) * (7 if n // 5 % 4 == 3 else 2) for n in range(400)]
    assert codes(health_of(waves(even), long_names, "zh")) == []
    assert codes(health_of(waves(even), PEOPLE, "zh")) == [], "long from the first: no growth"


def test_english_is_counted_in_words() -> None:
    people = {"food": ["sushi", "fried rice"], "animals": ["cat", "sea otter"]}

    def told(texts: Sequence[str]) -> GeneratorHealth:
        heard = [
            ReplyRecord(1, ["food", "animals"][at % 2], "k", "stop", 9, (ReplyRow("", text),))
            for at, text in enumerate(texts)
        ]
        return health_of([[one] for one in heard], people, "en")

    assert codes(told([f"style{n} church" for n in range(80)])) == ["collapse"]
    assert told([f"style{n} church of the hill{n}" for n in range(80)]).head == "church"
    longer = [" ".join(f"word{n}x{m}" for m in range(1 + n // 20)) for n in range(100)]
    assert codes(told(longer)) == ["drift"]
    assert codes(told([f"word{n}" for n in range(100)])) == []


@pytest.mark.parametrize(
    ("language", "file"), [("zh", "lvis_v1_zh_class_texts.json"), ("en", "lvis_v1_class_texts.json")]
)
def test_a_sound_run_of_real_names_rouses_no_warning_at_any_moment(
    language: str, file: str, shared: Callable[[str], Path]
) -> None:
    names = [names[0] for names in json.loads(shared(f"labels/wedetect/{file}").read_text("utf-8"))]
    people = {topic: names[at * 5 : at * 5 + 5] for at, topic in enumerate(PEOPLE)}
    every = waves(names[20:], lambda number: "known" if number % 3 == 0 else "")
    for end in range(1, len(every), 7):
        assert codes(health_of(every[:end], people, language)) == []


def test_topics_that_come_to_their_end_are_no_failure() -> None:
    texts = [chr(0x4E00 + n) + chr(0x5E00 + n) for n in range(200)] + [THINGS[n % 20] for n in range(200)]
    health = health_of(waves(texts, lambda number: "known" if number >= 200 else ""), PEOPLE, "zh")
    assert (codes(health), health.recent_acceptance) == ([], 0.0)


def test_one_topic_that_names_the_same_again_and_again_is_no_collapse_of_all() -> None:
    texts = [
        f"{STYLES[n % 20]}教堂" if n // 5 % 4 == 3 and n % 5 else chr(0x4E00 + n) + chr(0x5E00 + n) for n in range(200)
    ]
    assert health_of(waves(texts), PEOPLE, "zh").head != "教堂"


def test_what_a_topic_is_called_by_its_objects_may_be_called_by() -> None:
    people = {"汽车": ["轿车", "卡车"], "玩具汽车": ["回力车", "模型车"]}
    rows = [
        [ReplyRecord(1, list(people)[n % 2], "k", "stop", 9, (ReplyRow("", f"{STYLES[n % 20]}汽车"),))]
        for n in range(80)
    ]
    assert codes(health_of(rows, people, "zh")) == []
    assert codes(health_of(rows, {"食物": ["饺子"]}, "zh")) == []


def test_a_generator_that_gives_hardly_anything_new_is_told_why() -> None:
    texts = [chr(0x4E00 + n) + chr(0x5E00 + n) for n in range(200)]
    health = health_of(waves(texts, lambda number: "wrong_language" if number % 20 else ""), PEOPLE, "zh")
    assert codes(health) == ["few_new", "poor_topics"]
    assert "5% of 200 rows are new" in health.warnings[0].text and "wrong language" in health.warnings[0].text
    assert "3 topics yield almost no objects: 乐器" in health.warnings[1].text


def test_figures_are_those_of_all_replies_and_the_recent_rows() -> None:
    health = health_of(waves(THINGS, lambda number: "known" if number % 2 else ""), PEOPLE, "zh")
    assert (health.replies, health.rows, health.accepted, health.recent_acceptance) == (4, 20, 10, 0.5)
    assert health.yields == {"食物": 3, "动物": 2, "交通工具": 3, "乐器": 2}
    assert health.summary_line.startswith("10 objects from 4 replies, 50% of recent rows new, length 2.0 (people 2.2)")
    assert health_of([], PEOPLE, "zh").warnings == health_of([], {}, "en").warnings == ()


def test_what_each_topic_yielded_is_told_round_by_round() -> None:
    def first_stage(*topics: str) -> list[ReplyRecord]:
        return [
            ReplyRecord(1, "", "k", "stop", 1, tuple(ReplyRow(topic, f"{topic}{n}") for n, topic in enumerate(topics)))
        ]

    waves = [first_stage("食物", "食物"), first_stage(), first_stage("动物", "食物")]
    assert count_new_by_round(waves) == {"食物": [2, 0, 1], "动物": [0, 0, 1]}
    asked = [[ReplyRecord(n, "食物", "k", "stop", 1, (ReplyRow("食物", "a", "known"),) * n)] for n in (1, 2)]
    assert count_new_by_round(asked) == {"食物": [0, 0]}
