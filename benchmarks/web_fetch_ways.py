"""One way of fetching images, in a process of its own; the peers' environment runs it, too.

    python benchmarks/web_fetch_ways.py WAY URL COUNT FOLDER

URL is the server's, with a path before the numbers. Prints one line of JSON: images that are there and whole in the
end, seconds by the clock and of the processor, and the memory at most. Start and imports do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from gallery_timing import Figures, measure_call

THREADS = 16


def ours(urls: list[str], folder: Path) -> Figures:
    """All guards, limits, robots.txt, the store and the decode check as in use; only the host is not left in peace."""
    import ipaddress

    from querytruth.backends.web.crawler_client import CrawlerClient
    from querytruth.backends.web.page_store import PageStore
    from querytruth.backends.web.stored_fetches import WantedImage, fetch_images
    from querytruth.backends.web.web_records import WebLimits

    def fetch(some: list[str], name: str) -> int:
        store = PageStore(folder / name)
        limits = WebLimits(concurrency=THREADS, per_host=THREADS, interval=0, pause=0.05)
        here = [ipaddress.ip_network("127.0.0.0/8")]
        web = CrawlerClient(limits, networks_for_tests=here, robots_store=store)
        results = fetch_images(store, web, [WantedImage((url,)) for url in some])
        return sum(not image.reason for image in results)

    fetch(urls[:8], "first")  # starts the decoders
    return add_network_figures(measure_call(lambda: fetch(urls, "store")))


def add_network_figures(figures: Figures) -> Figures:
    """With the processor time of the decoders, which only counts when they have ended."""
    from querytruth.backends.images import worker_processes

    before = os.times()
    worker_processes.end_idle_workers()
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return figures | {"processor": figures["processor"] + spent}


def img2dataset(urls: list[str], folder: Path, **options: object) -> Figures:
    """Counted by what it wrote. Its start is measured with eight images, and taken off."""
    import multiprocessing

    from img2dataset import download

    def fetch(some: list[str], name: str) -> int:
        listed = folder / f"{name}.txt"
        listed.write_text("\n".join(some))
        download(
            url_list=str(listed), output_folder=str(folder / name), processes_count=1, thread_count=THREADS, **options
        )
        return len(list((folder / name).rglob("*.jpg")))

    multiprocessing.set_start_method("spawn", force=True)
    start = measure_call(lambda: fetch(urls[:8], "first"))
    whole = measure_call(lambda: fetch(urls, "store"))
    return whole | {name: whole[name] - start[name] for name in ("seconds", "processor")}


def requests_session(urls: list[str], folder: Path) -> Figures:
    """Threads with a session each; nothing is checked and nothing kept."""
    import threading

    import requests

    sessions = threading.local()

    def get(url: str) -> bool:
        if not hasattr(sessions, "own"):
            sessions.own = requests.Session()
        try:
            answer = sessions.own.get(url, timeout=10)
        except requests.RequestException:
            return False
        return answer.status_code == 200 and answer.content[:2] == b"\xff\xd8"

    return in_threads(get, urls)


def sockets(urls: list[str], folder: Path) -> Figures:
    """The limit: a connection per thread, bytes read as they come."""
    import threading

    links = threading.local()

    def get(url: str) -> bool:
        place = urlsplit(url)
        if not hasattr(links, "own"):
            links.own = socket.create_connection((place.hostname, place.port))
        links.own.sendall(f"GET {place.path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += links.own.recv(1 << 16)
        head, _, body = data.partition(b"\r\n\r\n")
        left = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0]) - len(body)
        while left > 0 and (piece := links.own.recv(min(left, 1 << 16))):
            left -= len(piece)
        return True

    return in_threads(get, urls)


def in_threads(get: Callable[[str], bool], urls: list[str]) -> Figures:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(get, urls[:8]))
        return measure_call(lambda: sum(pool.map(get, urls)))


WAYS: dict[str, Callable[[list[str], Path], Figures]] = {
    "ours": ours,
    "img2dataset": partial(img2dataset, resize_mode="no", skip_reencode=True),
    "img2dataset_resize": img2dataset,
    "img2dataset_undecoded": partial(img2dataset, disable_all_reencoding=True, extract_exif=False),
    "requests": requests_session,
    "sockets": sockets,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("url")
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a peer may print as it goes
    try:
        figures = WAYS[given.way]([f"{given.url}/{number}" for number in range(given.count)], given.folder)
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is not installed")
    print(json.dumps(figures), file=answers)


if __name__ == "__main__":
    main()
