"""`ambiguity.policy: judge`: a judge decides the pairs that captions leave open, as people's answers calibrate it."""

import csv
from pathlib import Path
from typing import Any

import pytest

from builders.publication import BuildResult, publish_decisions
from flows.definition_checks import check_before_build, check_definition
from flows.definition_loader import load_definition
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set, plan_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.errors import BudgetSpentError, UserError
from querytruth.sample_album.album_files import SAMPLE_DEFINITIONS_FOLDER
from querytruth.sets import decision_log, set_files
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import verify_set
from tests.flows.bars_set import COLOURS, PLACES, draw_bars
from tests.loopback import CannedResponse, loopback

COPIES = 4
KINDS = [f"{colour} bar {place}" for colour in COLOURS for place in PLACES]


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """48 images: four of each kind of bar, with captions of four wordings, so that words alone don't tell."""
    draw_bars(tmp_path / "album", COPIES)
    wordings = (
        "a {} on grey noise and seen closely",
        "noise and on it a {}",
        "there is a {} here",
        "one {} and much noise",
    )
    lines = ["file_name,language,caption"]
    lines += [f"{number:03}.png,en,{wordings[number % COPIES].format(KINDS[number // COPIES])}" for number in range(48)]
    (tmp_path / "captions.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def keys(place: Path, *more: str, name: str = "bars") -> list[str]:
    given = [f"name={name}", f"out={place / 'sets'}", f"images={place / 'album'}", "render.size=64"]
    given += ["captions.model=captions_file", f"captions.options.path={place / 'captions.csv'}"]
    given += ["captions.prompt=en/caption", "near_duplicates.distance=null", "ambiguity.text_embedder=char_ngrams"]
    return [*given, "ambiguity.policy=judge", *more]


def build(given: list[str], **how: Any) -> BuildResult:
    with active_run(BuildRun(**how)):
        return build_set(load_definition(None, given, "recall"))


def tables_of(result: BuildResult) -> Any:
    return set_files.read_set(result.path).tables


def kinds_of(tables: Any) -> tuple[dict[str, int], dict[str, int]]:
    """By query and by image the kind of bar."""
    image = {row.image_id: int(row.file_name[:3]) // COPIES for row in tables.images.itertuples()}
    return {row.query_id: image[row.source_image_id] for row in tables.queries.itertuples()}, image


def write_scores(place: Path, tables: Any) -> None:
    """A judge that is right of most pairs: .9 and .1, every sixty-first the other way round."""
    queries, images = kinds_of(tables)
    with (place / "scores.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["query_id", "image_id", "score"])
        for number, (query, image) in enumerate((query, image) for query in queries for image in images):
            is_right = (queries[query] == images[image]) != (number % 61 == 0)
            rows.writerow([query, image, round(0.9 if is_right else 0.1, 3)])


def answer(place: Path, tables: Any, count: int) -> None:
    """A person who sees the bars judges so many of the pairs that wait."""
    queries, images = kinds_of(tables)
    texts = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    waiting = tables.candidate_judgments.sample(count, random_state=3)
    said = {"reviewer": "lin", "at": "2026-01-01T00:00:00Z"}
    decisions = [
        QueryDecision(query, texts[query], "grade", image, relevance=int(queries[query] == images[image]), **said)
        for query, image in zip(waiting["query_id"], waiting["image_id"], strict=True)
    ]
    decision_log.append_decisions(place / "sets" / "bars", decisions)


def judged_by(place: Path) -> list[str]:
    return keys(place, "ambiguity.judge.model=scores_file", f"ambiguity.judge.options.file={place / 'scores.csv'}",
                "ambiguity.at_least=0.5")  # fmt: skip


@pytest.mark.thorough
def test_a_judge_puts_nothing_into_the_truth_before_people_answered(album: Path) -> None:
    first = build([*keys(album, name="plain")[:-1], "ambiguity.policy=review"])
    write_scores(album, tables_of(first))
    unknown = build(judged_by(album))
    tables, notes = tables_of(unknown), unknown.manifest["notes"]["ambiguity"]
    assert set(tables.qrels["judged_by"]) == {"caption"} and len(tables.qrels) == 48
    assert notes["judge"]["reliability"] is None and notes["judge"]["merged"] == 0
    asked = notes["judge"]["asked"]
    assert len(tables.candidate_judgments) == asked >= 48 * 10
    (stage,) = [one for one in unknown.manifest["funnel"] if one["stage"] == "judge"]
    assert stage["entered"] == asked and stage["quarantined"] == {"judge_not_calibrated": asked}
    assert "too few to trust it" in (unknown.path / "README.md").read_text("utf-8")

    answer(album, tables, 150)
    calibrated = build(judged_by(album))
    tables, notes = tables_of(calibrated), calibrated.manifest["notes"]["ambiguity"]["judge"]
    queries, images = kinds_of(tables)
    rows = tables.qrels[tables.qrels["judged_by"] == "judge"]
    fits = [queries[row.query_id] == images[row.image_id] for row in rows.itertuples()]
    assert notes["answers"] == 150 and 0 < len(rows) <= notes["merged"] and sum(fits) / len(fits) > 0.6
    assert rows["evidence"].astype(str).str.contains("scores: probability 0.").all()
    assert (tables.qrels["judged_by"] == "human").sum() == 150, "people's answers hold, whatever the judge says"
    waiting = set(zip(tables.candidate_judgments["query_id"], tables.candidate_judgments["image_id"], strict=True))
    assert not waiting & set(zip(rows["query_id"], rows["image_id"], strict=True))
    assert (tables.candidate_judgments["score"] < 0.5).all()
    assert {"judge"} <= {one["role"] for one in calibrated.manifest["models"]}
    card = (calibrated.path / "README.md").read_text("utf-8")
    assert "calibrated on 150 answers of people" in card
    assert any("judgments come from a model" in one for one in calibrated.manifest["known_limitations"])
    assert not list(verify_set(calibrated.path)) and not build(judged_by(album)).is_new
    assert rebuild_tables(calibrated.path).digest == calibrated.manifest["content_digest"]


@pytest.mark.thorough
def test_a_rebuild_uses_the_answers_that_its_version_had(album: Path) -> None:
    first = build([*keys(album, name="plain")[:-1], "ambiguity.policy=review"])
    write_scores(album, tables_of(first))
    answer(album, tables_of(build(judged_by(album))), 60)
    version = build(judged_by(album))
    answer(album, tables_of(version), 60)
    assert rebuild_tables(version.path).digest == version.manifest["content_digest"]
    with active_run(BuildRun()):
        later = publish_decisions(version.path)
    assert later.is_new and (tables_of(later).qrels["judged_by"] == "human").sum() > 60


@pytest.mark.thorough
def test_calls_are_within_the_budget_stored_and_not_made_twice(album: Path) -> None:
    answers = {"results": [{"index": 0, "relevance_score": 0.5}]}
    with loopback(lambda _asked: CannedResponse(answers)) as server:
        judge = ["ambiguity.judge.model=rerank", f"ambiguity.judge.options.base_url={server.url}"]
        judge += ["ambiguity.judge.options.name=m", "ambiguity.candidates.nearest=2"]
        planned = plan_set(load_definition(None, keys(album, *judge), "recall"))
        assert planned["model_calls_again_at_most"] == 2 * 48
        with pytest.raises(BudgetSpentError):
            build(keys(album, *judge, "budget.calls=20"))
        spent = len(server.asked)
        assert 20 <= spent <= 28
        done = build(keys(album, *judge))
        made = done.manifest["envelope"]["calls"]["judge"]["calls"]
        assert len(server.asked) == spent + made == len({one.body for one in server.asked})
        build(keys(album, *judge))
        assert len(server.asked) == spent + made


def test_nothing_is_asked_where_the_judge_does_not_listen(album: Path) -> None:
    judge = ["ambiguity.judge.model=rerank", "ambiguity.judge.options.base_url=http://127.0.0.1:9/v1"]
    definition = load_definition(None, keys(album, *judge, "ambiguity.judge.options.name=m"), "recall")
    with active_run(BuildRun()), pytest.raises(UserError, match="no server seems to listen there"):
        check_before_build(definition)
    assert [one.name for one in check_definition(definition) if one.problem] == ["endpoint of the judge"]


def test_a_judge_that_answers_nothing_is_one_line_and_one_without_a_policy_too(album: Path) -> None:
    (album / "scores.csv").write_text("query_id,image_id,score\nq,i,1\n")
    with pytest.raises(UserError, match="got no reply"):
        build(judged_by(album))
    with pytest.raises(UserError, match="policy: judge needs the key judge"):
        load_definition(None, keys(album), "recall")
    with pytest.raises(UserError, match="policy: judge needs the key judge"):
        load_definition(None, keys(album, "ambiguity.judge.model=embedder", "ambiguity.policy=merge"), "recall")


def captions(place: Path, *more: str) -> tuple[Path, dict[str, int]]:
    given = [f"{part}.options.path={place / 'album' / part}.csv" for part in ("captions", "descriptions")]
    with active_run(BuildRun()):
        given = [*given, f"out={place}", "sizes=[]", *more]
        result = build_set(load_definition(SAMPLE_DEFINITIONS_FOLDER / "recall.yaml", given, "recall"))
    return result.path, result.manifest["notes"]["ambiguity"]["before"]
