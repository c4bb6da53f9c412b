"""The one way to a chat model: what the store knows is not asked, what is asked is kept at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from backends.chat import ChatAnswer, ChatModel, ChatRequest, Failure
from backends.replies.reply_store import ReplyStore, answers_digest, reply_key
from builders.errors import UserError

_AT_ONCE = 1000  # questions given to the model in one go: bounds what is in memory
NOT_RECORDED = Failure("not_recorded", "transient", "no reply is kept, and none was asked for")


@dataclass(frozen=True, slots=True)
class AnsweredRequests:
    """Answers in the order of the requests. Counts are of distinct questions: `calls` were put to the model now, `hits`
    were known, `missing` have no answer that lasts (offline: these are the calls that a run would make)."""

    answers: list[ChatAnswer]
    keys: list[str]
    calls: int
    hits: int
    missing: int

    @property
    def digest(self) -> str:
        """The same for the same answers, in whatever order and however they were come by."""
        return answers_digest(zip(self.keys, self.answers, strict=True))


def answer_requests(
    store: ReplyStore,
    model: ChatModel,
    requests: Sequence[ChatRequest],
    *,
    offline: bool = False,
    retry_failures: bool = False,
    give_up_after: int = 10,
    advance: Callable[[int], None] = lambda _requests: None,
) -> AnsweredRequests:
    """Ask what the store does not know. `offline` makes no call; `retry_failures` asks again what failed for good;
    after `give_up_after` failures in a row that are the endpoint's the run stops with what it has."""
    keys = [reply_key(model.identity, request) for request in requests]
    if model.is_recorded:
        recorded = model.reply(requests)
        advance(len(requests))
        missing = sum(isinstance(answer, Failure) for answer in recorded)
        return AnsweredRequests([replace(a, raw="") for a in recorded], keys, 0, len(requests) - missing, missing)
    known = store.find(sorted(set(keys)))
    if retry_failures:
        known = {key: answer for key, answer in known.items() if not isinstance(answer, Failure)}
    times = Counter(keys)
    open_questions = {key: request for key, request in zip(keys, requests, strict=True) if key not in known}
    hits = len(known)
    advance(sum(times[key] for key in known))
    if not offline:
        known |= _ask_model(
            store, model, open_questions, give_up_after, lambda some: advance(sum(times[key] for key in some))
        )
    answers = [known.get(key, NOT_RECORDED) for key in keys]
    lasting = sum(not isinstance(a, Failure) or a.kind == "final" for a in known.values())
    return AnsweredRequests(answers, keys, 0 if offline else len(open_questions), hits, len(set(keys)) - lasting)


def _ask_model(
    store: ReplyStore,
    model: ChatModel,
    questions: dict[str, ChatRequest],
    give_up_after: int,
    report_stored: Callable[[Iterable[str]], None],
) -> dict[str, ChatAnswer]:
    """Answers by key, each kept as soon as it is there."""
    answers: dict[str, ChatAnswer] = {}
    keys = list(questions)
    breaker = _Breaker(give_up_after)
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]

        def arrived(some: Sequence[tuple[int, ChatAnswer]], part: list[str] = part) -> bool:
            kept = store.save(model.identity, [(part[place], questions[part[place]], answer) for place, answer in some])
            answers.update({key: replace(answer, raw="") for key, answer in kept.items()})
            report_stored(kept)
            return breaker.goes_on([answer for _, answer in some])

        model.reply([questions[key] for key in part], arrived)
        if breaker.last is not None:
            raise _give_up_error(model, breaker)
    return answers


class _Breaker:
    """Opens when the endpoint, not the questions, is what fails."""

    def __init__(self, give_up_after: int) -> None:
        self._limit = give_up_after
        self.in_a_row = 0
        self.last: Failure | None = None  # set once it is open

    def goes_on(self, answers: Sequence[ChatAnswer]) -> bool:
        for answer in answers:
            is_endpoints = isinstance(answer, Failure) and (
                answer.kind != "final" or answer.reason == "invalid_request"  # a wrong option is in every question
            )
            self.in_a_row = self.in_a_row + 1 if is_endpoints else 0
            is_over = self.in_a_row >= self._limit or getattr(answer, "kind", "") == "blocked"
            if isinstance(answer, Failure) and is_over and self.last is None:
                self.last = answer
        return self.last is None


def _give_up_error(model: ChatModel, breaker: _Breaker) -> UserError:
    last = breaker.last or NOT_RECORDED
    often = "" if last.kind == "blocked" else f"{breaker.in_a_row} questions in a row failed, "
    detail = f" ({last.detail})" if last.detail else ""
    return UserError(
        "ask chat model",
        model.identity.name,
        f"{often}{last.reason}{detail}",
        "fix that, then run the same command: replies that came are kept and not asked for again",
    )
