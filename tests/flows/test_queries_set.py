"""A set of own queries from a search log and a folder of images, published before anybody has judged."""

import shutil
from pathlib import Path

import pytest

import querytruth as qt
from builders.lint import lint_tables
from builders.publication import BuildResult
from flows.definition_loader import load_definition
from flows.set_kinds import build_set, build_set_with_page, plan_set
from querytruth.errors import UserError
from querytruth.evaluation.judged_sets import load_judged_set
from querytruth.review.result_pool import read_result_pool
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import read_set, verify_set
from tests.images import draw_scene

LOG = """query,count,id
red bicycle,50,x1
Red bicycle!,5,x2
红色自行车,20,x3
🐶,2,x4
anna@example.org,1,x5
ball,1,x6
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    """The set of the log, to be read and not changed."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "photos").mkdir()
    for number in range(4):
        draw_scene(number).save(folder / f"photos/p{number}.png")
    (folder / "log.csv").write_text(LOG, "utf-8")
    return build(folder)


@pytest.fixture
def place(published: BuildResult, tmp_path: Path) -> Path:
    """The log, the images and the set, to be changed."""
    return Path(shutil.copytree(published.path.parents[2], tmp_path / "place"))


def keys(place: Path, *more: str) -> list[str]:
    shared = [f"queries={place / 'log.csv'}", f"images={place / 'photos'}", f"out={place / 'sets'}", "name=mine"]
    return [*shared, "render.size=64", *more]


def build(place: Path, *more: str) -> BuildResult:
    return build_set_with_page(load_definition(None, keys(place, *more), "queries"))


def test_own_queries_are_published_without_judgments(published: BuildResult) -> None:
    result = published
    tables = read_set(result.path).tables
    assert sorted(tables.queries["text"]) == ["ball", "red bicycle", "红色自行车", "🐶"]
    assert tables.queries.set_index("text").loc["red bicycle", "searches"] == 55
    assert len(tables.qrels) == 0 and len(tables.images) == 4
    assert not list(verify_set(result.path))
    findings = {one.check: one for one in lint_tables(tables)}
    assert findings["unjudged_query"].count == 4 and "empty_truth" not in findings and "text_residue" not in findings
    strata = result.manifest["notes"]["log"]["strata"]
    assert sum(one["queries"] for one in strata) == 4 and sum(one["searches"] for one in strata) == 78


def test_nothing_private_leaves_the_log(published: BuildResult) -> None:
    files = [path for path in published.path.parents[1].rglob("*") if path.is_file()]
    assert published.page in files and "The sample" in published.page.read_text("utf-8")
    assert not [path for path in files if b"anna@" in path.read_bytes()]


def test_a_run_may_name_a_query_by_the_id_of_any_of_its_lines(place: Path) -> None:
    (place / "log.csv").write_text(LOG + "RED bicycle,1,anna@example.org\nred bicycle,1,x9\n", "utf-8")
    path = build(place).path
    stored = read_set(path)
    aliases = stored.tables.query_aliases
    assert aliases["source_id"].tolist() == ["x2", "x9"]  # an id that looks private is none
    red = stored.tables.queries.set_index("text").loc["red bicycle", "query_id"]
    image = stored.tables.images["image_id"].iloc[0]
    decision = QueryDecision(red, "red bicycle", "grade", image, relevance=1, reviewer="lin")
    DecisionLog(path.parent, QueryDecision).append([decision])
    result = qt.load("mine", out=place / "sets").apply()
    assert read_set(result.path).tables.query_aliases.equals(aliases)

    for names in (("x9",), ("x2", "x1")):  # of two lines of one query the first name's results count
        rows = [f"{name} Q0 p{place_}.png {place_} {9 - place_} mine" for name in names for place_ in range(4)]
        (place / "run.trec").write_text("\n".join(rows))
        evaluated = qt.evaluate("mine", run=place / "run.trec", out=place / "sets")
        assert evaluated["r@20"] == 1
        assert evaluated.result.counts["ids_of_others"]["queries"] == {"source_id": len(names)}
        assert read_result_pool(read_set(result.path), [place / "run.trec"], 4).pairs


def test_an_evaluation_names_the_next_command(published: BuildResult) -> None:
    with pytest.raises(UserError, match=r"has no judgments yet.*querytruth review mine --run"):
        load_judged_set(published.path)


def test_a_gallery_that_is_published_can_be_searched_with_them(place: Path) -> None:
    gallery = [f"images={place / 'photos'}", f"out={place / 'sets'}", "name=photos", "render.size=64"]
    build_set(load_definition(None, gallery, "gallery"))
    words = [f"queries={place / 'log.csv'}", f"out={place / 'sets'}", "name=others", "gallery=photos"]

    result = build_set(load_definition(None, words, "queries"))

    assert result.manifest["configuration"]["gallery"] == "photos/v1"
    assert result.manifest["counts"]["images"] == 4


def test_the_same_log_publishes_nothing_new(place: Path) -> None:
    assert not build(place).is_new


def test_a_plan_shows_what_would_be_drawn(place: Path) -> None:
    plan = plan_set(load_definition(None, keys(place, "sample.count=3", "name=planned"), "queries"))

    assert plan["queries"] == 3 and plan["images"] == 4 and not (place / "sets/planned/v1").exists()


def test_a_query_without_an_answer_stays_and_is_told_apart(place: Path) -> None:
    """All four photos are wrong for the dog: that is an answer, and a search that shows nothing is right."""
    first = place / "sets" / "mine" / "v1"
    tables = read_set(first).tables
    of_text = tables.queries.set_index("text")["query_id"]
    images = sorted(tables.images["image_id"])
    judged = [("🐶", image, 0) for image in images] + [("ball", images[0], 1), ("red bicycle", images[1], 1)]
    DecisionLog(first.parent, QueryDecision).append(
        [
            QueryDecision(
                query_id=of_text[text], image_id=image, text=text, decision="grade", relevance=grade, reviewer="r"
            )
            for text, image, grade in judged
        ]
    )

    second = build(place)

    stored = read_set(second.path)
    findings = {one.check: one for one in lint_tables(stored.tables)}
    assert len(stored.tables.queries) == 4 and findings["unjudged_query"].count == 1 and "empty_truth" not in findings
    run = place / "mine.trec"
    scores = {"ball": (images[0], 0.9), "red bicycle": (images[1], 0.8), "🐶": (images[2], 0.1)}
    run.write_text("".join(f"{of_text[text]} Q0 {image} 1 {score} x\n" for text, (image, score) in scores.items()))
    found = qt.evaluate(second.path, run=run)
    absent = found.result.counts["absent"]
    assert absent["queries"] == 1 and absent["auroc"] == 1 and absent["shows_nothing"] == {"0.9": 1.0}
    assert found.figures.set_index("metric").loc["hit@1", "value"] == 1, "it counts in no mean"
    weighted = found.weighted.set_index(["metric", "over"])["value"]
    assert weighted["hit@1", "searches"] == weighted["hit@1", "questions"] == 1
