"""The description of a search from its address alone: its answer is compared with the images of the folder.

The request is the address as given, else the usual ones in turn. Among all lists in the answer and all paths in their
entries, the ids are those that match most images.
"""

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import jmespath
import pandas as pd
import yaml

from querytruth.backends.id_patterns import find_pattern, match_column
from querytruth.backends.search_systems import SearchFailure
from querytruth.backends.search_systems.http import HttpSearch, HttpSearchOptions, find_lists, find_values
from querytruth.checks.golden_file import STAGE
from querytruth.errors import UserError

SystemKeys = dict[str, object]  # of the YAML file
_TEXT_NAMES = ("q", "query", "text", "search", "s", "keyword", "keywords", "term", "prompt", "wd")
_COUNT_NAMES = ("k", "size", "limit", "n", "top", "top_k", "topk", "count", "num", "rows", "per_page", "page_size")
_ASKED = ("a photo", "zqxv 7")  # a second text: what ignores the query answers both alike
_SHOWN = 10


_Reading = tuple[int, SystemKeys, list[str]]  # how many of the ids name an image, how they are read, and the ids


def propose_search(url: str, text: str, names: list[str]) -> str:
    """Return the YAML that describes the search at an address, from its answers to `text` and the `names` of the
    images. Raises UserError where no answer names an image."""
    failures, unknown, ignoring = list[str](), "", ""
    for request in _list_requests(url):
        try:
            system = HttpSearch(HttpSearchOptions.model_validate(request))
            answer = system.read_answer(text or _ASKED[0], _SHOWN)
            found = _read_answer(answer, names)
            if found is None:
                unknown = unknown or _describe_unknown(answer, names)
                continue
            written = yaml.safe_dump({"system": "http", **request, **found[1]}, allow_unicode=True, sort_keys=False)
            other = _read_answer(system.read_answer(_ASKED[1], _SHOWN), names)
            if other is None or other[2] != found[2]:
                return written
            ignoring = ignoring or written
        except SearchFailure as failed:
            failures.append(f"{failed.reason}: {failed.detail}".rstrip(": "))
    if ignoring:
        return ignoring
    if unknown:
        raise UserError(STAGE, url, unknown, "let it return file names or paths, or describe its ids (docs/systems.md)")
    next_step = "paste the full address of a request, such as http://localhost:8000/search?q={query}&size={k}"
    raise UserError(STAGE, url, f"returned no usable answer ({failures[0]})", next_step)


def _list_requests(url: str) -> Iterator[SystemKeys]:
    """Return the requests that an address may mean: its parameters with the query in them; without any, the usual
    ones."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    bare = urlunsplit(parts._replace(query="", fragment=""))
    if "{query}" in url:
        yield {"url": urlunsplit(parts)}
        return
    given = parse_qsl(parts.query, keep_blank_values=True)
    if named := next((name for name, _ in given if name.lower() in _TEXT_NAMES), None):
        query = {name: "{k}" if name.lower() in _COUNT_NAMES else value for name, value in given}
        yield {"url": bare, "query": query | {named: "{query}"}}
        return
    for name in _TEXT_NAMES[:4]:
        yield {"url": bare, "query": {**dict(given), name: "{query}", "k": "{k}"}}
    for name in ("query", "text", "q"):
        yield {"url": urlunsplit(parts), "method": "POST", "body": {name: "{query}", "k": "{k}"}}


def _read_answer(answer: object, names: list[str]) -> _Reading | None:
    """Return the list and the path in its entries whose values name most images."""
    lists = [path for path, _ in find_lists(answer)] + [*_list_texts(answer)]
    found = [one for path in lists for one in _read_list(answer, path, names)]
    return max(found, key=lambda one: one[0], default=None)


def _describe_unknown(answer: object, names: list[str]) -> str:
    """Return a sentence with what the entries of an answer have in place of the name of an image."""
    for path in [path for path, _ in find_lists(answer)]:
        for _, value in find_values(jmespath.search(path, answer)[0], (str, int)):
            return f"returned {str(value)[:60]!r}, which names no image of the folder, such as {names[0]!r}"
    return "returned no image of the folder"


def _list_texts(answer: object, path: str = "") -> Iterator[str]:
    """Return the paths of lists of texts, also of the first in a list: ["a.jpg", …], {"ids": [["a.jpg", …]]}."""
    if isinstance(answer, list) and answer:
        if isinstance(answer[0], str):
            yield path or "@"
        elif isinstance(answer[0], list):
            yield from _list_texts(answer[0], f"{path}[0]")
    elif isinstance(answer, dict):
        for key, value in answer.items():
            yield from _list_texts(value, f'{path}."{key}"'.lstrip("."))


def _read_list(answer: object, path: str, names: list[str]) -> Iterator[_Reading]:
    entries = (jmespath.search(path, answer) or [])[:_SHOWN]
    for id_path, _ in find_values(entries[0], (str, int)) if entries else ():
        ids = [str(jmespath.search(id_path, one)) for one in entries]
        known = match_column(ids, [(name, name) for name in names], True)
        keys: SystemKeys = {"results": path, "id": id_path}
        matched = sum(one in known for one in ids)
        if not matched and (pattern := find_pattern(ids, pd.DataFrame({"image_id": names, "file_name": names}))):
            keys["ids"], matched = pattern
        if score := _find_score(entries):
            keys["score"] = score
        if matched:
            yield matched, keys, ids


def _find_score(entries: list[object]) -> str | None:
    """Return the path of a number that never rises from one entry to the next, and is not the same in all."""
    for path, _ in find_values(entries[0], (float,)):
        values = [jmespath.search(path, one) for one in entries]
        is_number = all(isinstance(one, int | float) for one in values)
        if is_number and values[0] != values[-1] and values == sorted(values, reverse=True):
            return path
    return None
