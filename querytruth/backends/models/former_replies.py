"""Replies that an earlier version kept in tables of its own: what was paid for is not paid for again.

A database's `replies` (one row a question) and `earlier_replies` (rows that a refresh set aside, with its time) become
objects, once; the tables stay as they are.
"""

from collections import Counter, defaultdict
from typing import Any

from querytruth.backends.files.object_store import DatabaseObjects
from querytruth.backends.models import reply_objects
from querytruth.backends.models.reply_objects import AnswerPlace, StoredAnswer

_TAKEN = "former-replies.json"  # the object that says that it was done
_COLUMNS = (
    "key",
    "identity",
    "kind",
    "reason",
    "text",
    "prompt_tokens",
    "completion_tokens",
    "stored_at",
    "request",
    "raw",
)
_AT_ONCE = 1000


def take_over_replies(objects: DatabaseObjects, store_id: str) -> int:
    """Stores the answers of the former tables, and the store's id where it has none; returns their number, 0 where
    there are no such tables and where they were taken over before."""
    if objects.read([_TAKEN], 1 << 20):
        return 0
    current = objects.read_table("replies", _COLUMNS)
    earlier = objects.read_table("earlier_replies", (*_COLUMNS, "refreshed_at"))
    if not current and not earlier:
        return 0
    earlier.sort(key=lambda row: (row["key"], row["refreshed_at"]))
    generations, set_aside = Counter[str](), defaultdict[str, list[AnswerPlace]](list)
    answers: list[StoredAnswer] = []
    for row in (*earlier, *current):
        answers.append(_describe(row, generations[row["key"]]))
        generations[row["key"]] += 1
        if "refreshed_at" in row:
            set_aside[row["refreshed_at"]].append(answers[-1].place)
    models = {one.identity for one in answers}
    objects.put_new({reply_objects.STORE: reply_objects.write_store(store_id)})
    objects.put_new({reply_objects.model_name(text): text.encode() for text in models})
    for start in range(0, len(answers), _AT_ONCE):
        objects.put_new({_name(one): reply_objects.write_answer(one) for one in answers[start : start + _AT_ONCE]})
    objects.put(dict(reply_objects.list_set_aside(time, places) for time, places in set_aside.items()))
    objects.put({_TAKEN: b"{}"})
    return len(answers)


def _describe(row: dict[str, Any], generation: int) -> StoredAnswer:
    return StoredAnswer(generation=generation, **{name: row[name] for name in _COLUMNS})


def _name(answer: StoredAnswer) -> str:
    lasts = answer.kind in reply_objects.LASTING
    return reply_objects.answer_name(answer.place) if lasts else reply_objects.passing_name(answer.place)
