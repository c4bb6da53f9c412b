"""Whether the tests of metrics, intervals and decisions would notice: one change at a time, and they must fail."""

import io
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "querytruth"
METRICS = tuple(f"evaluation/test_{name}.py" for name in ("metrics", "metrics_reference", "metric_names"))
KILLED = 0.95

# file, what stands there, what is put in its place
MUTANTS = [
    # the two defects that recall is known for: always the first one's truth, and only five are looked at
    ("ranking", "keys = row * len(truth.image_ids) + place", "keys = 0 * row + place"),
    ("ranking", "at = np.flatnonzero(grade > 0)", "at = np.flatnonzero((grade > 0) & (query < 5))"),
    # formulas
    ("metrics", "hits.sum_per_query() / np.asarray(k)", "hits.sum_per_query() / np.minimum(k, hits.relevant_counts)"),
    ("metrics", "hits.sum_per_query() / np.asarray(k)", "hits.sum_per_query() / (np.asarray(k) + 1)"),
    (
        "metrics",
        "return hits.sum_per_query() / hits.relevant_counts",
        "return hits.sum_per_query() / np.maximum(hits.relevant_counts - 1, 1)",
    ),
    (
        "metrics",
        "return hits.sum_per_query() / hits.relevant_counts",
        "return hits.sum_per_query() / np.minimum(hits.relevant_counts, 5)",
    ),
    ("metrics", "(hits.sum_per_query() > 0)", "(hits.sum_per_query() > 1)"),
    ("metrics", "(hits.sum_per_query() > 0)", "(hits.sum_per_query() >= 0)"),
    ("metrics", "hits.ordinal == 1, 1 / hits.rank", "hits.ordinal == 1, 1 / (hits.rank + 1)"),
    ("metrics", "hits.ordinal == 1, 1 / hits.rank", "hits.ordinal >= 1, 1 / hits.rank"),
    ("metrics", "hits.ordinal == 1, 1 / hits.rank", "hits.ordinal == 1, 1 / hits.ordinal"),
    ("metrics", "dcg(ideal_hits(hits, k)", "dcg(ideal_hits(hits, None)"),
    ("metrics", "dcg(ideal_hits(hits, k)", "dcg(ideal_hits(hits, 10)"),
    ("metrics", "np.log2(hits.rank + 1)", "np.log2(hits.rank + 2)"),
    ("metrics", "np.log2(hits.rank + 1)", "np.log(hits.rank + 1)[::-1]"),
    ("metrics", "np.log2(hits.rank + 1)", "np.maximum(np.log2(hits.rank), 1)"),
    ("metrics", "np.exp2(grades) - 1", "np.exp2(grades)"),
    ("metrics", "np.exp2(grades) - 1", "np.asarray(grades, dtype=np.float64)"),
    ("metrics", 'gain == "exp"', 'gain != "exp"'),
    ("metrics", "np.tile(hits.relevant_grades, len(count))", "np.tile(hits.relevant_grades[::-1], len(count))"),
    ("metrics", "np.repeat(np.cumsum(count) - count,", "np.repeat(np.cumsum(count) - count - 1,"),
    (
        "metrics",
        "hits.sum_per_query(hits.ordinal / hits.rank) / _divisor",
        "hits.sum_per_query(1 / hits.rank) / _divisor",
    ),
    (
        "metrics",
        "hits.sum_per_query(hits.ordinal / hits.rank) / _divisor",
        "hits.sum_per_query(hits.ordinal / hits.rank) ** 2 / _divisor",
    ),
    ("metrics", 'norm == "r" or k is None', 'norm == "r"'),
    ("metrics", 'norm == "r" or k is None', "k is None"),
    ("metrics", "np.minimum(hits.relevant_counts, k)", "np.maximum(hits.relevant_counts, k)"),
    ("metrics", "(max(highest, 2) if", "(max(highest, 3) if"),
    ("metrics", "else highest)", "else 2)"),
    ("metrics", "/ hits.rank * weights)", "/ hits.rank)"),
    ("metrics", "(hits.ordinal - 1) / np.maximum(hits.rank - 1, 1)", "hits.ordinal / np.maximum(hits.rank - 1, 1)"),
    ("metrics", "(hits.ordinal - 1) / np.maximum(hits.rank - 1, 1)", "(hits.ordinal - 1) / hits.rank"),
    ("metrics", "before[hits.rank == 1] = 1", "before[hits.rank == 1] = 0"),
    ("metrics", "ranked.rank <= k", "ranked.rank < k"),
    ("metrics", "ranked.grade > UNJUDGED", "ranked.grade > 0"),
    ("metrics", "np.minimum(ranked.returned_counts, k)", "k"),
    ("metrics", "ranked.hits.ordinal == 1]", "ranked.hits.ordinal >= 1]"),
    ("metrics", "firsts[firsts <= k]", "firsts[firsts < k]"),
    ("metrics", "1 / hits.relevant_counts[hits.query]", "1 / hits.relevant_counts[0 * hits.query]"),
    ("metrics", "np.arange(1, k + 1) / queries", "k / queries"),
    ("metrics", 'options={"gain": ("exp", "linear")}', 'options={"gain": ("linear", "exp")}'),
    ("metrics", 'options={"norm": ("r", "min")}', 'options={"norm": ("min", "r")}'),
    # order, ties, cuts, what is missing
    ("ranking", "self.rank <= (k if", "self.rank < (k if"),
    ("ranking", "else k[self.query])", "else k[0])"),
    ("ranking", "minlength=len(self.counts_by_level))", "minlength=int(self.query.max(initial=0)) + 1)"),
    ("ranking", "= self.counts_by_level.sum(axis=1)", "= self.counts_by_level[:, 0] + 0"),
    ("ranking", "self.rank[1:] == k + 1", "self.rank[1:] == k"),
    ("ranking", "group * len(used) - id_rank[back]", "group * len(used) + id_rank[back]"),
    ("ranking", "np.append(False, tied)", "np.append(tied, False)"),
    ("ranking", "np.append(tied, False)", "np.append(False, tied)"),
    ("ranking", "if not tied.any():", "if True:"),
    ("ranking", "np.argsort(-score)", "np.argsort(score)"),
    ("ranking", "np.argsort(-scores, axis=1)", "np.argsort(scores, axis=1)"),
    ("ranking", "[np.argsort(table[:, 0])].ravel()", ".ravel()"),
    ("ranking", "(scores[:, 1:] <= scores[:, :-1]).all()", "(scores[:, 1:] <= scores[:, :-1]).any()"),
    ("ranking", "row * len(row) + place", "place"),
    ("ranking", "score[1:] <= score[:-1], row", "score[1:] >= score[:-1], row"),
    ("ranking", "~np.isfinite(score)", "np.isnan(score)"),
    ("ranking", "if (bad :=", "if False and (bad :="),
    ("ranking", "(same := pairs[1:] == pairs[:-1]).any()", "(same := pairs[1:] < pairs[:-1]).any()"),
    ("ranking", "not in truth.queries_without_relevant", "in truth.queries_without_relevant"),
    ("ranking", "at = at[place[at] >= 0]", "at = at[place[at] >= -1]"),
    ("ground_truth", "relevant = mark_occurring(query[grades > 0]", "relevant = mark_occurring(query[grades >= 0]"),
    ("ground_truth", "np.unique(grades[grades > 0])[::-1]", "np.unique(grades[grades > 0])"),
]

DECISIONS = ("sets/test_agreement.py", "sets/test_shared_decisions.py", "audit/test_answers.py")
STATISTICS, BOUNDS = ("evaluation/test_statistics.py",), ("evaluation/test_bounds.py",)
# Files that several were merged into, each with the tests that must fail.
MERGED = [
    ("sets/decision_agreement", "count**2", "count", DECISIONS),
    ("sets/decision_agreement", "(observed - expected) / (1 - expected)", "observed", DECISIONS),
    ("sets/decision_agreement", "not is_resolved and len", "len", DECISIONS),
    ("sets/decision_agreement", 'return "0"', 'return "1"', DECISIONS),
    ("sets/decision_agreement", "> latest_published.get", "< latest_published.get", DECISIONS),
    ("sets/decision_agreement", "elif is_latest and target not in owners:", "elif is_latest:", DECISIONS),
    ("sets/decision_agreement", "elif is_latest and target not in owners:", "elif target not in owners:", DECISIONS),
    ("sets/decision_agreement", "(grade > 0) != (balance > 0)", "(grade > 0) == (balance > 0)", DECISIONS),
    ("sets/decision_agreement", "if not balances[key]", "if balances[key]", DECISIONS),
    ("sets/decision_agreement", "lines[-1].target not in judged_elsewhere", "lines", DECISIONS),
    ("sets/decision_agreement", "1 if grade > 0 else -1", "1", DECISIONS),
    ("audit/answers", "sided[-1] if balance", "sided[0] if balance", DECISIONS),
    ("audit/answers", "0 < gap <= _LONGEST_GAP", "0 < gap", DECISIONS),
    ("audit/answers", "is_single and 0 < gap", "0 < gap", DECISIONS),
    ("evaluation/statistics", "1 - self.high, 1 - self.low", "1 - self.low, 1 - self.high", STATISTICS),
    ("evaluation/statistics", "share * effective + 0.5", "share * effective + 1", STATISTICS),
    ("evaluation/statistics", "np.where(share <= 0, 0.0,", "np.where(share < 0, 0.0,", STATISTICS),
    ("evaluation/statistics", "value - below, value + above", "value - above, value + below", STATISTICS),
    ("evaluation/statistics", "positives + 1, drawn - positives", "positives, drawn - positives", STATISTICS),
    ("evaluation/statistics", "2 * b > bottom.high", "2 * b < bottom.high", STATISTICS),
    ("evaluation/bounds", "np.minimum(number, open_ones)", "number", BOUNDS),
    ("evaluation/bounds", "(before + number) * _slope", "before * _slope", BOUNDS),
    ("evaluation/bounds", "grade[at] = ranked.truth.relevant_grades[0]", "grade[at] = 1", BOUNDS),
    ("evaluation/bounds", "own -= np.where(rank > 1, 0.5", "own -= np.where(rank > 1, 0.4", BOUNDS),
]


def test_every_change_can_be_made() -> None:
    """Where an expression of the source was rewritten, its mutants are rewritten with it, or they guard nothing. How
    its lines are broken has no influence."""
    changes = [(f"evaluation/{name}", old, new) for name, old, new in MUTANTS] + [row[:3] for row in MERGED]
    texts = {name: (PACKAGE / f"{name}.py").read_text("utf-8") for name, _old, _new in changes}
    assert [(name, old) for name, old, new in changes if changed(texts[name], old, new) == texts[name]] == []
    assert len(MUTANTS) >= 60 and len(MERGED) >= 20


def test_a_change_is_found_however_its_lines_are_broken() -> None:
    source = "x = (\n    first  # of all\n    + second\n)\n"
    assert changed(source, "first + second", "second") == "x = (\n    second\n)\n"
    assert changed(source, "first + third", "second") == source


def changed(source: str, old: str, new: str) -> str:
    """The source with the first place that has the tokens of `old` replaced; as it is where there is none."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tokens, wanted = list(tokens_of(source)), [token.string for token in tokens_of(old)]
    for place in range(len(tokens) - len(wanted) + 1):
        found = tokens[place : place + len(wanted)]
        if [token.string for token in found] == wanted:
            (first, left), (last, right) = found[0].start, found[-1].end
            return source[: starts[first - 1] + left] + new + source[starts[last - 1] + right :]
    return source


def tokens_of(text: str) -> Iterator[tokenize.TokenInfo]:
    """Names, operators, numbers and texts, also of a part of an expression."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
                yield token
    except tokenize.TokenError:  # a bracket that is left open
        return


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """All as it is, but for a copy of the package, to be changed."""
    for entry in ROOT.iterdir():
        if entry.name != "querytruth" and not entry.name.startswith("."):
            (tmp_path / entry.name).symlink_to(entry)
    ignored = shutil.ignore_patterns("__pycache__", "shipped")
    shutil.copytree(PACKAGE, tmp_path / "querytruth", ignore=ignored)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nearly_every_change_is_noticed(copy: Path) -> None:
    assert noticed(copy, METRICS) == "", "unchanged, the tests pass"
    survived = [row for row in MUTANTS if survives(copy, f"evaluation/{row[0]}", *row[1:], METRICS)]
    assert len(survived) <= (1 - KILLED) * len(MUTANTS), survived
    assert not [mutant for mutant in survived if mutant in MUTANTS[:2]]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_change_of_what_was_merged_is_noticed(copy: Path) -> None:
    assert [row for row in MERGED if survives(copy, *row)] == []


def survives(folder: Path, name: str, old: str, new: str, tests: Sequence[str]) -> bool:
    path = folder / "querytruth" / f"{name}.py"
    text = path.read_text("utf-8")
    path.write_text(changed(text, old, new), "utf-8")
    try:
        return not noticed(folder, tests)
    finally:
        path.write_text(text, "utf-8")


def noticed(folder: Path, tests: Sequence[str]) -> str:
    """What failed."""
    paths = [str(folder / "tests" / name) for name in tests]
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout[-2000:]
    return done.stdout if done.returncode else ""
