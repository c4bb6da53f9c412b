"""HTTP calls that end in time, encrypted ones too."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from querytruth.backends.web.timed_http import HttpCallError, HttpResponse, TimedHttp
from tests.backends.web.hostile_web import encrypted
from tests.loopback import CannedResponse, LoopbackAnswer, loopback, send_slowly

HEAD = b"HTTP/1.1 200 OK\r\n"


def post(url: str, seconds: float = 0.4, http: TimedHttp | None = None) -> HttpResponse:
    http = http or TimedHttp(connections=2, max_bytes=1000)
    return http.request("POST", url, b"{}", {}, (5, 5), time.monotonic() + seconds)


def test_encrypted_answers_share_a_connection(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with loopback(lambda _asked: CannedResponse("whole"), encrypted(certificate)) as server:
        http = TimedHttp(connections=2, max_bytes=1000)
        assert [post(server.url, 5, http).body for _ in range(3)] == [b"whole"] * 3


def test_a_certificate_that_nobody_vouches_for_is_refused(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    with loopback(lambda _asked: CannedResponse("whole"), encrypted(certificate)) as server:
        with pytest.raises(HttpCallError) as failed:
            post(server.url, 5)
        assert failed.value.reason == "tls_error"
        assert not server.asked, "nothing was sent"


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        send_slowly(HEAD, b"X: y\r\n"),
        send_slowly(HEAD + b"Content-Length: 999\r\n\r\n", b"x"),
        send_slowly(HEAD + b"Connection: close\r\n\r\n", b"x"),
    ],
)
@pytest.mark.thorough
def test_drops_hold_no_call(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, is_encrypted: bool, answer: LoopbackAnswer
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with loopback(lambda _asked: answer, encrypted(certificate) if is_encrypted else None) as server:
        start = time.monotonic()
        with pytest.raises(HttpCallError) as failed:
            post(server.url)
    assert failed.value.reason == "deadline"
    assert time.monotonic() - start < 8


@pytest.mark.thorough
def test_a_second_call_on_an_open_connection_is_watched_too() -> None:
    answers: list[LoopbackAnswer] = [CannedResponse("whole"), send_slowly(HEAD + b"Content-Length: 99\r\n\r\n", b"x")]
    with loopback(lambda _asked: answers.pop(0)) as server:
        http = TimedHttp(connections=1, max_bytes=1000)
        assert post(server.url, 5, http).body == b"whole"
        start = time.monotonic()
        with pytest.raises(HttpCallError) as failed:
            post(server.url, 1, http)
        assert time.monotonic() - start < 8
        assert server.connections == 1
    assert (failed.value.reason, set(failed.value.received)) == ("deadline", {ord("x")})


@contextmanager
def bare(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """A listener that knows no protocol."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    behave(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"


def test_a_handshake_that_drips_does_not_hold_a_call() -> None:
    with bare(send_slowly(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", b"\x03", most=5)) as url:
        start = time.monotonic()
        with pytest.raises(HttpCallError) as failed:
            post(url)
    assert failed.value.reason in ("deadline", "timeout"), "whichever clock is looked at first"
    assert time.monotonic() - start < 4


def test_cookies_are_not_kept() -> None:
    with loopback(lambda _asked: CannedResponse("x", headers={"Set-Cookie": "me=1; Path=/"})) as server:
        http = TimedHttp(connections=1, max_bytes=1000)
        post(server.url, 5, http)
        post(server.url, 5, http)
        assert all("cookie" not in asked.headers for asked in server.asked)


def test_no_handle_is_left_open() -> None:
    handles = Path("/proc/self/fd")
    if not handles.exists():
        pytest.skip("no /proc")
    with loopback(lambda _asked: CannedResponse("x")) as server:
        http = TimedHttp(connections=1, max_bytes=1000)
        post(server.url, 5, http)
        before = len(list(handles.iterdir()))
        for _ in range(20):
            post(server.url, 5, http)
        assert len(list(handles.iterdir())) <= before
