"""Results, audits and lists of overlaps that an attacker could send with a set: whole ones, with one thing replaced and
their digests made right again. Each case is a name and a function of the set's folder and the victim's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from querytruth.backends.files.durable_files import file_sha256
from querytruth.evaluation.result_files import RESULT_FILE, digest_result
from querytruth.sets.benchmark_set import canonical_json, manifest_digest
from tests.hostile_sets import HostileCase

_VALUES: list[Any] = [None, 7, -1, "x", "../../../home/note.txt", [], {}, [[]], 1e300, "\x1b[2J<script>", True]
_NOT_READ = ("envelope", "conventions", "cmc", "precision_recall", "open_set")


def _edit_json(path: Path, key: list[Any], value: Any) -> None:
    """Replace a value, and make the file's own digest right again, as an attacker would."""
    content = json.loads(path.read_bytes())
    inner = content
    for part in key[:-1]:
        inner = inner[part]
    inner[key[-1]] = value
    if path.name == RESULT_FILE:
        content["result_digest"] = digest_result(content)
    elif path.name == "audit.json":
        content["manifest_digest"] = manifest_digest(content)
    path.write_bytes(canonical_json(content))


def _edit_table(path: Path, manifest: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    change(pq.read_table(path).to_pandas()).to_parquet(path)
    _edit_json(manifest, ["files", path.name, "sha256"], file_sha256(path)[0])


def _keys(content: Any, above: list[Any]) -> list[list[Any]]:
    """Every key, of a list those of its first and its longest item: the others are of the same kinds."""
    if isinstance(content, dict):
        within = list(content.items())[:30]
    elif isinstance(content, list):
        longest = max(range(len(content)), key=lambda place: len(json.dumps(content[place])), default=0)
        within = [(place, content[place]) for place in sorted({0, longest}) if content]
    else:
        return []
    return [key for place, inner in within for key in ([*above, place], *_keys(inner, [*above, place]))]


def hostile_results(folder: Path) -> list[HostileCase]:
    """Cases for the results that lie in the folder of a set."""
    cases: list[HostileCase] = []
    for name in ("evaluations/v1/oracle/result.json", "audits/first/audit.json", "overlap/v1/overlap.json"):
        for number, key in enumerate(_keys(json.loads((folder / name).read_bytes()), [])):
            if key[0] in _NOT_READ:
                continue
            cases += [
                (f"{name} {key} {value!r}", lambda at, _home, n=name, k=key, v=value: _edit_json(at / n, k, v))
                for value in (_VALUES[number % len(_VALUES)], _VALUES[(number + 5) % len(_VALUES)])
            ]
        cases.append((f"{name} is a link", lambda at, home, n=name: _link(at / n, home / "note.txt")))
    tables = {"evaluations/v1/oracle": ("run", "per_query"), "audits/first": ("pool", "ranks", "sample")}
    for below, names in tables.items():
        manifest = Path(below, RESULT_FILE if below.startswith("evaluations") else "audit.json")
        for name in names:
            path = Path(below, f"{name}.parquet")
            columns = pq.read_schema(folder / path).names[:9]  # of 20 metrics the first ones: all are numbers
            for place, column in enumerate(columns):
                changes: list[Callable[[pd.DataFrame], pd.DataFrame]] = [
                    lambda table, c=column: table.drop(columns=c),
                    lambda table, c=column, p=place: table.assign(**{c: [_VALUES[p % 5]] * len(table)}),
                    lambda table, c=column: table.assign(**{c: "\x1b[2J<script>\u202e"}),
                ]
                for number, change in enumerate(changes):
                    cases.append(
                        (
                            f"{path} {column} {number}",
                            lambda at, _home, p=path, m=manifest, c=change: _edit_table(at / p, at / m, c),
                        )
                    )
            cases.append((f"{path} is a link", lambda at, home, p=path: _link(at / p, home / "private.parquet")))
    return cases


def _link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)
