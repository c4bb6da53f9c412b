"""Defaults that several rooms share, so that each is defined once, and how another value replaces one for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

DATASETS_FOLDER = Path("datasets")  # where published sets lie, below the working directory


@contextmanager
def hold_value(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a context variable another value than its default inside the `with` block, for all that the block calls."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
