"""Which texts of a log are one question, or none."""

from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest

from builders.queries.definition import QueriesDefinition
from builders.queries.log_texts import build_question_key, find_absurdity, find_unfinished
from builders.queries.steps import read_log
from querytruth.backends.files.column_profile import ReadingOptions, use_table_options
from querytruth.errors import UserError
from querytruth.sets.ledger import Ledger
from querytruth.sets.text_sieve import normalise_query


def test_case_width_punctuation_and_blanks_make_no_other_question() -> None:
    spellings = [
        "Dog on the beach",
        "ＤＯＧ on　the beach!",
        "dog  on the beach",
        "“dog on the beach”",
        "dog-on-the-beach",
    ]
    assert {build_question_key(normalise_query(one)) for one in spellings} == {"dog on the beach"}
    assert build_question_key(normalise_query("红色 自行车？")) == build_question_key("红色自行车")
    assert build_question_key("c++") != build_question_key("c")
    assert build_question_key("dgo on the beach") != build_question_key("dog on the beach")  # people type it


@pytest.mark.parametrize(
    ("text", "reason"),
    [(r"C:\a\b", "is_path"), ("?!…", "no_content"),
     ("a" * 12, "repeated_characters"), ("x " * 200, "too_long"), ("🐶", None), ("❤️", None), ("7", None)],
)  # fmt: skip
def test_absurd_texts_have_a_reason(text: str, reason: str | None) -> None:
    assert find_absurdity(normalise_query(text)) == reason


def read(path: Path, **keys: Any) -> tuple[dict[str, float], Ledger]:
    ledger = Ledger()
    keys = {"name": "mine", "queries": path, "images": str(path.parent)} | keys
    questions: pd.DataFrame = read_log(QueriesDefinition(**keys), ledger)[0]
    return dict(zip(questions["text"], questions["searches"], strict=True)), ledger


QUERIES = {"red bicycle": 1410.0, "雪山": 96.0, "wooden bridge": 61.0}
ROWS = "red bicycle,1410\n雪山,96\nwooden bridge,61\n"
EXPORTS = {
    "a total in Chinese": '搜索词,次数\nred bicycle,"1,410"\n雪山,96\nwooden bridge,61\n总计,"1,567"\n',
    "a total in German": "Suchbegriff;Anzahl\nGesamtsumme;1.567\nred bicycle;1.410\n雪山;96\nwooden bridge;61\n",
    "placeholders": f"query,hits\n(not provided),9000\n(空白),700\n[unknown],50\n{ROWS}",
    "clicks and impressions": "query,clicks,impressions\nred bicycle,9,1410\n雪山,8,96\nwooden bridge,7,61\n",
    "a page about the export": f"Report: Searches\nPeriod,May 2026\n\nquery,views\n{ROWS}\nNotes\nSampled: no\n",
    "columns of another table": "query,hits,,day,users\nred bicycle,1410,,1,3\n雪山,96,,2,2\nwooden bridge,61,,,\n",
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_holds_what_people_typed(tmp_path: Path, name: str) -> None:
    (tmp_path / "log.csv").write_text(EXPORTS[name], "utf-8")
    assert read(tmp_path / "log.csv")[0] == QUERIES


def test_a_total_in_a_language_that_is_not_known_is_a_sum(tmp_path: Path) -> None:
    rows = [f"text {n},{100 + n}" for n in range(7)]
    (tmp_path / "log.csv").write_text("\n".join(["query,count", *rows, f"Jumla,{sum(range(100, 107))}"]), "utf-8")
    texts, ledger = read(tmp_path / "log.csv")
    assert len(texts) == 7 and ledger.stages[0].rejected == {"total_row": 1}


def test_a_brand_that_is_called_as_a_total_stays(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,count\ntotal,30\nred bicycle,20\nshell,15\n", "utf-8")
    assert read(tmp_path / "log.csv")[0] == {"total": 30, "red bicycle": 20, "shell": 15}


def test_a_column_of_counts_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,Nachfragen\nred bicycle,410\n雪山,96\nwooden bridge,61\n", "utf-8")
    with pytest.raises(UserError, match=r"'Nachfragen' contains 410, 96, 61 .*columns.count: 'Nachfragen', or ''"):
        read(tmp_path / "log.csv")
    assert read(tmp_path / "log.csv", columns={"count": "Nachfragen"})[0]["red bicycle"] == 410
    assert read(tmp_path / "log.csv", columns={"count": ""})[0]["red bicycle"] == 1


def test_counts_that_are_none_stop_with_three_lines(tmp_path: Path) -> None:
    rows = [f"text {n},{'many' if n % 3 else n + 1}" for n in range(12)]
    (tmp_path / "log.csv").write_text("\n".join(["query,count", *rows]), "utf-8")
    with pytest.raises(
        UserError, match=r"8 of 12 rows .*wrong count \(line 3: 'many'; line 4: .*; line 6: .*bad_rows: 0.67"
    ):
        read(tmp_path / "log.csv")
    with use_table_options(ReadingOptions(bad_rows=0.7)):
        assert len(read(tmp_path / "log.csv")[0]) == 4


def test_dates_and_fractions_of_a_sheet_are_no_queries(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["query", "count"], ["dog", 7], [0.5, 3], [True, 2], ["24", 1], [1984, 5]):
        book.active.append(row)
    book.save(tmp_path / "log.xlsx")
    texts, ledger = read(tmp_path / "log.xlsx")
    assert texts == {"dog": 7, "24": 1, "1984": 5} and ledger.stages[0].quarantined == {"not_a_text": 2}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("red%20bicycle", "red bicycle"),
        ("wooden+bridge", "wooden bridge"),
        ("red+bicycle%21", "red bicycle!"),
        ("%E6%B5%B7%E8%BE%B9", "海边"),
        ("%25E6%25B5%25B7", "海"),
        ("%B1%F9%D1%A9", "冰雪"),
        ("%u6D77%u8FB9", "海边"),
        ("\\u6d77\\u8fb9", "海边"),
        ("fish &amp; chips", "fish & chips"),
        ("caf&eacute;", "café"),
        ("c%2B%2B", "c++"),
        *((text, text) for text in ("c++", "1+1", "100%", "50% off", "at&t", "q&a", "google+")),
    ],
)  # fmt: skip
def test_a_text_is_decoded_as_a_browser_encoded_it(text: str, plain: str) -> None:
    assert normalise_query(text) == plain


def typed(*texts: str, step: int = 1) -> dict[str, float]:
    return {text[:end]: 1.0 for text in texts for end in range(1, len(text) + 1, step)} | dict.fromkeys(texts, 1.0)


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (typed("red bicycle", "lighthouse", "wooden bridge"), {"red bicycle", "lighthouse", "wooden bridge"}),
        (typed("海边的日落和一只狗", "雪山脚下的木屋"), {"海边的日落和一只狗", "雪山脚下的木屋"}),
        (typed("mountain lake", "sunset over sea", step=2), {"mountain lake", "sunset over sea"}),
        (typed("sunglasses", "sunset") | {"sun": 40.0}, {"sun", "sunglasses", "sunset"}),
        ({"海边": 9, "hai'b": 1, "xue'sh": 2, "xi'an": 5, "can't": 1}, {"海边", "xi'an", "can't"}),
        ({"dog": 9, "dogs": 4, "dog house": 2, "red dog": 1}, {"dog", "dogs", "dog house", "red dog"}),
    ],
)
def test_keystrokes_are_told_from_queries(asked: dict[str, float], left: set[str]) -> None:
    clean = {text.strip(): count for text, count in asked.items()}
    assert set(clean) - find_unfinished(clean) == left
