"""AGENTS.md: a script that uses only what the page names does the first hour, and reads the forms that it states."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import querytruth as qt
from tests.checks.golden_world import PHOTOS, serve

Run = Callable[..., tuple[str, str]]
PAGE = (Path(__file__).parents[2] / "AGENTS.md").read_text("utf-8")


def test_the_first_hour_with_what_the_page_names(run: Run, tmp_path: Path) -> None:
    system, golden = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    with serve(tmp_path) as search:
        search.lists["green"] = PHOTOS[3:]
        url = (tmp_path / "mine.yaml").read_text().partition("url: ")[2].partition("/?")[0]
        system = system.replace("http://localhost:8000/search", url).replace('size: "{k}"', 'k: "{k}"')
        system = system.replace("results: hits", "results: results").replace("id: file ", "id: id ")
        (tmp_path / "my-search.yaml").write_text(system)
        (tmp_path / "golden.yaml").write_text(golden)
        (tmp_path / "captions.csv").write_text("image,text\np00.jpg,red\np03.jpg,green\n")
        trial = json.loads(run("search", "red", "--system", "my-search.yaml", "--trial", "--json")[0])
        assert {"rank", "id", "score"} <= trial["hits"][0].keys()
        (case,) = json.loads(run("check", "golden.yaml", "--json")[0])["cases"]
        assert case["status"] == "pass" and {"query", "problems", "ranks"} <= case.keys()
        made = json.loads(run("import", "pairs", "captions.csv", "datasets/mine", "--images", "photos", "--json")[0])
        assert {"path", "counts"} <= made.keys()
        (result,) = json.loads(run("evaluate", "mine", "--system", "my-search.yaml", "--json")[0])["results"]
        assert {"metric", "value", "low", "high"} <= result["figures"][0].keys()
        run("evaluate", "mine", "--baseline", "random", "--json")
        (pair, *_) = json.loads(run("compare", "mine", "my-search", "random", "--json")[0])["pairs"]
        assert {"difference", "low", "high", "p_holm"} <= pair.keys()
        gate = ("gate", "mine", "--candidate", "my-search", "--baseline", "random", "--metric", "ndcg@10")
        assert "verdict" in json.loads(run(*gate, "--margin", "0.02", "--undecided", "pass", "--json")[0])
        assert run("lint", "mine", "--json")[0] and "problems" in json.loads(run("verify", "mine", "--json")[0])
        assert run("list", "--json")[0].startswith("[")
        url = qt.open("photos", show=False)
        assert url.startswith("http://127.0.0.1:") and "?token=" in url


def test_the_page_is_one_page_and_lies_in_the_package() -> None:
    assert PAGE.count("\n") < 80 and Path(qt.__file__).with_name("AGENTS.md").read_text("utf-8") == PAGE
