"""Whether the tests of metrics, intervals and decisions would notice: one change at a time, and they must fail."""

import functools
import io
import shutil
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.forked_pytest import ForkedPytest, fork_pytest

ROOT = Path(__file__).parents[2]
CHANGED = ("querytruth", "builders")
METRICS = ("evaluation/test_metrics.py",)
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
    ("ranking", "falling[is_row] = -score", "falling[is_row] = score"),
    ("ranking", "[by_query][is_row[by_query]]", "[is_row]"),
    ("ranking", "(falling[:, 1:] < falling[:, :-1]).any()", "(falling[:, 1:] < falling[:, :-1]).all()"),
    ("ranking", "(ordered[:, 1:] == ordered[:, :-1]).any()", "False"),
    ("ranking", "len(np.unique(row[starts])) < len(starts)", "False"),
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

DECISIONS = ("sets/test_decision_agreement.py", "sets/test_decision_agreement.py", "audit/test_answers.py")
MANIFESTS, AUDITS = ("sets/test_manifest.py",), ("audit/test_audit_files.py",)
STORES, LEASES = ("backends/models/test_reply_store.py",), ("backends/models/test_question_leases.py",)
FORECASTS, PAIRS = ("test_questions.py",), ("formats/test_caption_formats.py",)
CARDS = ("review/test_query_views.py", "review/test_query_decisions.py")
TAGS = ("builders/precision/test_tag_files.py",)
STATISTICS, BOUNDS = ("audit/test_pair_audit.py",), ("evaluation/test_bounds.py",)
# Files that several were merged into, each with the tests that must fail.
MERGED = [
    ("querytruth/sets/decision_agreement", "count**2", "count", DECISIONS),
    ("querytruth/sets/decision_agreement", "(observed - expected) / (1 - expected)", "observed", DECISIONS),
    ("querytruth/sets/decision_agreement", "not is_resolved and len", "len", DECISIONS),
    ("querytruth/sets/decision_agreement", 'return "0"', 'return "1"', DECISIONS),
    ("querytruth/sets/decision_agreement", "> latest_published.get", "< latest_published.get", DECISIONS),
    ("querytruth/sets/decision_agreement", "elif is_latest and target not in owners:", "elif is_latest:", DECISIONS),
    (
        "querytruth/sets/decision_agreement",
        "elif is_latest and target not in owners:",
        "elif target not in owners:",
        DECISIONS,
    ),
    ("querytruth/sets/decision_agreement", "(grade > 0) != (balance > 0)", "(grade > 0) == (balance > 0)", DECISIONS),
    ("querytruth/sets/decision_agreement", "if not balances[key]", "if balances[key]", DECISIONS),
    ("querytruth/sets/decision_agreement", "lines[-1].target not in judged_elsewhere", "lines", DECISIONS),
    ("querytruth/sets/decision_agreement", "1 if grade > 0 else -1", "1", DECISIONS),
    ("querytruth/audit/answers", "sided[-1] if balance", "sided[0] if balance", DECISIONS),
    ("querytruth/audit/answers", "0 < gap <= _LONGEST_GAP", "0 < gap", DECISIONS),
    ("querytruth/audit/answers", "is_single and 0 < gap", "0 < gap", DECISIONS),
    ("querytruth/evaluation/statistics", "1 - self.high, 1 - self.low", "1 - self.low, 1 - self.high", STATISTICS),
    ("querytruth/evaluation/statistics", "share * effective + 0.5", "share * effective + 1", STATISTICS),
    ("querytruth/evaluation/statistics", "np.where(share <= 0, 0.0,", "np.where(share < 0, 0.0,", STATISTICS),
    ("querytruth/evaluation/statistics", "value - below, value + above", "value - above, value + below", STATISTICS),
    (
        "querytruth/evaluation/statistics",
        "positives + 1, drawn - positives",
        "positives, drawn - positives",
        STATISTICS,
    ),
    ("querytruth/evaluation/statistics", "2 * b > bottom.high", "2 * b < bottom.high", STATISTICS),
    ("querytruth/evaluation/bounds", "np.minimum(number, open_ones)", "number", BOUNDS),
    ("querytruth/evaluation/bounds", "(before + number) * _slope", "before * _slope", BOUNDS),
    ("querytruth/evaluation/bounds", "grade[at] = ranked.truth.relevant_grades[0]", "grade[at] = 0", BOUNDS),
    ("querytruth/evaluation/bounds", "own -= np.where(rank > 1, 0.5", "own -= np.where(rank > 1, 0.4", BOUNDS),
    ("querytruth/sets/manifest", 'if k != "manifest_digest"', 'if k not in ("manifest_digest", "name")', MANIFESTS),
    ("querytruth/sets/manifest", "not is_undamaged_manifest(data)", "False", MANIFESTS),
    ("querytruth/audit/audit_files", "not is_whole", "False", AUDITS),
    ("querytruth/audit/audit_files", 'column.dtype.kind not in "iuf"', "False", AUDITS),
    ("querytruth/audit/audit_files", "name not in table", "False", AUDITS),
    ("querytruth/audit/audit_files", "isinstance(value, str)", "True", AUDITS),
    ("querytruth/backends/files/object_store", "len(one.data) > max_bytes", "False", STORES),
    ("querytruth/backends/files/object_store", "name < prefix + _LAST", "name > prefix", STORES),
    ("querytruth/backends/files/object_store", ".first() is not None", ".first() is None", STORES),
    ("querytruth/backends/models/question_leases", "key for key in keys if key not in taken", "keys", LEASES),
    ("querytruth/backends/models/question_leases", "self.replies <= self.failures", "False", FORECASTS),
    ("querytruth/backends/models/question_leases", "math.ceil(calls /", "math.floor(calls /", FORECASTS),
    ("querytruth/review/deck", '"\\ufffd" in text or any', "any", CARDS),
    ("querytruth/review/deck", '{"Cc", "Cs", "Zl", "Zp"}', '{"Cs", "Zl", "Zp"}', CARDS),
    ("querytruth/review/deck", "int(is_decided(key))", "0", CARDS),
    ("querytruth/formats/importers/pairs", 'row["split"] != split', "False", PAIRS),
    ("querytruth/formats/importers/pairs", "value != int(value)", "False", PAIRS),
    ("querytruth/formats/importers/pairs", "_read_grade(place, row[grade]) if grade else 1", "1", PAIRS),
    ("querytruth/formats/importers/pairs", "not named or not texts", "False", PAIRS),
    ("builders/precision/tag_files", "score < at_least", "False", TAGS),
    ("builders/precision/tag_files", "not score >= 0", "False", TAGS),
    ("builders/precision/tag_files", "propose_from <= score < at_least", "propose_from <= score", TAGS),
    ("builders/precision/tag_files", "crowd=True", "crowd=False", TAGS),
    ("builders/precision/tag_files", '"[;|,；，、]" if name in', '"[;|；]" if name in', TAGS),
]


def test_every_change_can_be_made() -> None:
    """Where an expression of the source was rewritten, its mutants are rewritten with it, or they guard nothing. How
    its lines are broken has no influence."""
    changes = [(f"querytruth/evaluation/{name}", old, new) for name, old, new in MUTANTS] + [row[:3] for row in MERGED]
    texts = {name: (ROOT / f"{name}.py").read_text("utf-8") for name, _old, _new in changes}
    assert [(name, old) for name, old, new in changes if changed(texts[name], old, new) == texts[name]] == []
    assert len(MUTANTS) >= 60 and len(MERGED) >= 40


def test_a_change_is_found_however_its_lines_are_broken() -> None:
    source = "x = (\n    first  # of all\n    + second\n)\n"
    assert changed(source, "first + second", "second") == "x = (\n    second\n)\n"
    assert changed(source, "first + third", "second") == source


def changed(source: str, old: str, new: str) -> str:
    """The source with the first place that has the tokens of `old` replaced; as it is where there is none."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tokens, wanted = tokens_of(source), strings_of(old)
    given = strings_of(source)
    for place in range(len(tokens) - len(wanted) + 1):
        if given[place : place + len(wanted)] == wanted:
            (first, left), (last, right) = tokens[place].start, tokens[place + len(wanted) - 1].end
            return source[: starts[first - 1] + left] + new + source[starts[last - 1] + right :]
    return source


@functools.cache
def tokens_of(text: str) -> list[tokenize.TokenInfo]:
    """Names, operators, numbers and texts, also of a part of an expression."""
    kinds = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    found: list[tokenize.TokenInfo] = []
    with suppress(tokenize.TokenError):  # a bracket that is left open
        found.extend(token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type in kinds)
    return found


@functools.cache
def strings_of(text: str) -> list[str]:
    return [token.string for token in tokens_of(text)]


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[ForkedPytest]:
    """All as it is, but for a copy of the packages that are changed."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in CHANGED and not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in CHANGED:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    with fork_pytest(folder, tmp_path / "printed") as forked:
        yield forked


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nearly_every_change_is_noticed(copy: ForkedPytest) -> None:
    assert noticed(copy, METRICS) == "", "unchanged, the tests pass"
    survived = [row for row in MUTANTS if survives(copy, f"querytruth/evaluation/{row[0]}", *row[1:], METRICS)]
    assert len(survived) <= (1 - KILLED) * len(MUTANTS), survived
    assert not [mutant for mutant in survived if mutant in MUTANTS[:2]]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_change_of_what_was_merged_is_noticed(copy: ForkedPytest) -> None:
    for tests in sorted({row[3] for row in MERGED}):
        assert noticed(copy, tests) == "", "unchanged, the tests pass"
    assert [row for row in MERGED if survives(copy, *row)] == []


def survives(copy: ForkedPytest, name: str, old: str, new: str, tests: Sequence[str]) -> bool:
    path = copy.folder / f"{name}.py"
    text = path.read_text("utf-8")
    path.write_text(changed(text, old, new), "utf-8")
    try:
        return not noticed(copy, tests)
    finally:
        path.write_text(text, "utf-8")


def noticed(copy: ForkedPytest, tests: Sequence[str]) -> str:
    """What failed."""
    status, printed = copy.run(tests)
    assert status in (0, 1), printed[-2000:]
    return printed if status else ""
