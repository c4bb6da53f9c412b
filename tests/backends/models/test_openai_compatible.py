"""An endpoint over HTTP: what it answers well is taken as it stands, what it answers badly is a failure with a name."""

import base64
import gzip
import hashlib
import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import BaseModel

from querytruth.backends.models import chat
from querytruth.backends.models.chat import (
    MAX_RAW_CHARACTERS,
    ChatImage,
    ChatRequest,
    Failure,
    GenerationParameters,
    Message,
    Reply,
)
from querytruth.backends.models.chat.openai_compatible import OpenAICompatibleModel
from querytruth.backends.models.chat_completion import parse_chat_completion
from querytruth.backends.web.host_rules import retry_after
from querytruth.backends.web.timed_http import HttpResponse
from querytruth.errors import Redaction, UserError
from tests.loopback import (
    CannedResponse,
    Loopback,
    LoopbackAnswer,
    ReceivedRequest,
    loopback,
    reset_connection,
    send_endlessly,
    send_raw,
    send_slowly,
    stay_silent,
)

QUESTION = ChatRequest((Message("system", "briefly"), Message("user", "描述 {} #")))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
KEY = "sk-Ab/+1.2?x=9~secret"


def said(content: Any = "一只狗。", finish: Any = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more}
    return {
        "id": "1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 5},
    }


def endpoint(server: Loopback | str, **options: Any) -> OpenAICompatibleModel:
    address = server if isinstance(server, str) else server.url
    given = {"name": "tiny", "pause": 0.005, "deadline": 2.0, "tries": 3, **options}
    model = chat.load_chat_model("openai_compatible", base_url=f"{address}/v1/", **given)
    assert isinstance(model, OpenAICompatibleModel)
    return model


def ask(answer: LoopbackAnswer, **options: Any) -> tuple[Reply | Failure, int]:
    """What comes of one question, and how often it was put."""
    with loopback(lambda _asked: answer) as server:
        return endpoint(server, **options).reply([QUESTION])[0], len(server.asked)


def test_a_question_goes_out_as_it_is_and_the_reply_comes_back_verbatim() -> None:
    text = " 图中有{一}只#狗#\n\n"
    with loopback(lambda _asked: CannedResponse(said(text))) as server:
        model = endpoint(server, extra={"top_k": 1}, max_tokens=60)
        [reply] = model.reply([QUESTION])
        [asked] = server.asked
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish_reason, reply.prompt_tokens, reply.completion_tokens) == (text, "stop", 12, 5)
    assert json.loads(reply.raw) == said(text)
    assert asked.path == "/v1/chat/completions"
    assert "authorization" not in asked.headers
    assert asked.json == {
        "model": "tiny",
        "messages": [{"role": "system", "content": "briefly"}, {"role": "user", "content": "描述 {} #"}],
        "stream": False,
        "temperature": 0.0,
        "max_tokens": 60,
        "top_k": 1,
    }


def test_images_travel_as_data_before_the_text(tmp_path: Path) -> None:
    Image.new("RGB", (80, 60), "red").save(tmp_path / "a.jpg")
    Image.new("RGB", (80, 60), "red").save(tmp_path / "b.bmp")
    shown = [ChatImage(p, hashlib.sha256(p.read_bytes()).hexdigest()) for p in sorted(tmp_path.iterdir())]
    question = ChatRequest((Message("user", "which?", tuple(shown)),))
    with loopback(lambda _asked: CannedResponse(said())) as server:
        assert isinstance(endpoint(server).reply([question])[0], Reply)
        first, second, text = server.asked[0].json["messages"][0]["content"]
    prefix = "data:image/jpeg;base64,"
    assert first["image_url"]["url"] == prefix + base64.b64encode((tmp_path / "a.jpg").read_bytes()).decode()
    assert second["image_url"]["url"].startswith(prefix), "no endpoint is sure to read BMP"
    assert text == {"type": "text", "text": "which?"}


def test_an_image_that_is_not_the_one_that_was_meant_is_not_sent(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no image")
    digest = hashlib.sha256(b"no image").hexdigest()
    images = [ChatImage(tmp_path / name, digest) for name in ("a.png", "gone.png", "b.png")]
    with loopback(lambda _asked: CannedResponse(said())) as server:
        answers = endpoint(server).reply([ChatRequest((Message("user", "?", (p,)),)) for p in images])
        assert not server.asked
    expected = [("image_changed", "transient"), ("image_unreadable", "transient"), ("image_undecodable", "final")]
    assert [(a.reason, a.kind) for a in answers if isinstance(a, Failure)] == expected


def packed(data: Any, how: str = "gzip") -> CannedResponse:
    return CannedResponse(data, headers={"Content-Encoding": how})


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
FAULTS_THAT_MAY_PASS: dict[str, tuple[LoopbackAnswer, str]] = {
    "no choices": (CannedResponse({"choices": []}), "no_choices"),
    "two choices": (CannedResponse({"choices": said()["choices"] * 2}), "several_choices"),
    "the name choices twice": (CannedResponse('{"choices":[],"choices":[1]}'), "not_json"),
    "a choice without message": (CannedResponse({"choices": [{"text": "一只狗"}]}), "no_message"),
    "the user's own message": (CannedResponse(said(role="user")), "no_message"),
    "number as content": (CannedResponse(said(42)), "odd_content"),
    "a part without text": (CannedResponse(said([{"type": "image_url"}])), "odd_content"),
    "a list": (CannedResponse("[]"), "not_an_answer"),
    "an error with 200": (CannedResponse({"error": {"message": "overloaded"}}), "error_object"),
    "HTML": (CannedResponse("<html>Sign in</html>", headers={"Content-Type": "text/html"}), "not_json"),
    "NaN": (CannedResponse('{"choices":[{"message":{"content":"x"},"score":NaN}]}'), "not_json"),
    "a million brackets": (CannedResponse("[" * 1_000_000), "not_json"),
    "no UTF-8": (CannedResponse('{"choices":[{"message":{"content":"狗"}}]}'.encode("gbk")), "not_json"),
    "no content": (send_raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "no_answer"),
    "too long a length": (send_raw(HEAD + b"Content-Length: 999\r\n\r\n{}"), "connection_failed"),
    "reset in the body": (reset_connection(HEAD + b'Content-Length: 99\r\n\r\n{"cho'), "connection_failed"),
    "reset at once": (reset_connection(), "connection_failed"),
    "no HTTP": (send_raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "connection_failed"),
    "silence": (stay_silent(), "deadline"),
    "dribbled body": (send_slowly(HEAD + b"Content-Length: 9999\r\n\r\n", b" "), "deadline"),
    "a body without end": (send_endlessly(HEAD + b"\r\n", b" " * 65536), "too_many_bytes"),
    "gzip bomb": (packed(gzip.compress(b" " * (50 << 20))), "too_many_bytes"),
    "no gzip": (packed(said()), "bad_encoding"),
    "half a gzip": (packed(gzip.compress(json.dumps(said()).encode())[:-9]), "bad_encoding"),
    "unknown encoding": (packed(said(), "br"), "bad_encoding"),
    "403": (CannedResponse("", 403), "forbidden"),
    "408": (CannedResponse("", 408), "busy"),
    "429": (CannedResponse("", 429), "rate_limited"),
    "500": (CannedResponse("oops", 500), "server_error"),
    "302 without end": (send_endlessly(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", b" " * 65536), "too_many_bytes"),
}
FINAL_FAULTS: dict[str, tuple[LoopbackAnswer, str]] = {
    "null content": (CannedResponse(said(None)), "empty_content"),
    "no parts": (CannedResponse(said([])), "empty_content"),
    "a tool called": (CannedResponse(said(None, "tool_calls", tool_calls=[{"id": "1"}])), "tool_call"),
    "thoughts only": (CannedResponse(said("", "length", reasoning_content="先看图")), "only_reasoning"),
    "content filter": (CannedResponse(said("一只", "content_filter")), "content_filter"),
    "refusal field": (CannedResponse(said(None, refusal="I cannot")), "refused"),
    "half a character": (CannedResponse('{"choices":[{"message":{"content":"\\ud800狗"}}]}'), "broken_characters"),
    "100,000 characters": (CannedResponse(said("狗" * 100_000)), "too_long"),
    "a filter's error with 200": (CannedResponse({"error": {"code": "data_inspection_failed"}}), "content_filter"),
    "400": (CannedResponse({"error": {"message": "no such field"}}, 400), "invalid_request"),
    "400 by a filter": (CannedResponse({"error": {"code": "content_policy_violation"}}, 400), "content_filter"),
    "413": (CannedResponse("<html>", 413), "too_large"),
}
FAULTS_OF_THE_ENDPOINT: dict[str, tuple[LoopbackAnswer, str]] = {
    "401": (CannedResponse("", 401), "unauthorized"),
    "402": (CannedResponse("", 402), "payment_required"),
    "404": (CannedResponse({"error": "model 'tiny' not found"}, 404), "not_found"),
    "429, money spent": (CannedResponse({"error": {"code": "insufficient_quota"}}, 429), "quota_spent"),
    "302": (CannedResponse(said(), 302, {"Location": "http://127.0.0.1:1/"}), "redirected"),
}
FAULTS = {name: (*fault, "transient") for name, fault in FAULTS_THAT_MAY_PASS.items()}
FAULTS |= {name: (*fault, "final") for name, fault in FINAL_FAULTS.items()}
FAULTS |= {name: (*fault, "blocked") for name, fault in FAULTS_OF_THE_ENDPOINT.items()}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.thorough
def test_whatever_an_endpoint_sends_is_a_failure_with_a_name(fault: str) -> None:
    answer, reason, kind = FAULTS[fault]
    start = time.monotonic()
    failure, _ = ask(answer, deadline=0.3)
    assert time.monotonic() - start < 8
    assert isinstance(failure, Failure), "nothing is invented"
    assert (failure.reason, failure.kind) == (reason, kind)
    assert len(failure.raw) <= MAX_RAW_CHARACTERS
    assert len(failure.detail) <= 300
    assert failure.detail.isprintable()
    if isinstance(answer, CannedResponse) and answer.data and "Content-Encoding" not in answer.headers:
        start_of_body = answer.data.decode("utf-8", "backslashreplace")[:200]
        assert failure.raw[:200] == start_of_body, "what was sent is kept"


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (CannedResponse(said("狗", "length")), Reply("狗", "length", 12, 5)),
        (CannedResponse(said([part("一只"), part("狗")])), Reply("一只狗", "stop", 12, 5)),
        (CannedResponse(said([{"type": "thinking", "thinking": "先看"}, part("狗")])), Reply("狗", "stop", 12, 5)),
        (CannedResponse("\ufeff" + json.dumps(said("狗"))), Reply("狗", "stop", 12, 5)),
        (CannedResponse(said("狗") | {"usage": {"prompt_tokens": -1, "completion_tokens": "5"}}), Reply("狗", "stop")),
        (CannedResponse(said("狗", None)), Reply("狗", "unknown", 12, 5)),
        (CannedResponse(said("狗", reasoning_content="先看")), Reply("狗", "stop", 12, 5)),
        (packed(gzip.compress(json.dumps(said("狗")).encode())), Reply("狗", "stop", 12, 5)),
    ],
)
def test_an_answer_that_is_odd_but_whole_is_a_reply(answer: CannedResponse, expected: Reply) -> None:
    reply, times = ask(answer)
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish_reason) == (expected.text, expected.finish_reason)
    assert (reply.prompt_tokens, reply.completion_tokens) == (expected.prompt_tokens, expected.completion_tokens)
    assert times == 1


FIELDS = ["choices", "message", "content", "role", "finish_reason", "usage", "error", "text", "refusal"]
ENVELOPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["狗", "stop", "assistant"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)}), max_size=3)
NEARLY = st.builds(said, st.text(max_size=5) | PARTS, st.sampled_from(["stop", "length", "content_filter", None, 3]))


@settings(max_examples=300)
@given(status=st.sampled_from([200, 200, 200, 400, 429, 500]), body=st.binary(max_size=60) | ENVELOPES | NEARLY)
@pytest.mark.thorough
def test_no_body_breaks_the_reading_and_no_text_comes_from_nowhere(status: int, body: Any) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = parse_chat_completion(HttpResponse(status, {}, data), 1000, Redaction([]))
    if isinstance(answer, Reply):
        assert status == 200
        content = json.loads(data)["choices"][0]["message"]["content"]
        assert answer.text in (content, "".join(p["text"] for p in content if isinstance(p, dict)))


@pytest.mark.parametrize(("status", "times"), [(500, 3), (503, 3), (429, 3), (408, 3), (409, 3), (425, 3), (400, 1)])
def test_only_what_may_pass_is_tried_again(status: int, times: int) -> None:
    assert ask(CannedResponse("", status))[1] == times


@pytest.mark.parametrize("first", [CannedResponse("", 503), reset_connection()])
def test_a_failure_that_passes_is_forgotten(first: LoopbackAnswer) -> None:
    answers = [first, CannedResponse(said("狗"))]
    with loopback(lambda _asked: answers.pop(0)) as server:
        [reply] = endpoint(server).reply([QUESTION])
    assert isinstance(reply, Reply)
    assert reply.text == "狗"


def test_a_timeout_is_not_tried_again_for_the_answer_may_be_paid_for() -> None:
    failure, times = ask(stay_silent(), read_timeout=0.1)
    assert isinstance(failure, Failure)
    assert (failure.reason, times) == ("timeout", 1)


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("2", 2, 2),
        ("99999999999", 60, 60),
        ("", 0, 0),
        ("1e400", 0, 0),
        ("٣", 0, 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 60, 60),
    ],
)
def test_retry_after_is_heeded_within_reason(value: str, least: float, most: float) -> None:
    assert least <= retry_after({"retry-after": value}) <= most


def test_retry_after_may_be_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 28 <= retry_after({"retry-after": soon}) <= 30


def test_all_calls_wait_when_one_is_told_to() -> None:
    times: list[float] = []

    def answer(_asked: ReceivedRequest) -> LoopbackAnswer:
        times.append(time.monotonic())
        return CannedResponse("", 429, {"Retry-After": "0.3"}) if len(times) == 1 else CannedResponse(said())

    with loopback(answer) as server:
        replies = endpoint(server, concurrency=1, deadline=5).reply([QUESTION, QUESTION])
    assert all(isinstance(reply, Reply) for reply in replies)
    assert times[1] - times[0] >= 0.3


def test_a_wait_longer_than_the_deadline_ends_the_call_now() -> None:
    start = time.monotonic()
    failure, times = ask(CannedResponse("", 429, {"Retry-After": "50"}), deadline=20)
    assert time.monotonic() - start < 10
    assert isinstance(failure, Failure)
    assert (failure.reason, times) == ("rate_limited", 1)


def test_answers_keep_the_order_of_the_questions_and_calls_overlap() -> None:
    def answer(asked: ReceivedRequest) -> LoopbackAnswer:
        number = int(asked.json["messages"][0]["content"])
        time.sleep(0.05 if number % 3 == 0 else 0.0)
        return CannedResponse(said(f"reply {number}"))

    arrived: list[int] = []
    with loopback(answer) as server:
        questions = [ChatRequest((Message("user", str(n)),)) for n in range(24)]
        model = endpoint(server, concurrency=6)
        replies = model.reply(questions, lambda some: arrived.extend(place for place, _ in some) or True)
        assert 1 < server.most_at_once <= 6
    assert [reply.text for reply in replies if isinstance(reply, Reply)] == [f"reply {n}" for n in range(24)]
    assert sorted(arrived) == list(range(24))
    assert arrived != sorted(arrived), "each is handed on as soon as it is there"


def test_once_told_to_stop_nothing_more_is_asked_but_what_is_under_way_comes_in() -> None:
    with loopback(lambda _asked: CannedResponse(said())) as server:
        replies = endpoint(server, concurrency=2).reply([QUESTION] * 50, lambda _some: False)
        assert len(server.asked) <= 3
    came = [reply for reply in replies if isinstance(reply, Reply)]
    assert len(came) == len(server.asked)
    assert {reply.reason for reply in replies if isinstance(reply, Failure)} == {"not_asked"}


def test_an_interrupt_ends_calls_that_hang() -> None:
    def interrupt(_some: Any) -> bool:
        raise KeyboardInterrupt

    answers: list[Callable[[], LoopbackAnswer]] = [lambda: CannedResponse(said()), stay_silent]
    with loopback(lambda _asked: (answers.pop(0) if len(answers) > 1 else answers[0])()) as server:
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            endpoint(server, concurrency=3, deadline=15).reply([QUESTION] * 5, interrupt)
        assert time.monotonic() - start < 10


class Described(BaseModel):
    caption: str
    objects: list[str]


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        ('{"caption": "狗", "objects": ["狗"]}', "stop", None),
        ('{"caption": "狗"}', "stop", "not_as_asked"),
        ('{"caption": "狗", "objects": "狗"}', "stop", "not_as_asked"),
        ("一只狗", "stop", "not_as_asked"),
        ('{"caption": "狗", "obj', "length", "cut_by_limit"),
    ],
)
def test_an_answer_of_a_form_is_asked_for_and_checked(text: str, finish: str, reason: str | None) -> None:
    with loopback(lambda _asked: CannedResponse(said(text, finish))) as server:
        [answer] = endpoint(server).reply([ChatRequest(QUESTION.messages, response_format=Described)])
        form = server.asked[0].json["response_format"]
    assert (form["type"], form["json_schema"]["schema"]["required"]) == ("json_schema", ["caption", "objects"])
    if reason is None:
        assert isinstance(answer, Reply)
    else:
        assert isinstance(answer, Failure)
        assert (answer.reason, answer.kind) == (reason, "final")
        assert text in json.loads(answer.raw)["choices"][0]["message"]["content"]


def test_what_a_question_says_goes_over_the_options() -> None:
    question = ChatRequest(QUESTION.messages, GenerationParameters(max_tokens=9, min_tokens=3, temperature=0.7, seed=4))
    with loopback(lambda _asked: CannedResponse(said())) as server:
        endpoint(server).reply([question])
        endpoint(server, extra={"min_tokens": 46}).reply([question])
        endpoint(server).reply([ChatRequest(QUESTION.messages, GenerationParameters(min_tokens=0))])
        first, second, third = (asked.json for asked in server.asked)
    assert (first["max_tokens"], first["temperature"], first["seed"]) == (9, 0.7, 4)
    assert first["min_tokens"] == 3
    assert second["min_tokens"] == 3 and "min_tokens" not in third, "without a minimum no parameter is sent"


@pytest.mark.parametrize("status", [400, 422])
def test_an_endpoint_that_does_not_know_the_least_tokens_is_asked_without_them(status: int) -> None:
    def answer(asked: ReceivedRequest) -> CannedResponse:
        if "min_tokens" in asked.json:
            return CannedResponse({"error": {"message": "Unrecognized request argument: min_tokens"}}, status)
        return CannedResponse(said("a dog"))

    question = ChatRequest(QUESTION.messages, GenerationParameters(max_tokens=48, min_tokens=46))
    with loopback(answer) as server:
        model = endpoint(server, concurrency=1)
        answers = model.reply([question, question]) + model.reply([question])
        asked = [body.json for body in server.asked]
    assert [getattr(one, "text", one) for one in answers] == ["a dog"] * 3
    assert ["min_tokens" in body for body in asked] == [True, False, False, False], "it is rejected once"
    assert all(body["max_tokens"] == 48 for body in asked)


# --- the key ---------------------------------------------------------------------------------------------------------


def spelled(key: str) -> list[str]:
    """As a server may send it back."""
    unicode = "".join(f"\\u{ord(c):04X}" for c in key)
    percent = "".join(f"%{ord(c):02x}" for c in key)
    html = "".join(f"&#{ord(c)};" for c in key)
    return [key, json.dumps(key)[1:-1], key.replace("/", "\\/"), unicode, percent, html]


@pytest.mark.parametrize("spelling", range(6))
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_a_key_that_is_echoed_is_in_nothing_that_comes_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spelling: int, status: int
) -> None:
    monkeypatch.setenv("TINY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    echo = spelled(KEY)[spelling]
    body = '{"error": {"message": "wrong key ' + echo.replace("\\/", "/") + '"}, "debug": "Bearer ' + echo + '"}'
    headers = {"X-Echo": KEY, "Content-Type": f"text/html; {KEY}"}
    with loopback(lambda _asked: CannedResponse(body, status, headers)) as server:
        model = endpoint(server, key_env="TINY_KEY")
        [failure] = model.reply([QUESTION])
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}", "the endpoint does get it"
    assert isinstance(failure, Failure)
    written = f"{failure.detail} {failure.raw} {model.identity} {model.options} {caplog.text}"
    for spelling_of_it in spelled(KEY):
        assert spelling_of_it not in written


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (CannedResponse(said(f"一只狗 {KEY}")), "echoes_the_key"),
        (send_raw(HEAD + f"Content-Length: 999\r\n\r\nBearer {KEY}".encode()), "connection_failed"),
    ],
)
def test_an_answer_that_holds_the_key_is_a_failure_without_it(
    monkeypatch: pytest.MonkeyPatch, answer: LoopbackAnswer, reason: str
) -> None:
    monkeypatch.setenv("TINY_KEY", KEY)
    failure, _ = ask(answer, key_env="TINY_KEY")
    assert isinstance(failure, Failure)
    assert failure.reason == reason and KEY not in repr(failure)
    assert "[redacted]" in repr(failure)


def test_another_host_never_sees_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TINY_KEY", KEY)
    with loopback(lambda _asked: CannedResponse(said())) as other:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other.url)
        monkeypatch.delenv("no_proxy", raising=False)
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password other\n")
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        moved = CannedResponse("", 307, {"Location": other.url + "/v1/chat/completions"})
        with loopback(lambda _asked: moved) as server:
            [failure] = endpoint(server, key_env="TINY_KEY", key_header="api-key").reply([QUESTION])
            assert server.asked[0].headers["api-key"] == KEY
            assert "authorization" not in server.asked[0].headers, "no key from ~/.netrc"
        assert not other.asked, "neither by redirect nor through a proxy that nobody asked for"
        assert isinstance(failure, Failure)
        assert failure.reason == "redirected"
        [reply] = endpoint("http://tiny.invalid", proxies=True).reply([QUESTION])
        assert isinstance(reply, Reply)
        assert [asked.path for asked in other.asked] == ["http://tiny.invalid/v1/chat/completions"]


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": KEY},
        {"key": KEY},
        {"extra": {"api_key": KEY}},
        {"base_url": f"http://me:{KEY}@127.0.0.1:9/v1"},
        {"base_url": f"http://127.0.0.1:9/v1?key={KEY}"},
        {"base_url": f"http://[{KEY}/v1"},
        {"base_url": "ftp://127.0.0.1/v1"},
        {"temperature": KEY},
        {"temperatur": 0.5},
        {"concurrency": 0},
        {"key_env": "NOT_SET"},
        {"key_env": "BROKEN"},
    ],
)
def test_options_at_fault_are_a_line_without_values(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.setenv("BROKEN", f"{KEY}\r\nX-More: 1")
    given = {"base_url": "http://127.0.0.1:9/v1", "name": "tiny", **options}
    with pytest.raises(UserError) as told:
        chat.check_access(chat.load_chat_model("openai_compatible", **given))
    assert KEY not in str(told.value)
    assert "\n" not in str(told.value)
    assert told.value.__cause__ is None


def test_where_a_model_is_served_is_no_part_of_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_KEY", KEY)
    one = endpoint("http://one.invalid", revision="2025", max_tokens=None, extra={"top_k": 1})
    other = endpoint("http://other.invalid", revision="2025", max_tokens=None, extra={"top_k": 1}, key_env="TINY_KEY")
    assert one.identity == other.identity
    expected = {"name": "tiny", "revision": "2025", "parameters": {"temperature": 0.0, "top_k": 1}}
    assert one.identity.as_record() == expected
