"""A real HTTP server on 127.0.0.1 that answers as it is told to, well or badly."""

import json
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it came in; the names of its headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class CannedResponse:
    """A well-formed answer; its length is stated unless `headers` state one."""

    body: bytes | str | dict[str, Any] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        if isinstance(self.body, dict):
            return json.dumps(self.body).encode()
        return self.body.encode("utf-8", "surrogatepass") if isinstance(self.body, str) else self.body


Misbehaviour = Callable[[socket.socket], None]  # does what it likes with the connection, which is then closed
LoopbackAnswer = CannedResponse | Misbehaviour


class Loopback:
    """The running server: `url` to call it, `asked` what came in so far, `connections` over how many."""

    def __init__(self, answer: Callable[[ReceivedRequest], LoopbackAnswer], tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.asked: list[ReceivedRequest] = []
        self.most_at_once = 0
        self.connections = 0
        self.closing = threading.Event()
        self._at_once = 0
        self._lock = threading.Lock()
        self._server = _server(self)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Refuse connections from now on, and end those that are open."""
        if not self.closing.is_set():
            self.closing.set()
            self._server.shutdown()
            self._server.server_close()

    def handle(self, request: ReceivedRequest) -> LoopbackAnswer:
        with self._lock:
            self.asked.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return self.answer(request)
        finally:
            with self._lock:
                self._at_once -= 1


@contextmanager
def loopback(
    answer: Callable[[ReceivedRequest], LoopbackAnswer], tls: ssl.SSLContext | None = None
) -> Iterator[Loopback]:
    """A server for the length of a story."""
    server = Loopback(answer, tls)
    try:
        yield server
    finally:
        server.close()


def unused_url() -> str:
    """An address of this machine where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def send_raw(data: bytes) -> Misbehaviour:
    """Exactly these bytes, then the end of the connection."""
    return lambda connection: connection.sendall(data)


def reset_connection(before: bytes = b"") -> Misbehaviour:
    """These bytes, then the connection is torn down."""

    def tear(connection: socket.socket) -> None:
        connection.sendall(before)
        time.sleep(0.02)  # a reset overtakes what was not read yet
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return tear


def send_slowly(start: bytes, again: bytes, every: float = 0.02, most: float = 20.0) -> Misbehaviour:
    """The start at once, then a little more again and again."""

    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        ends = time.monotonic() + most
        while time.monotonic() < ends:
            connection.sendall(again)
            time.sleep(every)

    return drip


def send_endlessly(start: bytes, piece: bytes) -> Misbehaviour:
    """The start, then as much as the other side takes."""

    def pour(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(piece)

    return pour


def stay_silent(most: float = 20.0) -> Misbehaviour:
    """Take the request and says nothing until the other side hangs up."""

    def wait(connection: socket.socket) -> None:
        connection.settimeout(most)
        connection.recv(1)

    return wait


def _server(loopback: Loopback) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            loopback.connections += 1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            named = {name.lower(): value for name, value in self.headers.items()}
            answer = loopback.handle(ReceivedRequest(self.command, self.path, named, body))
            with suppress(OSError):  # whoever hung up needs no answer
                if isinstance(answer, CannedResponse):
                    self._send(answer)
                else:
                    self.close_connection = True
                    answer(self.connection)

        do_GET = do_HEAD = do_POST

        def _send(self, answer: CannedResponse) -> None:
            data = answer.data
            self.send_response(answer.status)
            headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            pass

    return Server(("127.0.0.1", 0), Handler)


def answer_late(answer: Callable[[ReceivedRequest], LoopbackAnswer], seed: int = 0) -> Callable[..., LoopbackAnswer]:
    """Answers in an order of their own every time."""
    rng, lock = random.Random(seed), threading.Lock()

    def late(asked: ReceivedRequest) -> LoopbackAnswer:
        with lock:
            pause = rng.choice([0, 0.001, 0.01, 0.03])
        time.sleep(pause)
        return answer(asked)

    return late
