"""The page listens at one address, and its connections end."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

from querytruth.errors import UserError
from querytruth.review.page_socket import make_page_server, open_page_socket


def test_a_named_address_is_listened_at() -> None:
    with open_page_socket("127.0.0.2", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.2"


def test_an_answer_does_not_wait_for_the_client_to_acknowledge_its_head() -> None:
    with open_page_socket("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.proto == socket.IPPROTO_TCP, "by this asyncio turns Nagle's algorithm off"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("0.0.0.0", "means every address"),
        ("::", "means every address"),
        ("no such host", "cannot be resolved"),
        ("192.0.2.1", "cannot be opened"),
    ],
)
def test_what_is_no_address_of_this_machine_is_one_line(host: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        open_page_socket(host, 0)


def test_a_port_in_use_is_named() -> None:
    told = r"port .* cannot be opened .*give another --port"
    with open_page_socket("127.0.0.1", 0) as first, pytest.raises(UserError, match=told):
        open_page_socket("127.0.0.1", first.getsockname()[1])


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(1 if scope["path"] == "/slow" else 0)
    while scope["path"] == "/body" and (await receive())["type"] != "http.disconnect":
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server that ends connections after 0.3 s."""
    with open_page_socket("127.0.0.1", 0) as listening:
        server = make_page_server(_answer, seconds=0.3)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_a_connection_that_asks_nothing_more_is_ended(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(1000), b""))  # until the server closes
    assert answer.endswith(b"ok") == sent.endswith(b"\r\n\r\n")


@pytest.mark.thorough
def test_a_request_in_work_is_answered_however_long_it_takes(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"".join(iter(lambda: connection.recv(1000), b"")).endswith(b"ok")


@pytest.mark.thorough
def test_a_body_that_never_ends_is_cut(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na")
        answer = b""
        with suppress(ConnectionResetError):
            answer = connection.recv(1000)
        assert answer == b"", "there is none, and no wait for the rest"


@pytest.mark.thorough
def test_a_connection_that_goes_on_asking_stays_open(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for _ in range(8):  # 1.2 s, four times as long as a connection without a request
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = b""
            while not answer.endswith(b"ok"):
                answer += connection.recv(1000)
            time.sleep(0.15)
