"""`apply --accept-at`: a judge's labels enter a set only where people's answers show that they are right."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from querytruth.audit.answers import load_audit, take_answers
from querytruth.audit.definition import AuditKeys
from querytruth.audit.judge import JudgeLabels
from querytruth.audit.judge_card import estimate_precisions
from querytruth.audit.pool import pool_set
from querytruth.audit.steps import start_audit
from querytruth.records import IMAGES_SCHEMA, QUERIES_SCHEMA
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import StoredSet, read_set
from tests.cli.conftest import Run
from tests.small_sets import publish_small_set

QUERIES, IMAGES = [f"q_{n:020}" for n in range(30)], [f"img_{n:020}" for n in range(20)]


def is_relevant(query: str, image: str) -> bool:
    return (int(query[2:]) + int(image[4:])) % 4 == 0


def label(query: str, image: str) -> int:
    """2 for two of three relevant pairs and nothing else; 1 for the others and as many that are not."""
    mark = (int(query[2:]) * 7 + int(image[4:])) % 3
    return (2 if mark else 1) if is_relevant(query, image) else int(mark == 0 and int(image[4:]) % 2)


@pytest.fixture
def answered(tmp_path: Path) -> StoredSet:
    """A set that judges one pair of each query, and an audit with a judge, 200 of whose pairs a person answered."""
    tables = Tables(
        pd.DataFrame({"query_id": QUERIES, "text": QUERIES, "language": "en", "style": "word", "level": 1})
        .reindex(columns=QUERIES_SCHEMA.names)
        .assign(labels=None),
        pd.DataFrame({"image_id": IMAGES, "width": 4, "height": 3}).reindex(columns=IMAGES_SCHEMA.names),
        pd.DataFrame(
            [(query, next(i for i in IMAGES if is_relevant(query, i)), 1, "detector") for query in QUERIES],
            columns=["query_id", "image_id", "relevance", "judged_by"],
        ).astype({"query_id": "category", "image_id": "category", "relevance": "int8", "judged_by": "category"}),
    )
    stored = publish_small_set(tmp_path, tables, images=False)
    run = tmp_path / "all.trec"
    run.write_text("".join(f"{q} Q0 {i} 0 {-n} x\n" for q in QUERIES for n, i in enumerate(IMAGES)))
    pooled = pool_set(stored.path, [run], 20)
    pairs = zip(pooled.pool.pairs["query_id"], pooled.pool.pairs["image_id"], strict=True)
    labels = [label(*pair) for pair in pairs]
    record = {"name": "seer", "revision": "1", "parameters": {}, "prompts": {}, "grades": [0, 1], "digest": "judge_1"}
    judged = JudgeLabels(labels, ["seen"] * len(labels), record)
    start_audit(stored.path, pooled, AuditKeys(), judged)
    audit = load_audit(stored.path, "audit")[0]
    answers = [
        QueryDecision(query, query, "grade", image, relevance=int(is_relevant(query, image)), view="audit",
                      source=audit.manifest["audit_id"], at="2026-01-01T00:00:00+00:00")
        for query, image in zip(audit.sample["query_id"], audit.sample["image_id"], strict=True)
    ]  # fmt: skip
    take_answers(stored.path, answers, [])
    return stored


@pytest.mark.thorough
def test_labels_of_a_precise_grade_enter_and_others_do_not(run: Run, answered: StoredSet) -> None:
    out = ["--out", answered.path.parents[1]]
    run("apply", "small", "--accept-at", 0.85, *out)
    after = read_set(answered.path.parent / "v2")
    entered = after.tables.qrels[after.tables.qrels["judged_by"] == "model"]
    assert len(entered) > 20 and set(entered["relevance"]) == {2} and set(entered["evidence"]) == {"seer: seen"}
    assert all(is_relevant(*pair) for pair in zip(entered["query_id"], entered["image_id"], strict=True))
    by_people = after.tables.qrels[after.tables.qrels["judged_by"] == "human"]
    assert len(by_people) == 300 and not after.tables.qrels.duplicated(["query_id", "image_id"]).any()
    assert after.manifest["models"][-1]["name"] == "seer"
    assert "labels of seer; precision at least grade 2" in after.manifest["known_limitations"][-1]
    assert "which v2 has changed" in run("apply", "small", "--accept-at", 0.85, *out, code=1)[1]


@pytest.mark.thorough
def test_without_the_option_no_label_enters_and_imprecise_ones_are_refused(run: Run, answered: StoredSet) -> None:
    out = ["--out", answered.path.parents[1]]
    error = run("apply", "small", "--accept-at", 1, *out, code=1)[1]
    assert "no grade of the judge is precise enough for 1" in error and "2: 1.00 (from 0." in error
    assert "is no audit of this set" in run("apply", "small", "--accept-at", 0.9, "--audit", "x", *out, code=1)[1]
    run("apply", "small", *out)
    after = read_set(answered.path.parent / "v2")
    assert "model" not in set(after.tables.qrels["judged_by"]) and len(after.tables.qrels) == 300


@pytest.mark.thorough
def test_a_version_with_labels_is_intact_and_rebuilds_to_the_same_digest(
    run: Run, make_world: Callable[..., Path], tmp_path: Path
) -> None:
    run("build", "precision", make_world())
    stored = read_set(next(tmp_path.rglob("v1/manifest.json")).parent)
    name, out = stored.manifest["name"], ["--out", stored.path.parents[1]]
    queries, images = (list(table.iloc[:, 0].astype(str)) for table in (stored.tables.queries, stored.tables.images))
    trec = tmp_path / "all.trec"
    trec.write_text("".join(f"{q} Q0 {i} 0 {-n} x\n" for q in queries for n, i in enumerate(images)))
    pooled = pool_set(stored.path, [trec], 20)
    labels = [1 + place % 2 for place in range(len(pooled.pool.pairs))]
    record = {"name": "seer", "revision": "1", "parameters": {}, "prompts": {}, "grades": [0, 1], "digest": "judge_1"}
    judged = JudgeLabels(labels, ["seen"] * len(labels), record)
    start_audit(stored.path, pooled, AuditKeys(judgments=100), judged)
    audit = load_audit(stored.path, "audit")[0]
    texts = dict(zip(queries, stored.tables.queries["text"], strict=True))
    graded = dict(zip(zip(audit.pool["query_id"], audit.pool["image_id"], strict=True), labels, strict=True))
    take_answers(
        stored.path,
        [QueryDecision(query, texts[query], "grade", image, relevance=int(graded.get((query, image), 0) == 2),
                       view="audit", source=audit.manifest["audit_id"], at="2026-01-01T00:00:00+00:00")
         for query, image in zip(audit.sample["query_id"], audit.sample["image_id"], strict=True)],
        [],
    )  # fmt: skip
    run("apply", name, "--accept-at", 0.5, *out)
    after = read_set(stored.path.parent / "v2")
    assert after.manifest["notes"]["accepted_labels"] == [{"audit": "audit", "grades": [2], "extensions": 0}]
    assert (after.tables.qrels["judged_by"] == "model").sum() > 5
    assert "intact" in run("verify", f"{name}/v2", *out)[0]
    assert "same content digest" in run("rebuild", f"{name}/v2", "--check", *out)[0]
    instances = tmp_path / "instances.json"
    instances.write_text(instances.read_text().replace('"car"', '"van"'))
    shown = run("rebuild", f"{name}/v2", "--check", *out, code=1)[0]
    assert "published was" in shown and "input instances.json is not the file" in shown and "queries" in shown
    audit.path.rename(tmp_path / "gone")
    assert "is no audit of this set" in run("rebuild", f"{name}/v2", "--check", *out, code=1)[1]


def test_precisions_are_of_each_grade() -> None:
    found = estimate_precisions([1, 0, 2, 1], [2, 1, 2, 2], [1.0, 1.0, 1.0, 1.0])
    assert list(found) == [2, 1] and found[2].value == 1 and 0.3 < found[2].low < 1 and found[1].value == 0
    assert estimate_precisions([], [], []) == {}
