"""The numbers of a set's versions: the newest one, and those that something names and that are not there any more.

A number is never used twice: results, exports and people know a version by it. A lost version is one after the newest
that is there; that somebody removed an older one changes nothing.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from backends.journals.line_journal import read_lines
from builders.errors import UserError

_HISTORY = "evaluations/history.jsonl"
_NAMED = re.compile(r"v([1-9][0-9]{0,8})")
_EVALUATED = re.compile(r'"version": ?([1-9][0-9]{0,8})[,}]')


def newest_version(folder: Path) -> int | None:
    """Returns the highest number of a complete version in a set's folder; None where there is none."""
    if not folder.is_dir():
        return None
    complete = [path.parent.name for path in folder.glob("*/manifest.json") if path.is_file()]
    return max((int(match[1]) for name in complete if (match := _NAMED.fullmatch(name))), default=None)


def read_latest(folder: Path) -> int | None:
    """Returns the version that the file `latest` names."""
    file = folder / "latest"
    name = file.read_bytes()[:64].decode("ascii", "replace").strip() if file.is_file() else ""
    return int(found[1]) if (found := _NAMED.fullmatch(name)) else None


def find_lost_versions(folder: Path) -> dict[int, list[str]]:
    """Returns the versions after the newest of the set at `folder` that are gone, each with the files that name it."""
    newest = newest_version(folder) or 0
    found: dict[int, list[str]] = {}
    if (latest := read_latest(folder)) is not None and latest > newest:
        found.setdefault(latest, []).append("latest")
    history = folder / _HISTORY
    if history.is_file() and not history.is_symlink():
        numbers = {int(one) for line in read_lines(history) for one in _EVALUATED.findall(line)}
        for number in sorted(numbers):
            if number > newest:
                found.setdefault(number, []).append(_HISTORY)
    return dict(sorted(found.items()))


def describe_lost_versions(folder: Path) -> Iterator[str]:
    """Yields a line per lost version."""
    for number, names in find_lost_versions(folder).items():
        is_folder = (folder / f"v{number}").is_dir()
        yield f"v{number} {'has no manifest' if is_folder else 'is not there'}, though {' and '.join(names)} name it"


def check_no_version_is_lost(folder: Path, stage: str, *, accept_loss: bool | None) -> list[str]:
    """Returns a line per lost version. Raises UserError where there is one, unless it is accepted; None: it cannot
    be."""
    losses = list(describe_lost_versions(folder))
    if losses and not accept_loss:
        next_step = "restore its folder from a backup"
        if accept_loss is not None:
            next_step += ", or say --accept-loss to go on from the one before; the number is not used again"
        raise UserError(stage, folder, "; ".join(losses), next_step)
    return losses
