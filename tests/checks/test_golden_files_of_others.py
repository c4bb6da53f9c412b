"""Golden files that public projects wrote by hand, rewritten by docs/check.md; documents are photos here.

DeytaHQ/khora (gold_doc_ids, max_rank), jeanibarz/knowledge-base-mcp-server (required and forbidden sources, k,
duplicates), nasa/Common-Metadata-Repository (a table of a search, a document and its lowest position), and the four
outcomes of a known failure.
"""

from pathlib import Path

import pytest
import yaml

import querytruth as qt
from querytruth.checks.verdicts import CheckReport
from tests.checks.golden_world import serve, write_photos

KHORA = """
system: mine.yaml
images: photos
cases:
  - query: Which purpose built city is the capital of Australia?      # max_rank: 1
    must: factoid_capital.jpg
    within: 1
  - query: Who discovered the radioactive element radium?             # max_rank: 3
    must: [hop_marie_curie.jpg, hop_radium_therapy.jpg]
    within: 3
"""
KNOWLEDGE_BASE = """
system: mine.yaml
images: photos
within: 5                                                             # k
cases:
  - query: what health checks run when I invoke the doctor command
    must: README.jpg                                                  # required_sources
  - query: current production rollback procedure
    must: runbooks/deploy.jpg
    must_not: archive/old-deploy.jpg                                  # forbidden_sources
  - query: production database restore checklist
    must_not: personal/*                                              # a folder
  - query: how does the index decide which files to re-embed
    must: adr/0002.jpg
    must_not: adr/copy-of-0002.jpg                                    # max_duplicate_groups: 0
"""
TOP_N = "Search,Concept-id,Position\nglacier*,C1386246230.jpg,3\nglims*,C1386250255.jpg,3\n"


def check(folder: Path, text: str, names: list[str], answers: dict[str, list[str]]) -> CheckReport:
    with serve(folder) as search:
        write_photos(folder / "photos", names)
        search.lists = answers
        (folder / "golden.yaml").write_text(text, "utf-8")
        return qt.check(folder / "golden.yaml")


def test_the_first_n(tmp_path: Path) -> None:
    names = ["factoid_capital.jpg", "distractor_sydney.jpg", "hop_marie_curie.jpg", "hop_radium_therapy.jpg"]
    capital, radium = (one["query"] for one in yaml.safe_load(KHORA)["cases"])
    report = check(tmp_path, KHORA, names, {capital: names, radium: [names[2], names[1], names[0], names[3]]})
    assert [one.status for one in report.cases] == ["pass", "fail"]
    assert report.cases[1].problems == ["hop_radium_therapy.jpg must be within 3"]


def test_required_forbidden_and_duplicates(tmp_path: Path) -> None:
    names = ["README.jpg", "runbooks/deploy.jpg", "archive/old-deploy.jpg", "personal/a.jpg", "personal/b.jpg"]
    names += ["adr/0002.jpg", "adr/copy-of-0002.jpg", "work/c.jpg"]
    doctor, rollback, restore, index = (one["query"] for one in yaml.safe_load(KNOWLEDGE_BASE)["cases"])
    answers = {doctor: names, rollback: names, restore: ["work/c.jpg", "personal/b.jpg"], index: names[5:]}
    found = {one.query: one.problems for one in check(tmp_path, KNOWLEDGE_BASE, names, answers).cases}
    assert found == {
        doctor: [],
        rollback: ["archive/old-deploy.jpg must not be within 5"],
        restore: ["personal/b.jpg must not be within 5"],
        index: ["adr/copy-of-0002.jpg must not be within 5"],
    }


def test_a_table_with_a_position_each_becomes_cases_in_three_lines(tmp_path: Path) -> None:
    rows = [line.split(",") for line in TOP_N.splitlines()[1:]]
    cases = [{"query": query, "must": image, "within": int(position)} for query, image, position in rows]
    text = yaml.safe_dump({"system": "mine.yaml", "images": "photos", "cases": cases})
    names = [image for _, image, _ in rows]
    answers = {"glacier*": ["p00.jpg", "p01.jpg", "p02.jpg", names[0]], "glims*": names}
    report = check(tmp_path, text, names, answers)
    assert [str(one) for one in report.cases] == [
        "C1386246230.jpg: rank 4; C1386246230.jpg must be within 3",
        "C1386250255.jpg: rank 2",
    ]


@pytest.mark.parametrize(
    ("known", "answer", "status", "is_failed"),
    [
        ("", "right.jpg", "pass", False),
        ("known_failure: the parser drops it", "p00.jpg", "known failure", False),
        ("", "p00.jpg", "fail", True),  # an unexpected failure
        ("known_failure: the parser drops it", "right.jpg", "fixed", False),  # an unexpected pass; fails with strict
    ],
)
def test_the_four_outcomes(tmp_path: Path, known: str, answer: str, status: str, is_failed: bool) -> None:
    text = f"system: mine.yaml\nimages: photos\ncases:\n  - query: a\n    must: right.jpg\n    {known}\n"
    report = check(tmp_path, text, ["right.jpg"], {"a": [answer]})
    assert report.cases[0].status == status and bool(report.failures) is is_failed
