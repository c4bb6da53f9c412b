"""The chain of a decision log: each line holds a digest of itself and of the chain before it.

A changed, missing, added or moved line breaks the chain at that place. The end of a log that is cut off leaves no
break; a version lists its decisions for that. A log that is older than chains is covered by the first line with one.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator

_CHAINED = re.compile(r', "chain": "([0-9a-f]{32})"\}\Z')  # in a string of the line, the quotes would be escaped


def split_chain(line: str) -> tuple[str, str]:
    """Returns a line as it was before it was chained, and its chain; "" for a line without one."""
    match = _CHAINED.search(line)
    return (line[: match.start()] + "}", match[1]) if match else (line, "")


def chain_lines(lines: Iterable[str], previous: str) -> list[str]:
    """Returns JSON objects of one line each with their chains; `previous` is the chain before them."""
    chained = []
    for line in lines:
        previous = _link(previous, line)
        chained.append(f'{line[:-1]}, "chain": "{previous}"}}')
    return chained


def start_chain(unchained: Iterable[str]) -> str:
    """Returns the chain before the first chained line, from the lines before it."""
    digest = hashlib.sha256()
    for line in unchained:
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()[:32]


def find_chain_breaks(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields number (from 1) and problem of each line that does not continue the chain."""
    unchained: list[str] = []
    previous = ""
    for number, line in enumerate(lines, start=1):
        plain, chain = split_chain(line)
        if not chain and not previous:
            unchained.append(line)
            continue
        if not chain:
            yield number, "has no chain, although earlier lines have one: it was changed or added by hand"
            continue
        if chain != _link(previous or start_chain(unchained), plain):
            yield number, "does not continue the log: it was changed, or lines before it are missing, changed or moved"
        previous = chain


def _link(previous: str, line: str) -> str:
    return hashlib.sha256(f"{previous}\n{line}".encode()).hexdigest()[:32]
