"""Progress of transfers: what shows it is chosen once, by the command line, and reached from any depth.

Apart from `bucket.py`, so that a command which transfers nothing loads no client of a bucket.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

# Takes a title, the number of bytes in all, and "bytes"; what it opens takes those of each file.
BarFactory = Callable[[str, int, str], AbstractContextManager[Callable[[int], Any]]]


@contextmanager
def _open_silent_bar(_title: str, _total: int, _unit: str) -> Iterator[Callable[[int], Any]]:
    yield lambda _bytes: None


transfer_bars: ContextVar[BarFactory] = ContextVar("transfer_bars", default=_open_silent_bar)


def open_transfer_bar(title: str, total: int) -> AbstractContextManager[Callable[[int], Any]]:
    """Opens the bar of a transfer of `total` bytes."""
    return transfer_bars.get()(title, total, "bytes")
