"""Values that hold inside a `with` block, for all that it calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def hold_value(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable inside the `with` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
