"""Audits with a judge, and `querytruth judge check`: how far a model can be trusted, by what people answered."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from querytruth.audit import judge_reliability
from querytruth.audit.definition import JudgeOptions
from querytruth.audit.judge import JudgeQuestions, build_judge_requests
from querytruth.audit.judge_reliability import check_judge
from querytruth.audit.pool import pool_set
from querytruth.backends.models.chat import (
    ChatAnswer,
    ChatRequest,
    Failure,
    OnAnswers,
    Reply,
    always_continue,
)
from querytruth.backends.models.chat_completion import read_yes_reply
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError
from querytruth.sets.decision_log import append_decisions
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.set_files import locate_images, read_set
from tests.audited_set import TRUTH, fill, make_audited_set, record
from tests.cli.conftest import Run
from tests.loopback import CannedResponse, loopback
from tests.small_sets import COLOURS, image_id_of, publish_small_set, small_tables
from tests.worlds import chat_reply


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A set, and the run of a system that returns every image; returns the run."""
    return make_audited_set(tmp_path).run.rename(tmp_path / "tiny-clip.trec")


def answer_by_table(run: Run, small: Path, unsure: int = 0) -> None:
    out = ["--out", small.parent / "sets"]
    run("review", "export-csv", "--audit", "audit", "small", "--to", "a.csv", *out)
    fill(Path("a.csv"), TRUTH, unsure)
    run("review", "import-csv", "--audit", "audit", "small", "a.csv", "--reviewer", "lin", *out)


def words(run: Path, transcript: Path) -> list[object]:
    out = run.parent / "sets"
    judge = ["--judge", "replay", "--judge-option", f"replies={transcript}"]
    return ["small", "--run", run, "--depth", 4, *judge, "--out", out]


def test_the_judge_sees_query_grades_and_image(small: Path) -> None:
    requests = build_judge_requests(pool_set(small.parent / "sets" / "small" / "v1", [small], 4))
    texts = [request.messages[0].text for request in requests]
    assert all("2: all that is asked for" in text and "0: not relevant" in text for text in texts)
    assert any("a dog, wet" in text and "Someone typed" in text for text in texts)
    assert any("沙滩上的狗" in text and "有人在图片搜索中输入" in text for text in texts)
    assert {len(request.messages[0].images) for request in requests} == {1}
    assert len({request.messages[0].images[0].sha256 for request in requests}) == 4


@pytest.mark.thorough
def test_labels_divide_the_strata_and_the_report_has_the_judges_card(run: Run, small: Path) -> None:
    given = words(small, record(small, wrong=2))
    planned = run.json("audit", "plan", *given)
    assert planned["judge"] == "seer" and planned["judge_calls"] == 0
    started = run.json("audit", "start", *given)
    assert started["judge"]["name"] == "seer" and started["judge"]["without_grade"] == 0
    assert {row["stratum"].partition(".")[2] for row in started["strata"]} == {"yes", "no"}
    assert sum(row["pairs"] for row in started["strata"]) == 16
    assert run.json("audit", "start", *given) == started
    out = ["--out", small.parent / "sets"]
    shown = run("review", "export-csv", "--audit", "audit", "small", *out, "--to", "a.csv")
    assert "seer" not in Path("a.csv").read_text("utf-8-sig") and "yes" not in Path("a.csv").read_text("utf-8-sig")
    fill(Path("a.csv"), TRUTH)
    run("review", "import-csv", "--audit", "audit", "small", "a.csv", "--reviewer", "lin", *out)
    report = run.json("audit", "report", "small", *out)
    agreement = report["judge"]["agreement"]
    assert agreement["pairs"] == 16 and agreement["relevant_by_people"] == 5 / 16
    wrong = sum(
        number for people, row in agreement["confusion"].items() for grade, number in row.items()
        if (people == "0") != (grade == "0")
    )  # fmt: skip
    assert wrong == 2 and 0 < agreement["kappa_relevant"] < 1
    measures = {row["measure"]: row for row in report["truth"]}
    # All 16 pairs were judged: the set lacks one of the five relevant pairs, and none of its four is wrong.
    assert measures["missing_share"]["value"] == measures["missing_share"]["low"] == pytest.approx(0.2)
    assert measures["wrong_share"]["high"] == pytest.approx(0)
    assert "judge seer: kappa of grades" in run("audit", "report", "small", *out)[0] and shown


@pytest.mark.thorough
def test_a_contestant_a_judge_without_grades_and_a_missing_image_are_one_line(run: Run, small: Path) -> None:
    contestant = words(small, record(small, wrong=0, name="Tiny-CLIP"))
    assert "is a system of this audit" in run.error("audit", "plan", *contestant)
    assert run("audit", "plan", *contestant, "--allow-contestant")[0]
    mute = small.parent / "mute.jsonl"
    mute.write_text(record(small, wrong=0).read_text().splitlines()[0] + "\n")
    error = run.error("audit", "start", *words(small, mute))
    assert "returned no grade (not_recorded" in error and "choose a model that accepts images" in error
    for image in (small.parent / "sets" / "small" / "v1").rglob("*.jpg"):
        image.unlink()
    publish_small_set(small.parent / "other", small_tables(), images=False, name="bare")
    bare = ["bare", *words(small, mute)[1:-1], small.parent / "other" / "sets"]
    assert "image file not available, so the judge cannot see it" in run.error("audit", "start", *bare)
    assert "write KEY=VALUE" in run.error("audit", "plan", *words(small, mute), "--judge-option", "x", code=2)


@pytest.mark.thorough
def test_evaluate_shows_the_corrected_figures_of_the_audited_results_alone(run: Run, small: Path) -> None:
    out = ["--out", small.parent / "sets"]
    evaluated = ["evaluate", "small", "--run", small, *out, "--metrics", "p@1", "--no-page", "--corrected"]
    assert "no audit report of this version" in run.error(*evaluated)
    run("audit", "start", "small", "--run", small, "--depth", 4, *out)
    answer_by_table(run, small)
    run("audit", "report", "small", *out)
    rows = run.json(*evaluated)["corrected"]
    assert {row["system"] for row in rows} == {"tiny-clip"}
    (first,) = [row for row in rows if row["metric"] == "p@1"]
    # The dog is first for all four queries: right for two, of which the set knows one.
    assert (first["before"], first["value"], first["low"], first["high"]) == (0.25, 0.5, 0.5, 0.5)
    shown = run(*evaluated)[0]
    assert "Corrected by audits" in shown
    assert "audit, 16 pairs answered: 20.0% (20.0% to 20.0%) of the relevant pairs are missing" in shown
    assert "0.0% (0.0% to 0.0%) of the relevant pairs of the set are wrong" in shown
    other = small.with_name("other.trec")
    other.write_text("\n".join(f"{query} Q0 {image_id_of('cat')} 0 1 x" for query in TRUTH) + "\n")
    wrong = [other if word == small else word for word in evaluated]
    assert "no audit report of this version covers these results" in run.error(*wrong)
    assert "needs a SET and text-to-image" in run.error(*evaluated, "--direction", "image_to_text", code=2)


class PlantedJudge:
    """It knows the truth."""

    is_recorded = False

    def __init__(self, version: Path, revision: str = "r1") -> None:
        stored = read_set(version)
        self.identity = ModelIdentity("planted", revision)
        texts = dict(zip(stored.tables.queries["query_id"], stored.tables.queries["text"], strict=True))
        self.texts = {texts[query]: images for query, images in TRUTH.items()}
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
    run("audit", "start", "small", "--run", small, "--depth", 4, "--out", small.parent / "sets")
    answer_by_table(run, small)
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
            for number, (query, relevant) in enumerate(TRUTH.items())
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
    rows = [f"{query},{image_id_of(name)},{len(name) / 10}" for query in TRUTH for name in COLOURS]
    scores.write_text("\n".join(["query_id,image_id,score", *rows]) + "\n")
    words = ["judge", "check", "small", "--judge", "scores_file", "--judge-option", f"file={scores}", *out]
    assert "judge scores" in run(*words)[0]
    transcript = record(small, wrong=1, name="Tiny-CLIP")
    contestant = ["judge", "check", "small", "--judge", "replay", "--judge-option", f"replies={transcript}", *out]
    assert "is a system of this audit" in run.error(*contestant)


def test_too_few_answers_are_named(run: Run, small: Path) -> None:
    version = small.parent / "sets" / "small" / "v1"
    with pytest.raises(UserError, match="people judged 0 of its pairs, but a check needs 10"):
        check_judge(version, PlantedJudge(version), CHOICE)


YES = ["Yes", " yes.", "**Yes**", "YES, it shows a dog", "yes\nbecause", "是", "是的，图中有狗", "对。", "符合", "“是”"]
NO = ["No", "no!", "No: it is a cat", "不是。", "否", "不，没有狗"]
NEITHER = [
    "对不起，我看不到图片",
    "不确定",
    "No image was given",
    "Yes and no",
    "是否相关",
    "maybe",
    "",
    "yesterday",
    "1",
]


@pytest.mark.parametrize(("texts", "says"), [(YES, True), (NO, False), ([*NEITHER, "the answer is yes"], None)])
def test_a_yes_or_a_no_is_a_word_of_its_own(texts: list[str], says: bool | None) -> None:
    assert {text: read_yes_reply(text) for text in texts} == dict.fromkeys(texts, says)


def test_a_pair_of_which_half_the_samples_say_nothing_has_no_score() -> None:
    queries = pd.DataFrame({"query_id": ["q"], "text": ["a dog"], "language": ["en"]})
    questions = JudgeQuestions(queries, {}, "yes", 4)

    def said(*texts: str) -> float | None:
        answers = [Reply(one, "stop") if one else Failure("timeout", "transient") for one in texts]
        (score,) = questions.read_scores(answers)
        return score

    assert said("yes", "yes", "no", "yes") == 0.75 and said("yes", "", "no", "no") == pytest.approx(1 / 3)
    assert said("yes", "yes", "", "maybe") is None and said("", "", "", "") is None


def test_an_audit_says_that_its_judge_was_sampled_and_how_often(run: Run, tmp_path: Path) -> None:
    audited, out = make_audited_set(tmp_path), ["--out", tmp_path / "sets"]
    words: list[object] = ["small", "--run", audited.run, "--depth", 4, "--until", "recall=0.9", *out]
    with loopback(lambda asked: chat_reply("Yes." if "dog" in str(asked.json["messages"]) else "No.")) as server:
        words += ["--judge", "openai_compatible", "--judge-option", f"base_url={server.url}/v1"]
        run("audit", "start", *words, "--judge-option", "name=eye", "--judge-samples", 5)
        asked = Counter(one.body for one in server.asked)
    assert len(asked) > 8 and set(asked.values()) == {5}, "each pair five times"
    assert "judge eye (5 samples per pair)" in run("audit", "report", "small", *out)[0]
    assert run.json("audit", "report", "small", *out)["judge"]["samples"] == 5
    for language, sentence in (("en", "The judge answered 5 times per pair"), ("zh", "每一对问了 5 次")):
        run("audit", "report", "small", "--page-language", language, *out)
        assert sentence in (audited.folder / "report.html").read_text("utf-8")


def test_a_judge_without_log_probabilities_is_told_to_be_sampled(run: Run, tmp_path: Path) -> None:
    audited = make_audited_set(tmp_path)
    words: list[object] = ["small", "--run", audited.run, "--depth", 4, "--until", "recall=0.9"]
    words += ["--out", tmp_path / "sets", "--judge-option", "name=eye"]
    with loopback(lambda _asked: CannedResponse({"choices": [{"message": {"content": "yes"}}]})) as server:
        judge = ["--judge", "openai_compatible", "--judge-option", f"base_url={server.url}/v1"]
        told = run.error("audit", "start", *words, *judge, "--judge-scores")
        assert "sample it: --judge-samples 10" in told
    judge = ["--judge", "rerank", "--judge-option", "base_url=http://127.0.0.1:9/v1"]
    assert "sampling has no effect" in run.error("audit", "start", *words, *judge, "--judge-samples", 5)


def write_report(run: Run, folder: Path, *options: str) -> tuple[str, dict]:  # type: ignore[type-arg]
    out = ["--out", folder / "sets"]
    report = run.json("audit", "report", "small", *options, *out)
    page = folder / "sets/small/audits/audit/report.html"
    return page.read_text("utf-8") if page.exists() else "", report


@pytest.fixture
def judged(run: Run, small: Path) -> Path:
    """An audit with a judge that errs twice, answered by a person; returns the folder."""
    run("audit", "start", *words(small, record(small, wrong=2)))
    answer_by_table(run, small, unsure=1)
    return small.parent


@pytest.mark.thorough
def test_the_page_shows_what_was_found_and_who_found_it(run: Run, judged: Path) -> None:
    assert write_report(run, judged, "--no-page")[0] == ""
    page, report = write_report(run, judged)
    (found,) = report["found"]["missing"]["pairs"]
    assert (found["text"], found["grade"], found["reviewers"]) == ("沙滩上的狗", 1, ["lin"])
    assert found["reason_of_judge"] == "what it shows" and report["found"]["missing"]["number"] == 1
    assert report["found"]["wrong"] == {"number": 0, "pairs": []}
    card = page[page.index('<ul class="finds">') : page.index("</ul>", page.index('<ul class="finds">'))]
    assert "沙滩上的狗" in card and "by lin" in card and "the judge:</small> <bdi>what it shows" in card
    assert re.search(r'class="photo p\d+"', card) and "data:image/jpeg;base64," in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "Undecided pairs: 1, left out" in page and "seer" in page
    assert write_report(run, judged)[0] == page  # the same answers, the same bytes
