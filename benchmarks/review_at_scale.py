"""How long a person waits for a large set: until its page opens, a decision is on disk, decisions are applied.

    python benchmarks/review_at_scale.py [--queries 100000] [--images 1000000] [--judgments 24000000] [--keep FOLDER]

The set has images of which only the annotations are known, and queries of two labels in two languages. `open`: from the
start of `querytruth review` to the answer of each page. `decide`: ten people, each with a page and a process of their
own on this set, decide twice a second on average, and wait for each answer. `apply`: `querytruth apply` of 10,000
decisions on judgments, from start to exit. Processor seconds and memory are those of the processes that serve or apply.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import pandas as pd
import requests

from builders.publication import BuiltTables, publish_built
from querytruth.definitions import SetDefinition
from querytruth.records import categorical_from_codes, from_arrow, stable_hash, to_arrow
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.decision_log import DecisionLog
from querytruth.sets.decision_records import QueryDecision
from querytruth.sets.ledger import Ledger

REVIEWERS, DECISIONS = 10, 10_000
PAGES = ("/queries", "/api/queries/queue", "/pairs", "/decisions")


def make_set(folder: Path, queries: int, images: int, judgments: int) -> Path:
    """Always the same set, published; its folder."""
    image_ids = sorted(f"img_{stable_hash('image', str(n)):020x}" for n in range(images))
    query_ids = [f"q_{stable_hash('query', str(n)):020x}" for n in range(queries)]
    labels = [[f"thing {n // 2 % 365}", f"thing {400 + n // 730}"] for n in range(queries)]
    texts = [("{} 和 {}" if n % 2 else "{} and {}").format(*names) + f" {n // 2}" for n, names in enumerate(labels)]
    each, random_ = judgments // queries, np.random.default_rng(7)
    starts = np.sort(random_.integers(0, images, (queries, each), dtype=np.int32), axis=1)
    rows = (
        np.minimum(np.maximum.accumulate(starts + np.arange(each, dtype=np.int32), axis=1), images + each - 1) % images
    )
    rows = np.sort(rows, axis=1)
    frames = {
        "queries": pd.DataFrame({"query_id": query_ids, "text": texts, "labels": labels}).assign(
            language=["zh" if n % 2 else "en" for n in range(queries)], style="word", level=2
        ),
        "images": pd.DataFrame({"image_id": image_ids, "width": 640, "height": 480}).assign(
            file_name=[f"patch{n // 20_000}/objects365_{n:08}.jpg" for n in range(images)]
        ),
        "qrels": pd.DataFrame(
            {
                "query_id": categorical_from_codes(query_ids, np.repeat(np.arange(queries, dtype=np.int32), each)),
                "image_id": categorical_from_codes(image_ids, rows.ravel()),
                "relevance": random_.integers(0, 3, queries * each, dtype=np.int8),
                "judged_by": categorical_from_codes(["detector"], np.zeros(queries * each, dtype=np.int32)),
                "evidence": categorical_from_codes(["a box of it"], np.zeros(queries * each, dtype=np.int32)),
            }
        ),
    }
    tables = Tables(*(from_arrow(to_arrow(name, frames[name])) for name in ("queries", "images", "qrels")))
    definition = SetDefinition(kind="precision", name="large", title="Large", licence="CC0-1.0", out=folder / "sets")
    grades = {"0": "does not show it", "1": "shows it", "2": "shows it large"}
    return publish_built(definition, BuiltTables(tables, Ledger(), grades)).path


class Server:
    """`querytruth review` of the set, from its start on."""

    def __init__(self, path: Path, reviewer: str) -> None:
        self.started = time.perf_counter()
        command = [sys.executable, "-m", "querytruth", "review", str(path), "--no-open", "--reviewer", reviewer]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        url = re.search(r"(http://\S+?)/?\?token=\S+", self.process.stdout.readline())
        assert url, "the address comes first"
        self.home, self.session = url[1], requests.Session()
        self.token_url = url[0]

    def wait_until_open(self) -> float:
        """Seconds from the start until the first page is there."""
        answer = self.session.get(self.token_url, headers={"sec-fetch-site": "none"})
        answer.raise_for_status()
        self.session.headers.update({"origin": self.home, "sec-fetch-site": "same-origin"})
        return time.perf_counter() - self.started

    def get(self, place: str) -> tuple[float, requests.Response]:
        """Seconds until the answer, and the answer."""
        start = time.perf_counter()
        answer = self.session.get(self.home + place)
        answer.raise_for_status()
        return time.perf_counter() - start, answer

    def stop(self) -> tuple[float, float]:
        """Processor seconds and MB at the peak."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        ticks = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        self.process.terminate()
        self.process.wait()
        peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1000  # type: ignore[index]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), peak


def measure_opening(path: Path) -> None:
    """Print seconds until each page, and memory."""
    server = Server(path, "lin")
    print(f"open: {server.wait_until_open():.2f} s to the first page", end="")
    for place in PAGES:
        print(f", {place} {server.get(place)[0]:.2f}", end="", flush=True)
    key = server.get("/api/queries/queue")[1].json()["keys"][0]
    print(f", a card {server.get(f'/api/queries/cards?key={key}')[0]:.3f}", end="")
    processor, peak = server.stop()
    print(f"; {processor:.2f} s of the processor, {peak:,.0f} MB at the peak")


def measure_deciding(path: Path, seconds: float) -> None:
    """Print how long each of ten people waits for the answer to a decision."""
    with ThreadPoolExecutor(REVIEWERS) as people:
        servers = list(people.map(lambda n: Server(path, f"person {n}"), range(REVIEWERS)))
        list(people.map(Server.wait_until_open, servers))
        waits = [wait for one in people.map(lambda server: _decide(server, seconds), servers) for wait in one]
        peaks = [peak for _, peak in map(Server.stop, servers)]
    p50, p99 = median(waits), quantiles(waits, n=100)[98]
    shown = f"{p50 * 1000:.1f} ms median, {p99 * 1000:.1f} ms p99, {max(waits) * 1000:.1f} ms at most"
    print(f"decide: {len(waits):,} decisions of {REVIEWERS} people: {shown}; {max(peaks):,.0f} MB at the peak of one")


def _decide(server: Server, seconds: float) -> list[float]:
    keys = server.get("/api/queries/queue")[1].json()["keys"]
    drawn, waits, until = random.Random(server.home), [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        time.sleep(drawn.expovariate(2))
        card = server.get(f"/api/queries/cards?key={drawn.choice(keys)}")[1].json()["cards"][0]
        image = drawn.choice(card["images"])["image_id"]
        action = {"query_id": card["key"], "text": card["text"], "decision": "drop", "image_id": image, "view": "pairs"}
        start = time.perf_counter()
        answer = server.session.post(f"{server.home}/api/queries/decide", json=action)
        waits.append(time.perf_counter() - start)
        answer.raise_for_status()
    return waits


def measure_applying(path: Path) -> None:
    """Print seconds and memory of `querytruth apply` of 10,000 decisions."""
    queries = pd.read_parquet(path / "queries.parquet", columns=["query_id", "text"])
    images = pd.read_parquet(path / "images.parquet", columns=["image_id"])["image_id"].sample(
        DECISIONS, random_state=2
    )
    drawn, images = (one.sample(DECISIONS, replace=True, random_state=1) for one in (queries, images))
    rows = zip(drawn["query_id"], drawn["text"], images, strict=True)
    decisions = [
        QueryDecision(
            query, text, "grade", image, None, n % 3, "", f"person {n % 10}", "pairs", "s", f"2026-01-01T{n:06}"
        )
        for n, (query, text, image) in enumerate(rows)
    ]
    log = DecisionLog(path.parent, QueryDecision)
    (path.parent / "decisions.jsonl").unlink(missing_ok=True)
    log.append(decisions)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "querytruth", "apply", str(path), "--json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = f"{after.ru_maxrss / 1000:,.0f} MB at the peak"
    print(f"apply: {DECISIONS:,} decisions: {seconds:.1f} s, {processor:.1f} s of the processor, {peak}")
    assert json.loads(answer.stdout)["version"] > int(path.name[1:])
    shutil.rmtree(path.parent / f"v{int(path.name[1:]) + 1}")
    (path.parent / "latest").write_text(f"{path.name}\n", "ascii")
    (path.parent / "decisions.jsonl").unlink()


def main() -> None:
    """Make the set, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--judgments", type=int, default=24_000_000)
    parser.add_argument("--seconds", type=float, default=30, help="that people decide for")
    parser.add_argument("--measure", nargs="+", default=["open", "apply", "decide"])
    parser.add_argument("--keep", type=Path, help="a folder for the set, which is used again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = (arguments.keep or Path(temporary)) / "sets" / "large" / "v1"
        if not path.exists():
            path = make_set(path.parents[2], arguments.queries, arguments.images, arguments.judgments)
        if "open" in arguments.measure:
            measure_opening(path)
        if "apply" in arguments.measure:
            measure_applying(path)
        if "decide" in arguments.measure:
            measure_deciding(path, arguments.seconds)


if __name__ == "__main__":
    main()
