"""The socket at which the review page listens, and how it is served there."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated, Any

import typer

from builders.errors import UserError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"
_EVERY_ADDRESS = ("", "*", "0.0.0.0", "::")
HostOption = Annotated[
    str, typer.Option(help="Listen at this address of the machine, for people on others.", metavar="ADDRESS")
]


def open_page_socket(host: str, port: int) -> socket.socket:
    """Open a socket where connections wait while the set is read. Raises UserError for a port in use, for what is no
    address of this machine, and for every address at once: the page serves only the name that people type."""
    if host in _EVERY_ADDRESS:
        next_step = f"give the one that people type, such as {socket.gethostname()}"
        raise UserError("review", f"host {host}", "is every address of the machine", next_step)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        reason = f"cannot be resolved ({getattr(error, 'strerror', None) or error})"
        raise UserError("review", f"host {host}", reason, "give an address of this machine, or none") from None
    listening = socket.socket(family, kind)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(64)
    except OSError as error:
        listening.close()
        item = f"port {port}" if host == LOOPBACK else f"{host} port {port}"
        next_step = "give another --port, or none" if host == LOOPBACK else "give an address of this machine, or none"
        raise UserError("review", item, f"cannot be listened at ({error.strerror})", next_step) from None
    return listening


def make_page_server(app: ASGIApp, seconds: float = 30) -> uvicorn.Server:
    """Returns a server whose connections end after `seconds`, those with a request in work as soon as it is answered,
    and all after ten times as long. Without that, whoever connects and sends nothing would take up its sockets."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class EndingProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.endings = [self.loop.call_later(seconds, self.shutdown)]
            self.endings.append(self.loop.call_later(10 * seconds, transport.abort))

        def connection_lost(self, exc: Exception | None) -> None:
            for ending in self.endings:
                ending.cancel()
            super().connection_lost(exc)

    config = uvicorn.Config(
        app, http=EndingProtocol, lifespan="off", ws="none", access_log=False, log_level="warning",
        server_header=False, proxy_headers=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    return uvicorn.Server(config)
