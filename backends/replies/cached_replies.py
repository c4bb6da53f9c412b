"""Requests to a chat model through the reply store: known answers are reused, new ones are stored at once."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from backends.chat import ChatAnswer, ChatModel, ChatRequest, Failure, Reply, count_calls_at_once, explain_failure
from backends.replies.call_pace import QuestionPace
from backends.replies.reply_keys import answers_digest, reply_key
from backends.replies.reply_store import ReplyStore
from backends.replies.spending import Spending
from builders.errors import BudgetSpentError, UserError

_POLL_SECONDS = 0.5, 2.0  # between two looks for replies that another run is asking for: at first, at most
_AT_ONCE = 1000  # questions given to the model at once, to bound memory
# A wrong option, or a model that was withdrawn, makes every request invalid: 400, 410, 418, 422 and the like.
_ENDPOINT_WIDE = frozenset({"invalid_request"})
NOT_RECORDED = Failure("not_recorded", "transient", "no reply is stored, and none was asked for")


@dataclass(frozen=True, slots=True)
class AnsweredRequests:
    """Answers in the order of the requests. Counts are of distinct questions: `calls` were sent to the model, `hits`
    were stored, `missing` have no lasting answer (offline: the calls that a run would make)."""

    answers: list[ChatAnswer]
    keys: list[str]
    calls: int
    hits: int
    missing: int

    @property
    def digest(self) -> str:
        """The digest of the answers, independent of their order and origin."""
        return answers_digest(zip(self.keys, self.answers, strict=True))


def answer_requests(
    store: ReplyStore,
    model: ChatModel,
    requests: Sequence[ChatRequest],
    *,
    offline: bool = False,
    retry_failures: bool = False,
    give_up_after: int = 10,
    role: str = "",
    spending: Spending | None = None,
    advance: Callable[[int], None] = lambda _requests: None,
) -> AnsweredRequests:
    """Returns stored answers and asks the model for the others. `offline` makes no call; `retry_failures` repeats final
    failures; `role` is that of the measured pace; no call starts once the budget of `spending` is spent. Raises
    BudgetSpentError where that leaves questions open, and UserError after `give_up_after` failures of the endpoint
    in a row; stored answers remain."""
    keys = [reply_key(model.identity, request) for request in requests]
    if model.is_recorded:
        recorded = model.reply(requests)
        advance(len(requests))
        missing = sum(isinstance(answer, Failure) for answer in recorded)
        return AnsweredRequests([replace(a, raw="") for a in recorded], keys, 0, len(requests) - missing, missing)
    times, calls = Counter(keys), 0

    def find(some: Sequence[str]) -> dict[str, ChatAnswer]:
        stored = store.find(some)
        return {key: a for key, a in stored.items() if not (retry_failures and isinstance(a, Failure))}

    def report(some: Iterable[str]) -> None:
        advance(sum(times[key] for key in some))

    known = find(sorted(times))
    report(known)
    if not offline:
        open_questions = {key: request for key, request in zip(keys, requests, strict=True) if key not in known}
        pace, spending = QuestionPace(count_calls_at_once(model)), spending or Spending()
        arrived, calls = _ask_model(store, find, model, open_questions, give_up_after, report, pace, spending)
        store.record_pace(model.identity, role, pace)
        known |= arrived
        if (limit := spending.exhausted_limit) and times.keys() - known.keys():
            raise _budget_error(model, role, spending.describe_limit(limit), limit, len(times), len(known))
    answers = [known.get(key, NOT_RECORDED) for key in keys]
    lasting = sum(not isinstance(a, Failure) or a.kind == "final" for a in known.values())
    hits = len(known) - calls
    return AnsweredRequests(answers, keys, calls, hits, len(times) - lasting)


def _ask_model(
    store: ReplyStore,
    find: Callable[[Sequence[str]], dict[str, ChatAnswer]],
    model: ChatModel,
    questions: dict[str, ChatRequest],
    give_up_after: int,
    report_stored: Callable[[Iterable[str]], None],
    pace: QuestionPace,
    spending: Spending,
) -> tuple[dict[str, ChatAnswer], int]:
    """Returns answers by key, each stored on arrival, and the number of questions that the model was asked. Waits for
    the answers to questions that another run is asking. Once the budget is spent, the other questions stay open."""
    answers: dict[str, ChatAnswer] = {}
    calls, leases = 0, store.create_leases()
    breaker, doubts = _Breaker(give_up_after), _DoubtfulFailures()
    keys: list[str] = []

    def arrived(some: Sequence[tuple[int, ChatAnswer]]) -> bool:
        proven = doubts.resolve([(keys[place], answer) for place, answer in some])
        stored = store.save(model.identity, [(key, questions[key], answer) for key, answer in proven])
        answers.update({key: replace(answer, raw="") for key, answer in stored.items()})
        report_stored([keys[place] for place, _ in some])
        pace.count([answer for _, answer in some])
        for place, answer in some:
            spending.count(questions[keys[place]], answer)
        breaker.record(answer for _, answer in some)
        return breaker.last is None and not spending.exhausted_limit

    waiting, pause = list(questions), _POLL_SECONDS[0]
    while waiting:
        part = waiting[:_AT_ONCE]
        with leases.hold(part) as held:
            found = find(part)  # another run may have stored them since
            answers |= found
            report_stored(found)
            wanted = [key for key in part if key in held and key not in found]
            keys[:] = wanted[: spending.count_allowed(len(wanted))]
            calls += len(keys)
            if keys:
                with pace.timing():
                    model.reply([questions[key] for key in keys], arrived)
        if breaker.last is not None:
            raise _give_up_error(model, breaker)
        if spending.exhausted_limit:
            return answers, calls
        leased_elsewhere = [key for key in part if key not in held and key not in found]
        waiting = waiting[_AT_ONCE:] + leased_elsewhere
        if len(leased_elsewhere) < len(part):
            pause = _POLL_SECONDS[0]
            continue
        time.sleep(pause)
        pause = min(2 * pause, _POLL_SECONDS[1])
    return answers, calls


class _DoubtfulFailures:
    """Failures that the endpoint may give to every question. One is about its question, and so final, only where a
    reply came before it and another one after it; until then it is transient."""

    def __init__(self) -> None:
        self._has_reply = False
        self._open: dict[str, Failure] = {}

    def resolve(self, arrived: Iterable[tuple[str, ChatAnswer]]) -> list[tuple[str, ChatAnswer]]:
        """Returns the answers with their proven kinds, and earlier failures that are final by now."""
        resolved: list[tuple[str, ChatAnswer]] = []
        for key, answer in arrived:
            if isinstance(answer, Reply):
                resolved += [*self._open.items(), (key, answer)]
                self._open, self._has_reply = {}, True
            elif answer.kind == "final" and answer.reason in _ENDPOINT_WIDE:
                if self._has_reply:
                    self._open[key] = answer
                resolved.append((key, replace(answer, kind="transient")))
            else:
                resolved.append((key, answer))
        return resolved


class _Breaker:
    """Opens when the endpoint fails, not single questions."""

    def __init__(self, give_up_after: int) -> None:
        self._limit = give_up_after
        self.in_a_row = 0
        self.last: Failure | None = None  # set once it is open

    def record(self, answers: Iterable[ChatAnswer]) -> None:
        for answer in answers:
            is_systemic = isinstance(answer, Failure) and (answer.kind != "final" or answer.reason in _ENDPOINT_WIDE)
            self.in_a_row = self.in_a_row + 1 if is_systemic else 0
            is_over = self.in_a_row >= self._limit or getattr(answer, "kind", "") == "blocked"
            if isinstance(answer, Failure) and is_over and self.last is None:
                self.last = answer


def _budget_error(model: ChatModel, role: str, spent: str, limit: str, total: int, done: int) -> BudgetSpentError:
    reason = f"the budget of {spent} is spent: {done:,} of {total:,} questions ({role}) are answered, "
    reason += f"{total - done:,} remain"
    next_step = f"run the same command, which goes on from there, or raise budget.{limit}"
    return BudgetSpentError("ask chat model", model.identity.name, reason, next_step)


def _give_up_error(model: ChatModel, breaker: _Breaker) -> UserError:
    last = breaker.last or NOT_RECORDED
    often = "" if last.kind == "blocked" else f"{breaker.in_a_row} questions in a row failed, "
    reason = f"{often}{last.reason}" + (f" ({last.detail})" if last.detail else "")
    if where := explain_failure(model, last):
        reason += f" {where}"
    next_step = "fix that, then run the same command: received replies are stored and not requested again"
    return UserError("ask chat model", model.identity.name, reason, next_step)
