"""A small web on this machine: images, and a server that misbehaves as it is told to."""

import io
import ipaddress
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from querytruth.backends.web.crawler_client import CrawlerClient
from querytruth.backends.web.page_store import PageStore
from querytruth.backends.web.web_records import FailedFetch, FetchedResource, WebLimits, WebRequest
from tests.images import draw_scene, encode_image
from tests.loopback import CannedResponse, LoopbackAnswer, ReceivedRequest

LOOPBACK_NETWORKS = (ipaddress.ip_network("127.0.0.0/8"),)
QUICK_LIMITS = WebLimits(
    seconds=2, connect=1, silence=0.4, pause=0.01, interval=0, per_host=8, concurrency=8, max_bytes=100_000
)


def draw_image(number: int, size: tuple[int, int] = (160, 120)) -> bytes:
    """An image of its own for every number, which looks like none of the others."""
    return encode_image(draw_scene(number, size), "JPEG", quality=80)


def small_web(store: PageStore | None = None, **options: Any) -> CrawlerClient:
    """The fetcher that may reach this machine, with limits for a test."""
    through = {} if store is None else {"robots_store": store}
    return CrawlerClient(**{"limits": QUICK_LIMITS, "networks_for_tests": LOOPBACK_NETWORKS, **through, **options})


def fetch_once(
    url: str, web: CrawlerClient | None = None, **request: Any
) -> tuple[FetchedResource | FailedFetch, bytes]:
    """One try, and the body."""
    web, out = web or small_web(), io.BytesIO()
    ends = time.monotonic() + web.limits.seconds
    return web.start(web.try_fetch(WebRequest(url, **request), out, ends)).result(), out.getvalue()


def fetch_failure_reason(url: str, web: CrawlerClient | None = None, **request: Any) -> str:
    """Why one try failed; empty where it did not."""
    answer, _ = fetch_once(url, web, **request)
    return answer.reason if isinstance(answer, FailedFetch) else ""


def stored_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


IMAGE = draw_image(1)
OK = b"HTTP/1.1 200 OK\r\n"


def jpeg(**headers: str) -> CannedResponse:
    return CannedResponse(
        IMAGE, headers={"Content-Type": "image/jpeg", **{n.replace("_", "-"): v for n, v in headers.items()}}
    )


def serving(answer: LoopbackAnswer) -> Callable[[ReceivedRequest], LoopbackAnswer]:
    """That answer for everything but robots.txt, of which there is none."""
    return lambda asked: CannedResponse(status=404) if asked.path == "/robots.txt" else answer


def encrypted(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def packed(data: bytes, how: str) -> CannedResponse:
    return CannedResponse(data, headers={"Content-Encoding": how})
