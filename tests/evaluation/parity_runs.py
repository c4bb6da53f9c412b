"""The two runs of docs/conventions.md: one that leaves nothing open, and one with all that evaluators differ in."""

from collections.abc import Iterator

from tests.evaluation.other_evaluators import Qrels, Run

IMAGES = [f"img_{n:02}" for n in range(12)]
QRELS: Qrels = {
    "q1": {"img_00": 2, "img_03": 1, "img_05": 0},
    "q2": {"img_01": 1},
    "q3": {"img_02": 2, "img_04": 2, "img_06": 1, "img_07": 1},
    "q4": {"img_08": 1, "img_09": 0},
}
METRICS = ["hit@1", "hit@5", "p@5", "r@5", "rr@10", "rr", "ap@5", "ndcg@10"]


def _ranked(*first: int) -> dict[str, float]:
    """All twelve images, these first, each with a score of its own above 0."""
    order = [*first, *(n for n in range(12) if n not in first)]
    return {IMAGES[n]: (len(order) - place) / 16 for place, n in enumerate(order)}


PLAIN: Run = {"q1": _ranked(3, 1, 0), "q2": _ranked(1), "q3": _ranked(0, 2, 6, 1, 4), "q4": _ranked(0, 1, 2, 3, 8)}
# q1: a tie, and a relevant image that did not come back; q2 is left out; q3: a score of 0 and one below; q5 has no
# relevant image; q6 was not judged.
OPEN_QRELS: Qrels = QRELS | {"q5": {"img_01": 0}}
OPEN: Run = {
    "q1": {"img_03": 0.5, "img_04": 0.5, "img_01": 0.25},
    "q3": {"img_02": 0.25, "img_00": 0.0, "img_04": -0.25},
    "q4": {"img_00": 0.75, "img_08": 0.5},
    "q5": {"img_01": 0.5},
    "q6": {"img_00": 0.5},
}


def list_rows(ours: dict[str, float], tools: dict[str, dict[str, float] | None]) -> Iterator[str]:
    """Yields the lines of a table: ours, then a tool each; `–` where it has no such figure, `refused` where it takes no
    such run."""
    yield f"| | {' | '.join(METRICS)} |"
    yield "|---" * (len(METRICS) + 1) + "|"
    for name, figures in {"ours": ours, **tools}.items():
        cells = ["refused"] * len(METRICS) if figures is None else [_cell(figures.get(metric)) for metric in METRICS]
        yield f"| {name} | {' | '.join(cells)} |"


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"
