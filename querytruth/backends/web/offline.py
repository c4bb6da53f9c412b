"""A run without connections: no library of this process reaches another host, the hub of models included."""

import errno
import os
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_ALLOWED_SETS: list[frozenset[str]] = []  # one per block that forbids connections; an address must be in all of them
_EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.sendto")


def is_offline() -> bool:
    """Return whether connections are forbidden now."""
    return bool(_ALLOWED_SETS)


@contextmanager
def forbid_connections(allowed_hosts: Iterable[str] = ()) -> Iterator[None]:
    """Forbid connections and look-ups of names in all threads while the block runs, except to these hosts; they fail
    with PermissionError. Sockets of the file system stay usable, and so does a database library that opens its own
    connections: replies are read where they are stored."""
    hosts = [host for host in allowed_hosts if host]
    addresses = {str(found[4][0]) for host in hosts for found in _look_up(host)}
    _install_hook()
    allowed, hub = frozenset([*hosts, *addresses]), _set_hub_offline("1")
    _ALLOWED_SETS.append(allowed)
    try:
        yield
    finally:
        _ALLOWED_SETS.remove(allowed)
        _set_hub_offline(hub)


@cache
def _install_hook() -> None:
    """Install the check once and for good: an audit hook cannot be removed. It sees all libraries that use Python's
    sockets."""
    sys.addaudithook(_check_event)


def _check_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _ALLOWED_SETS or event not in _EVENTS:
        return
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif arguments[0].family in (socket.AF_INET, socket.AF_INET6):
        host = arguments[1][0]
    else:
        return
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if not all(name in allowed for allowed in _ALLOWED_SETS):
        raise PermissionError(errno.EACCES, f"--offline forbids connections to {name}")


def _look_up(host: str) -> list[Any]:
    try:
        return socket.getaddrinfo(host, None)
    except OSError:
        return []


def _set_hub_offline(value: str | None) -> str | None:
    """Set the variables that the hub's library reads, for this process and those that it starts. Return the value
    before."""
    before = os.environ.get("HF_HUB_OFFLINE")
    if value is None:
        os.environ.pop("HF_HUB_OFFLINE", None)
    else:
        os.environ["HF_HUB_OFFLINE"] = value
    if "huggingface_hub.constants" in sys.modules:
        constants: Any = sys.modules["huggingface_hub.constants"]
        constants.HF_HUB_OFFLINE = value is not None and value.upper() in ("1", "ON", "YES", "TRUE")
    return before
