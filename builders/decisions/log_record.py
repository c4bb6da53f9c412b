"""What a manifest records of a decision log, so that a log that lost its end is noticed: a cut leaves a valid chain."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from builders.decisions.chain import find_chain_breaks, split_chain, start_chain
from builders.decisions.records import parse_decision

_SHOWN = 3  # ids of lost decisions


def make_log_record(lines: Sequence[str]) -> dict[str, Any]:
    """Returns the number of lines of a log, its chain at the end, and the number of its breaks."""
    return {"lines": len(lines), "chain": _chain_at(lines), "breaks": sum(1 for _ in find_chain_breaks(lines))}


def list_decision_ids(lines: Sequence[str]) -> set[str]:
    """Returns the ids of the decisions in these lines; damaged lines have none."""
    ids = set()
    for line in lines:
        try:
            ids.add(parse_decision(split_chain(line)[0]).decision_id)
        except (ValueError, RecursionError):
            continue
    return ids


def find_log_problems(
    lines: Sequence[str], record: Mapping[str, Any] | None, expected_ids: Collection[str], version: str
) -> list[str]:
    """Returns what a log lost since a version was published, one text for each kind of loss. `record`: of the log in
    the version's manifest (None: of a log that was empty, or by an earlier release); `expected_ids`: the decisions in
    effect there."""
    problems = []
    if lost := sorted(set(expected_ids) - list_decision_ids(lines)):
        more = ", …" if len(lost) > _SHOWN else ""
        shown = f"({', '.join(lost[:_SHOWN])}{more})"
        problems.append(f"{len(lost)} of the {len(expected_ids)} decisions in effect in {version} are gone {shown}")
    if record is not None and len(lines) < record["lines"]:
        gone = record["lines"] - len(lines)
        problems.append(f"{gone} of the {record['lines']} lines that it had when {version} was published are gone")
    elif record is not None and _chain_at(lines[: record["lines"]]) != record["chain"]:
        problems.append(f"line {record['lines']} is not the one that it had when {version} was published")
    breaks = list(find_chain_breaks(lines))
    if len(breaks) > (record["breaks"] if record is not None else 0):
        problems.append(f"line {breaks[-1][0]} {breaks[-1][1]}")
    return problems


def _chain_at(lines: Sequence[str]) -> str:
    """Returns the chain after the last of these lines."""
    chain = split_chain(lines[-1])[1] if lines else ""
    return chain or start_chain(lines)
