"""The demo from its command: nine sets with a page each, intact, and what is true of them said."""

import os
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from querytruth.cli.demo import wait_for_searches
from querytruth.errors import UserError
from querytruth.sample_album.album import read_album
from tests.sample_album.grades import count_exact_captions, count_relevant


def test_a_second_process_that_the_system_ends_is_one_line() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as beside:
        ended = beside.submit(os._exit, 9)
        with pytest.raises(UserError, match="was ended, perhaps for lack of memory"):
            wait_for_searches(ended.result)


@pytest.mark.slow
def test_the_demo_builds_nine_sets_with_their_pages_and_says_what_is_true_of_them(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "querytruth", "demo", "--out", "demo"]
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_HOME"}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    assert done.stderr.startswith("querytruth demo: writing the sample album")
    assert told.count("verified: intact") == 9
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr
    sets = tmp_path / "demo" / "datasets"
    assert count_exact_captions(sets / "sample-captions" / "v1", tmp_path / "demo" / "album") == (452, 452)
    assert count_relevant(sets / "sample-queries" / "v1", read_album()) == (396, 396)
    certified = re.search(
        r"certificate of sample-queries: 95% confidence: at least ([\d.]+)%.*: the certificate holds",
        told,
    )
    assert certified and float(certified[1]) >= 85, "of 90% by what was found, less what people may miss"
    assert "gate of stale-search against search: FAIL (" in told
    assert "gate of search against stale-search: PASS (" in told
    assert "ended-search: the set would notice" in told and "month: 2025-10: 100% of these are never found" in told
    assert "41 phrasings │ 26 │ 4 asks something else" in told
    folder = tmp_path / "demo" / "datasets" / "sample-queries"
    pages = [folder / "review" / f"{stage}-health.html" for stage in ("topics", "objects")]
    pages += [tmp_path / "demo" / "search" / "notice" / "notice.html", tmp_path / "demo" / "index.html"]
    for page in pages:
        assert page.read_text("utf-8").startswith("<!doctype html>") and page.name in told
    start = pages[-1].read_text("utf-8")
    links = set(re.findall(r'href="([^"#]+)"', start))
    assert len(links) > 15 and all((tmp_path / "demo" / link).is_file() for link in links)
    assert {f"datasets/sample-{name}/shown/v1.html" for name in ("gallery", "captions", "objects", "families")} <= links
    assert {"audited/sample-queries/audits/audit/report.html", "search/leaderboard.html", "index.zh.html"} <= links
    assert (folder / "generated" / "collect.csv").exists()
