"""What a golden file may say, that each mistake in one is a line with what to do, and a file of a public project."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import querytruth as qt
from querytruth.checks.golden_file import load_golden
from querytruth.checks.verdicts import CheckReport
from querytruth.errors import UserError
from tests.checks.golden_world import serve, write_golden, write_photos


def load(folder: Path, cases: list[dict[str, Any]], **keys: Any) -> dict[str, dict[str, list[str]]]:
    write_photos(folder / "photos", ["p01.jpg", "p02.jpg", "old/p03.jpg", "old/p04.jpg", "Émile.JPG"])
    golden = load_golden(write_golden(folder, cases, **keys), {})
    return {one.query: {k: list(getattr(one, k)) for k in ("must", "any", "must_not")} for one in golden.cases}


def test_images_are_named_as_an_import_would_find_them(tmp_path: Path) -> None:
    cases = [
        {"query": "红色的雨伞", "must": "p01.jpg", "any": ["p03.jpg", "photos/p02.jpg"]},
        {"query": "no", "must_not": ["old/*"]},
        {"query": 2024, "must": ["émile.jpg"]},
    ]
    assert load(tmp_path, cases) == {
        "红色的雨伞": {"must": ["p01.jpg"], "any": ["old/p03.jpg", "p02.jpg"], "must_not": []},
        "no": {"must": [], "any": [], "must_not": ["old/p03.jpg", "old/p04.jpg"]},
        "2024": {"must": ["Émile.JPG"], "any": [], "must_not": []},
    }


def test_the_deepest_cut_decides_how_many_results_are_asked_for(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    case = {"query": "a", "must": "p01.jpg"}
    plain = write_golden(tmp_path, [case])
    assert load_golden(plain, {}).asked == 50
    assert load_golden(write_golden(tmp_path, [{**case, "within": 70}], floors={"hit@80": 0.5}), {}).asked == 80
    assert load_golden(plain, {"run": tmp_path / "new.trec"}).system is None


MISTAKES: list[tuple[list[dict[str, Any]], dict[str, Any], str]] = [
    ([{"query": "a", "mst": "p01.jpg"}], {}, "case 1 (check): key 'mst' is unknown. Next: did you mean 'must'?"),
    ([{"query": "a", "must": "p1.jpg"}], {}, "case 1 (a) (check): refers to 'p1.jpg', image missing in"),
    ([{"query": "a", "must": "p1.jpg"}], {}, "did you mean 'p01.jpg'?"),
    ([{"query": "a", "must": "*.png"}], {}, "refers to '*.png', image missing in"),
    ([{"query": "A  b", "must": "p01.jpg"}, {"query": "a b", "must": "p02.jpg"}], {}, "cases 1 and 2 (check): have"),
    ([{"query": "a"}], {}, "a case needs must, any or must_not, or nothing: true instead"),
    ([{"query": "a", "nothing": True, "must": "p01.jpg"}], {}, "nothing: true instead"),
    ([{"query": "a", "must": "p01.jpg", "score": 0.3}], {}, "score needs nothing: true"),
    ([{"query": "a", "must": "p01.jpg", "must_not": "./p01.jpg"}], {}, "expects and forbids p01.jpg"),
    ([{"query": "a", "must": "p01.jpg", "within": 0}], {}, "key 'within'"),
    ([], {}, "key 'cases'"),
    ([{"query": "a", "must": "p01.jpg"}], {"withn": 3}, "key 'withn' is unknown. Next: did you mean 'within'?"),
    ([{"query": "a", "must": "p01.jpg"}], {"system": None}, "needs exactly one of system and run"),
    ([{"query": "a", "must": "p01.jpg"}], {"images": None}, "key 'images' is missing. Next: add it"),
    ([{"query": "a", "must": "p01.jpg"}], {"images": "foto"}, "foto (check): is not a folder"),
]  # fmt: skip


@pytest.mark.parametrize(("cases", "keys", "line"), MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, cases: list[dict[str, Any]], keys: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, cases, **keys)
    assert line in str(caught.value) and "\n" not in str(caught.value) and "--set" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "- a", "cases: 3", "cases: [", "cases: [{query: a, must: {a: b}}]", "cases: [7]", "\x00"]
)
def test_a_file_of_something_else_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "golden.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        load_golden(tmp_path / "golden.yaml", {})
    assert "\n" not in str(caught.value)


def test_a_table_of_queries_and_images_stands_in_the_place_of_yaml(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    table = tmp_path / "queries.csv"
    table.write_text("query,image,relevance\n雨伞,p01.jpg,1\n雨伞,p02.jpg,2\n雨伞,p03.jpg,0\ndog,p04.jpg,1\n", "utf-8")
    golden = load_golden(table, {"images": tmp_path / "photos", "run": tmp_path / "new.trec"})
    assert [(one.query, one.must, one.must_not) for one in golden.cases] == [
        ("雨伞", ["p01.jpg", "p02.jpg"], ["p03.jpg"]),
        ("dog", ["p04.jpg"], []),
    ]
    table.write_text("query,image\n雨伞,p01.jpg\ndog,\n", "utf-8")
    with pytest.raises(UserError, match="missing file name"):
        load_golden(table, {"images": tmp_path / "photos", "run": tmp_path / "new.trec"})


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


def check(folder: Path, text: str, names: list[str], answers: dict[str, list[str]]) -> CheckReport:
    with serve(folder) as search:
        write_photos(folder / "photos", names)
        search.lists = answers
        (folder / "golden.yaml").write_text(text, "utf-8")
        return qt.check(folder / "golden.yaml")


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
