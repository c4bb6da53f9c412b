"""What a detector saw and annotators left out, decided by a judge that people's answers calibrate."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from builders.lint import lint_tables
from builders.publication import BuildResult
from flows.definition_checks import check_before_build
from flows.definition_loader import load_definition
from flows.rebuild import rebuild_tables
from flows.set_kinds import build_set, plan_set
from querytruth.backends.steps import BuildRun, active_run
from querytruth.cli.build_output import PLAN_PRINTERS
from querytruth.errors import UserError
from querytruth.sets.benchmark_set import open_candidate_judgments
from querytruth.sets.set_files import StoredSet, read_set, verify_set
from tests.flows.scripted_judge import ScriptedJudge, answer_pairs, digests_of, list_judged
from tests.loopback import loopback

COLOURS = {"red": (220, 40, 30), "green": (40, 180, 60), "blue": (40, 60, 220), "yellow": (230, 210, 40)}
IMAGES = 120


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """120 images with squares of one to three colours; annotators left out a third of these, and a detector found them,
    and as many that are not there."""
    chance = random.Random(4)
    (tmp_path / "album").mkdir()
    boxes, seen = list[dict[str, Any]](), list[dict[str, Any]]()
    for number in range(IMAGES):
        pixels = np.random.default_rng(number).integers(60, 160, (48, 96, 3), dtype=np.uint8)
        shown = chance.sample(range(4), chance.randint(1, 3))
        for place in range(4):
            box = {"image_id": number, "category_id": place, "bbox": [24 * place + 2, 8, 20, 32]}
            if place in shown:
                pixels[8:40, 24 * place + 2 : 24 * place + 22] = list(COLOURS.values())[place]
            if place in shown and chance.random() < 0.67:
                boxes.append(box | {"id": len(boxes) + 1})
            elif place in shown or chance.random() < 0.17:
                seen.append(box | {"score": chance.uniform(0.5, 1)})
        Image.fromarray(pixels).save(tmp_path / "album" / f"{number:03}.png")
        (tmp_path / f"{number:03}.txt").write_text(" ".join(list(COLOURS)[place] for place in shown))
    images = [{"id": n, "file_name": f"{n:03}.png", "width": 96, "height": 48} for n in range(IMAGES)]
    names = [{"id": place, "name": name} for place, name in enumerate(COLOURS)]
    (tmp_path / "boxes.json").write_text(json.dumps({"images": images, "annotations": boxes, "categories": names}))
    (tmp_path / "seen.json").write_text(json.dumps(seen))
    return tmp_path


def load(place: Path, name: str = "squares", **keys: Any) -> Any:
    given = {
        "kind": "precision", "name": name, "out": str(place / "sets"), "annotations": str(place / "boxes.json"),
        "images": str(place / "album"), "render": {"size": 64}, "near_duplicates": {"distance": None},
        "searchable": {"min_images": 2}, "mixes": {"levels": 2, "mode": "exhaustive", "min_images": 2},
        "detections": {"results": str(place / "seen.json")}, "lose_at_most": None,
    }  # fmt: skip
    (place / f"{name}.yaml").write_text(json.dumps(given | keys))
    return load_definition(place / f"{name}.yaml", [], "precision")


def build(definition: Any) -> tuple[BuildResult, StoredSet]:
    with active_run(BuildRun()):
        result = build_set(definition)
    return result, read_set(result.path)


def truth_of(place: Path, stored: StoredSet) -> dict[str, set[str]]:
    """By the digest of an image the colours on it."""
    names = dict(zip(stored.tables.images["image_id"], stored.tables.images["file_name"], strict=True))
    digests = digests_of(stored)
    return {digests[image]: set((place / f"{name[:3]}.txt").read_text().split()) for image, name in names.items()}


def test_a_judge_finds_what_annotators_left_out_once_people_calibrate_it(album: Path) -> None:
    _, plain = build(load(album, "plain"))
    shown = truth_of(album, plain)

    def fits(text: str, digest: str) -> bool:
        return {word for word in COLOURS if word in text} <= shown[digest]

    with loopback(ScriptedJudge(fits)) as server:
        judged = load(album, judge=ScriptedJudge.keys(server.url))
        proposed = plan_set(judged)["judge_calls_at_most"]
        first, unknown = build(judged)
        assert len(server.asked) == proposed == first.manifest["notes"]["judge"]["asked"]
        assert len(unknown.tables.qrels) == len(plain.tables.qrels), "no judgment of a judge that nobody checked"
        (stage,) = [one for one in first.manifest["funnel"] if one["stage"] == "judge"]
        assert stage["entered"] == proposed and stage["quarantined"] == {"judge_not_calibrated": proposed}
        assert "too few to trust it" in (first.path / "README.md").read_text("utf-8")

        waiting = open_candidate_judgments(unknown.tables).sample(80, random_state=1)
        answer_pairs(unknown, list(zip(waiting["query_id"], waiting["image_id"], strict=True)), fits)
        done, calibrated = build(judged)
        assert len(server.asked) == proposed, "no question is asked twice"
        assert not build(judged)[0].is_new
    notes, tables = done.manifest["notes"]["judge"], calibrated.tables
    assert 30 <= notes["answers"] <= 80 and notes["reliability"]["area"] > 0.8
    digests, texts = digests_of(calibrated), dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    by_judge = list_judged(tables, "judge")
    right = [fits(texts[query], digests[image]) for query, image in by_judge]
    assert len(by_judge) > 100 and np.mean(right) > 0.85
    known = {*by_judge, *list_judged(tables, "detector"), *list_judged(tables, "human")}
    left_out = [
        (query, image)
        for query, image in zip(unknown.tables.candidate_judgments["query_id"],
                                unknown.tables.candidate_judgments["image_id"], strict=True)
        if fits(texts[query], digests[image])
    ]  # fmt: skip
    assert np.mean([pair in known for pair in left_out]) > 0.85, "the planted truth is found"
    assert not [one for one in lint_tables(tables) if one.severity == "error"], "queries that ask the same agree"
    assert not list(verify_set(done.path))
    assert rebuild_tables(done.path).digest == done.manifest["content_digest"]
    assert any("judgments come from a model" in one for one in done.manifest["known_limitations"])
    assert "Decisions of the judge" in (done.path / "README.md").read_text("utf-8")
    evidence = tables.qrels.loc[tables.qrels["judged_by"] == "judge", "evidence"].astype(str)
    assert evidence.str.match(r"eye: probability [01]\.\d\d \(not annotated: .* \(seen\.json\)").all()


def test_the_plan_says_how_often_the_judge_is_asked(album: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = {"model": "rerank", "options": {"base_url": "http://127.0.0.1:9/v1", "name": "m"}}
    planned = plan_set(load(album, judge=judge))
    PLAN_PRINTERS["precision"](planned)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"at most {planned['judge_calls_at_most']:,} for the judge" in shown
    PLAN_PRINTERS["precision"](plan_set(load(album)))
    assert "for the judge" not in capsys.readouterr().out


def test_a_judge_without_detections_or_that_does_not_listen_is_one_line(album: Path) -> None:
    judge = {"model": "rerank", "options": {"base_url": "http://127.0.0.1:9/v1", "name": "m"}}
    with pytest.raises(UserError, match="propose_from propose, on rendered images"):
        load(album, judge=judge, detections=None)
    with pytest.raises(UserError, match="propose_from propose, on rendered images"):
        load(album, judge=judge, render=None)
    with active_run(BuildRun()), pytest.raises(UserError, match="no server seems to listen there"):
        check_before_build(load(album, judge=judge))
