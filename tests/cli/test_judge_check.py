"""A judge's card: its agreement with people, and what it costs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from querytruth.audit.definition import AuditKeys
from querytruth.audit.judge_card import check_judge
from querytruth.audit.pool import pool_set
from querytruth.audit.steps import plan_audit
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, OnAnswers, Reply, always_continue
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError
from querytruth.sets.set_files import locate_images, read_set
from tests.cli import test_audit_judge
from tests.cli.conftest import Run
from tests.cli.test_audit_commands import fill

small = test_audit_judge.small


class PlantedJudge:
    """It knows the truth."""

    is_recorded = False

    def __init__(self, version: Path, revision: str = "r1") -> None:
        stored = read_set(version)
        self.identity = ModelIdentity("planted", revision)
        texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
        self.texts = {texts[query]: images for query, images in test_audit_judge.TRUTH.items()}
        self.images = {place.sha256: place.image_id for place in locate_images(stored)}
        self.asked = 0

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        self.asked += len(requests)
        answers: list[ChatAnswer] = [Reply(f'{{"grade": {self.grade(one)}}}', "stop", 100, 20) for one in requests]
        on_answers(list(enumerate(answers)))
        return answers

    def grade(self, request: ChatRequest) -> int:
        (message,) = request.messages
        relevant = next(images for text, images in self.texts.items() if text in message.text)
        return 2 if self.images[message.images[0].sha256] in relevant else 0


@pytest.fixture
def answered(run: Run, small: Path) -> Path:
    """An audit of all 16 pairs, answered by a person; returns the version."""
    out = ["--out", small.parent / "sets"]
    run("audit", "start", "small", "--run", small, "--depth", 4, *out)
    run("review", "export-csv", "--audit", "audit", "small", "--to", "a.csv", *out)
    fill(Path("a.csv"), test_audit_judge.TRUTH)
    run("review", "import-csv", "--audit", "audit", "small", "a.csv", "--reviewer", "lin", *out)
    return small.parent / "sets" / "small" / "v1"


@pytest.mark.thorough
def test_the_card_has_the_agreement_and_asks_nothing_twice(answered: Path) -> None:
    judge = PlantedJudge(answered)
    card, file = check_judge(answered, "audit", judge)
    assert card["agreement"]["kappa_relevant"] == 1 and card["agreement"]["relevant_by_people"] == 5 / 16
    assert card["per_1000_pairs"]["tokens"] == 120_000 and card["per_1000_pairs"]["seconds"] > 0
    assert judge.asked == 16
    again, _ = check_judge(answered, "audit", judge)
    assert judge.asked == 16 and again["agreement"] == card["agreement"]
    assert json.loads(file.read_text())["digest"] == card["digest"]


@pytest.mark.thorough
def test_a_plan_has_the_costs_of_the_card_and_a_stale_one_is_refused(answered: Path, small: Path) -> None:
    check_judge(answered, "audit", PlantedJudge(answered))
    pooled = pool_set(answered, [small], 3)
    planned = plan_audit(answered, pooled, AuditKeys(), PlantedJudge(answered))
    assert planned["judge_cost"]["tokens"] == 120 * planned["judge_calls"]
    with pytest.raises(UserError, match="is stale: the model's revision"):
        plan_audit(answered, pooled, AuditKeys(), PlantedJudge(answered, "r2"))


@pytest.mark.thorough
def test_the_command_shows_the_card_and_refuses_a_contestant(run: Run, answered: Path, small: Path) -> None:
    out = ["--out", small.parent / "sets"]

    def words(name: str) -> list[object]:
        transcript = test_audit_judge.record(small, wrong=1, name=name)
        return ["judge", "check", "small", "--judge", "replay", "--judge-option", f"replies={transcript}", *out]

    shown = run(*words("seer"))[0]
    assert "judge seer: kappa of grades" in shown and "written: " in shown
    assert "is a system of this audit" in run(*words("Tiny-CLIP"), code=1)[1]
    assert run(*words("Tiny-CLIP"), "--allow-contestant")[0]
    assert "is no audit of this set" in run(*words("seer"), "--name", "other", code=1)[1]
