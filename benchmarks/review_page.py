"""How long a person waits for the review page, measured in Chromium: the first grid, the next query, a list of rejects.

    python benchmarks/review_page.py [--queries 1500] [--rejects 900000] [--runs 3]

The set has 12 judged images a query, noise of 512 x 512, none of them made small yet, and a ledger of so many
rejects. Each run starts the command anew. Times of keys are medians of 30 presses, with a pause in between, as of a
person who looks; a search begins a quarter of a second after the last letter. Chromium is Debian's (apt-get install
chromium), driven by Playwright, which the extra `dev` brings.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.table import Table

from builders.publication import BuiltTables, publish_built
from querytruth.definitions import SetDefinition
from querytruth.records import from_arrow, stable_hash, to_arrow
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.ledger import Ledger, rejection_rows

EACH, A_QUERY = 12, 1.6  # judged images; images of the gallery for a query
TARGETS = {"first grid": "1.5 s", "next query": "100 ms"}
FIRST_GRID_JS = """() => { const all = [...document.querySelectorAll('.tile img')].slice(0, 12);
    return all.length === 12 && all.every(one => one.complete && one.naturalWidth > 0); }"""
REJECTS_SHOWN_JS = "() => document.querySelectorAll('.reject').length >= 24"
REJECT_FOUND_JS = "() => document.querySelector('.reject')?.title.includes('夏天 05')"
NEXT_QUERY_JS = """async count => {
    const times = [], frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    for (let n = 0; n < count; n += 1) {
        await new Promise(done => setTimeout(done, 400));  // a person looks
        const before = document.getElementById('place').textContent, start = performance.now();
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }));
        while (document.getElementById('place').textContent === before) await frame();
        await frame();
        times.push(performance.now() - start);
    }
    return times; }"""


def make_set(folder: Path, queries: int, rejects: int) -> Path:
    """Always the same set, published; its folder."""
    images = int(queries * A_QUERY)
    image_ids = [f"img_{stable_hash('image', str(n)):020x}" for n in range(images)]
    query_ids = [f"q_{stable_hash('query', str(n)):020x}" for n in range(queries)]
    paths = [f"images/{name[4:6]}/{name}.jpg" for name in image_ids]
    for number, path in enumerate(paths):
        (folder / "rendered" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "rendered" / path).write_bytes(noise(number))
    pairs = [(query, image_ids[(7 * n + k) % images], 1) for n, query in enumerate(query_ids) for k in range(EACH)]
    names = [f"IMG_{n:06}.jpg" for n in range(images)]
    queries_told = pd.DataFrame({"query_id": query_ids, "text": [f"第{n}张狗的照片" for n in range(queries)]})
    frames = {
        "images": pd.DataFrame({"image_id": image_ids, "path": paths, "width": 512, "height": 512, "file_name": names}),
        "queries": queries_told.assign(language="zh", style="word", level=1),
        "qrels": pd.DataFrame(pairs, columns=["query_id", "image_id", "relevance"]).assign(judged_by="rule"),
    }
    tables = Tables(*(from_arrow(to_arrow(name, frames[name])) for name in ("queries", "images", "qrels")))
    definition = SetDefinition(kind="precision", name="judged", title="Judged", licence="CC0-1.0", out=folder / "sets")
    built = BuiltTables(tables, make_ledger(rejects), {"1": "shows it"}, rendered_folder=folder / "rendered")
    return publish_built(definition, built).path


def noise(seed: int) -> bytes:
    """A JPEG as heavy as a photo of its size."""
    pixels = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize((512, 512), Image.Resampling.BICUBIC).save(out, "JPEG", quality=85)
    return out.getvalue()


def make_ledger(rejects: int) -> Ledger:
    """Half of them too dark, the others not selected."""
    items = [f"2019/夏天 {n % 977:03}/IMG_{n:07}.jpg" for n in range(rejects)]
    half, ledger = rejects // 2, Ledger()
    brightness = {"measure": "brightness", "value": [n % 1500 / 10_000 for n in range(half)], "threshold": 0.15}
    rejections = rejection_rows(items[:half], "rejected", "too_dark", **brightness)
    ledger.record_stage("filter", "image", rejects, rejects - half, rejections)
    rejections = rejection_rows(items[half:], "rejected", "not_selected")
    ledger.record_stage("select", "image", rejects - half, 0, rejections)
    return ledger


@contextmanager
def serve_set(path: Path) -> Iterator[str]:
    """`querytruth review`, once it answers; the address that it prints."""
    command = [sys.executable, "-m", "querytruth", "review", str(path), "--no-open", "--reviewer", "lin"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        match = re.search(r"http://\S+token=\S+", process.stdout.readline())
        assert match, "the address comes first"
        yield match[0]
    finally:
        process.kill()
        process.wait()


def wait_for_condition(page: Page, what: str) -> None:
    """The page's policy forbids Playwright's own waiting, which evaluates text in it."""
    while not page.evaluate(what):
        time.sleep(0.005)


def measure_once(browser: Browser, path: Path) -> dict[str, float]:
    """Seconds of a run, by what is waited for."""
    shutil.rmtree(path.parent / ".thumbnails", ignore_errors=True)
    seconds = {}
    with serve_set(path) as url:
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        page.request.get(url)  # waits until the set is read
        started = time.perf_counter()
        page.goto(url)
        wait_for_condition(page, FIRST_GRID_JS)
        seconds["first grid"] = time.perf_counter() - started
        seconds["next query"] = median(page.evaluate(NEXT_QUERY_JS, 30)) / 1000
        started = time.perf_counter()
        page.goto(f"{url.partition('/?')[0]}/rejects")
        wait_for_condition(page, REJECTS_SHOWN_JS)
        seconds["first sheet of rejects"] = time.perf_counter() - started
        seconds["next reject"] = median(page.evaluate(NEXT_QUERY_JS, 30)) / 1000
        started = time.perf_counter()
        page.fill("[name=search]", "夏天 05")
        wait_for_condition(page, REJECT_FOUND_JS)
        seconds["search in the rejects"] = time.perf_counter() - started
        page.close()
    return seconds


def main() -> None:
    """Make the set, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1500)
    parser.add_argument("--rejects", type=int, default=900_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        parser.exit(1, "no chromium here (Debian: apt-get install chromium)\n")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = make_set(Path(folder), arguments.queries, arguments.rejects)
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        runs = [measure_once(browser, path) for _ in range(arguments.runs)]
        browser.close()
    table = Table(
        title=f"{arguments.queries:,} queries x {EACH} images, {arguments.rejects:,} rejects", title_justify="left"
    )
    for name in ("wait for", "median", "slowest run", "target"):
        table.add_column(name, justify="left" if name == "wait for" else "right")
    for name in runs[0]:
        times = [run[name] * 1000 for run in runs]
        table.add_row(name, f"{median(times):,.0f} ms", f"{max(times):,.0f} ms", TARGETS.get(name, ""))
    Console().print(table)


if __name__ == "__main__":
    main()
