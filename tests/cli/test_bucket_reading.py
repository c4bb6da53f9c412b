"""Commands that need the images or the judgments of a set in object storage answer as for the set on disk."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.object_service import ObjectService
from tests.small_sets import publish_small_set, small_tables

Run = Callable[..., tuple[str, str]]
pytestmark = pytest.mark.thorough


@pytest.fixture
def url(run: Run, tmp_path: Path, object_service: ObjectService) -> str:
    """A small set in the bucket and in `sets/`; two results of systems in `oracle` and `random`."""
    publish_small_set(tmp_path, small_tables())
    run("publish", "small", "--with-places", "--to", object_service.url, "--out", "sets")
    for name in ("oracle", "random"):
        run("evaluate", "sets/small", "--baseline", name, "--report", name)
    return f"{object_service.url}/small"


def forget_images() -> None:
    """The set on disk and what the cache holds are gone: the bucket alone has the images."""
    shutil.rmtree("sets")
    shutil.rmtree("cache", ignore_errors=True)


def test_gate(run: Run, url: str) -> None:
    def decide(spec: str, *more: str) -> dict[str, Any]:
        runs = ["--candidate", "oracle", "--baseline", "random", "--undecided", "pass"]
        found: dict[str, Any] = json.loads(
            run("gate", spec, *runs, "--metric", "hit@1", "--margin", "0.5", "--json", *more)[0]
        )
        return found

    here = decide("sets/small")
    forget_images()
    assert decide(url) == decide(f"{url}/v1") == here


def test_search(run: Run, url: str) -> None:
    asked = ("a dog, wet", "--run", "oracle", "--json", "--page", "found.html")
    here, page = run("search", "sets/small", *asked)[0], Path("found.html").read_bytes()
    Path("found.html").unlink()
    forget_images()
    assert json.loads(run("search", url, *asked)[0])["hits"] == json.loads(here)["hits"] != []
    stored = Path("found.html").read_bytes()
    assert stored.count(b"data:image/jpeg") == page.count(b"data:image/jpeg") > 0


def test_show_writes_the_page_with_its_images(run: Run, url: str) -> None:
    run("show", "sets/small", "--page", "here.html")
    forget_images()
    assert "page written: there.html" in run("show", url, "--page", "there.html")[1]
    here, there = (Path(name).read_bytes() for name in ("here.html", "there.html"))
    assert there.count(b"data:image/jpeg") == here.count(b"data:image/jpeg") > 0


def test_export_names_the_set_and_not_the_copy_in_the_cache(run: Run, url: str) -> None:
    forget_images()
    shown = " ".join(run("export", url, "trec", "out")[0].split())
    assert shown.startswith(f"{url}/v1 exported as trec to out") and "cache" not in shown


def test_offline_refuses_a_url_also_where_the_cache_has_the_version(run: Run, url: str) -> None:
    asked = ("evaluate", url, "--baseline", "oracle", "--report", "again")
    run(*asked)
    assert "--offline forbids connections" in " ".join(run(*asked, "--offline", code=1)[1].split())
