"""The page of an audit: what a person finds is on it, with the image, in both languages."""

import json
import re
from pathlib import Path

import pytest

from tests.cli import test_audit_judge
from tests.cli.conftest import Run
from tests.cli.test_audit_commands import fill

small = test_audit_judge.small


def write_report(run: Run, folder: Path, *options: str) -> tuple[str, dict]:  # type: ignore[type-arg]
    out = ["--out", folder / "sets"]
    report = json.loads(run("audit", "report", "small", "--json", *options, *out)[0])
    page = folder / "sets/small/audits/audit/report.html"
    return page.read_text("utf-8") if page.exists() else "", report


@pytest.fixture
def answered(run: Run, small: Path) -> Path:
    """An audit with a judge that errs twice, answered by a person; returns the folder."""
    run("audit", "start", *test_audit_judge.words(small, test_audit_judge.record(small, wrong=2)))
    out = ["--out", small.parent / "sets"]
    run("review", "export-csv", "--audit", "audit", "small", "--to", "a.csv", *out)
    fill(Path("a.csv"), test_audit_judge.TRUTH, unsure=1)
    run("review", "import-csv", "--audit", "audit", "small", "a.csv", "--reviewer", "lin", *out)
    return small.parent


@pytest.mark.thorough
def test_the_page_shows_what_was_found_and_who_found_it(run: Run, answered: Path) -> None:
    assert write_report(run, answered, "--no-page")[0] == ""
    page, report = write_report(run, answered)
    (found,) = report["found"]["missing"]["pairs"]
    assert (found["text"], found["grade"], found["reviewers"]) == ("沙滩上的狗", 1, ["lin"])
    assert found["reason_of_judge"] == "what it shows" and report["found"]["missing"]["number"] == 1
    assert report["found"]["wrong"] == {"number": 0, "pairs": []}
    card = page[page.index('<ul class="finds">') : page.index("</ul>", page.index('<ul class="finds">'))]
    assert "沙滩上的狗" in card and "by lin" in card and "the judge:</small> <bdi>what it shows" in card
    assert re.search(r'class="photo p\d+"', card) and "data:image/jpeg;base64," in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "Undecided pairs: 1, left out" in page and "seer" in page
    assert write_report(run, answered)[0] == page  # the same answers, the same bytes


@pytest.mark.thorough
def test_the_chinese_page_has_the_same_figures(run: Run, answered: Path) -> None:
    (english, _), (chinese, _) = write_report(run, answered), write_report(run, answered, "--page-language", "zh")
    assert '<html lang="zh">' in chinese and "这份标准答案有多真？" in chinese and "判断者：lin" in chinese
    figures = re.compile(r"<dd>([^<]+)</dd>")
    assert figures.findall(english) == figures.findall(chinese) != []
