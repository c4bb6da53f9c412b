"""A reply store in a bucket, and machines that share it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.object_service import ObjectService


@pytest.fixture
def service(object_service: ObjectService) -> ObjectService:
    return object_service


@pytest.fixture
def url(service: ObjectService) -> str:
    return f"{service.url}/replies"


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Goes to another machine, which has read nothing yet, or back to one."""
    return lambda name: monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache of {name}"))
