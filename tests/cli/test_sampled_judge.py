"""A judge whose endpoint gives no log probabilities, asked for a yes or no several times."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from threading import Lock

import numpy as np
import pandas as pd
import pytest

from querytruth.array_types import BoolArray, FloatArray
from querytruth.audit.judge import JudgeQuestions
from querytruth.audit.judge_reliability import rank_area
from querytruth.backends.models.chat import ChatImage, Failure, Reply, load_chat_model
from querytruth.backends.models.chat_completion import read_yes_reply
from tests.cli.conftest import Run
from tests.flows.audited_set import make_audited_set
from tests.images import make_jpeg
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest, loopback
from tests.worlds import chat_reply

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


class Sayer:
    """A chat model that says yes with the probability of the pair, and gives no log probabilities."""

    def __init__(self, chances: FloatArray) -> None:
        self.chances, self.rng, self.lock = chances, np.random.default_rng(0), Lock()

    def __call__(self, asked: ReceivedRequest) -> LoopbackAnswer:
        assert "logprobs" not in asked.json and asked.json["temperature"] > 0
        number = re.search(r"query (\d+)", json.dumps(asked.json["messages"]))
        assert number
        with self.lock:
            says = self.rng.random() < self.chances[int(number[1])]
        return chat_reply("Yes." if says else "No.")


def sample_pairs(place: Path, url: str, count: int, samples: int) -> list[float | None]:
    """The score of each pair of query and image, one image in all."""
    (place / "a.jpg").write_bytes(make_jpeg())
    image = ChatImage(place / "a.jpg", hashlib.sha256(make_jpeg()).hexdigest())
    queries = pd.DataFrame({"query_id": [f"q{n}" for n in range(count)], "language": "en"})
    questions = JudgeQuestions(queries.assign(text=[f"query {n}" for n in range(count)]), {}, "yes", samples)
    model = load_chat_model("openai_compatible", base_url=f"{url}/v1", name="m")
    return questions.read_scores(model.reply(questions.build_all((f"q{n}", image) for n in range(count))))


def plant_chances(count: int) -> tuple[FloatArray, BoolArray]:
    """A fifth of the pairs are relevant; the probability of yes separates them with an AUROC of about .9."""
    rng = np.random.default_rng(1)
    relevant = rng.random(count) < 0.2
    return 1 / (1 + np.exp(-(2.2 * relevant - 1.5 + 1.2 * rng.normal(size=count)))), relevant


def test_more_samples_come_nearer_to_the_probability(tmp_path: Path) -> None:
    chances, relevant = plant_chances(80)
    with loopback(Sayer(chances)) as server:
        scores = {count: sample_pairs(tmp_path, server.url, 80, count) for count in (1, 10)}
    errors = {count: np.abs(np.array(found, dtype=float) - chances).mean() for count, found in scores.items()}
    areas = {count: rank_area(np.array(found, dtype=float), relevant.astype(float)) for count, found in scores.items()}
    assert errors[10] < 0.12 < 0.25 < errors[1] and areas[1] < areas[10] <= rank_area(chances, relevant * 1.0) + 0.06


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
    assert json.loads(run("audit", "report", "small", "--json", *out)[0])["judge"]["samples"] == 5
    for language, sentence in (("en", "The judge answered 5 times per pair"), ("zh", "每一对问了 5 次")):
        run("audit", "report", "small", "--page-language", language, *out)
        assert sentence in (audited.folder / "report.html").read_text("utf-8")


def test_a_judge_without_log_probabilities_is_told_to_be_sampled(run: Run, tmp_path: Path) -> None:
    audited = make_audited_set(tmp_path)
    words: list[object] = ["small", "--run", audited.run, "--depth", 4, "--until", "recall=0.9"]
    words += ["--out", tmp_path / "sets", "--judge-option", "name=eye"]
    with loopback(lambda _asked: CannedResponse({"choices": [{"message": {"content": "yes"}}]})) as server:
        judge = ["--judge", "openai_compatible", "--judge-option", f"base_url={server.url}/v1"]
        told = run("audit", "start", *words, *judge, "--judge-scores", code=1)[1]
        assert "sample it: --judge-samples 10" in told
    judge = ["--judge", "rerank", "--judge-option", "base_url=http://127.0.0.1:9/v1"]
    assert "sampling has no effect" in run("audit", "start", *words, *judge, "--judge-samples", 5, code=1)[1]
