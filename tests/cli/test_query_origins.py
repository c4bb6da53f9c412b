"""Made queries against typed ones: how far figures and the order of systems move, with intervals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import querytruth as qt
from querytruth.evaluation.query_origins import find_origin_warnings, find_origins, measure_moves, measure_order
from querytruth.formats.set_card import list_biases, render_set_card
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.set_files import read_set
from tests.small_sets import image_id_of, publish_small_set, small_tables

Run = Callable[..., tuple[str, str]]


def world(
    rng: Any, gaps: dict[str, tuple[float, float]], made: int, typed: int
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Figures of systems whose mean is gaps[name] on made and on typed queries, and the table of the queries."""
    ids = [f"q{n:04}" for n in range(made + typed)]
    queries = pd.DataFrame({"query_id": ids, "style": ["caption"] * made + ["query"] * typed})
    systems = {
        name: pd.DataFrame(
            {"hit@1": np.r_[rng.random(made) < of_made, rng.random(typed) < of_typed].astype(float)}, ids
        )
        for name, (of_made, of_typed) in gaps.items()
    }
    return systems, queries


def test_a_set_of_one_kind_has_nothing_to_compare() -> None:
    for style in ("query", "caption"):
        assert find_origins(pd.DataFrame({"query_id": ["a", "b"], "style": style})) is None
    assert find_origins(None) is None
    mixed = find_origins(pd.DataFrame({"query_id": ["a", "b"], "style": ["query", "llm"]}))
    assert mixed is not None and mixed.to_dict() == {"a": "typed", "b": "made"}


@pytest.mark.thorough
def test_the_intervals_hold_how_far_figures_and_differences_move() -> None:
    rng, truth = np.random.default_rng(3), {"old": (0.8, 0.5), "new": (0.6, 0.55)}
    moved = {"old": 0.3, "new": 0.05, "old less new": 0.25}
    inside = dict.fromkeys(moved, 0)
    for _ in range(60):
        systems, queries = world(rng, truth, 120, 90)
        origins = find_origins(queries)
        assert origins is not None
        rows = measure_moves(systems, origins, ["hit@1"]).set_index("system")
        assert set(rows.index) == set(moved)
        for name, true in moved.items():
            inside[name] += rows.loc[name, "low"] <= true <= rows.loc[name, "high"]
    assert min(inside.values()) >= 54, inside


@pytest.mark.thorough
def test_the_order_and_who_changes_places() -> None:
    rng = np.random.default_rng(4)
    systems, queries = world(rng, {"a": (0.9, 0.2), "b": (0.6, 0.5), "c": (0.3, 0.8)}, 300, 300)
    origins = find_origins(queries)
    assert origins is not None
    found = measure_order(systems, origins, "hit@1")
    assert found == {"correlation": -1, "low": -1, "high": -1, "swapped": [["a", "b"], ["a", "c"], ["b", "c"]]}
    alike, queries = world(rng, {"a": (0.6, 0.5), "b": (0.6, 0.5), "c": (0.6, 0.5)}, 30, 30)
    open_order = measure_order(
        alike, origins.iloc[[*range(30), *range(300, 330)]].set_axis(queries["query_id"]), "hit@1"
    )
    assert open_order is not None and open_order["low"] < 0 < open_order["high"]
    assert measure_order({"a": systems["a"]}, origins, "hit@1") is None
    assert measure_order({"a": systems["a"], "b": systems["a"]}, origins, "hit@1") is None


def test_a_result_warns_of_what_made_queries_move() -> None:
    systems, queries = world(np.random.default_rng(5), {"a": (0.9, 0.4), "b": (0.6, 0.6)}, 100, 100)
    (warning,) = find_origin_warnings(systems["a"], queries, ["hit@1"])
    assert warning.code == "made_queries" and "on the 100 made queries" in warning.detail
    assert find_origin_warnings(systems["b"], queries, ["hit@1"]) == []


def test_the_card_states_the_two_kinds() -> None:
    (stated,) = list_biases("imported", {"en/query": 4, "en/caption": 6})
    assert stated.startswith("6 of its queries were made, 4 were typed by people who search: `leaderboard` states")
    assert "absolute figures may be biased" in list_biases("recall", {"zh/caption": 6})[0]
    assert list_biases("queries", {"en/query": 4}) == list_biases("imported", {"en/caption": 4}) == []


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A set with twelve captions and ten typed queries, each about the dog."""
    tables = small_tables(graded=False)
    ids = [f"q_{n:020x}" for n in range(22)]
    queries = pd.DataFrame({"query_id": ids, "text": [f"text {n}" for n in range(22)], "language": "en",
                            "style": ["caption"] * 12 + ["query"] * 10, "level": 1, "labels": None})  # fmt: skip
    judged = {"query_id": ids, "image_id": image_id_of("dog"), "relevance": pd.array([1] * 22, dtype="int8"),
              "judged_by": "human", "evidence": None}  # fmt: skip
    qrels = pd.DataFrame(judged).astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    return publish_small_set(tmp_path, Tables(queries, tables.images, qrels)).path


@pytest.mark.thorough
def test_the_board_states_it_in_the_terminal_the_page_and_python(run: Run, mixed: Path, tmp_path: Path) -> None:
    for name, wrong in (("good", range(12, 16)), ("poor", range(12))):
        lines = [f"q_{n:020x} Q0 {image_id_of('cat' if n in wrong else 'dog')} 1 1.0 x\n" for n in range(22)]
        (tmp_path / f"{name}.trec").write_text("".join(lines))
        _, err = run("evaluate", mixed, "--run", tmp_path / f"{name}.trec", "--metrics", "hit@1", "--no-page")
        assert ("warning: made queries hit@1: 0.0000 on the 12 made queries" in err) == (name == "poor")
    out, _ = run("leaderboard", mixed, "--metric", "hit@1", "--to", "board.html")
    assert "made queries against typed ones" in out and "changed places: good and poor" in out
    page = Path("board.html").read_text("utf-8")
    assert "Made against typed queries" in page and "1 pairs change places" in page
    board = qt.load(mixed).leaderboard("hit@1")
    assert board.origins["system"].tolist() == ["good", "poor", "good less poor"]
    assert board.origins["difference"].tolist() == pytest.approx([0.4, -1, 1.4])
    stored = read_set(mixed)
    assert "12 of its queries were made" in render_set_card(stored.manifest, stored.tables)
