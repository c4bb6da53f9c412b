"""A property that is tried on a few examples by every run of the tests, and on many by a marked one."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings


def few_and_many(few: int, many: int, mark: pytest.MarkDecorator, **drawn: Any) -> Callable[..., Callable[[int], None]]:
    """A test of what is drawn by these strategies. `mark`: slow or thorough, of the many examples."""

    def decorate(check: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=mark)])
        def test(examples: int) -> None:
            settings(max_examples=examples)(given(**drawn)(check))()

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate
