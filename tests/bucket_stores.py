"""Answers of one model in a reply store, by number; and the objects of a store in a bucket."""

from querytruth.backends.models.chat import ChatAnswer, ChatRequest, Message, Reply
from querytruth.backends.models.reply_store import ReplyStore
from querytruth.backends.models.stored_answers import reply_key
from querytruth.backends.plugins import ModelIdentity
from tests.object_service import ObjectService

MODEL = ModelIdentity("tiny", "r1", {"temperature": 0.0})


def question(number: int) -> ChatRequest:
    return ChatRequest((Message("user", f"问题 {number}"),))


def key_of(number: int) -> str:
    return reply_key(MODEL, question(number))


def keep(store: ReplyStore, number: int = 0, answer: ChatAnswer | None = None) -> ChatAnswer:
    given = answer or Reply(f"answer {number}", "stop", 12, 5, '{"raw": 1}')
    return store.save(MODEL, [(key_of(number), question(number), given)])[key_of(number)]


def keep_many(store: ReplyStore, count: int) -> None:
    store.save(MODEL, [(key_of(n), question(n), Reply(f"answer {n}", "stop", 12, 5)) for n in range(count)])


def found(store: ReplyStore, numbers: range) -> set[int]:
    answers = store.find([key_of(number) for number in numbers])
    return {number for number in numbers if getattr(answers.get(key_of(number)), "text", "") == f"answer {number}"}


def objects(service: ObjectService, kind: str) -> list[str]:
    return [key for key in service.list_keys() if key.startswith(f"sets/replies/{kind}")]
