"""A build's requests to chat models: asked once, stored, counted, limited by a budget, and forecast in plans.

Prompts and cleaning rules have names: a definition's own files come before those of `prompts/`. A forecast states
seconds, tokens and money, from what the reply store of the definition measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import prompts
from querytruth.backends.files.safe_paths import open_regular
from querytruth.backends.models.cached_replies import AnsweredRequests, FindFault, answer_requests
from querytruth.backends.models.chat import ChatAnswer, ChatModel, ChatRequest, Failure, Reply, count_calls_at_once
from querytruth.backends.models.question_leases import Spending, count_turns
from querytruth.backends.models.reply_store import ReplyStore, open_reply_store
from querytruth.backends.steps import current_run
from querytruth.definitions import BudgetOptions, PriceOptions
from querytruth.errors import UserError, translate_read_errors
from querytruth.records import content_id
from querytruth.sets.manifest import Input, Provenance, describe_model
from querytruth.sets.published_files import is_own_version, newest_version

_STAGE = "read prompt"
_LIMIT = 1 << 20  # bytes
_NO_FILES: Mapping[str, str] = MappingProxyType({})
# Of the model and GPU in the seed article, for a model whose pace was not measured.
_BYTES_A_TOKEN = 3.5  # of UTF-8: four letters of English, or a Chinese character
_PIXELS_A_TOKEN = 28 * 28  # of models of the Qwen-VL kind
_LONGEST_REPLY = 512  # tokens of a reply without a limit
ASSUMED_CALL_SECONDS = 2.2


def load_prompt(name: str, own_files: Mapping[str, str] = _NO_FILES, like: str | None = None) -> prompts.PromptTemplate:
    """Return the prompt of a name: of the file that `own_files` has for it, or a shipped one. `like`: a shipped prompt
    with the same fields. Raises UserError where there is none, or where fields differ."""
    template = _load(name, own_files)
    if like is not None and template.fields != (expected := prompts.load_template(like).fields):
        listed = ", ".join(sorted(f"{{{field}}}" for field in expected)) or "none"
        item = own_files.get(name, name)
        next_step = f"it needs exactly these fields: {listed}"
        raise UserError(_STAGE, item, f"does not have the same fields as {like}", next_step)
    return template


def _load(name: str, own_files: Mapping[str, str]) -> prompts.PromptTemplate:
    if name in own_files:
        text = read_text(Path(own_files[name])).strip("\n")
        if not text.strip():
            raise UserError(_STAGE, own_files[name], "is empty", "write the question to ask the model")
        return prompts.PromptTemplate(name, text)
    try:
        return prompts.load_template(name)
    except OSError:
        next_step = "choose a file in prompts/, or give prompt_files a file with this name"
        raise UserError(_STAGE, name, "is not a known prompt", next_step) from None


def read_text(path: Path) -> str:
    with translate_read_errors(_STAGE, path, "fix the path in the definition"):
        with open_regular(path) as file:
            data = file.read(_LIMIT + 1)
        if len(data) > _LIMIT:
            raise UserError(_STAGE, path, "is larger than one megabyte", "give a file with one prompt, or rules")
        return data.decode("utf-8-sig").replace("\r\n", "\n")


class AskingDefinition(Protocol):
    """A definition of a kind of set whose build asks chat models."""

    @property
    def name(self) -> str:
        """Return the name of the set."""

    @property
    def out(self) -> Path:
        """Return the folder of all sets."""

    @property
    def replies(self) -> str | None:
        """Return a reply store; None: the one beside the set's versions."""

    @property
    def budget(self) -> BudgetOptions | None:
        """Return the budget of a run."""


def open_definition_replies(definition: AskingDefinition) -> ReplyStore:
    """Open the reply store that the definition names, or the one beside the set's versions: what a set under another
    name was answered is read from there. Only sets that this user published are asked: others may hold anything."""
    own = definition.out / definition.name / "replies.sqlite"
    if definition.replies is not None:
        return open_reply_store(definition.replies)
    places = [place for place in sorted(definition.out.glob("*/replies.sqlite")) if place != own]
    newest = {place: newest_version(place.parent) for place in places}
    others = [place for place, number in newest.items() if number and is_own_version(place.parent / f"v{number}")]
    return open_reply_store(own, others)


@dataclass(slots=True)
class ChatSession:
    """The requests of a build to chat models, with what they came to: models, digests of the answers, calls.
    `batches_by_role` collects them by role; a role that asks several times counts as one."""

    store: ReplyStore
    spending: Spending = field(default_factory=Spending)
    batches_by_role: dict[str, list[AnsweredRequests]] = field(default_factory=dict)
    models: dict[str, ChatModel] = field(default_factory=dict)

    def ask(
        self,
        role: str,
        model: ChatModel,
        requests: Sequence[ChatRequest],
        find_fault: FindFault = lambda _request, _reply: "",
    ) -> list[ChatAnswer]:
        """Return the answers in the order of the requests; stored ones cost no call. `find_fault` returns why a reply
        is unusable: many of them in a row stop the build."""
        run = current_run()
        with run.reporter.bar(role, len(requests), "replies") as advance:
            flags = {"offline": run.offline, "retry_failures": run.retry_failures}
            batch = answer_requests(
                self.store,
                model,
                requests,
                **flags,
                role=role,
                spending=self.spending,
                advance=advance,
                find_fault=find_fault,
            )
        self.batches_by_role.setdefault(role, []).append(batch)
        self.models[role] = model
        return batch.answers

    def provenance(self) -> Provenance:
        """Return the models, and per role the digest of the answers as an input of the build."""
        inputs = []
        for role, batches in sorted(self.batches_by_role.items()):
            replies = sum(isinstance(answer, Reply) for batch in batches for answer in batch.answers)
            digest = content_id("replies", *[batch.digest for batch in batches])
            inputs.append(Input(file=f"replies: {role}", sha256=digest, counts={"replies": replies}))
        models = [describe_model(role, model.identity) for role, model in sorted(self.models.items())]
        return Provenance(inputs, models)

    def call_counts(self) -> dict[str, dict[str, int]]:
        """Return per role the calls of this run, and the numbers of stored and missing answers."""
        return {
            role: {name: sum(getattr(one, name) for one in rounds) for name in ("calls", "hits", "missing")}
            for role, rounds in sorted(self.batches_by_role.items())
        }


def open_chat_session(definition: AskingDefinition) -> ChatSession:
    """Open a session on the reply store that the definition names, or on the one beside the set's versions."""
    return ChatSession(open_definition_replies(definition), start_spending(definition.budget))


def start_spending(budget: BudgetOptions | None) -> Spending:
    """Return the spending of a run that begins now."""
    return Spending(**budget.model_dump()) if budget is not None else Spending()


def require_a_reply(stage: str, name: str, answers: Sequence[ChatAnswer]) -> None:
    """Raise UserError where questions were asked and the model answered none of them: nothing would come of it."""
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    if failures and len(failures) == len(answers):
        reason = f"got no reply to any of the {len(answers)} questions ({failures[0].reason}: {failures[0].detail})"
        next_step = "run without --offline" if current_run().offline else "fix that, then run the same command"
        raise UserError(stage, name, reason, next_step)


def choose_ledger_bucket(failure: Failure) -> str:
    """Return the ledger's bucket of an item whose question failed: pending where what failed is asked anew."""
    return "rejected" if failure.kind == "final" else "pending"


@dataclass(frozen=True, slots=True)
class CallForecast:
    """The cost of the calls of one role. `tokens`, in and out, are None where the endpoint counted none and nobody
    estimated them, `cost` without a price; `is_counted`: the tokens follow the endpoint's counts of earlier replies."""

    calls: int
    seconds: float
    is_measured: bool
    tokens: tuple[int, int] | None
    cost: float | None
    currency: str
    is_counted: bool = True


def guess_tokens(texts: Sequence[str], limit: int | None, image_side: int | None = None) -> tuple[float, float]:
    """Return the tokens in and out of a question with these texts and, of `image_side` pixels, an image, before the
    first reply: those in by the bytes of the texts and the pixels, those out at most, as a reply's limit has it."""
    image = 0.0 if image_side is None else image_side**2 / _PIXELS_A_TOKEN
    return sum(len(text.encode()) for text in texts) / _BYTES_A_TOKEN + image, float(limit or _LONGEST_REPLY)


def forecast_calls(
    store: ReplyStore,
    model: ChatModel,
    role: str,
    calls: int,
    *,
    known: Sequence[ChatAnswer] = (),
    price: PriceOptions | None = None,
    at_most_at_once: int | None = None,
    guess: tuple[float, float] | None = None,
) -> CallForecast:
    """Return the forecast of `calls` questions. `known`: stored answers to questions of the same form, whose tokens
    come before the mean of all replies, and that before the `guess`; `at_most_at_once`: the questions of a wave."""
    at_once = min(count_calls_at_once(model), at_most_at_once or calls or 1)
    measured = store.find_turn_seconds(model.identity, role)
    turn = ASSUMED_CALL_SECONDS if measured is None else measured
    counted = _mean_tokens(known) or store.find_mean_tokens(model.identity)
    tokens = counted or guess
    parts = (0, 0) if not calls else None if tokens is None else (round(tokens[0] * calls), round(tokens[1] * calls))
    cost = None
    if price is not None and parts is not None:
        cost = (parts[0] * price.input_per_million + parts[1] * price.output_per_million) / 1e6
    currency = "" if price is None else price.currency
    seconds = count_turns(calls, at_once) * turn
    return CallForecast(calls, seconds, measured is not None, parts, cost, currency, counted is not None)


def summarize_forecasts(forecasts: Sequence[CallForecast]) -> dict[str, Any]:
    """Return the keys of a plan: `seconds_about`, `seconds_are_measured`, `tokens_about` and `cost_about`, null where
    a part of them is unknown, and `tokens_are_counted`: false where a part is guessed. Costs of several currencies are
    listed one by one."""
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
        "tokens_are_counted": all(one.is_counted for one in asked),
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
