"""golden.lock: the ranks at the last `--update`, a line per image, made to be read in a diff."""

from pathlib import Path

import yaml

from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.files.text_formats import MAX_YAML_BYTES, load_yaml
from querytruth.checks.golden_file import STAGE
from querytruth.checks.verdicts import CheckReport
from querytruth.errors import UserError, translate_read_errors, translate_write_errors

_HEAD = "# Written by querytruth check --update: the rank of each image. Review changes in a diff.\n"
_MISSING = "not found"
Ranks = dict[str, dict[str, int]]  # by query and image, 0: not found; of a case of nothing the number of results


def read_lock(path: Path) -> tuple[Ranks, str]:
    """Return the ranks and the system's fingerprint; both are empty without a file. Raises UserError."""
    if not path.exists():
        return {}, ""
    with translate_read_errors(STAGE, path, also=(yaml.YAMLError,)):
        data = load_yaml(read_regular(path, MAX_YAML_BYTES).decode("utf-8"))
    try:
        cases = {str(query): _read_ranks(ranks) for query, ranks in data["cases"].items()}
        return cases, str(data["fingerprint"])
    except (TypeError, KeyError, AttributeError, ValueError):
        raise UserError(STAGE, path, "is not a lock file", "restore it, or remove it and run with --update") from None


def _read_ranks(ranks: dict[str, int | str]) -> dict[str, int]:
    return {name: 0 if rank == _MISSING else int(rank) for name, rank in ranks.items()}


def write_lock(path: Path, report: CheckReport) -> None:
    """Write the ranks of all cases; those that got no answer keep the ranks before. Raises UserError."""
    cases: dict[str, dict[str, int | str]] = {}
    for case in (one for one in report.cases if one.within):
        ranks = {one.image: one.before if case.answer.failure else one.rank for one in case.ranks}
        cases[case.query] = {name: rank or _MISSING for name, rank in ranks.items() if rank is not None}
        cases[case.query] |= {} if ranks else {"results": len(case.answer.hits)}
    data = {"system": report.system, "fingerprint": report.fingerprint, "date": report.date, "cases": cases}
    with translate_write_errors(STAGE, path):
        write_atomically(path, (_HEAD + yaml.safe_dump(data, allow_unicode=True, sort_keys=False)).encode())
