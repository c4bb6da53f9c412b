"""Tables of topics and of objects, as the stages of a generated set hand them out: what the page's tests share."""

from pathlib import Path

from builders.generated import pool_tables as pool_exports
from builders.generated.generation_journal import ReplyRecord, ReplyRow, Wave
from builders.generated.object_pools import NoveltyFilter, ObjectPools
from builders.generated.topic_pools import TopicPools
from querytruth.sets import review_csv
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.review_tables import ImportTolerances, ReviewExport, read_filled_table


def topic_table(*objects: str) -> ReviewExport:
    """食物 (of people, with 烤鸭 and the given objects from the model) and 乐器 (of the model)."""
    rows = [ReplyRow("食物", "烤鸭", "", "小吃"), *(ReplyRow("食物", text) for text in objects)]
    waves: list[Wave] = [
        [
            ReplyRecord(1, "", "a", "stop", 9, tuple(rows)),
            ReplyRecord(2, "", "b", "stop", 9, (ReplyRow("乐器", "钢琴"),)),
        ]
    ]
    pools = TopicPools({"食物": ["饺子"]})
    for replies in waves[0]:
        pools.add(replies)
    return pool_exports.build_topic_export("tiny", pools, waves)


def object_table() -> ReviewExport:
    """烤鸭 and 饺子 of people, and two objects of the model, of which one is nearly 烤鸭."""
    rows = (ReplyRow("食物", "拉面"), ReplyRow("食物", "烤鸭卷", score=8300, nearest="烤鸭"))
    waves: list[Wave] = [[ReplyRecord(3, "食物", "c", "stop", 9, rows)]]
    pools = ObjectPools({"食物": ["饺子", "烤鸭"]}, NoveltyFilter(lambda texts: texts, 0.85))  # type: ignore[arg-type,return-value]
    pools.replay(waves)
    return pool_exports.build_object_export("tiny", pools, waves, "zh")


def write_export(folder: Path, stage: str, export: ReviewExport) -> Path:
    """The table where a stage puts it, and as it was handed out beside."""
    review_csv.write_review_csv(export, folder / "tiny" / "generated" / stage / f"{export.export_id}.csv")
    table = folder / "tiny" / "review" / f"{stage}.csv"
    review_csv.write_review_csv(export, table)
    return table


def read_decisions(table: Path, export: ReviewExport) -> list[QueryDecision]:
    """What the strict reader takes from the table, every cell in order."""
    reading = read_filled_table(export, review_csv.read_review_csv(table).rows, ImportTolerances())
    assert reading.problems == []
    return reading.decisions


def decision_by_text(table: Path, export: ReviewExport) -> dict[str, str]:
    """By text, what the table says of it: the decision, or the new text."""
    return {one.text: one.new_text or one.decision for one in read_decisions(table, export)}


def edit_as_spreadsheet(table: Path, text: str, decision: str) -> None:
    """Fill a cell in as a spreadsheet would, which puts the saved file in place of the old one."""
    lines = table.read_text("utf-8-sig").splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if f",{text}," in line)
    columns = lines[0].strip().split(",")
    cells = lines[at].split(",")
    cells[columns.index("decision")] = decision
    saved = table.with_suffix(".saved")
    saved.write_text("".join([*lines[:at], ",".join(cells), *lines[at + 1 :]]), "utf-8-sig", newline="")
    saved.replace(table)
