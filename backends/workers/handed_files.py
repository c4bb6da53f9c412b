"""The files of a worker's items: the parent opens them, because the worker may read no other file of the user."""

import contextlib
import errno
import os
import socket
from pathlib import Path
from typing import Any

_open: dict[str, int] = {}  # in a worker: the descriptor of the file of the item that it works on, by location


def item_location(item: Any) -> str | None:
    """Returns the path or URL that an item is, or has as its `location`; None for another item."""
    location = getattr(item, "location", item)
    return str(location) if isinstance(location, str | Path) else None


def hand_over(item: Any, channel: socket.socket) -> bool:
    """Opens the item's file and sends its descriptor. Returns False where it has none that can be opened: then the
    worker finds out why."""
    location = item_location(item)
    try:
        handle = os.open(location or "", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block
    except (OSError, ValueError):  # ValueError: not a possible file name
        return False
    try:
        socket.send_fds(channel, [b"f"], [handle], socket.MSG_DONTWAIT)  # a hostile worker may receive none
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def receive_file(item: Any, channel: socket.socket) -> None:
    """Receives the descriptor of the item's file."""
    _, handles, _, _ = socket.recv_fds(channel, 1, 1)
    if handles:
        _open[item_location(item) or ""] = handles[0]


def drop_file() -> None:
    """Closes the descriptor of the item's file, if any."""
    while _open:
        with contextlib.suppress(OSError):
            os.close(_open.popitem()[1])


def open_file(location: str, flags: int) -> int:
    """Returns a descriptor at the start of a file: of the one that the parent opened, else opened here. With O_NOFOLLOW
    the location must not be a link. Raises OSError."""
    if location not in _open:
        return os.open(location, flags)
    handle = os.dup(_open[location])
    try:
        os.lseek(handle, 0, os.SEEK_SET)
    except OSError as error:
        if error.errno != errno.ESPIPE:  # a pipe, which its reader refuses
            os.close(handle)
            raise
    if flags & os.O_NOFOLLOW and not os.path.samestat(os.lstat(location), os.fstat(handle)):
        os.close(handle)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return handle
