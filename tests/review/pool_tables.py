"""Tables of topics and of objects, as the stages of a generated set hand them out: what the page's tests share."""

from __future__ import annotations

from pathlib import Path

from backends.sets import review_csv
from builders.decisions import Decision
from builders.generated import pool_review
from builders.generated.novelty import Novelty
from builders.generated.object_pools import ObjectPools
from builders.generated.pool_entries import Heard, Row, Wave
from builders.generated.topic_pools import TopicPools
from builders.review_tables import Allow, Export, read_back


def topic_table(*objects: str) -> Export:
    """食物 (of people, with 烤鸭 and the given objects from the model) and 乐器 (of the model)."""
    rows = [Row("食物", "烤鸭", "", "小吃"), *(Row("食物", text) for text in objects)]
    waves: list[Wave] = [
        [Heard(1, "", "a", "stop", 9, tuple(rows)), Heard(2, "", "b", "stop", 9, (Row("乐器", "钢琴"),))]
    ]
    pools = TopicPools({"食物": ["饺子"]})
    for heard in waves[0]:
        pools.add(heard)
    return pool_review.topic_export("tiny", pools, waves)


def object_table() -> Export:
    """烤鸭 and 饺子 of people, and two objects of the model, of which one is nearly 烤鸭."""
    found = (Row("食物", "拉面"), Row("食物", "烤鸭卷", score=8300, nearest="烤鸭"))
    waves: list[Wave] = [[Heard(3, "食物", "c", "stop", 9, found)]]
    pools = ObjectPools({"食物": ["饺子", "烤鸭"]}, Novelty(lambda texts: texts, 0.85))  # type: ignore[arg-type,return-value]
    pools.replay(waves)
    return pool_review.object_export("tiny", pools, waves, "zh")


def handed_out(folder: Path, stage: str, export: Export) -> Path:
    """The table where a stage puts it, and as it was handed out beside."""
    review_csv.write_csv(export, folder / "tiny" / "generated" / stage / f"{export.export_id}.csv")
    table = folder / "tiny" / "review" / f"{stage}.csv"
    review_csv.write_csv(export, table)
    return table


def decided(table: Path, export: Export) -> list[Decision]:
    """What the strict reader takes from the table, every cell in order."""
    reading = read_back(export, review_csv.read_csv(table).rows, Allow())
    assert reading.problems == []
    return reading.decisions


def words(table: Path, export: Export) -> dict[str, str]:
    """By text, what the table says of it: the decision, or the new text."""
    return {one.text: one.new_text or one.decision for one in decided(table, export)}


def in_spreadsheet(table: Path, text: str, decision: str) -> None:
    """Fill a cell in as a spreadsheet would, in place."""
    lines = table.read_text("utf-8-sig").splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if f",{text}," in line)
    columns = lines[1].strip().split(",")
    cells = lines[at].split(",")
    cells[columns.index("decision")] = decision
    table.write_text("".join([*lines[:at], ",".join(cells), *lines[at + 1 :]]), "utf-8-sig", newline="")
