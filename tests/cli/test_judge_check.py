"""How far a judge can be trusted, by what people answered in an audit or on the review page."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from querytruth.audit import judge_reliability
from querytruth.audit.definition import JudgeOptions
from querytruth.audit.judge_reliability import check_judge
from querytruth.backends.models.chat import ChatAnswer, ChatRequest, OnAnswers, Reply, always_continue
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import locate_images, read_set
from tests.cli import test_audit_judge
from tests.cli.conftest import Run
from tests.cli.test_audit_commands import fill
from tests.small_sets import COLOURS, image_id_of

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
        """What people say; of an image that it does not know, 0."""
        (message,) = request.messages
        relevant = next(
            images for text, images in self.texts.items() if json.dumps(text, ensure_ascii=False) in message.text
        )
        return 2 if self.images.get(message.images[0].sha256) in relevant else 0


class ConstantJudge(PlantedJudge):
    """It says yes with the same probability to everything, as a server does that ignores images."""

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        answers: list[ChatAnswer] = [Reply('{"score": 0.6526}', "stop", 100, 20) for _ in requests]
        on_answers(list(enumerate(answers)))
        return answers


@pytest.fixture
def answered(run: Run, small: Path) -> Path:
    """An audit of all 16 pairs, answered by a person; returns the version."""
    out = ["--out", small.parent / "sets"]
    run("audit", "start", "small", "--run", small, "--depth", 4, *out)
    run("review", "export-csv", "--audit", "audit", "small", "--to", "a.csv", *out)
    fill(Path("a.csv"), test_audit_judge.TRUTH)
    run("review", "import-csv", "--audit", "audit", "small", "a.csv", "--reviewer", "lin", *out)
    return small.parent / "sets" / "small" / "v1"


CHOICE = JudgeOptions(model="replay")


def test_a_judge_is_compared_with_people_and_asked_nothing_twice(answered: Path) -> None:
    judge = PlantedJudge(answered)
    found = check_judge(answered, judge, CHOICE)
    assert found["agreement"]["kappa_relevant"] == 1 and found["agreement"]["relevant_by_people"] == 5 / 16
    assert judge.asked == 16 + 4, "about each pair, and about each query with a grey image"
    again = check_judge(answered, judge, CHOICE)
    assert judge.asked == 20 and again == found


def test_answers_of_the_review_page_count_without_an_audit(run: Run, small: Path) -> None:
    version = small.parent / "sets" / "small" / "v1"
    texts = read_set(version).tables.queries.set_index("query_id")["text"]
    append_decisions(
        version.parent,
        [
            QueryDecision(
                query, texts[query], "grade", image_id_of(name), relevance=2 * (image_id_of(name) in relevant),
                reviewer="wei", view="queries", at=f"2026-01-01T00:00:{number:02}",
            )
            for number, (query, relevant) in enumerate(test_audit_judge.TRUTH.items())
            for name in COLOURS
        ],
    )  # fmt: skip
    assert check_judge(version, PlantedJudge(version), CHOICE)["agreement"]["kappa"] == 1


def test_a_judge_that_always_says_the_same_knows_nothing(answered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_reliability, "FEWEST_CALIBRATED", 10)
    scored = JudgeOptions(model="replay", scores=True)
    found = check_judge(answered, ConstantJudge(answered), scored)
    assert found["reliability"]["area"] == found["without_image"]["area"] == 0.5


def test_a_judge_that_sees_knows_less_with_a_grey_image(answered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_reliability, "FEWEST_CALIBRATED", 10)
    found = check_judge(answered, PlantedJudge(answered), CHOICE)
    assert found["reliability"]["area"] == 1 and found["without_image"]["area"] == 0.5


@pytest.mark.thorough
def test_the_command_shows_the_agreement_and_refuses_a_contestant(run: Run, answered: Path, small: Path) -> None:
    out = ["--out", small.parent / "sets"]
    scores = Path("scores.csv")
    rows = [f"{query},{image_id_of(name)},{len(name) / 10}" for query in test_audit_judge.TRUTH for name in COLOURS]
    scores.write_text("\n".join(["query_id,image_id,score", *rows]) + "\n")
    words = ["judge", "check", "small", "--judge", "scores_file", "--judge-option", f"file={scores}", *out]
    assert "judge scores" in run(*words)[0]
    transcript = test_audit_judge.record(small, wrong=1, name="Tiny-CLIP")
    contestant = ["judge", "check", "small", "--judge", "replay", "--judge-option", f"replies={transcript}", *out]
    assert "is a system of this audit" in run(*contestant, code=1)[1]


def test_too_few_answers_are_named(run: Run, small: Path) -> None:
    version = small.parent / "sets" / "small" / "v1"
    with pytest.raises(UserError, match="people judged 0 of its pairs, but a check needs 10"):
        check_judge(version, PlantedJudge(version), CHOICE)
