"""A file is looked at as a whole before a row is judged: what it is shows, or it stops with rows and an option."""

from pathlib import Path
from typing import Any

import pytest

from querytruth.backends.files.column_profile import (
    ReadingOptions,
    check_bad_rows,
    find_number_form,
    read_scores,
    use_table_options,
)
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError

COUNTS = {  # how it is written, the delimiter: the counts
    ("1,204 | 87 | 12,500", ","): [1204, 87, 12500],
    ("1.204 | 87 | 12.500", ";"): [1204, 87, 12500],
    ("1.204.500 | 2.000", ","): [1204500, 2000],
    ("1'204 | 2’000", ","): [1204, 2000],
    ("1\u202f204 | 2\xa0000 | 3 000", ","): [1204, 2000, 3000],
    ("1.2K | 3M | 950", ","): [1200, 3_000_000, 950],
    ("12万 | 1.5億 | 3千", ","): [120_000, 150_000_000, 3000],
    ("１２０４ | ８７", ","): [1204, 87],
    ("12,34,567 | 1,204", ","): [1234567, 1204],
    ("12.0 | 3.000 | 7", ","): [12, 3, 7],
    ("1.204,00 | 2.500,00", ";"): [1204, 2500],
    ("١٢٠٤ | ٨٧", ","): [1204, 87],
}  # fmt: skip


@pytest.mark.parametrize(("cells", "delimiter"), COUNTS)
def test_counts_are_read_as_their_country_writes_them(cells: str, delimiter: str) -> None:
    written = cells.split(" | ")
    form = find_number_form("read", "log.csv", written, delimiter, is_whole=True)
    assert [form.read(cell) for cell in written] == COUNTS[cells, delimiter]


@pytest.mark.parametrize("cells", ["1,204 | 1.204", "1.204.500 | 12.5", "2.000 | 1.000", "1.204,5 | 1,204.5"])
def test_counts_that_can_be_two_numbers_stop_with_the_option(cells: str) -> None:
    written = cells.split(" | ")
    with pytest.raises(UserError, match=r'may mean 1.204 or 1204: .*tables.numbers: "1.234,5"'):
        find_number_form("read", "log.csv", written, is_whole=True)
    with use_table_options(ReadingOptions(numbers="1.234,5")):
        assert find_number_form("read", "log.csv", written, is_whole=True).decimal == ","


def test_a_number_that_is_none_in_the_form_of_its_column_is_none() -> None:
    form = find_number_form("read", "log.csv", ["1,204", "0.5"], is_whole=False)
    assert [form.read(cell) for cell in ("12,5", "1,2,3", "much", "", True, None, "1_000", "nan")] == [None] * 8
    assert [form.read(cell) for cell in ("-1e-3", ".5", "7.", 3, 0.25, "−2")] == [-0.001, 0.5, 7, 3, 0.25, -2]


SCORES: dict[str, list[Any]] = {
    "up to 1": [0.2, "0.91", 1, "0,5".replace(",", ".")],
    "up to 100": ["91", "97.5", "12", "100", "64", "88.1"],
    "up to 100 ": ["91 %", "97.5%", "0.4%"],
}


@pytest.mark.parametrize("scale", SCORES)
def test_scores_are_up_to_1_or_per_cent_as_a_whole(scale: str) -> None:
    scores, found = read_scores("read", "tags.csv", SCORES[scale])
    assert found == scale.strip() and (scores >= 0).all() and (scores <= 1).all()


@pytest.mark.parametrize(
    ("cells", "given", "first"),
    [
        ([0.9, 0.8, 91, 95, 0.7, 88], 100, 0.009),
        ([120, 940, 333, 871], 1000, 0.12),
        ([-4.2, 3.1, 0.4, 7.9], "logits", 0.0148),
        (["91%", 0.8, 0.9, 0.7], 100, 0.91),
        ([12.0, 250.0, 199.0], 255, 0.047),
    ],
)
def test_scores_of_no_known_scale_stop_with_three_of_them(cells: list[Any], given: Any, first: float) -> None:
    with pytest.raises(UserError, match=r"such as \S+, \S+, \S+\. Next: .*tables.scores: 100 \(or 1\), or logits"):
        read_scores("read", "tags.csv", cells)
    with use_table_options(ReadingOptions(scores=given)):
        assert read_scores("read", "tags.csv", cells)[0][0] == pytest.approx(first, abs=1e-3)


ENCODED = {
    "utf-16": ("utf-16", ""),
    "utf-16-le without a mark": ("utf-16-le", ""),
    "gb18030": ("gb18030", "gb18030: “[^”]*海边"),
    "shift-jis": ("cp932", "cp932: “[^”]*海边"),
    "cp1251": ("cp1251", "cp1251: “[^”]*"),
    "big5": ("big5", "big5: “[^”]*海"),
}


@pytest.mark.parametrize("name", ENCODED)
def test_an_encoding_is_known_or_asked_for_with_what_it_reads(tmp_path: Path, name: str) -> None:
    encoding, shown = ENCODED[name]
    texts = {"cp1251": ["красный велосипед", "маяк", "ёлка"], "cp932": ["赤い自転車", "灯台", "桜"]}.get(
        encoding, ["海邊" if encoding == "big5" else "海边", "紅色" if encoding == "big5" else "红色", "dog"]
    )
    (tmp_path / "t.csv").write_bytes("\n".join(["query,count", *(f"{text},3" for text in texts)]).encode(encoding))
    options = ReadingOptions()
    if shown:
        with pytest.raises(UserError, match=rf"is not UTF-8 in .*{shown.split('“')[0]}.*tables.encoding: ") as refused:
            list(iterate_rows(tmp_path / "t.csv", ["query"]))
        assert "dog" not in str(refused.value), "what is ASCII may be private"
        options = ReadingOptions(encoding=encoding)
    with use_table_options(options):
        assert [row["query"] for _, row in iterate_rows(tmp_path / "t.csv", ["query", "count"])] == texts


TABLE = [{"query": "red bicycle", "count": "410"}, {"query": "kids, on a swing", "count": "96"}]
SHAPES = {
    "semicolons": 'query;count\nred bicycle;410\n"kids, on a swing";96\n',
    "pipes": "query|count\nred bicycle|410\nkids, on a swing|96\n",
    "tabs": "query\tcount\nred bicycle\t410\nkids, on a swing\t96\n",
    "CR line ends": 'query,count\rred bicycle,410\r"kids, on a swing",96\r',
    "a title and comments": '# made in May, by hand\nSearches\n\nquery,count\nred bicycle,410\n"kids, on a swing",96\n',
    "a title in cells": 'Searches;;\nPeriod;May;2026\nquery;count;\nred bicycle;410;\n"kids, on a swing";96;\n',
    "a second table": 'query,count\nred bicycle,410\n"kids, on a swing",96\n\nday,users\n0000,71\n0001,64\n',
    "a note": 'query,count\nred bicycle,410\n"kids, on a swing",96\n,\nSource: our search,\n',
    "a table beside it": 'day,users,,query,count\n0000,71,,red bicycle,410\n0001,64,,"kids, on a swing",96\n',
    "a header that is repeated": 'query,count\nred bicycle,410\nquery,count\n"kids, on a swing",96\n',
    "empty rows": 'query,count\n\nred bicycle,410\n,\n"kids, on a swing",96\n\n',
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_table_is_found_wherever_it_lies_in_its_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.csv").write_text(SHAPES[name], "utf-8", newline="")
    assert [row for _, row in iterate_rows(tmp_path / "t.csv", ["query", "count"])] == TABLE


class _Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, text: str) -> None:
        self.lines.append(text)


def test_what_a_file_was_taken_for_is_printed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(SHAPES["a second table"].replace(",", ";").encode("utf-16"))
    reporter: Any = _Lines()
    with active_run(BuildRun(reporter)):
        assert len(list(iterate_rows(tmp_path / "t.csv", ["query"]))) == 2
    assert reporter.lines == [
        "t.csv: read as utf-16; delimiter ';'",
        "t.csv: a note or another table begins in line 5 and is not read",
    ]


@pytest.mark.parametrize(("bad", "total", "stops"), [(2, 3, False), (3, 29, True), (3, 30, False), (11, 100, True)])
def test_a_rule_that_leaves_out_more_than_a_tenth_stops_with_three_rows(bad: int, total: int, stops: bool) -> None:
    rows = [("bad_score", f"line {n}: x") for n in range(bad)]
    if not stops:
        check_bad_rows("read", "t.csv", rows, total)
        return
    with pytest.raises(UserError, match=rf"{bad} of {total} rows .*\(line 0: x; line 1: x; line 2: x.*bad_rows: 0.1"):
        check_bad_rows("read", "t.csv", rows, total)
    with use_table_options(ReadingOptions(bad_rows=0.2)):
        check_bad_rows("read", "t.csv", rows, total)
