"""Plans of calls: their number, time, tokens and money, against what an endpoint on loopback then sees."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends import chat
from backends.chat import ChatRequest, GenerationParameters, Message
from backends.replies.cached_replies import answer_requests
from backends.replies.reply_store import ReplyStore
from builders.errors import UserError
from flows.call_forecasts import ASSUMED_CALL_SECONDS, forecast_calls, summarize_forecasts
from flows.definitions import load_definition
from flows.definitions.common import PriceOptions
from flows.set_kinds import build_set, plan_set
from flows.steps import BuildRun, active_run
from tests.flows.test_recall_set import draw
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback

PRICE = PriceOptions(input_per_million=2, output_per_million=10, currency="EUR")


def answer(_asked: ReceivedRequest) -> CannedResponse:
    number = time.monotonic_ns()
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    choice = {"message": {"content": f"桌上放着编号{number}的盒子"}, "finish_reason": "stop"}
    return CannedResponse({"choices": [choice], "usage": usage, "model": "m"})


def slow_answer(asked: ReceivedRequest) -> CannedResponse:
    time.sleep(0.25)
    return answer(asked)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(answer) as running:
        yield running


def load(server: Loopback, at_once: int = 4) -> chat.ChatModel:
    options = {"base_url": server.url, "name": "m", "concurrency": at_once, "pause": 0, "tries": 1}
    return chat.load_chat_model("openai_compatible", **options)


def questions(numbers: range) -> list[ChatRequest]:
    return [ChatRequest((Message("user", str(n)),), GenerationParameters()) for n in numbers]


def test_tokens_and_money_are_those_that_the_endpoint_counted(server: Loopback, tmp_path: Path) -> None:
    model = load(server)
    with ReplyStore(tmp_path / "replies.sqlite") as store:
        before = forecast_calls(store, model, "captions", 10, price=PRICE)
        assert (before.seconds, before.is_measured) == (3 * ASSUMED_CALL_SECONDS, False)  # 4, 4 and 2 side by side
        assert (before.tokens, before.cost) == (None, None)
        assert summarize_forecasts([before])["cost_about"] is None
        answer_requests(store, model, questions(range(8)), role="captions")
        after = forecast_calls(store, model, "captions", 10, price=PRICE)
    assert after.is_measured and after.seconds < ASSUMED_CALL_SECONDS
    assert summarize_forecasts([after])["tokens_about"] == {"input": 1000, "output": 200}
    assert summarize_forecasts([after])["cost_about"] == {"EUR": 0.004}  # 1,000 at 2 and 200 at 10 per million


def test_an_endpoint_that_only_fails_has_no_pace(server: Loopback, tmp_path: Path) -> None:
    server.answer = lambda _asked: CannedResponse("busy", 503)
    with ReplyStore(tmp_path / "replies.sqlite") as store:
        answer_requests(store, load(server), questions(range(4)), role="captions")
        assert not forecast_calls(store, load(server), "captions", 4).is_measured


@pytest.mark.thorough
def test_the_time_is_within_a_fifth_of_what_the_calls_take(server: Loopback, tmp_path: Path) -> None:
    server.answer = slow_answer
    model = load(server, 8)
    with ReplyStore(tmp_path / "replies.sqlite") as store:
        answer_requests(store, model, questions(range(24)), role="captions")
        planned = forecast_calls(store, model, "captions", 40)
        start = time.monotonic()
        assert answer_requests(store, model, questions(range(24, 64)), role="captions").calls == planned.calls
        taken = time.monotonic() - start
    assert planned.seconds == pytest.approx(taken, rel=0.2)


def definition(place: Path, server: Loopback) -> Any:
    options = f"{{base_url: {server.url}/v1, name: m, pause: 0, tries: 1, concurrency: 2}}"
    keys = [f"images={place / 'album'}", f"out={place / 'sets'}", "name=album", "render.size=64", "lose_at_most=null"]
    price = "captions.price={input_per_million: 2, output_per_million: 10}"
    more = ["captions.model=openai_compatible", f"captions.options={options}", "ambiguity.text_embedder=null"]
    return load_definition(None, [*keys, *more, price, "near_duplicates.distance=null"], "recall")


@pytest.mark.thorough
def test_a_build_asks_as_often_as_planned_and_a_price_is_in_no_manifest(server: Loopback, tmp_path: Path) -> None:
    draw(tmp_path / "album", ["a", "b", "c"])
    asked = []
    with active_run(BuildRun()):
        for names in (["a", "b", "c"], ["a", "b", "c", "d", "e"]):
            draw(tmp_path / "album", names)
            plan, before = plan_set(definition(tmp_path, server)), len(server.asked)
            result = build_set(definition(tmp_path, server))
            asked.append((plan["model_calls"], len(server.asked) - before))
    assert asked == [(3, 3), (2, 2)]
    assert plan["tokens_about"] == {"input": 200, "output": 40} and plan["cost_about"] == {"USD": 0.0008}
    assert "per_million" not in (result.path / "manifest.json").read_text("utf-8")


def test_a_currency_has_three_letters(server: Loopback, tmp_path: Path) -> None:
    wrong = ["captions.price={input_per_million: 2, output_per_million: 1, currency: euro}", f"images={tmp_path}"]
    with pytest.raises(UserError, match=r"captions\.price\.currency"):
        load_definition(None, ["name=a", *wrong], "recall")
