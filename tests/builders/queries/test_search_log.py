"""A log as people leave it: every line has a place, equal questions are one, and what is private stays in the log."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from builders.queries.definition import QueriesDefinition
from builders.queries.search_log import assign_strata, draw_queries
from builders.queries.steps import draw_sample, read_log
from querytruth.errors import UserError
from querytruth.sets.ledger import Ledger

HEADER = "keyword,次数,id"
ROWS = [
    "Dog on the beach,20,a1",
    "dog  on the beach!,30,a2",
    "dgo on the beach,1,a3",
    "红色自行车,9,a4",
    "红色 自行车,1,a5",
    "anna@example.org,3,a6",
    "tel 13800138000,1,a7",
    ",4,a8",
    "https://example.org/?q=dog,2,a9",
    "🐶,5,b1",
    "dog on the beach,many,b2",
    "dog,1,b3,b4,b5",
    '"unclosed,1,b6',
    "Dog on the beach,2,b7",
    "cat,1,anna@example.org",
]


def definition_of(path: Path, **keys: object) -> QueriesDefinition:
    return QueriesDefinition(name="mine", queries=path, images=str(path.parent), **keys)


def read(path: Path, **keys: object) -> tuple[pd.DataFrame, Ledger]:
    ledger = Ledger()
    return read_log(definition_of(path, **keys), ledger)[0], ledger


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEADER, *ROWS]), "utf-8-sig")
    return path


def test_every_line_of_a_log_has_a_place_in_the_ledger(log: Path) -> None:
    questions, ledger = read(log)

    lines, joined = ledger.stages
    assert (lines.entered, lines.accepted) == (15, 8)
    assert lines.rejected == {"empty_text": 1}
    assert lines.quarantined == {"email": 1, "telephone": 1, "unreadable_line": 2, "web_address": 1, "wrong_count": 1}
    assert (joined.entered, joined.accepted) == (8, 5)
    assert joined.rejected == {"near_equal_text": 2, "same_text": 1}
    assert dict(zip(questions["text"], questions["searches"], strict=True)) == {
        "dog on the beach!": 30 + 22, "dgo on the beach": 1, "红色自行车": 10, "🐶": 5, "cat": 1,
    }  # fmt: skip


def test_a_question_is_shown_as_most_people_typed_it_and_keeps_its_id(log: Path) -> None:
    questions, _ = read(log)

    ids = questions.set_index("text")["source_id"]
    assert (ids["dog on the beach!"], ids["红色自行车"]) == ("a2", "a4")
    assert ids["cat"] is None  # looks private


def test_no_private_text_is_in_a_table(log: Path) -> None:
    questions, ledger = read(log)
    drawn = draw_sample(questions, definition_of(log), ledger)

    everything = drawn.to_csv() + ledger.rows().to_csv() + questions.to_csv() + json.dumps(ledger.funnel())
    assert "anna" not in everything and "1380013" not in everything


def test_an_error_about_the_columns_shows_no_private_header(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("anna@example.org,when\nx,y\n")

    with pytest.raises(UserError, match=r"no column `query` or `text` \(it has when\)") as error:
        read(path)
    assert "anna" not in str(error.value)


def test_all_forms_of_a_log_hold_the_same_questions(tmp_path: Path) -> None:
    texts = ["Dog", "红色自行车", 'a "quoted" word', "dog"]
    (tmp_path / "log.txt").write_text("\n".join(texts), "utf-8")
    (tmp_path / "log.tsv").write_text("query\n" + "\n".join(texts), "utf-8")
    objects = [json.dumps({"query": text}, ensure_ascii=False) for text in texts]
    (tmp_path / "log.jsonl").write_text("\r\n".join([*objects, "{broken"]), "utf-8")
    book = openpyxl.Workbook()
    for text in ("query", *texts):
        book.active.append(["", text])
    book.save(tmp_path / "log.xlsx")

    for name in ("log.txt", "log.tsv", "log.jsonl", "log.xlsx"):
        questions, _ = read(tmp_path / name)
        assert dict(zip(questions["text"], questions["searches"], strict=True)) == {
            "Dog": 2, "红色自行车": 1, 'a "quoted" word': 1,
        }, name  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "# ----\n# All data\n# 20261101-20261128\n\nSearch Term,Total Unique Searches\nred dog,3\nblue car,2\n",
        "Top queries,Clicks,Impressions,CTR,Position\nred dog,1,3,33%,1.2\nblue car,1,2,50%,3\n",
        "query;count\nred dog;3\nblue car;2\n",
        "关键词,搜索量\nred dog,3\nblue car,2\n",
    ],
)
def test_exports_of_analytics_services_and_spreadsheets_are_read_as_they_are(tmp_path: Path, text: str) -> None:
    (tmp_path / "log.csv").write_text(text, "utf-8")
    questions, _ = read(tmp_path / "log.csv")
    assert dict(zip(questions["text"], questions["searches"], strict=True)) == {"red dog": 3, "blue car": 2}


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("log.csv", "搜索词,次数\ndog,3\n".encode("gb18030"), r"gb18030: “搜索词 次数”.*tables.encoding: gb18030"),
        ("log.csv", b"\x1f\x8b000", "gzip"),
        ("log.xlsx", b"no archive", "not a readable .xlsx"),
        ("log.pdf", b"dog", "unknown format"),
        ("log.txt", "狗在沙滩\n红色自行车\n".encode("gb18030"), "2 of 2 lines.*gb18030: “狗在沙滩”"),
        ("log.txt", b"\n\n", "contains no query in 2 lines"),
        ("log.csv", b"", "no column `query` or `text`"),
        ("log.csv", b"query,keyword\na,b\n", "several columns"),
    ],
)
def test_a_file_that_is_no_log_is_one_line(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(UserError, match=problem):
        read(tmp_path / name)


def zipf_world(count: int) -> pd.DataFrame:
    searches = np.maximum(1, 5000 // np.arange(1, count + 1)).astype(float)
    return pd.DataFrame({"query_id": [f"q_{n:06}" for n in range(count)], "searches": searches})


def test_each_stratum_has_a_third_of_the_searches_and_a_known_chance() -> None:
    world = zipf_world(3000)
    world["stratum"] = assign_strata(world)

    shares = world.groupby("stratum")["searches"].sum() / world["searches"].sum()
    assert shares.between(0.25, 0.42).all()
    drawn = draw_queries(world, 150, seed=0)
    assert len(drawn) == 150
    sizes = world["stratum"].value_counts()
    estimated = (1 / drawn["inclusion"]).groupby(drawn["stratum"]).sum()
    assert estimated.to_dict() == pytest.approx(sizes.to_dict())


def test_a_longer_log_keeps_most_of_a_draw() -> None:
    world = zipf_world(3000).assign(stratum="all")
    longer = zipf_world(3300).assign(stratum="all")

    first, then = (set(draw_queries(one, 150, seed=0)["query_id"]) for one in (world, longer))
    assert len(first & then) > 120


@pytest.mark.slow
def test_a_million_lines_end_in_exact_counts(tmp_path: Path) -> None:
    """Zipf's law, mixed languages, spellings, empty lines, addresses and telephone numbers."""
    chance = np.random.default_rng(0)
    of_query = chance.zipf(1.3, 1_000_000) % 300_000
    expected = Counter[str]()
    with (tmp_path / "log.tsv").open("w", encoding="utf-8") as file:
        file.write("query\n")
        for number, (query, kind) in enumerate(zip(of_query.tolist(), chance.random(1_000_000).tolist(), strict=True)):
            texts = {"email": f"user{number}@example.org", "telephone": f"138{number:08}", "empty_text": "  "}
            reason = next((name for name, least in zip(texts, (0.99, 0.98, 0.97), strict=True) if kind > least), "")
            text = f"{('dog', '狗', 'Hund')[query % 3]} number {query}"
            file.write((texts[reason] if reason else text.upper() if kind > 0.5 else text) + "\n")
            expected[reason or "query"] += 1

    questions, ledger = read(tmp_path / "log.tsv")

    stage = ledger.stages[0]
    found = {"query": stage.accepted, **stage.rejected, **stage.quarantined}
    assert found == dict(expected) and questions["searches"].sum() == expected["query"]
    draw_sample(questions, definition_of(tmp_path / "log.tsv"), ledger)
    assert len(ledger.rows()) == 1_000_000 - len(questions) + len(questions) - 200
