"""A small web on this machine: pictures, and a server that misbehaves as it is told to."""

from __future__ import annotations

import io
import ipaddress
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from backends.web.guarded_web import GuardedWeb
from backends.web.page_store import PageStore
from backends.web.stored_robots import robots_through
from backends.web.web_records import Failed, Fetched, WebLimits, WebRequest

HERE = (ipaddress.ip_network("127.0.0.0/8"),)
QUICK = WebLimits(
    seconds=2, connect=1, silence=0.4, pause=0.01, interval=0, per_host=8, concurrency=8, max_bytes=100_000
)


def drawn(number: int, size: tuple[int, int] = (160, 120)) -> bytes:
    """A picture of its own for every number, which looks like none of the others."""
    coarse = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(out, "JPEG", quality=80)
    return out.getvalue()


def small_web(store: PageStore | None = None, **options: Any) -> GuardedWeb:
    """The fetcher that may reach this machine, with limits for a test."""
    through = {} if store is None else {"robots_through": robots_through(store)}
    return GuardedWeb(**{"limits": QUICK, "networks_for_tests": HERE, **through, **options})


def once(url: str, web: GuardedWeb | None = None, **request: Any) -> tuple[Fetched | Failed, bytes]:
    """One try, and the body."""
    web, out = web or small_web(), io.BytesIO()
    return web.fetch(WebRequest(url, **request), out, time.monotonic() + web.limits.seconds), out.getvalue()


def reason(url: str, web: GuardedWeb | None = None, **request: Any) -> str:
    """Why one try failed; empty where it did not."""
    answer, _ = once(url, web, **request)
    return answer.reason if isinstance(answer, Failed) else ""


def stored_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
