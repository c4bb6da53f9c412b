"""Forecasts of calls to chat models for plans: seconds, tokens and money, from what the reply store measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backends.chat import ChatAnswer, ChatModel, Reply, count_calls_at_once
from backends.replies.call_pace import count_turns
from backends.replies.reply_store import ReplyStore
from flows.definitions.common import PriceOptions

# Of the model and GPU in the seed article, for a model whose pace was not measured.
ASSUMED_CALL_SECONDS = 2.2


@dataclass(frozen=True, slots=True)
class CallForecast:
    """What calls of one role cost. `tokens`, in and out, are None where the endpoint has counted none,
    `cost` without a price."""

    calls: int
    seconds: float
    is_measured: bool
    tokens: tuple[int, int] | None
    cost: float | None
    currency: str


def forecast_calls(
    store: ReplyStore,
    model: ChatModel,
    role: str,
    calls: int,
    *,
    known: Sequence[ChatAnswer] = (),
    price: PriceOptions | None = None,
    at_most_at_once: int | None = None,
) -> CallForecast:
    """Returns the forecast of `calls` questions. `known`: stored answers to questions of the same form, whose tokens
    come before the mean of all replies; `at_most_at_once`: the questions of a wave."""
    at_once = min(count_calls_at_once(model), at_most_at_once or calls or 1)
    measured = store.find_turn_seconds(model.identity, role)
    turn = ASSUMED_CALL_SECONDS if measured is None else measured
    tokens = _mean_tokens(known) or store.find_mean_tokens(model.identity)
    parts = (0, 0) if not calls else None if tokens is None else (round(tokens[0] * calls), round(tokens[1] * calls))
    cost = None
    if price is not None and parts is not None:
        cost = (parts[0] * price.input_per_million + parts[1] * price.output_per_million) / 1e6
    currency = "" if price is None else price.currency
    return CallForecast(calls, count_turns(calls, at_once) * turn, measured is not None, parts, cost, currency)


def summarize_forecasts(forecasts: Sequence[CallForecast]) -> dict[str, Any]:
    """Returns the keys of a plan: `seconds_about`, `seconds_are_measured`, `tokens_about` and `cost_about`, null where
    a part of them is unknown. Costs of several currencies are listed one by one."""
    asked = [one for one in forecasts if one.calls]
    counted = [one.tokens for one in asked if one.tokens is not None]
    tokens = None
    if len(counted) == len(asked):
        tokens = {"input": sum(into for into, _ in counted), "output": sum(out for _, out in counted)}
    costs: dict[str, float] = {}
    for one in asked:
        costs[one.currency] = costs.get(one.currency, 0.0) + (one.cost or 0.0)
    has_costs = bool(asked) and all(one.cost is not None for one in asked)
    return {
        "seconds_about": round(sum(one.seconds for one in asked), 1),
        "seconds_are_measured": all(one.is_measured for one in asked),
        "tokens_about": tokens,
        "cost_about": {name: round(cost, 4) for name, cost in sorted(costs.items())} if has_costs else None,
    }


def _mean_tokens(answers: Sequence[ChatAnswer]) -> tuple[float, float] | None:
    counted = [
        (answer.prompt_tokens, answer.completion_tokens)
        for answer in answers
        if isinstance(answer, Reply) and answer.prompt_tokens is not None and answer.completion_tokens is not None
    ]
    if not counted:
        return None
    return sum(into for into, _ in counted) / len(counted), sum(out for _, out in counted) / len(counted)
