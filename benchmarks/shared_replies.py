"""What it costs to keep replies in a bucket, beside SQLite and plain requests with boto3.

    python -m benchmarks.shared_replies [--answers 2000] [--known 100000] [--runs 3]

The service is moto's, in a process of its own on this machine: no network, no disk, and it takes processor time from
what is measured. `processor` is that of the client alone. `requests` are those to the service.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import boto3
import obstore
from rich.console import Console
from rich.table import Table

from benchmarks.object_storage import measure, serve_objects
from querytruth.backends.models.chat import ChatRequest, Message, Reply
from querytruth.backends.models.reply_objects import AnswerPlace, describe_answer, write_answer
from querytruth.backends.models.reply_store import ReplyStore, open_reply_store
from querytruth.backends.models.stored_answers import canonical_json_text, reply_key
from querytruth.backends.plugins import ModelIdentity

MODEL = ModelIdentity("benchmark", "1", {"temperature": 0.0})
AT_ONCE = 16  # answers that arrive together
TEXT = "两只棕色的狗在海滩上追逐一个红色的球,远处有帆船和云。"

Measured = dict[str, tuple[float, float, int, int]]  # seconds by the clock and of the processor, requests, answers


@contextmanager
def counted_requests() -> Iterator[list[str]]:
    """Yield the names of the requests to the service within the block; a list is one, however many pages it has."""
    asked: list[str] = []
    names = ("get", "put", "list", "list_with_delimiter", "delete", "head")
    before = {name: getattr(obstore, name) for name in names}

    def counted(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            asked.append(name)
            return before[name](*arguments, **options)

        return call

    for name in names:
        setattr(obstore, name, counted(name))
    try:
        yield asked
    finally:
        for name in names:
            setattr(obstore, name, before[name])


def answered(number: int) -> tuple[str, ChatRequest, Reply]:
    request = ChatRequest((Message("user", f"question {number}"),))
    reply = Reply(f"{TEXT} {number}", "stop", 900, 40, f'{{"n": {number}, "text": "{TEXT * 4}"}}')
    return reply_key(MODEL, request), request, reply


def save(store: ReplyStore, answers: list[Any], at_once: int) -> None:
    with store:
        for start in range(0, len(answers), at_once):
            store.save(MODEL, answers[start : start + at_once])


def find(store: ReplyStore, keys: list[str]) -> None:
    with store:
        found = len(store.find(keys))
    if found != len(keys):
        raise SystemExit(f"{found:,} of {len(keys):,} answers were found")


def pack_known(url: str, count: int) -> list[str]:
    """Return the keys of a store with so many replies in packs: as the cache of the machine that saved them has them,
    without the objects of their own, whose number no look-up of these keys depends on."""
    with open_reply_store(url) as store:
        store.save(MODEL, [answered(0)])
        identity = canonical_json_text(MODEL.as_record())
        asked = [answered(number) for number in range(1, count)]
        store._keep(describe_answer(identity, AnswerPlace(key, 0), request, reply) for key, request, reply in asked)
        store._pack()
    return [key for key, _, _ in asked]


def run_once(place: Path, number: int, answer_count: int, known_count: int) -> Measured:
    bucket = f"benchmark-{number}"
    client = boto3.client("s3")
    client.create_bucket(Bucket=bucket)
    answers = [answered(one) for one in range(answer_count)]
    keys = [key for key, _, _ in answers]
    one_by_one = answers[: max(1, answer_count // 4)]
    measured: Measured = {}

    def take(name: str, count: int, work: Callable[[], Any], *, keeps_cache: bool = False) -> None:
        if not keeps_cache:
            shutil.rmtree(place / "cache", ignore_errors=True)
        with counted_requests() as asked:
            clock, processor = measure(work)
        measured[name] = clock, processor, len(asked), count

    shared, other, file = f"s3://{bucket}/replies", f"s3://{bucket}/single", place / f"{number}.sqlite"
    take("save, 16 at once", answer_count, lambda: save(open_reply_store(shared), answers, AT_ONCE))
    take("save, one at a time", len(one_by_one), lambda: save(open_reply_store(other), one_by_one, 1))
    take("SQLite, save, 16 at once", answer_count, lambda: save(open_reply_store(file), answers, AT_ONCE))
    take("boto3, put_object in a loop", answer_count, lambda: put_by_boto(client, bucket, answers))
    take("find, nothing cached", answer_count, lambda: find(open_reply_store(shared), keys))
    take("find, cached", answer_count, lambda: find(open_reply_store(shared), keys), keeps_cache=True)
    for key in list_keys(client, bucket, "replies/index/"):
        client.delete_object(Bucket=bucket, Key=key)
    take("find, nothing cached and no packs", answer_count, lambda: find(open_reply_store(shared), keys))
    take("SQLite, find", answer_count, lambda: find(open_reply_store(file), keys))
    take("boto3, get_object in a loop", answer_count, lambda: get_by_boto(client, bucket, keys))
    known = pack_known(f"s3://{bucket}/known", known_count)
    take(
        f"find {known_count:,}, nothing cached",
        len(known),
        lambda: find(open_reply_store(f"s3://{bucket}/known"), known),
    )
    again = open_reply_store(f"s3://{bucket}/known")
    take(f"find {known_count:,}, cached", len(known), lambda: find(again, known), keeps_cache=True)
    return measured


def put_by_boto(client: Any, bucket: str, answers: list[tuple[str, ChatRequest, Reply]]) -> None:
    for key, request, reply in answers:
        data = write_answer(describe_answer("{}", AnswerPlace(key, 0), request, reply))
        client.put_object(Bucket=bucket, Key=f"boto/{key}", Body=data, IfNoneMatch="*")


def get_by_boto(client: Any, bucket: str, keys: list[str]) -> None:
    for key in keys:
        client.get_object(Bucket=bucket, Key=f"boto/{key}")["Body"].read()


def list_keys(client: Any, bucket: str, prefix: str) -> list[str]:
    return [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--known", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serve_objects():
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        runs = [run_once(Path(folder), number, given.answers, given.known) for number in range(given.runs)]
    table = Table(title=f"{given.answers:,} answers; medians of {given.runs}")
    for title in ("work", "clock", "processor", "requests", "answers/s", "processor an answer"):
        table.add_column(title, justify="left" if title == "work" else "right")
    for name, (_, _, requests, count) in runs[0].items():
        clock, processor = (median(run[name][part] for run in runs) for part in (0, 1))
        each = f"{1e6 * processor / count:,.0f} µs"
        table.add_row(name, f"{clock:.2f} s", f"{processor:.2f} s", f"{requests:,}", f"{count / clock:,.0f}", each)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
