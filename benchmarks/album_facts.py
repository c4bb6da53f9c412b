"""What the facts of a large album cost as tables: merged, written, grouped into events, and read as tags.

    python benchmarks/album_facts.py [--images 100000 1000000]

Drawn facts, about four an image: a date, a city and its country, often people, sometimes a keyword. No photo is read.
Seconds are processor time. Each size runs in its own process, whose peak memory is printed.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from builders.album.events import EVENT_COLUMNS, DatedPhoto, find_events
from builders.album.fact_table import FACT_COLUMNS, FactRow, merge_facts
from builders.precision.definition import FactOptions
from builders.precision.fact_files import read_facts
from querytruth.backends.files.text_formats import write_csv


def draw_facts(count: int) -> Iterator[FactRow]:
    """Yield the facts of so many images, in the order in which they were taken."""
    drawn, at = random.Random(1), datetime.fromisoformat("2005-01-01")
    for number in range(count):
        name = f"{number // 500:05}/{number:07}.jpg"
        at += timedelta(minutes=drawn.choice((1, 2, 5, 10, 90, 600)))
        yield FactRow(name, "date", at.isoformat(), source="exif")
        city = drawn.randrange(80)
        yield FactRow(name, "city", f"City {city}", source="xmp")
        yield FactRow(name, "country", f"Country {city % 12}", source="xmp")
        for person in drawn.sample(range(60), drawn.choice((0, 0, 1, 2))):
            yield FactRow(name, "person", f"Person {person}", source="xmp", region="0.1 0.1 0.2 0.2")
        if drawn.random() < 0.4:
            yield FactRow(name, "keyword", f"keyword {drawn.randrange(300)}", source="iptc")


def measure(count: int) -> None:
    """Print what each step costs for so many images."""
    seconds = dict[str, float]()

    def took(step: str) -> None:
        seconds[step] = time.process_time() - sum(seconds.values())

    rows = list(draw_facts(count))
    took("drawn")
    rows = merge_facts(rows)
    took("merged")
    with tempfile.TemporaryDirectory() as folder:
        facts, events = Path(folder, "facts.csv"), Path(folder, "events.csv")
        write_csv(facts, FACT_COLUMNS, rows)
        took("written")
        dated = [DatedPhoto(datetime.fromisoformat(row.value), row.image) for row in rows if row.kind == "date"]
        found = find_events(dated)
        write_csv(events, EVENT_COLUMNS, found)
        took("events")
        read = read_facts(facts, FactOptions(events=events))
        took("read as tags")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    steps = ", ".join(f"{step} {value:.1f} s" for step, value in seconds.items())
    print(f"{count:,} images, {len(rows):,} facts, {len(found):,} events, {len(read.categories):,} tags: {steps}; "
          f"{peak:.2f} GB", flush=True)  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--images", type=int, nargs="+", default=[100_000, 1_000_000])
    options.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.here:
        measure(given.images[0])
        return
    for count in given.images:
        subprocess.run([sys.executable, str(Path(__file__)), "--here", "--images", str(count)], check=True)


if __name__ == "__main__":
    main()
