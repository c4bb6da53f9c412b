"""Requests to a chat model through the reply store: known answers are reused, new ones are stored at once."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from querytruth.backends.models.chat import (
    ChatAnswer,
    ChatModel,
    ChatRequest,
    Failure,
    Reply,
    count_calls_at_once,
    explain_failure,
)
from querytruth.backends.models.question_leases import QuestionPace, Spending
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.backends.models.stored_answers import answers_digest, reply_key
from querytruth.errors import BudgetSpentError, UserError

_POLL_SECONDS = 0.5, 2.0  # between two looks for replies that another run is asking for: at first, at most
_AT_ONCE = 1000  # questions given to the model at once, to bound memory
# A wrong option, or a model that was withdrawn, makes every request invalid: 400, 410, 418, 422 and the like.
_ENDPOINT_WIDE = frozenset({"invalid_request"})
# What some servers send for an image that they cannot take, and any server in distress.
_MAY_BE_OF_ITEM = "server_error", "status 500"
_NEVER_OF_ITEM = frozenset({"connection_failed", "proxy_error", "rate_limited"})
# Failures that say the same as a useless reply: each is about its question, many in a row are about the model.
_USELESS = frozenset({"only_reasoning", "empty_content", "tool_call", "refused"})
_MAX_QUOTE = 80  # characters of a useless reply in a message
FindFault = Callable[[ChatRequest, Reply], str]
NOT_RECORDED = Failure("not_recorded", "transient", "no reply is stored, and the model was not asked")


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
        """Return the digest of the answers, independent of their order and origin."""
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
    find_fault: FindFault = lambda _request, _reply: "",
) -> AnsweredRequests:
    """Return stored answers and ask the model for the others. `offline` makes no call; `retry_failures` repeats final
    failures; `role` names the measured pace; no call starts once the budget of `spending` is spent. Raises
    BudgetSpentError if questions then remain open, and UserError after `give_up_after` failures of the endpoint in a
    row; stored answers remain. `find_fault` returns why a reply is unusable; many unusable replies in a row count as a
    failure of the endpoint and are requested again. Before stopping, a question with a usable answer is asked again: if
    its answer is usable again, the items are at fault, and the run continues."""
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
    elsewhere = store.find_elsewhere(times.keys() - known.keys())
    if elsewhere and not offline:
        questions = dict(zip(keys, requests, strict=True))
        store.save(model.identity, [(key, questions[key], reply) for key, reply in sorted(elsewhere.items())])
    known |= elsewhere
    report(known)
    if not offline:
        open_questions = {key: request for key, request in zip(keys, requests, strict=True) if key not in known}
        pace, spending = QuestionPace(count_calls_at_once(model)), spending or Spending()
        asked = {key: request for key, request in zip(keys, requests, strict=True) if key in known}
        good = _find_good(asked, known, find_fault)
        watch = _EndpointWatch(model, find_fault, give_up_after, good, spending)
        arrived, calls = _ask_model(store, find, open_questions, report, pace, watch)
        store.record_pace(model.identity, role, pace)
        known |= arrived
        if (limit := spending.exhausted_limit) and times.keys() - known.keys():
            raise _budget_error(model, role, spending.describe_limit(limit), limit, len(times), len(known))
    answers = [known.get(key, NOT_RECORDED) for key in keys]
    lasting = sum(not isinstance(a, Failure) or a.kind == "final" for a in known.values())
    hits = len(known) - calls
    return AnsweredRequests(answers, keys, calls, hits, len(times) - lasting)


def _find_good(
    asked: dict[str, ChatRequest], known: dict[str, ChatAnswer], find_fault: FindFault
) -> ChatRequest | None:
    """Return a question with a usable stored reply, or None."""
    replies = ((request, known[key]) for key, request in asked.items())
    good = (request for request, answer in replies if isinstance(answer, Reply) and not find_fault(request, answer))
    return next(good, None)


def _ask_model(
    store: ReplyStore,
    find: Callable[[Sequence[str]], dict[str, ChatAnswer]],
    questions: dict[str, ChatRequest],
    report_stored: Callable[[Iterable[str]], None],
    pace: QuestionPace,
    watch: "_EndpointWatch",
) -> tuple[dict[str, ChatAnswer], int]:
    """Return answers by key, each stored on arrival, and the number of questions that the model was asked. Waits for
    the answers to questions that another run is asking. Once the budget is spent, the other questions stay open."""
    answers: dict[str, ChatAnswer] = {}
    model, spending, calls, leases = watch.model, watch.spending, 0, store.create_leases()
    keys: list[str] = []
    has_arrived, suspected = set[str](), set[str]()

    def save(some: Sequence[tuple[str, ChatAnswer]]) -> None:
        stored = store.save(model.identity, [(key, questions[key], answer) for key, answer in some])
        answers.update({key: replace(answer, raw="") for key, answer in stored.items()})

    def arrived(some: Sequence[tuple[int, ChatAnswer]]) -> bool:
        given = [(keys[place], answer) for place, answer in some]
        save([one for key, answer in given for one in watch.judge(key, questions[key], answer)])
        has_arrived.update(key for key, _ in given)
        suspected.update(key for key, answer in given if _may_be_of_item(answer))
        report_stored([key for key, _ in given])
        pace.count([answer for _, answer in given])
        for key, answer in given:
            spending.count(questions[key], answer)
        return watch.last is None and not spending.exhausted_limit

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
        not_asked: list[str] = []
        if watch.last is not None:
            is_of_endpoint = watch.last.kind == "blocked" or watch.last.reason in _NEVER_OF_ITEM
            if is_of_endpoint or not watch.is_endpoint_well():
                raise _give_up_error(watch)
            save(watch.prove())
            watch.reset()
            not_asked = [key for key in keys if key not in has_arrived]
            calls -= len(not_asked)
        if spending.exhausted_limit:
            save(watch.end())
            return answers, calls
        leased_elsewhere = [key for key in part if key not in held and key not in found]
        waiting = not_asked + waiting[_AT_ONCE:] + leased_elsewhere
        if len(leased_elsewhere) < len(part):
            pause = _POLL_SECONDS[0]
            continue
        time.sleep(pause)
        pause = min(2 * pause, _POLL_SECONDS[1])
    save(watch.end())
    save(_ask_suspects({key: questions[key] for key in sorted(suspected)}, watch))
    return answers, calls


def _ask_suspects(questions: dict[str, ChatRequest], watch: "_EndpointWatch") -> list[tuple[str, ChatAnswer]]:
    """Ask once more what a server failed with status 500, and return the answers. A failure is final where the
    endpoint answers a question well before and after it: the server cannot take the item."""
    if not questions or not watch.is_endpoint_well():
        return []
    allowed = list(questions)[: watch.spending.count_allowed(len(questions))]
    answers = dict(zip(allowed, watch.model.reply([questions[key] for key in allowed]), strict=True))
    for key, answer in answers.items():
        watch.spending.count(questions[key], answer)
    if any(_may_be_of_item(answer) for answer in answers.values()) and watch.is_endpoint_well():
        for key, answer in answers.items():
            if isinstance(answer, Failure) and _may_be_of_item(answer):
                answers[key] = replace(answer, kind="final")
    return list(answers.items())


def _may_be_of_item(answer: ChatAnswer) -> bool:
    reason, detail = _MAY_BE_OF_ITEM
    return isinstance(answer, Failure) and answer.reason == reason and answer.detail.startswith(detail)


class _EndpointWatch:
    """Distinguish a faulty endpoint from faulty items, answer by answer.

    The endpoint is given up (`last`) if many answers in a row fail or are unusable, not for single questions. An answer
    that the endpoint may give to every question becomes final only if usable replies came before and after it; until
    then it is stored as a transient failure."""

    def __init__(
        self, model: ChatModel, find_fault: FindFault, give_up_after: int, good: ChatRequest | None, spending: Spending
    ) -> None:
        """`good`: a question that was answered well, None where none was."""
        self.model, self._find_fault, self._limit, self._good = model, find_fault, give_up_after, good
        self.spending = spending
        self._has_usable = False
        self._open: dict[str, ChatAnswer] = {}  # doubtful answers after the last usable reply
        self.in_a_row = self.faults_in_a_row = 0
        self.last: Failure | None = None

    def judge(self, key: str, request: ChatRequest, answer: ChatAnswer) -> list[tuple[str, ChatAnswer]]:
        """Return the answer to a question as it is to be stored now, after earlier ones that are final by now."""
        fault = self._fault_of(request, answer)
        self._count(answer, fault)
        if isinstance(answer, Reply) and not fault:
            self._has_usable, self._good = True, request
            return [*self.prove(), (key, answer)]
        if isinstance(answer, Reply):
            self._open[key] = answer
            return [(key, Failure(fault, "transient", _quote(answer), answer.raw or answer.text))]
        is_wide = answer.kind == "final" and answer.reason in _ENDPOINT_WIDE
        if fault or (is_wide and self._has_usable):
            self._open[key] = answer
        return [(key, replace(answer, kind="transient") if fault or is_wide else answer)]

    def _fault_of(self, request: ChatRequest, answer: ChatAnswer) -> str:
        if isinstance(answer, Reply):
            return self._find_fault(request, answer)
        return answer.reason if answer.kind == "final" and answer.reason in _USELESS else ""

    def _count(self, answer: ChatAnswer, fault: str) -> None:
        is_systemic = isinstance(answer, Failure) and (answer.kind != "final" or answer.reason in _ENDPOINT_WIDE)
        self.in_a_row = self.in_a_row + 1 if is_systemic else 0
        self.faults_in_a_row = self.faults_in_a_row + 1 if fault else 0
        is_over = self.in_a_row >= self._limit or getattr(answer, "kind", "") == "blocked"
        if self.last is None and isinstance(answer, Failure) and is_over:
            self.last = answer
        elif self.last is None and fault and self.faults_in_a_row >= self._limit * (2 if self._has_usable else 1):
            self.last = Failure(fault, "transient", _quote(answer))

    def prove(self) -> list[tuple[str, ChatAnswer]]:
        """Return the open answers as final: the endpoint answers other questions well."""
        proven, self._open = list(self._open.items()), {}
        return proven

    def end(self) -> list[tuple[str, ChatAnswer]]:
        """Return the answers after the last usable reply that are too few to doubt the model: failures of a
        useless answer and, if the model answered another question well, unusable replies."""
        useless = [(key, one) for key, one in self._open.items() if getattr(one, "reason", "") in _USELESS]
        return useless + [pair for pair in self._open.items() if self._good and isinstance(pair[1], Reply)]

    def is_endpoint_well(self) -> bool:
        """Ask the question again that was answered well."""
        if self._good is None or not self.spending.count_allowed(1):
            return False
        answer = self.model.reply([self._good])[0]
        self.spending.count(self._good, answer)
        return isinstance(answer, Reply) and not self._find_fault(self._good, answer)

    def reset(self) -> None:
        """Begin to count anew: the endpoint is well."""
        self.in_a_row = self.faults_in_a_row = 0
        self.last = None


def _quote(answer: ChatAnswer) -> str:
    return " ".join((answer.text if isinstance(answer, Reply) else answer.detail).split())[:_MAX_QUOTE]


def _budget_error(model: ChatModel, role: str, spent: str, limit: str, total: int, done: int) -> BudgetSpentError:
    reason = f"the budget of {spent} is spent: {done:,} of {total:,} questions ({role}) are answered, "
    reason += f"{total - done:,} remain"
    next_step = f"run the same command to continue, or raise budget.{limit}"
    return BudgetSpentError("ask chat model", model.identity.name, reason, next_step)


def _give_up_error(watch: _EndpointWatch) -> UserError:
    last, model = watch.last or NOT_RECORDED, watch.model
    if watch.faults_in_a_row:
        reason = f"{watch.faults_in_a_row} replies in a row are unusable; the last one: {last.reason} ({last.detail})"
        next_step = (
            "check that the model sees the images and answers without reasoning (prompt, max_tokens, template of "
        )
        next_step += "the server), then run the same command: these questions are asked again"
        return UserError("ask chat model", model.identity.name, reason, next_step)
    often = "" if last.kind == "blocked" else f"{watch.in_a_row} questions in a row failed, "
    reason = f"{often}{last.reason}" + (f" ({last.detail})" if last.detail else "")
    if where := explain_failure(model, last):
        reason += f" {where}"
    next_step = "fix that, then run the same command: received replies are stored and not requested again"
    return UserError("ask chat model", model.identity.name, reason, next_step)
