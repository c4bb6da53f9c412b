"""The leaderboard of a set as one HTML page without scripts."""

from collections.abc import Mapping
from typing import Any

from review.page_parts import render_template


def format_rank(best: int, worst: int) -> str:
    """Returns a rank interval: `2-4`, or `2`."""
    return str(best) if best == worst else f"{best}-{worst}"


def render_leaderboard(board: Mapping[str, Any]) -> str:
    """Returns the page of a board (flows/leaderboards.py)."""
    about = board["set"]
    group_of: dict[str, list[int]] = {}
    for number, names in enumerate(board["groups"], start=1):
        for name in names:
            group_of.setdefault(name, []).append(number)
    systems = [
        {**one, "rank": format_rank(one["best_rank"], one["worst_rank"]), "groups": group_of.get(one["name"], [])}
        for one in board["systems"]
    ]
    return render_template(
        "leaderboard.html",
        name=f"{about['name']}/v{about['version']}",
        board=board,
        systems=systems,
        slices=_tabulate_slices(board["systems"]),
    )


def _tabulate_slices(systems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per slice and value that all systems have, with the systems' means in their order."""
    means = [{(row["slice"], row["value"]): row for row in one["slices"]} for one in systems]
    return [
        {"slice": key[0], "value": key[1], "queries": row["queries"], "means": [mine[key]["mean"] for mine in means]}
        for key, row in means[0].items()
        if all(key in mine for mine in means)
    ]
