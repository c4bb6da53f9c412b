"""Every state in which a crash of the machine may leave the files of a recorded program.

POSIX promises what an fsync waited for, and nothing else. Of the rest, any part may be on disk: each name of a folder
by itself (an fsync of a file does not keep its name), each block of a file by itself (its writes in their order), and a
file may be longer than its bytes that arrived. A rename within a folder is there or not.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.recorded_operations import BLOCK, ROOT_FOLDER, Acknowledged, Cut, Entry, Growth, Operation, Piece, Sync

MOST_STATES = 200_000  # at one moment; more are too many to try all
Tree = dict[str, bytes | None]  # by path; None for a folder
Check = Callable[[Path, list[str]], object]  # raises what is wrong in a folder, given the lines that were printed
Place = tuple[str, int, str | int]


class CrashState(NamedTuple):
    """The files after a crash, and the most lines that may have been printed before it."""

    tree: Tree
    lines: list[str]


def find_problem(state: CrashState, check: Check, folder: Path) -> str:
    """What `check` raises of the state, written into a new folder; empty where it raises nothing."""
    write_tree(state.tree, folder)
    try:
        check(folder, state.lines)
    except Exception as error:
        return f"{type(error).__name__}: {error} (printed {state.lines}, {_outline(state.tree)})"
    return ""


def find_problems(states: Iterable[CrashState], check: Check, folder: Path) -> Iterator[str]:
    """The problems of all states; each gets a folder below `folder`."""
    problems = (find_problem(state, check, folder / str(number)) for number, state in enumerate(states))
    return filter(None, problems)


def find_needless_syncs(
    operations: Sequence[Operation],
    check: Check,
    folder: Path,
    hidden: Collection[str] = (),
    untried: Collection[str] = (),
) -> list[str]:
    """The files and folders with an fsync that could be left out: no state would be broken. Those of the paths in
    `untried` are not tried."""
    needless = []
    for place, one in enumerate(operations):
        if isinstance(one, Sync) and one.path not in untried:
            mutant = [*operations[:place], *operations[place + 1 :]]
            # The next fsync of the same file or folder makes up for it.
            later = [n for n, other in enumerate(mutant[place:], place) if getattr(other, "path", "") == one.path]
            states = crash_states(mutant[: later[0] if later else len(mutant)], hidden, place)
            if not any(find_problems(states, check, folder / str(place))):
                needless.append(one.path)
    return needless


def crash_states(operations: Sequence[Operation], hidden: Collection[str] = (), start: int = 0) -> Iterator[CrashState]:
    """The different states that a crash after the first `start` operations may leave, the last moments first. Entries
    of a name in `hidden`, which no reader opens, are all there or all missing."""
    known = set()
    # A crash before the next fsync may leave all that one before it may.
    syncs = [place for place, one in enumerate(operations) if isinstance(one, Sync) and place >= start]
    for moment in [len(operations), *reversed(syncs)]:
        before = operations[:moment]
        lines = [one.line for one in before if isinstance(one, Acknowledged)]
        for tree in _states_after(before, hidden):
            if (state := frozenset(tree.items())) not in known:
                known.add(state)
                yield CrashState(tree, lines)


def write_tree(tree: Tree, folder: Path) -> None:
    """Write the files of a state."""
    folder.mkdir(parents=True)
    for name in sorted(tree):
        data = tree[name]
        if data is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(data)


def _states_after(operations: Sequence[Operation], hidden: Collection[str]) -> Iterator[Tree]:
    changes = [one for one in operations if isinstance(one, Entry | Piece | Growth | Cut)]
    is_pending = _find_pending(operations)
    visible = _visible_inodes(changes, hidden)
    folders = {ROOT_FOLDER, *(one.inode for one in changes if isinstance(one, Entry) and one.is_new_folder)}
    chains: dict[Place, list[int]] = defaultdict(list)  # of which a crash keeps a first part
    unseen = []
    for number, one in enumerate(changes):
        if is_pending[number]:
            if _inode_of(one) in visible:
                chains[_place_of(one, number)].append(number)
            else:
                unseen.append(number)
    count = math.prod(len(chain) + 1 for chain in chains.values())
    assert count <= MOST_STATES, f"{count:,} states are too many to try all"
    durable = {number for number, pending in enumerate(is_pending) if not pending}
    for kept in itertools.product(*([chain[:length] for length in range(len(chain) + 1)] for chain in chains.values())):
        chosen = durable.union(*kept)
        for rest in ([], unseen) if unseen else ([],):
            yield _tree([one for number, one in enumerate(changes) if number in chosen or number in rest], folders)


def _find_pending(operations: Sequence[Operation]) -> list[bool]:
    """Of every change, whether no fsync came after it."""
    pending, synced = [], set()
    for one in reversed(operations):
        if isinstance(one, Sync):
            synced.add(one.inode)
        elif not isinstance(one, Acknowledged):
            pending.append(_inode_of(one) not in synced)
    return pending[::-1]


def _visible_inodes(changes: Sequence[Operation], hidden: Collection[str]) -> set[int]:
    """What a reader may come to in any state."""
    names = [one for one in changes if isinstance(one, Entry) and one.inode is not None and one.name not in hidden]
    visible, size = {ROOT_FOLDER}, 0
    while size < len(visible):
        size = len(visible)
        visible |= {one.inode for one in names if one.folder in visible and one.inode is not None}
    return visible


def _inode_of(one: Operation) -> int:
    return one.folder if isinstance(one, Entry) else one.inode  # type: ignore[union-attr]


def _place_of(one: Operation, number: int) -> Place:
    if isinstance(one, Piece):
        return "block", one.inode, one.start // BLOCK
    return "length" if isinstance(one, Growth) else "own", _inode_of(one), 0 if isinstance(one, Growth) else number


def _tree(changes: Sequence[Operation], folders: Collection[int | None]) -> Tree:
    names: dict[int, dict[str, int]] = defaultdict(dict)
    files: dict[int, bytearray] = defaultdict(bytearray)
    for one in changes:
        if isinstance(one, Entry):
            for folder, name, inode in [one[:3], *([one.also] if one.also else [])]:
                names[folder].pop(name, None)
                if inode is not None:
                    names[folder][name] = inode
        elif isinstance(one, Piece):
            data = files[one.inode]
            data.extend(bytes(max(0, one.start + len(one.data) - len(data))))
            data[one.start : one.start + len(one.data)] = one.data
        elif isinstance(one, Growth):
            files[one.inode].extend(bytes(max(0, one.size - len(files[one.inode]))))
        elif isinstance(one, Cut):
            data = files[one.inode]
            data[one.size :] = bytes(max(0, one.size - len(data)))
    return dict(_walk(ROOT_FOLDER, "", names, files, folders))


def _walk(
    folder: int,
    prefix: str,
    names: dict[int, dict[str, int]],
    files: dict[int, bytearray],
    folders: Collection[int | None],
) -> Iterator[tuple[str, bytes | None]]:
    for name, inode in names[folder].items():
        if inode in folders:
            yield prefix + name, None
            yield from _walk(inode, f"{prefix}{name}/", names, files, folders)
        else:
            yield prefix + name, bytes(files[inode])


def _outline(tree: Tree) -> str:
    return ", ".join(f"{name} {'folder' if data is None else len(data)}" for name, data in sorted(tree.items()))
