"""Tables of pools: what people see, and what their answers leave."""

from builders.generated import pool_tables as pool_exports
from builders.generated.generation_journal import ReplyRecord, ReplyRow, Wave
from builders.generated.object_pools import NoveltyFilter, ObjectPools
from builders.generated.topic_pools import TopicPools
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.review_tables import ImportTolerances, ReviewExport, read_filled_table

TOPIC_WAVES: list[Wave] = [
    [
        ReplyRecord(1, "", "a", "stop", 9, (ReplyRow("食物", "烤鸭", "", "小吃"), ReplyRow("食物", "饺子", "known"))),
        ReplyRecord(2, "", "b", "stop", 9, (ReplyRow("乐器", "钢琴"), ReplyRow("乐器", "鼓，", "bad_characters"))),
    ]
]
OBJECT_WAVES: list[Wave] = [
    [
        ReplyRecord(
            3,
            "食物",
            "c",
            "stop",
            9,
            (ReplyRow("食物", "拉面"), ReplyRow("食物", "烤鸭卷", score=8300, nearest="烤鸭")),
        )
    ]
]


def topics() -> ReviewExport:
    pools = TopicPools({"食物": ["饺子"]})
    for wave in TOPIC_WAVES:
        for heard in wave:
            pools.add(heard)
    return pool_exports.build_topic_export("tiny", pools, TOPIC_WAVES)


def objects(chosen: dict[str, list[str]] | None = None) -> ReviewExport:
    pools = ObjectPools(chosen or {"食物": ["饺子", "烤鸭"]}, NoveltyFilter(lambda texts: texts, 0.85))  # type: ignore[arg-type,return-value]
    pools.replay(OBJECT_WAVES)
    return pool_exports.build_object_export("tiny", pools, OBJECT_WAVES, "zh")


def test_in_one_pool_for_all_topics_are_those_of_people_and_the_classes_that_thoughts_name() -> None:
    thought = "我决定选择（1）个视觉元素，该视觉元素选取（{}）分类中的（{}）"
    told = {"鼓": "乐器", "梨": "植物"}
    drum, pear = (ReplyRow("视觉元素", text, thought=thought.format(named, text)) for text, named in told.items())
    waves: list[Wave] = [[ReplyRecord(1, "视觉元素", "c", "stop", 9, (drum, pear, ReplyRow("视觉元素", "云")))]]
    pools = ObjectPools({"视觉元素": ["饺子", "钢琴"]}, NoveltyFilter(lambda texts: texts, 0.85))  # type: ignore[arg-type,return-value]
    pools.replay(waves)
    chosen = {"食物": ["饺子"], "乐器": ["钢琴"]}
    shown = (
        pool_exports.build_object_export("tiny", pools, waves, "zh", chosen).rows[["text", "topic"]].to_numpy().tolist()
    )
    assert shown == [["钢琴", "乐器"], ["鼓", "乐器"], ["梨", "植物"], ["云", "视觉元素"], ["饺子", "食物"]]


def decide(export: ReviewExport, **words: str) -> list[QueryDecision]:
    """Decisions as a person fills them in: drop, keep, or a new text; through the reading of the table."""
    rows = export.rows.copy()
    rows.index = range(3, 3 + len(rows))
    for text, word in words.items():
        row = rows["text"] == text
        rows.loc[row, "decision" if word in ("drop", "keep") else "new_text"] = word
    reading = read_filled_table(export, rows, ImportTolerances())
    assert not reading.problems
    return reading.decisions


def test_each_topic_stands_above_its_objects_with_where_they_come_from() -> None:
    export = topics()
    shown = export.rows[["text", "topic", "kind", "origin", "round", "also"]].to_numpy().tolist()
    assert shown == [
        ["食物", "食物", "topic", "people", "", "小吃"],
        ["饺子", "食物", "object", "people", "", ""],
        ["烤鸭", "食物", "object", "model", "1", ""],
        ["乐器", "乐器", "topic", "model", "2", ""],
        ["钢琴", "乐器", "object", "model", "2", ""],
    ]
    assert export.rows["query_id"].is_unique and export.key_columns == ["query_id"]
    assert list(export.rows.columns)[-4:] == ["decision", "new_text", "note", "row_digest"]


def test_blank_answers_keep_everything() -> None:
    assert pool_exports.select_topics(topics(), []) == {"食物": ["饺子", "烤鸭"], "乐器": ["钢琴"]}
    assert list(pool_exports.select_queries(objects(), [], "zh")["text"]) == ["烤鸭", "饺子", "拉面", "烤鸭卷"]


def test_a_dropped_topic_takes_its_objects_along_and_an_edited_one_may_join_another() -> None:
    export = topics()
    assert pool_exports.select_topics(export, decide(export, 食物="drop")) == {"乐器": ["钢琴"]}
    assert pool_exports.select_topics(export, decide(export, 乐器="食物", 饺子="drop")) == {"食物": ["烤鸭", "钢琴"]}
    assert pool_exports.select_topics(export, decide(export, 钢琴="三角钢琴")) == {
        "食物": ["饺子", "烤鸭"],
        "乐器": ["三角钢琴"],
    }
    assert pool_exports.select_topics(export, decide(export, 钢琴="drop")) == {"食物": ["饺子", "烤鸭"]}
    assert pool_exports.select_topics(export, decide(export, 烤鸭="饺子")) == {"食物": ["饺子"], "乐器": ["钢琴"]}


def test_objects_are_queries_to_be_and_what_is_nearly_too_similar_is_flagged() -> None:
    rows = objects().rows.set_index("text")
    assert rows.loc["烤鸭卷", ["origin", "round", "flag", "score", "nearest"]].tolist() == [
        "model",
        "3",
        "alike",
        "0.8300",
        "烤鸭",
    ]
    assert rows.loc["饺子", ["origin", "round", "flag", "score", "nearest"]].tolist() == ["people", "", "", "", ""]
    assert (
        rows.loc["饺子", "query_id"]
        == pool_exports.generated_query_id("饺子", "zh")
        != pool_exports.generated_query_id("饺子", "en")
    )


def test_an_edited_object_is_another_query_and_of_two_that_become_one_the_first_stays() -> None:
    export = objects()
    kept = pool_exports.select_queries(export, decide(export, 拉面="饺子", 烤鸭="drop", 烤鸭卷="鸭肉卷"), "zh")
    assert kept[["text", "topic"]].to_numpy().tolist() == [["饺子", "食物"], ["鸭肉卷", "食物"]]
    assert list(kept["query_id"]) == [pool_exports.generated_query_id(text, "zh") for text in ("饺子", "鸭肉卷")]


def test_the_same_pools_make_the_same_export_and_others_another() -> None:
    assert topics().export_id == topics().export_id
    assert objects().export_id == objects({"食物": ["烤鸭", "饺子"]}).export_id
    assert len({topics().export_id, objects().export_id, objects({"食物": ["饺子"]}).export_id}) == 3


def test_earlier_decisions_are_filled_in_where_the_text_is_still_the_same() -> None:
    export = objects({"食物": ["饺子"]})
    log = decide(objects(), 饺子="drop", 烤鸭="drop", 拉面="日式拉面")
    log.append(QueryDecision(pool_exports.generated_query_id("饺子", "zh"), "饺子", "keep", note="again"))
    log.append(QueryDecision(pool_exports.generated_query_id("烤鸭卷", "zh"), "鸭卷", "drop"))
    filled = pool_exports.fill_in_decisions(export, log)
    shown = filled.rows[["text", "decision", "new_text", "note"]].to_numpy().tolist()
    assert shown == [["饺子", "keep", "", "again"], ["拉面", "edit", "日式拉面", ""], ["烤鸭卷", "", "", ""]]
    assert filled.export_id == export.export_id
    assert list(filled.rows["row_digest"]) == list(export.rows["row_digest"])


def test_the_log_gets_what_is_new_and_a_keep_where_a_decision_was_taken_out_again() -> None:
    export = objects()
    first = decide(export, 饺子="drop", 拉面="日式拉面", 烤鸭="keep")
    assert pool_exports.complete_decision_log(export, first, []) == first
    assert pool_exports.complete_decision_log(export, first, first) == []
    second = decide(export, 拉面="拌面")
    added = pool_exports.complete_decision_log(export, second, first)
    assert [(d.text, d.decision, d.new_text) for d in added] == [("拉面", "edit", "拌面"), ("饺子", "keep", None)]
    assert pool_exports.complete_decision_log(export, second, first + added) == []
