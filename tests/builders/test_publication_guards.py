"""A build that would lose much of the last version stops before it publishes, unless that is allowed."""

import json
import re
from pathlib import Path

import pytest

from builders.publication import BuildResult
from builders.publication_guards import ShrinkageError
from flows.definition_loader import load_definition
from flows.set_kinds import build_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import UserError
from querytruth.sets import set_files
from tests.command_runner import Ended, invoke
from tests.worlds import CAPTIONS, define_recall


def in_english(place: Path) -> dict[str, object]:
    rows = ["file_name,language,caption", *[f"{name}.png,en,A photo of the {name} over there" for name in CAPTIONS]]
    (place / "english.csv").write_text("\n".join(rows), "utf-8")
    return {"model": "captions_file", "prompt": "en/caption", "options": {"path": "english.csv"}}


def build(path: Path, *overrides: str) -> BuildResult:
    with active_run(BuildRun()):
        return build_set(load_definition(path, list(overrides), "recall"))


def without(*names: str) -> dict[str, str]:
    return {name: text for name, text in CAPTIONS.items() if name not in names}


@pytest.mark.thorough
def test_just_the_share_that_is_allowed_may_go_and_one_more_query_stops_the_build(tmp_path: Path) -> None:
    build(define_recall(tmp_path, CAPTIONS, lose_at_most=0.4))
    with pytest.raises(ShrinkageError, match=r"album/v1 \(publish\): would lose 3 of its 5 queries \(60%\)"):
        build(define_recall(tmp_path, without("beach", "park", "lake"), lose_at_most=0.4))
    assert [path.name for path in (tmp_path / "sets" / "album").glob("v*")] == ["v1"]
    assert build(define_recall(tmp_path, without("beach", "park"), lose_at_most=0.4)).version == 2


@pytest.mark.thorough
def test_a_query_in_other_words_is_not_lost_and_one_that_another_takes_the_place_of_is(tmp_path: Path) -> None:
    build(define_recall(tmp_path))
    others = {name: f"{text}，天气很好" for name, text in CAPTIONS.items()}
    assert build(define_recall(tmp_path, others, lose_at_most=0.0)).version == 2
    with pytest.raises(ShrinkageError, match=r"5 of its 5 queries \(100%\)"):
        build(define_recall(tmp_path, CAPTIONS, lose_at_most=0.9, captions=in_english(tmp_path)))
    file = define_recall(tmp_path, CAPTIONS, lose_at_most=0.9, captions=in_english(tmp_path))
    assert build(file, "lose_at_most=1").version == 3, "a person's word"


@pytest.mark.thorough
def test_without_a_limit_everything_may_go_and_the_key_is_no_part_of_what_is_built(tmp_path: Path) -> None:
    first = build(define_recall(tmp_path))
    second = build(define_recall(tmp_path, without("lake", "beach", "park"), lose_at_most=None))
    assert second.version == 2
    third = build(define_recall(tmp_path, CAPTIONS, lose_at_most=0.0, name="other"))
    assert third.manifest["content_digest"] == first.manifest["content_digest"]
    assert "lose_at_most" not in third.manifest["configuration"]
    assert third.manifest["envelope"]["definition"]["lose_at_most"] == 0


@pytest.mark.thorough
def test_smaller_sets_go_the_way_of_the_whole_one(tmp_path: Path) -> None:
    first = build(define_recall(tmp_path, CAPTIONS, sizes=[2], lose_at_most=0.4))
    texts = set_files.read_set(first.nested_results[0].path).tables.queries["text"]
    gone = next(name for name, text in CAPTIONS.items() if text == texts.iloc[0])
    result = build(define_recall(tmp_path, without(gone), sizes=[2], lose_at_most=0.4))
    assert (result.version, result.nested_results[0].version, len(texts)) == (2, 2, 2), "half of the smaller one may go"


@pytest.mark.thorough
def test_an_import_that_lost_most_of_its_queries_is_refused_and_the_option_accepts_it(tmp_path: Path) -> None:
    def import_rows(count: int, *words: str) -> Ended:
        rows = "".join(f"{n}.jpg,https://a/{n},第{n}张\n" for n in range(count))
        (tmp_path / "wukong_test.csv").write_text("dir,url,text\n" + rows, "utf-8")
        return invoke("import", "wukong_test", tmp_path, tmp_path / "sets/wukong", "--json", *words)

    assert json.loads(import_rows(5).stdout)["version"] == 1
    stopped = import_rows(3)
    assert stopped.exit_code == 1 and "would lose 2 of its 5 queries (40%)" in (told := str(stopped.exception))
    assert "whose" not in told and "not generated again" in told and "--lose-at-most 1" in told
    assert json.loads(import_rows(3, "--lose-at-most", "1").stdout)["version"] == 2


@pytest.mark.parametrize("value", ["-0.1", "1.1", ".nan", "much"])
def test_a_share_is_between_nothing_and_all(tmp_path: Path, value: str) -> None:
    with pytest.raises(UserError, match="lose_at_most"):
        load_definition(define_recall(tmp_path), [f"lose_at_most={value}"], "recall")


@pytest.mark.thorough
def test_the_command_says_so_and_what_to_set(tmp_path: Path) -> None:
    words = ("build", "recall", define_recall(tmp_path), "--json")
    assert json.loads(invoke(*words).stdout)["version"] == 1
    define_recall(tmp_path, without("beach", "park"))
    stopped = invoke(*words)
    assert (stopped.exit_code, stopped.stdout) == (1, "") and "\n" not in str(stopped.exception)
    assert re.search(r"would lose 2 of its 5 queries \(40%\).*--set lose_at_most=1", str(stopped.exception))
    assert json.loads(invoke(*words, "--set", "lose_at_most=1").stdout)["version"] == 2
