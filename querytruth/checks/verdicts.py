"""The status of each case, by the ranks of its images before and now; a floor is a case, too. The ranks at the last
`--update` are in golden.lock, a line per image, made to be read in a diff."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import MAX_YAML_BYTES, load_yaml
from querytruth.checks.answers import NO_IMAGE
from querytruth.checks.golden_file import EXPECTED, STAGE, GoldenCase
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.evaluation.system_answers import SystemAnswer

Status = Literal["pass", "fail", "known failure", "fixed"]
STATUSES: tuple[Status, ...] = ("pass", "fail", "known failure", "fixed")
# Of systems that differ on a fifth of the queries: plan_for_discordance(0.2, 0.05), which takes a second to load.
GATE_QUERIES = 627
_LOCK_HEAD = "# Written by querytruth check --update: the rank of each image. Review changes in a diff.\n"
_MISSING = "not found"
Ranks = dict[str, dict[str, int]]  # by query and image, 0: not found; of a case of nothing the number of results


@dataclass(frozen=True, slots=True)
class ImageRank:
    """The rank of an image, 0 where it is not among the results; `before`: in the lock file, None where that does not
    have it. `expected`: must, any or must_not."""

    image: str
    expected: str
    rank: int
    before: int | None

    def __str__(self) -> str:
        """Return the rank before and now."""
        before, now = (f"rank {rank}" if rank else "not found" for rank in (self.before, self.rank))
        is_same = self.before in (None, self.rank)
        return f"{self.image}: {now}" if is_same else f"{self.image}: {before}, now {now.removeprefix('rank ')}"


@dataclass(frozen=True, slots=True)
class CheckedCase:
    """A case, its status, what is wrong, the ranks of its images, and the answer."""

    query: str
    status: Status
    problems: list[str]
    within: int = 0
    known_failure: str = ""
    ranks: list[ImageRank] = field(default_factory=list)
    answer: SystemAnswer = field(default_factory=SystemAnswer)

    def __str__(self) -> str:
        """Return the ranks, and what is wrong."""
        shown = [str(one) for one in self.ranks if one.expected != "must_not" or one.rank or one.before]
        known = [f"known failure: {self.known_failure}"] if self.known_failure else []
        return "; ".join([*shown, *self.problems, *known]) or "as expected"


def judge_case(case: GoldenCase, within: int, answer: SystemAnswer, before: Mapping[str, int]) -> CheckedCase:
    """Return the case with its status. An answer without evidence about a case fails it, even a known failure."""
    order = {hit.id: rank for rank, hit in enumerate(answer.hits, start=1)}
    ranks = [
        ImageRank(image, expected, order.get(image, 0), before.get(image))
        for expected in EXPECTED
        for image in getattr(case, expected)
    ]
    fault = _find_fault(case, within, answer)
    problems = [fault] if fault else [*_find_problems(case, within, answer, ranks)]
    status: Status = "fail" if problems else "pass"
    if case.known_failure and not fault:
        status = "known failure" if problems else "fixed"
    return CheckedCase(case.query, status, problems, within, case.known_failure, ranks, answer)


def _find_fault(case: GoldenCase, within: int, answer: SystemAnswer) -> str:
    ids = [hit.id for hit in answer.hits[:within]]
    if answer.failure:
        return f"no answer: {answer.failure.replace('_', ' ')} {answer.detail}".rstrip()
    if case.nothing:
        has_all = case.score is None or all(hit.score is not None for hit in answer.hits)
        return "" if has_all else "the results have no scores"
    if any(not name.startswith(NO_IMAGE) for name in ids):
        return ""
    return f"no result is an image of the folder (such as {ids[0].removeprefix(NO_IMAGE)!r})" if ids else "no result"


def _find_problems(case: GoldenCase, within: int, answer: SystemAnswer, ranks: Sequence[ImageRank]) -> Iterator[str]:
    above = [hit.id for hit in answer.hits if case.score is None or (hit.score or 0) > case.score]
    if case.nothing and above:
        limit = "" if case.score is None else f" (above {case.score:g})"
        yield f"no result expected, {len(above)} found; the first is {above[0]}{limit}"
    found = {one.image for one in ranks if 0 < one.rank <= within}
    yield from (f"{image} must be within {within}" for image in case.must if image not in found)
    if case.any and found.isdisjoint(case.any):
        yield f"one of {', '.join(case.any)} must be within {within}"
    yield from (f"{image} must not be within {within}" for image in case.must_not if image in found)


def check_floors(floors: Mapping[str, float], cases: Sequence[CheckedCase]) -> Iterator[CheckedCase]:
    """Yield a case per floor: the mean of the metric over the cases with must or any, known failures among them."""
    wanted = [[one.rank for one in case.ranks if one.expected != "must_not"] for case in cases]
    for name, floor in floors.items():
        metric, _, cut = name.partition("@")
        found = [([rank for rank in ranks if 0 < rank <= int(cut)], len(ranks)) for ranks in wanted if ranks]
        mean = sum(_measure(metric, *one) for one in found) / max(len(found), 1)
        status: Status = "fail" if mean < floor else "pass"
        yield CheckedCase(f"floor of {name}", status, [f"{mean:.3f} over {len(found)} cases, floor {floor:g}"])


def _measure(metric: str, found: Sequence[int], wanted: int) -> float:
    if metric == "r":
        return len(found) / wanted
    return float(bool(found)) if metric == "hit" else 1 / min(found, default=float("inf"))


def list_notes(cases: Sequence[CheckedCase]) -> Iterator[str]:
    """Yield notes on how to read the cases."""
    ids = [hit.id for case in cases for hit in case.answer.hits]
    if outside := [one.removeprefix(NO_IMAGE) for one in ids if one.startswith(NO_IMAGE)]:
        such = f"(such as {outside[0][:80]!r})"
        yield f"{len(outside):,} of {len(ids):,} results are not images of the folder {such}: they keep their ranks"
    yield f"{len(cases)} cases show what broke; to detect a loss of 5 points, a gate needs {GATE_QUERIES} queries"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All cases of one check of a search, including floors. `is_strict`: a known failure that is fixed fails, too."""

    golden: str
    system: str
    fingerprint: str
    date: str
    cases: list[CheckedCase]
    notes: list[str]
    is_strict: bool = False

    @property
    def failures(self) -> list[CheckedCase]:
        """Return the cases that fail the check."""
        return [case for case in self.cases if case.status in ("fail", "fixed")[: 1 + self.is_strict]]

    def count(self, status: Status) -> int:
        """Return the number of cases with this status."""
        return sum(case.status == status for case in self.cases)

    def to_json(self) -> dict[str, object]:
        """Return data for JSON."""
        return {"schema_version": 1, "is_failed": bool(self.failures), **asdict(self)}

    def __str__(self) -> str:
        """Return the counts in one line."""
        counts = (f"{self.count(one)} {one}" for one in STATUSES if self.count(one))
        return f"{self.system}: {', '.join(counts)}"


def read_lock(path: Path) -> tuple[Ranks, str]:
    """Return the ranks and the system's fingerprint; both are empty without a file. Raises UserError."""
    if not path.exists():
        return {}, ""
    with translate_read_errors(STAGE, path, also=(yaml.YAMLError,)):
        data = load_yaml(read_regular(path, MAX_YAML_BYTES).decode("utf-8"))
    try:
        cases = {
            str(query): {name: 0 if rank == _MISSING else int(rank) for name, rank in ranks.items()}
            for query, ranks in data["cases"].items()
        }
        return cases, str(data["fingerprint"])
    except (TypeError, KeyError, AttributeError, ValueError):
        raise UserError(STAGE, path, "is not a lock file", "restore it, or remove it and run with --update") from None


def write_lock(path: Path, report: CheckReport) -> None:
    """Write the ranks of all cases; those that got no answer keep the ranks before. Raises UserError."""
    cases: dict[str, dict[str, int | str]] = {}
    for case in (one for one in report.cases if one.within):
        ranks = {one.image: one.before if case.answer.failure else one.rank for one in case.ranks}
        cases[case.query] = {name: rank or _MISSING for name, rank in ranks.items() if rank is not None}
        cases[case.query] |= {} if ranks else {"results": len(case.answer.hits)}
    data = {"system": report.system, "fingerprint": report.fingerprint, "date": report.date, "cases": cases}
    with translate_write_errors(STAGE, path):
        write_atomically(path, (_LOCK_HEAD + yaml.safe_dump(data, allow_unicode=True, sort_keys=False)).encode())
