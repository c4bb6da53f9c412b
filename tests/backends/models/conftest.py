"""A reply store in a bucket, and machines that share it."""

import socket
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


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The hosts that were asked for, all in vain."""
    asked: list[object] = []

    def refuse(host: object, *_: object, **__: object) -> None:
        asked.append(host)
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return asked
