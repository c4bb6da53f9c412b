"""Asking a model through the store: only what is missing, kept as it comes, and no further than makes sense."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from querytruth.backends.models.cached_replies import NOT_RECORDED, answer_requests
from querytruth.backends.models.chat import (
    NOT_ASKED,
    ChatAnswer,
    ChatRequest,
    Failure,
    Message,
    OnAnswers,
    Reply,
    always_continue,
)
from querytruth.backends.models.reply_store import ReplyStore, open_reply_store
from querytruth.backends.models.stored_answers import reply_key
from querytruth.backends.plugins import ModelIdentity
from querytruth.errors import UserError

DOWN = Failure("connection_failed", "transient", "ConnectionRefusedError")
FILTERED = Failure("content_filter", "final", "withheld")


def question(text: object) -> ChatRequest:
    return ChatRequest((Message("user", str(text)),))


class Scripted:
    """Answers each question as the script says, and remembers what it was asked."""

    is_recorded = False

    def __init__(self, script: Callable[[str], ChatAnswer] = lambda text: Reply(f"re {text}", "stop")) -> None:
        self.identity = ModelIdentity("scripted", "1")
        self.script, self.asked = script, list[str]()

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        answers: list[ChatAnswer] = [NOT_ASKED] * len(requests)
        for place, request in enumerate(requests):
            self.asked.append(request.messages[0].text)
            answers[place] = self.script(request.messages[0].text)
            if not on_answers([(place, answers[place])]):
                break
        return answers

    def explain_failure(self, failure: Failure) -> str:
        return f"at its address: {failure.reason}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplyStore]:
    with open_reply_store(tmp_path / "replies.sqlite") as opened:
        yield opened


def texts(answers: Sequence[ChatAnswer]) -> list[str]:
    return [answer.text if isinstance(answer, Reply) else answer.reason for answer in answers]


def test_a_second_run_asks_only_what_is_new(store: ReplyStore) -> None:
    first = answer_requests(store, Scripted(), [question(n) for n in (3, 1, 2)])
    assert texts(first.answers) == ["re 3", "re 1", "re 2"]
    assert (first.calls, first.hits, first.missing) == (3, 0, 0)
    model = Scripted()
    second = answer_requests(store, model, [question(n) for n in (1, 2, 3, 4)])
    assert texts(second.answers) == ["re 1", "re 2", "re 3", "re 4"]
    assert (second.calls, second.hits, second.missing, model.asked) == (1, 3, 0, ["4"])


def test_a_question_that_stands_twice_is_put_once(store: ReplyStore) -> None:
    model, steps = Scripted(), list[int]()
    result = answer_requests(store, model, [question(n) for n in (1, 2, 1, 1)], advance=steps.append)
    assert texts(result.answers) == ["re 1", "re 2", "re 1", "re 1"]
    assert (model.asked, result.calls, sum(steps)) == (["1", "2"], 2, 4)


def test_offline_makes_no_call_and_says_how_many_there_would_be(store: ReplyStore, tmp_path: Path) -> None:
    model = Scripted()
    assert answer_requests(store, model, [question(1)], offline=True).missing == 1
    assert not list(tmp_path.iterdir()), "a plan leaves nothing behind"
    answer_requests(store, model, [question(1)])
    result = answer_requests(store, model, [question(n) for n in (1, 2, 3, 2)], offline=True)
    assert result.answers[0] == Reply("re 1", "stop")
    assert result.answers[1:] == [NOT_RECORDED] * 3
    assert (result.calls, result.hits, result.missing, model.asked) == (0, 1, 2, ["1"])


def test_each_answer_is_stored_before_the_next_is_asked_for(store: ReplyStore, tmp_path: Path) -> None:
    def script(text: str) -> ChatAnswer:
        with open_reply_store(tmp_path / "replies.sqlite") as other:
            keys = [reply_key(ModelIdentity("scripted", "1"), question(n)) for n in range(int(text))]
            assert len(other.find(keys)) == int(text)
        return Reply("stop", "stop")

    assert answer_requests(store, Scripted(script), [question(n) for n in range(5)]).calls == 5


def test_the_digest_is_that_of_the_answers_however_they_were_come_by(store: ReplyStore) -> None:
    fresh = answer_requests(store, Scripted(), [question(n) for n in (1, 2)])
    known = answer_requests(store, Scripted(), [question(n) for n in (2, 1, 1)], offline=True)
    assert fresh.digest == known.digest
    assert answer_requests(store, Scripted(), [question(1)]).digest != fresh.digest


def test_what_failed_for_good_is_asked_again_only_on_demand(store: ReplyStore) -> None:
    answer_requests(store, Scripted(lambda _text: FILTERED), [question(1)])
    model = Scripted()
    again = answer_requests(store, model, [question(1)])
    assert (again.answers, again.hits, model.asked) == ([FILTERED], 1, [])
    on_demand = answer_requests(store, model, [question(1)], retry_failures=True)
    assert texts(on_demand.answers) == ["re 1"]
    assert answer_requests(store, model, [question(1)], retry_failures=True).hits == 1
    assert model.asked == ["1"]


def test_what_may_pass_is_asked_again_in_the_next_run(store: ReplyStore) -> None:
    result = answer_requests(store, Scripted(lambda _text: DOWN), [question(1)])
    assert (result.answers, result.calls, result.missing) == ([DOWN], 1, 1)
    assert texts(answer_requests(store, Scripted(), [question(1)]).answers) == ["re 1"]


def test_a_run_of_failures_stops_and_one_reply_in_between_does_not(store: ReplyStore) -> None:
    def mostly_down(text: str) -> ChatAnswer:
        return Reply("up", "stop") if int(text) % 10 == 0 else DOWN

    model = Scripted(mostly_down)
    result = answer_requests(store, model, [question(n) for n in range(40)], give_up_after=10)
    assert Counter(texts(result.answers)) == {"up": 4, "connection_failed": 36}
    down = Scripted(lambda _text: DOWN)
    told = r"10 questions in a row failed, connection_failed \(.*Refused.*\) at its address: connection_failed.*stored"
    with pytest.raises(UserError, match=told):
        answer_requests(store, down, [question(n) for n in range(40)], give_up_after=10)
    assert len(down.asked) == 10


def test_answers_that_the_questions_brought_on_themselves_do_not_stop_a_run(store: ReplyStore) -> None:
    result = answer_requests(
        store, Scripted(lambda _text: FILTERED), [question(n) for n in range(30)], give_up_after=10
    )
    assert (result.calls, result.missing) == (30, 0)
    refused = Scripted(lambda _text: Failure("invalid_request", "final", "status 400: no such parameter"))
    with pytest.raises(UserError, match="no such parameter"):
        answer_requests(store, refused, [question(f"again {n}") for n in range(30)], give_up_after=10)


def test_an_invalid_question_among_replies_is_final_and_at_their_ends_is_asked_again(store: ReplyStore) -> None:
    invalid = Failure("invalid_request", "final", "status 400: a broken image", raw="400")

    def script(text: str) -> ChatAnswer:
        return invalid if text in ("0", "5", "9") else Reply(f"re {text}", "stop")

    questions = [question(n) for n in range(10)]
    first = answer_requests(store, Scripted(script), questions)
    assert [n for n, answer in enumerate(first.answers) if getattr(answer, "kind", "") == "final"] == [5]
    assert first.missing == 2 and store.raw(first.keys[0]) == store.raw(first.keys[9]) == "400"
    model = Scripted()
    again = answer_requests(store, model, questions)
    assert model.asked == ["0", "9"], "nothing shows that the endpoint worked when it failed these"
    assert isinstance(again.answers[5], Failure) and isinstance(again.answers[0], Reply)


def test_an_endpoint_that_fails_in_the_middle_of_a_run_freezes_none_of_its_failures(store: ReplyStore) -> None:
    invalid = Failure("invalid_request", "final", "status 422", raw="422")
    failing = Scripted(lambda _text: Reply("re", "stop") if len(failing.asked) <= 5 else invalid)
    with pytest.raises(UserError, match="10 questions in a row failed"):
        answer_requests(store, failing, [question(n) for n in range(40)], give_up_after=10)
    assert answer_requests(store, Scripted(), [question(n) for n in range(40)]).hits == 5


def test_items_that_a_server_cannot_take_never_stop_the_others_and_are_final(store: ReplyStore) -> None:
    """Twelve icons in a row fail; the endpoint answers a question again that it answered before, so it is well."""
    broken = Failure("server_error", "transient", "status 500: height must be larger than factor", raw="500")

    def script(text: str) -> ChatAnswer:
        return broken if 5 <= int(text) < 17 else Reply(f"re {text}", "stop")

    first = Scripted(script)
    result = answer_requests(store, first, [question(n) for n in range(20)])
    assert first.asked[:19] == [*map(str, range(15)), "4", "15", "16", "17"], "the question 4 shows whose fault it is"
    assert [answer for answer in texts(result.answers) if answer.startswith("re")] == [
        f"re {n}" for n in (*range(5), 17, 18, 19)
    ]
    assert {getattr(answer, "kind", "") for answer in result.answers[5:17]} == {"final"}
    later = Scripted(script)
    answer_requests(store, later, [question(n) for n in range(22)])
    assert later.asked == ["20", "21"], "a build that recurs asks about what is new"


def test_a_status_500_in_passing_is_asked_again_and_frozen_nowhere(store: ReplyStore) -> None:
    broken = Failure("server_error", "transient", "status 500: out of memory", raw="500")
    first = Scripted(lambda text: broken if text == "2" and len(first.asked) < 5 else Reply(f"re {text}", "stop"))
    result = answer_requests(store, first, [question(n) for n in range(4)])
    assert texts(result.answers) == [f"re {n}" for n in range(4)], "the second question after the others is answered"


def test_an_endpoint_that_fails_at_everything_stops_every_run_and_freezes_nothing(store: ReplyStore) -> None:
    broken = Failure("server_error", "transient", "status 500: out of memory", raw="500")
    answer_requests(store, Scripted(), [question(n) for n in range(3)])
    for _ in range(3):
        with pytest.raises(UserError, match="10 questions in a row failed, server_error"):
            answer_requests(store, Scripted(lambda _text: broken), [question(n) for n in range(40)])
    assert answer_requests(store, Scripted(), [question(n) for n in range(40)]).calls == 37


def test_useless_replies_in_a_row_stop_the_run_and_are_asked_for_again(store: ReplyStore) -> None:
    """A model without eyes answers each question with the same talk, until somebody gives it eyes."""

    def find_fault(_request: ChatRequest, reply: Reply) -> str:
        return "talk" if "attached" in reply.text else ""

    blind = Scripted(lambda _text: Reply("No image was attached.", "stop"))
    questions = [question(n) for n in range(40)]
    with pytest.raises(UserError, match=r"10 replies in a row are unusable.*talk \(No image was attached") as caught:
        answer_requests(store, blind, questions, find_fault=find_fault)
    assert "\n" not in str(caught.value) and len(blind.asked) == 10
    repaired = answer_requests(store, Scripted(), questions, find_fault=find_fault)
    assert (repaired.calls, repaired.hits) == (40, 0)


def test_a_model_that_thinks_until_the_limit_stops_the_run_and_a_few_such_answers_do_not(store: ReplyStore) -> None:
    thought = Failure("only_reasoning", "final", "the model reasoned but did not answer", raw="{}")
    assert answer_requests(store, Scripted(lambda _text: thought), [question(n) for n in range(3)]).missing == 0
    model = Scripted(lambda _text: thought)
    with pytest.raises(UserError, match="10 replies in a row are unusable; the last one: only_reasoning"):
        answer_requests(store, model, [question(f"more {n}") for n in range(40)])
    assert len(model.asked) == 10
    assert answer_requests(store, Scripted(), [question(f"more {n}") for n in range(40)]).calls == 40


def test_useless_replies_between_others_are_stored_and_cost_no_second_call(store: ReplyStore) -> None:
    def find_fault(_request: ChatRequest, reply: Reply) -> str:
        return "talk" if int(reply.text) % 3 else ""

    model = Scripted(lambda text: Reply(text, "stop"))
    first = answer_requests(store, model, [question(n) for n in range(30)], find_fault=find_fault)
    assert (texts(first.answers), first.missing) == ([str(n) for n in range(30)], 0)
    assert answer_requests(store, Scripted(), [question(n) for n in range(30)], find_fault=find_fault).calls == 0


def test_where_no_question_will_be_answered_the_first_one_says_so(store: ReplyStore) -> None:
    blocked = Scripted(lambda _text: Failure("unauthorized", "blocked", "status 401"))
    with pytest.raises(UserError, match=r"unauthorized \(status 401\)"):
        answer_requests(store, blocked, [question(n) for n in range(30)])
    assert blocked.asked == ["0"]
    assert answer_requests(store, Scripted(), [question(0)]).calls == 1, "not held against the question"


def test_a_recorded_model_is_asked_even_offline_and_nothing_is_stored(store: ReplyStore, tmp_path: Path) -> None:
    model = Scripted(lambda text: Reply(text, "stop", raw="x") if text == "1" else Failure("no_caption", "final"))
    model.is_recorded = True
    result = answer_requests(store, model, [question(n) for n in (1, 2)], offline=True)
    assert result.answers == [Reply("1", "stop"), Failure("no_caption", "final")]
    assert (result.calls, result.hits, result.missing) == (0, 1, 1)
    assert not list(tmp_path.iterdir())


def test_what_another_set_was_answered_is_not_asked_again(store: ReplyStore, tmp_path: Path) -> None:
    with open_reply_store(tmp_path / "first.sqlite") as first:
        answer_requests(first, Scripted(), [question(n) for n in (1, 2)])
    (tmp_path / "damaged.sqlite").write_bytes(b"no database")
    with open_reply_store(tmp_path / "second.sqlite", [tmp_path / "damaged.sqlite", tmp_path / "first.sqlite"]) as own:
        plan = answer_requests(own, Scripted(), [question(n) for n in (1, 2, 3)], offline=True)
        assert (plan.missing, (tmp_path / "second.sqlite").exists()) == (1, False), "a plan writes nothing"
        model = Scripted()
        assert texts(answer_requests(own, model, [question(n) for n in (1, 2, 3)]).answers) == ["re 1", "re 2", "re 3"]
        assert model.asked == ["3"]
        (tmp_path / "first.sqlite").unlink()
        assert answer_requests(own, Scripted(), [question(1)], offline=True).missing == 0, "the copy is its own"


def test_a_reply_that_was_set_aside_is_not_taken_from_another_set(store: ReplyStore, tmp_path: Path) -> None:
    for name in ("first", "second"):
        with open_reply_store(tmp_path / f"{name}.sqlite") as one:
            answer_requests(one, Scripted(), [question(1)])
    with open_reply_store(tmp_path / "second.sqlite", [tmp_path / "first.sqlite"]) as own:
        assert own.refresh([Scripted().identity]) == 1
        model = Scripted()
        answer_requests(own, model, [question(1)])
        assert model.asked == ["1"]
