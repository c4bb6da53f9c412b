"""A chat model in this process: what it says depends on the question alone, and its faults come by a seed."""

from collections.abc import Sequence

from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Failure, OnAnswers, Reply, always_continue
from querytruth.backends.plugins import ModelIdentity
from querytruth.records import stable_hash
from tests.flows.stub_generator import StubGenerator, make_word
from tests.simulation.faults import Faults

_STUB = StubGenerator(vocabulary=60, topics=6, talk_rate=0, refusal_rate=0)


class FaultyModel:
    """`asked_again`: questions that came although their replies had been stored."""

    identity, is_recorded = ModelIdentity("faulty"), False

    def __init__(self) -> None:
        self.faults = Faults("", 0, 0)
        self.asked_again: list[str] = []
        self._stored: set[str] = set()

    def reply(self, requests: Sequence[ChatRequest], on_answers: OnAnswers = always_continue) -> list[ChatAnswer]:
        answers: list[ChatAnswer] = []
        for place, request in enumerate(requests):
            question = repr(request.cache_key_fields())
            if question in self._stored:
                self.asked_again.append(question)
            answers.append(self._answer(request, question))
            goes_on = on_answers([(place, answers[-1])])
            if isinstance(answers[-1], Reply):
                self._stored.add(question)
            if not goes_on:
                break
        return answers

    def _answer(self, request: ChatRequest, question: str) -> ChatAnswer:
        if not self.faults.is_due():
            has_image = bool(request.messages[0].images)
            text = f"街边有{make_word(stable_hash(question))}" if has_image else _STUB.reply(request.messages[0].text)
            return Reply(text, "stop")
        if self.faults.rng.random() < 0.5:
            return Failure("timeout", "transient")
        return Failure("not_json", "transient", raw='{"choices": [{"mess')  # torn
