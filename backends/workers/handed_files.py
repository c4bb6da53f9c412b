"""The files of a worker's items: the parent opens them, because the worker may read no other file of the user."""

import contextlib
import errno
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_open: dict[str, int] = {}  # in a worker: the descriptor of the file of the item that it works on, by location


def item_location(item: Any) -> str | None:
    """Returns the path or URL that an item is, or has as its `location`; None for another item."""
    location = getattr(item, "location", item)
    return str(location) if isinstance(location, str | Path) else None


def hand_over(items: Sequence[Any], channel: socket.socket) -> list[bool]:
    """Opens the items' files and sends their descriptors in one message. Returns which items have one; none for those
    that cannot be opened: then the worker finds out why."""
    handles = [_open_location(item_location(item)) for item in items]
    opened = [handle for handle in handles if handle is not None]
    try:
        if opened:
            socket.send_fds(channel, [b"f"], opened, socket.MSG_DONTWAIT)  # a hostile worker may receive none
    except OSError:
        return [False] * len(items)
    finally:
        for handle in opened:
            os.close(handle)
    return [handle is not None for handle in handles]


def _open_location(location: str | None) -> int | None:
    try:
        return os.open(location or "", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block
    except (OSError, ValueError):  # ValueError: not a possible file name
        return None


def receive_files(count: int, channel: socket.socket) -> list[int]:
    """Receives the descriptors of so many files, in their order."""
    return socket.recv_fds(channel, 1, count)[1] if count else []


def offer_file(item: Any, handle: int) -> None:
    """Makes the descriptor that of the item's file, until `drop_file`."""
    _open[item_location(item) or ""] = handle


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
