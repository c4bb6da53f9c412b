"""Shortcuts as a user sees them: in `querytruth notice`, its page, and the card of the set."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.publication import BuiltTables, publish_built
from querytruth.definitions import SetDefinition
from querytruth.sets import set_files
from querytruth.sets.ledger import Ledger
from tests.audit.test_shortcuts import draw_set, leak_captions
from tests.small_sets import publish_small_set, small_tables

Run = Callable[..., tuple[str, str]]


@pytest.mark.thorough
def test_a_leak_is_in_the_table_in_the_files_and_on_the_card(run: Run, tmp_path: Path) -> None:
    tables = leak_captions(*draw_set(1))
    codes = dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category")
    tables.qrels["judged_by"], tables.qrels["evidence"] = "detector", None
    tables.qrels["relevance"] = tables.qrels["relevance"].astype("int8")
    for name, value in {"language": "en", "style": "word", "level": 1}.items():
        tables.queries[name] = value
    for name in ("path", "sha256", "taken_at", "latitude", "longitude", "duplicate_group"):
        tables.images[name] = None
    for name in ("source_url", "page_url", "licence"):
        tables.images[name] = None
    qrels = tables.qrels.sort_values(["query_id", "image_id"], ignore_index=True).astype(codes)
    built = BuiltTables(type(tables)(tables.queries, tables.images, qrels), Ledger(), {"1": "right"})
    definition = SetDefinition(kind="precision", name="leaky", out=tmp_path / "sets", lose_at_most=None)
    stored = set_files.read_set(publish_built(definition, built).path)
    out = run("notice", "leaky", "--out", "sets", "--to", "found", "--draws", 10)[0]
    assert "1 of 17 systems that ignore the images beat chance" in out and "  words in captions: nDCG" in out
    rows = json.loads(Path("found/notice.json").read_bytes())["shortcuts"]
    assert [one["system"] for one in rows if one["beats_chance"]] == [rows[0]["system"]] == ["words in captions"]
    assert rows[0]["low"] > rows[0]["random"] and rows[0]["p"] == 0.005
    assert set(rows[0]["examples"]) < set(tables.queries["text"])
    assert "ignores the images beats chance: words in captions" in (stored.path / "README.md").read_text("utf-8")
    page = Path("found/notice.html").read_text("utf-8")
    assert "1 of 17 systems that ignore the images beat chance" in page
    assert page.index("words in captions") < page.index("gallery position: first ones")
    run("notice", "leaky", "--out", "sets", "--to", "zh", "--page-language", "zh", "--draws", 10)
    page = Path("zh/notice.html").read_text("utf-8")
    assert "1 / 17 个不看图片的系统胜过随机" in page and "描述中的词" in page and "图库位置：最前的" in page
    assert not re.search("words in|ones", page)


@pytest.mark.thorough
def test_a_set_of_four_queries_measures_no_shortcut(run: Run, tmp_path: Path) -> None:
    publish_small_set(tmp_path, small_tables())
    shown = json.loads(run("notice", "small", "--out", "sets", "--json", "--to", "found", "--draws", 10)[0])
    assert shown["shortcuts"] == [] and "Not measured" in Path("found/notice.html").read_text("utf-8")
