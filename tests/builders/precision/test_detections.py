"""A detector's boxes as candidate judgments: what annotators left out comes back through a person's review."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
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
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables, open_candidate_judgments
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import StoredSet, read_set, verify_set
from tests.flows.scripted_judge import ScriptedJudge, answer_pairs, digests_of, list_judged
from tests.loopback import loopback


def right_images(tables: Tables) -> dict[str, set[str]]:
    """Per text the images that are right."""
    text = dict(zip(tables.queries["query_id"], tables.queries["text"], strict=True))
    right = tables.qrels[tables.qrels["relevance"] > 0]
    return {text[query]: set(rows["image_id"]) for query, rows in right.groupby("query_id", observed=True)}


def detections_of(*boxes: tuple[int, int, float]) -> str:
    """Results with (image, category, score)."""
    records = [{"image_id": i, "category_id": c, "bbox": [1, 1, 50, 40], "score": s} for i, c, s in boxes]
    return json.dumps(records)


def test_a_detection_proposes_its_label_and_takes_the_place_of_an_explicit_negative(
    make_world: Callable[..., Path], tmp_path: Path
) -> None:
    # image 1 has a person, no dog (1); image 3 a person and a car (2), no dog
    keys = {"mixes": {"mode": "exhaustive"}, "languages": ["en"], "texts": ["word"]}
    plain = set_files.read_set(build_set(load_definition(make_world("plain", **keys), [], "precision")).path)
    (tmp_path / "yolo.json").write_text(
        detections_of((1, 1, 0.9), (3, 1, 0.8), (5, 1, 0.3), (0, 1, 0.9), (99, 1, 0.9), (1, 77, 0.9), (1, 1, 7.0))
    )
    path = make_world("seen", detections={"results": ["yolo.json"]}, **keys)
    stored = set_files.read_set(build_set(load_definition(path, [], "precision")).path)
    names = dict(zip(stored.tables.images["image_id"], stored.tables.images["file_name"], strict=True))
    texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
    proposed = {
        (texts[row.query_id], names[row.image_id]): row.evidence
        for row in open_candidate_judgments(stored.tables).itertuples()
    }
    assert proposed[("dog", "holiday/0001.jpg")] == "not annotated: dog 0.90 (yolo.json)"
    assert ("car&dog", "holiday/0003.jpg") in proposed or ("dog&car", "holiday/0003.jpg") in proposed
    assert not [name for _, name in proposed if name == "holiday/0005.jpg"], "below the score"
    assert right_images(stored.tables) == right_images(plain.tables)

    def zeros(tables: Tables) -> pd.DataFrame:
        return tables.qrels[tables.qrels["relevance"] == 0]

    lost = len(zeros(plain.tables)) - len(zeros(stored.tables))
    assert lost == sum(text != "dog" for text, _ in proposed), "what may be right is no explicit negative"
    stage = next(one for one in stored.manifest["funnel"] if one["stage"] == "detections")
    assert (stage["entered"], stage["accepted"]) == (7, 2)
    assert stage["rejected"] == {"below_score": 1, "label_annotated": 1}
    assert stage["quarantined"] == {"bad_score": 1, "unknown_category": 1, "unknown_image": 1}
    assert [one["file"] for one in stored.manifest["inputs"]] == ["instances.json", "yolo.json"]


@pytest.mark.thorough
def test_the_reviewer_meets_the_candidates_first_with_the_detected_box(
    make_world: Callable[..., Path], tmp_path: Path
) -> None:
    from querytruth.review.query_cards import QueryCards, ReviewState
    from querytruth.review.query_queue import QueryFilter, filter_groups

    (tmp_path / "yolo.json").write_text(detections_of((3, 1, 0.8)))
    path = make_world(images=True, detections={"results": "yolo.json"}, mixes={"levels": 1}, languages=["en"])
    tables = set_files.read_set(build_set(load_definition(path, [], "precision")).path).tables
    cards = QueryCards(tables, {"1": "", "2": ""}, ReviewState[QueryDecision]("lin", frozenset()))
    first = filter_groups(cards.groups, QueryFilter(), cards.text_of, cards.is_decided)[0]
    image = cards.build_query_card(first.key)["images"][0]
    assert cards.text_of(first.members[0]) in ("dog", "an image of a dog")
    assert (image["relevance"], image["name"]) == (None, "holiday/0003.jpg")
    assert image["boxes"] == [{"label": "dog", "place": 0, "sides": [0.01, 0.0125, 0.51, 0.5125], "score": 0.8}]


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ("{}", "is not a JSON list"),
        ("[", "is not valid JSON"),
        ("[] {}", "has data after the last closing bracket"),
        (None, "cannot be opened"),
        (
            '[{"image_id": 1, "category_id": 1, "bbox": [1, 1, 9, 9], "confidence": 0.9}]',
            r"contains no readable detections \(bad score\)",
        ),
    ],
)
def test_what_is_no_list_of_results_is_one_line(
    make_world: Callable[..., Path], tmp_path: Path, results: str | None, reason: str
) -> None:
    if results is not None:
        (tmp_path / "yolo.json").write_text(results)
    path = make_world(detections={"results": "yolo.json"})
    with pytest.raises(UserError, match=reason):
        build_set(load_definition(path, [], "precision"))


def test_results_for_several_annotation_files_are_refused(make_world: Callable[..., Path]) -> None:
    path = make_world(annotations=["a.json", "b.json"], detections={"results": "yolo.json"})
    with pytest.raises(UserError, match="single annotation file"):
        load_definition(path, [], "precision")


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


def build_and_read(definition: Any) -> tuple[BuildResult, StoredSet]:
    with active_run(BuildRun()):
        result = build_set(definition)
    return result, read_set(result.path)


def truth_of(place: Path, stored: StoredSet) -> dict[str, set[str]]:
    """By the digest of an image the colours on it."""
    names = dict(zip(stored.tables.images["image_id"], stored.tables.images["file_name"], strict=True))
    digests = digests_of(stored)
    return {digests[image]: set((place / f"{name[:3]}.txt").read_text().split()) for image, name in names.items()}


@pytest.mark.thorough
def test_a_judge_finds_what_annotators_left_out_once_people_calibrate_it(album: Path) -> None:
    _, plain = build_and_read(load(album, "plain"))
    shown = truth_of(album, plain)

    def fits(text: str, digest: str) -> bool:
        return {word for word in COLOURS if word in text} <= shown[digest]

    with loopback(ScriptedJudge(fits)) as server:
        judged = load(album, judge=ScriptedJudge.keys(server.url))
        proposed = plan_set(judged)["judge_calls_at_most"]
        first, unknown = build_and_read(judged)
        assert len(server.asked) == proposed == first.manifest["notes"]["judge"]["asked"]
        assert len(unknown.tables.qrels) == len(plain.tables.qrels), "no judgment of a judge that nobody checked"
        (stage,) = [one for one in first.manifest["funnel"] if one["stage"] == "judge"]
        assert stage["entered"] == proposed and stage["quarantined"] == {"judge_not_calibrated": proposed}
        assert "too few to trust it" in (first.path / "README.md").read_text("utf-8")

        waiting = open_candidate_judgments(unknown.tables).sample(80, random_state=1)
        answer_pairs(unknown, list(zip(waiting["query_id"], waiting["image_id"], strict=True)), fits)
        done, calibrated = build_and_read(judged)
        assert len(server.asked) == proposed, "no question is asked twice"
        assert not build_and_read(judged)[0].is_new
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
