"""The socket of a page on this machine, and the server that answers on it until Ctrl-C. The page's libraries are loaded
while the socket is open."""

from __future__ import annotations

import signal
import socket
import webbrowser
from threading import Thread
from typing import TYPE_CHECKING

from querytruth.errors import UserError

if TYPE_CHECKING:
    import asyncio

    import uvicorn
    from starlette.types import ASGIApp

    from querytruth.review.server import PageAccess

LOOPBACK = "127.0.0.1"
_EVERY_ADDRESS = ("", "*", "0.0.0.0", "::")


def open_page_socket(host: str, port: int) -> socket.socket:
    """Open a socket that accepts connections while the set is read. Raises UserError for a port in use, for an address
    of another machine, and for the wildcard address: the page serves only the host name that people type."""
    if host in _EVERY_ADDRESS:
        next_step = f"give the hostname that people use, such as {socket.gethostname()}"
        raise UserError("review", f"host {host}", "means every address of this machine", next_step)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        reason = f"cannot be resolved ({getattr(error, 'strerror', None) or error})"
        raise UserError("review", f"host {host}", reason, "give an address of this machine") from None
    listening = socket.socket(family, kind, protocol)  # without it, asyncio lets an answer's body wait for 40 ms
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(64)
    except OSError as error:
        listening.close()
        item = f"port {port}" if host == LOOPBACK else f"{host} port {port}"
        next_step = "give another --port" if host == LOOPBACK else "give an address of this machine"
        raise UserError("review", item, f"cannot be opened ({error.strerror})", next_step) from None
    return listening


def make_page_server(app: ASGIApp, seconds: float = 20) -> uvicorn.Server:
    """Return a server whose connections end `seconds` after their last answer, those with a request in work as soon
    as it is answered, and all after ten times as long. Without that, whoever connects and sends nothing would take up
    its sockets."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class EndingProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.endings: list[asyncio.TimerHandle] = []
            self.set_endings()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.set_endings()

        def connection_lost(self, exc: Exception | None) -> None:
            self.set_endings(is_over=True)
            super().connection_lost(exc)

        def set_endings(self, is_over: bool = False) -> None:
            for ending in self.endings:
                ending.cancel()
            ends = {} if is_over else {seconds: self.shutdown, 10 * seconds: self.transport.abort}
            self.endings = [self.loop.call_later(after, end) for after, end in ends.items()]

    config = uvicorn.Config(
        app, http=EndingProtocol, lifespan="off", ws="none", access_log=False, log_level="warning",
        server_header=False, proxy_headers=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    return uvicorn.Server(config)


def serve_page(app: ASGIApp, access: PageAccess, listening: socket.socket, no_open: bool) -> None:
    """Serve the page until SIGINT or SIGTERM."""
    server = make_page_server(app)
    if not no_open:
        Thread(target=webbrowser.open, args=[access.url], daemon=True).start()
    # The server stops on both signals and raises them again afterwards; then they must have no effect.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda _signal, _frame: None)
    server.run(sockets=[listening])
