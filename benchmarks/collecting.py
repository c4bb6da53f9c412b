"""What it costs to collect a generated set of the seed article's size from a web on this machine.

    python benchmarks/collecting.py [--topics 20] [--queries 75] [--keep 12]

Queries that people kept are searched for, and their images fetched, checked, rendered and published, with one result
in ten at fault; then the same set is built again without the web. The server answers after 20 ms and shares the cores.
Says time, processor time, memory at most (the largest process) and requests. Images are small (240 x 180): what is
measured is the collecting, not a line to the web.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from collecting_server import RESULTS
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
_FIRST = 0x4E00  # characters that words are made of


def make_word(number: int) -> str:
    """A word of three characters for every number."""
    return "".join(chr(_FIRST + (number * step) % 20_011 % 20_000) for step in (7, 1009, 15_013))


def write_definition(folder: Path, url: str, topics: int, queries: int, keep: int) -> Any:
    """A definition whose first two stages are done: the topics and objects are a person's."""
    from builders.generated.definition import GeneratedDefinition
    from builders.generated.stages import run_objects_stage, run_topics_stage

    samples = {f"主题{chr(_FIRST + t)}": [make_word(t * queries + n) for n in range(queries)] for t in range(topics)}
    (folder / "samples.yaml").write_text(json.dumps(samples, ensure_ascii=False), "utf-8")
    asking = {"model": "openai_compatible", "options": {"base_url": url, "name": "mute"}, "rounds": 1}
    limits = {"per_host": 16, "interval": 0}
    definition = GeneratedDefinition.model_validate(
        {
            "kind": "generated",
            "name": "collected",
            "out": folder,
            "topics": {**asking, "samples": str(folder / "samples.yaml")},
            "objects": {"embedder": "char_ngrams", "rounds": 1},
            "collect": {"options": {"endpoint": f"{url}/acjson"}, "first": RESULTS, "keep": keep, "limits": limits},
        }
    )
    run_topics_stage(definition, "benchmark")
    run_objects_stage(definition, "benchmark")
    return definition


def measure_call(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What the work gives, with seconds by the clock and of the processor, ended workers included."""
    from querytruth.backends.images import worker_processes

    worker_processes.end_idle_workers()  # a worker's time counts when it has ended
    start, before = time.monotonic(), os.times()
    done = work()
    worker_processes.end_idle_workers()
    seconds, after = time.monotonic() - start, os.times()
    spent = sum(after[:4]) - sum(before[:4])
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return done, {"seconds": seconds, "processor": spent, "peak": peak / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--queries", type=int, default=75, help="of each topic")
    parser.add_argument("--keep", type=int, default=12)
    given = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    program = [sys.executable, HERE / "collecting_server.py", str(given.topics * given.queries)]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout
        try:
            url = server.stdout.readline().strip()
            run_benchmark(Path(folder), url, given)
        finally:
            server.terminate()


def run_benchmark(folder: Path, url: str, given: argparse.Namespace) -> None:
    from builders.generated import collection_steps as web_collection
    from flows.set_kinds import build_set
    from querytruth.backends.steps import BuildRun, active_run
    from querytruth.backends.web.crawler_client import CrawlerClient

    here = (ipaddress.ip_network("127.0.0.0/8"),)
    web_collection.CrawlerClient = partial(CrawlerClient, networks_for_tests=here)  # type: ignore[misc, assignment]
    definition = write_definition(folder, url, given.topics, given.queries, given.keep)
    table = Table(title=f"{given.topics} topics x {given.queries} queries x {given.keep} images")
    for column in ("run", "seconds", "processor", "MB at most", "requests", "queries", "images", "images/s"):
        table.add_column(column, justify="left" if column == "run" else "right")
    before, digests = 0, set()
    for name, offline in (("collect and build", False), ("again, without the web", True)):
        with active_run(BuildRun(workers=os.cpu_count() or 1, offline=offline)) as under_way:
            result, cost = measure_call(lambda: build_set(definition))
        request_count = int(urllib.request.urlopen(f"{url}/count").read())
        counts = result.manifest["counts"]
        figures = (
            f"{cost['seconds']:.0f}",
            f"{cost['processor']:.0f}",
            f"{cost['peak']:.0f}",
            f"{request_count - before:,}",
        )
        speed = f"{counts['images'] / cost['seconds']:.0f}"
        table.add_row(name, *figures, f"{counts['queries']:,}", f"{counts['images']:,}", speed)
        before = request_count
        digests.add(result.manifest["content_digest"])
        Console().print({step: took for step, took in under_way.durations.items() if took > 0.5}, style="dim")
    Console().print(table)
    whole = given.topics * given.queries * given.keep
    is_whole = counts["judgments"] == whole and len(digests) == 1
    Console().print(f"{counts['judgments']:,} of {whole:,} right images: {'all' if is_whole else 'MISSED'}")
    sys.exit(not is_whole)


if __name__ == "__main__":
    main()
