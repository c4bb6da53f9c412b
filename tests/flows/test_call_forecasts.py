"""Plans of calls: their number, time, tokens and money, against what an endpoint on loopback then sees."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.generated.stages import plan_topics
from flows.definition_loader import load_definition
from flows.set_kinds import build_set, plan_set
from querytruth.backends.models import chat
from querytruth.backends.models.cached_replies import answer_requests
from querytruth.backends.models.chat import ChatRequest, GenerationParameters, Message
from querytruth.backends.models.question_leases import Spending
from querytruth.backends.models.reply_store import open_reply_store
from querytruth.backends.steps import BuildRun, active_run
from querytruth.cli.build_output import format_forecast
from querytruth.definitions import BudgetOptions, PriceOptions
from querytruth.errors import BudgetSpentError, UserError
from querytruth.questions import ASSUMED_CALL_SECONDS, forecast_calls, load_prompt, summarize_forecasts
from tests.command_runner import invoke
from tests.flows.test_recall_set import draw
from tests.loopback import CannedResponse, Loopback, ReceivedRequest, loopback
from tests.worlds import chat_reply

PRICE = PriceOptions(input_per_million=2, output_per_million=10, currency="EUR")


def answer(_asked: ReceivedRequest) -> CannedResponse:
    number = time.monotonic_ns() % 10**8  # more digits would look private
    return chat_reply(f"桌上放着编号{number}的盒子", usage={"prompt_tokens": 100, "completion_tokens": 20})


def slow_answer(asked: ReceivedRequest) -> CannedResponse:
    time.sleep(0.5)
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


def test_tokens_and_money_are_those_that_the_endpoint_counted(server: Loopback, reply_location: str) -> None:
    model = load(server)
    with open_reply_store(reply_location) as store:
        before = forecast_calls(store, model, "captions", 10, price=PRICE)
        assert (before.seconds, before.is_measured) == (3 * ASSUMED_CALL_SECONDS, False)  # 4, 4 and 2 side by side
        assert (before.tokens, before.cost) == (None, None)
        assert summarize_forecasts([before])["cost_about"] is None
        answer_requests(store, model, questions(range(8)), role="captions")
        after = forecast_calls(store, model, "captions", 10, price=PRICE)
    assert after.is_measured and after.seconds < ASSUMED_CALL_SECONDS
    assert summarize_forecasts([after])["tokens_about"] == {"input": 1000, "output": 200}
    assert summarize_forecasts([after])["cost_about"] == {"EUR": 0.004}  # 1,000 at 2 and 200 at 10 per million


def test_the_first_plan_guesses_tokens_and_money_by_prompts_and_limits(server: Loopback, tmp_path: Path) -> None:
    """Before any reply: 2 images of 64 pixels, the prompt's bytes, and at most the article's 48 tokens out."""
    draw(tmp_path / "album", ["a", "b"])
    with active_run(BuildRun()):
        plan = plan_set(definition(tmp_path, server))
    prompt = len(load_prompt("zh/caption", {}).text.encode()) / 3.5 + 64 * 64 / 784
    assert plan["tokens_about"] == {"input": round(2 * prompt), "output": 96} and not plan["tokens_are_counted"]
    assert plan["cost_about"] == {"USD": round((2 * round(2 * prompt) + 10 * 96) / 1e6, 4)} and server.asked == []
    assert "96 output tokens at most (estimated from prompts and limits), under 0.01 USD" in format_forecast(plan)


def test_the_first_plan_of_topics_has_a_price(server: Loopback, tmp_path: Path) -> None:
    model = f"{{model: openai_compatible, rounds: 8, options: {{base_url: {server.url}/v1, name: m}}"
    price = "price: {input_per_million: 1000, output_per_million: 1000, currency: CNY}}"
    keys = [f"out={tmp_path}", "name=things", f"topics={model}, {price}", "objects.embedder=char_ngrams"]
    plan = plan_topics(load_definition(None, keys, "generated"))  # type: ignore[arg-type]
    assert plan["model_calls"] == 8 and plan["tokens_about"]["output"] == 8 * 256
    assert plan["cost_about"]["CNY"] == pytest.approx(sum(plan["tokens_about"].values()) / 1000) and not server.asked


def test_a_translation_of_labels_is_planned_with_its_price(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--model-option", f"base_url={server.url}/v1", "--model-option", "name=m")
    words = ("labels", "translate", "coco80", "--language", "en", *options, "--plan")
    said = invoke(*words, "--price", "100/1000 CNY").output
    assert (
        "80 labels, at most 240 calls" in said and "14,400 output tokens at most (estimated" in said and " CNY" in said
    )
    assert server.asked == [] and not list(tmp_path.iterdir())


def test_an_endpoint_that_only_fails_has_no_pace(server: Loopback, reply_location: str) -> None:
    server.answer = lambda _asked: CannedResponse("busy", 503)
    with open_reply_store(reply_location) as store:
        answer_requests(store, load(server), questions(range(4)), role="captions")
        assert not forecast_calls(store, load(server), "captions", 4).is_measured


@pytest.mark.slow
def test_the_time_is_within_a_fifth_of_what_the_calls_take(server: Loopback, tmp_path: Path) -> None:
    server.answer = slow_answer
    model = load(server, 8)
    with open_reply_store(tmp_path / "replies.sqlite") as store:
        answer_requests(store, model, questions(range(1000, 1008)), role="the first connections")
        answer_requests(store, model, questions(range(24)), role="captions")
        planned = forecast_calls(store, model, "captions", 40)
        start = time.monotonic()
        assert answer_requests(store, model, questions(range(24, 64)), role="captions").calls == planned.calls
        taken = time.monotonic() - start
    assert planned.seconds == pytest.approx(taken, rel=0.2)


def definition(place: Path, server: Loopback, *overrides: str) -> Any:
    options = f"{{base_url: {server.url}/v1, name: m, pause: 0, tries: 1, concurrency: 2}}"
    keys = [f"images={place / 'album'}", f"out={place / 'sets'}", "name=album", "render.size=64", "lose_at_most=null"]
    price = "captions.price={input_per_million: 2, output_per_million: 10}"
    more = ["captions.model=openai_compatible", f"captions.options={options}", "ambiguity.text_embedder=char_ngrams"]
    return load_definition(None, [*keys, *more, price, "near_duplicates.distance=null", *overrides], "recall")


@pytest.mark.thorough
def test_a_build_asks_as_often_as_planned_and_a_price_is_in_no_manifest(
    server: Loopback, tmp_path: Path, reply_location: str
) -> None:
    draw(tmp_path / "album", ["a", "b", "c"])
    asked, replies = [], f"replies={reply_location}"
    with active_run(BuildRun()):
        for names in (["a", "b", "c"], ["a", "b", "c", "d", "e"]):
            draw(tmp_path / "album", names)
            plan, before = plan_set(definition(tmp_path, server, replies)), len(server.asked)
            result = build_set(definition(tmp_path, server, replies))
            asked.append((plan["model_calls"], len(server.asked) - before))
    assert asked == [(3, 3), (2, 2)]
    assert plan["tokens_about"] == {"input": 200, "output": 40} and plan["cost_about"] == {"USD": 0.0008}
    assert "per_million" not in (result.path / "manifest.json").read_text("utf-8")


def with_budget(place: Path, server: Loopback, **limits: float) -> Any:
    return definition(place, server).model_copy(update={"budget": BudgetOptions(**limits)})


@pytest.mark.parametrize(
    ("limits", "calls", "spent"),
    [({"calls": 2}, 2, "2 calls"), ({"tokens": 120}, 2, "120 tokens"), ({"hours": 1e-9}, 0, "1e-09 hours")],
)
@pytest.mark.thorough
def test_a_spent_budget_stops_in_order_and_the_next_build_goes_on(
    server: Loopback, tmp_path: Path, limits: dict[str, float], calls: int, spent: str
) -> None:
    draw(tmp_path / "album", ["a", "b", "c"])
    with active_run(BuildRun()):
        with pytest.raises(BudgetSpentError) as stopped:
            build_set(with_budget(tmp_path, server, **limits))
        said = f"the budget of {spent} is spent: {calls} of 3 questions (captions) are answered, {3 - calls} remain"
        assert stopped.value.reason == said and len(server.asked) == calls
        result = build_set(with_budget(tmp_path, server, calls=3))
        assert len(server.asked) == 3, "what was answered is not asked again, and what is left fits the budget"
        assert not build_set(with_budget(tmp_path, server, calls=0)).is_new, "nothing is left to ask"
    assert '"budget"' not in (result.path / "manifest.json").read_text("utf-8")


def test_what_is_asked_side_by_side_stays_in_the_budget(server: Loopback, tmp_path: Path) -> None:
    with open_reply_store(tmp_path / "replies.sqlite") as store, pytest.raises(BudgetSpentError, match="5 of 20"):
        answer_requests(store, load(server, 8), questions(range(20)), spending=Spending(calls=5))
    assert len(server.asked) == 5


def test_tokens_that_an_endpoint_does_not_count_are_estimated() -> None:
    spending = Spending(tokens=10)
    spending.count(questions(range(1))[0], chat.Reply("二十字" * 3, "stop"))
    assert (spending.spent_tokens, spending.exhausted_limit) == (10, "tokens")


def test_a_currency_has_three_letters(server: Loopback, tmp_path: Path) -> None:
    wrong = ["captions.price={input_per_million: 2, output_per_million: 1, currency: euro}", f"images={tmp_path}"]
    with pytest.raises(UserError, match=r"captions\.price\.currency"):
        load_definition(None, ["name=a", *wrong], "recall")
