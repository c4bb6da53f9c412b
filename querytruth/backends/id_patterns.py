"""Ids of a search that contain a column of the set's images: `photo:{stem}.webp`.

A pattern is a text with one part in braces: a column of the images or a piece of their file name. The pattern is
detected from the ids of an answer: among all values of the set inside the ids, it is the one with the same text before
and after it in most ids.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    import pandas as pd

ID_COLUMNS = ("image_id", "file_name", "sha256", "sha1", "source_url")
ID_PARTS = ("file_name", "file_stem", "name", "stem", "image_id", "source_id", "sha256", "source_url", "path")
_PATTERN = re.compile(rf"([^{{}}]*)\{{({'|'.join(ID_PARTS)})\}}([^{{}}]*)")
_FEWEST = 0.5  # of the ids, below which no pattern is proposed
_EXAMPLES = 40  # ids that are looked at
_LONGEST = 400  # characters of an id
_OF_FILE_NAME: dict[str, Callable[[str], str]] = {
    "file_stem": lambda name: name[: name.rindex(".")] if "." in name.rpartition("/")[2][1:] else name,
    "name": lambda name: name.rpartition("/")[2],
    "stem": lambda name: _OF_FILE_NAME["file_stem"](name.rpartition("/")[2]),
}


def split_pattern(ids: str) -> tuple[str, str, str] | None:
    """Return the text before the part in braces, the part, and the text after it; None if this is not a pattern."""
    found = _PATTERN.fullmatch(ids)
    return (found[1], found[2], found[3]) if found else None


def map_ids(images: "pd.DataFrame", column: str) -> dict[str, str]:
    """Return the image id by the id that a system answers with; ids that several images share are in none."""
    pairs = zip(images[column].tolist(), images["image_id"].tolist(), strict=True)
    known = {(str(name), str(image_id)) for name, image_id in pairs if isinstance(name, str) and name}
    shared = Counter(name for name, _ in known)
    return {name: image_id for name, image_id in sorted(known) if shared[name] == 1}


def map_pattern(images: "pd.DataFrame", pattern: str) -> dict[str, str]:
    """Return the image id by the id that a system answers with, also by its percent-encoded form; an id that several
    images would have is in none. `pattern`: a column of the images, or a text with a part in braces."""
    before, part, after = split_pattern(pattern) or ("", pattern, "")
    known = _map_part(images, part)
    encoded = {quote(value, safe=safe): name for value, name in known.items() for safe in ("", "/")}
    return {f"{before}{value}{after}": name for value, name in (encoded | known).items()}


def _map_part(images: "pd.DataFrame", part: str) -> dict[str, str]:
    if part in _OF_FILE_NAME:
        images = images.assign(**{part: images["file_name"].map(_OF_FILE_NAME[part], na_action="ignore")})
    return map_ids(images, part) if part in images else {}


def map_names(names: Iterable[str], pattern: str) -> dict[str, set[str]]:
    """Return the names of the files that a system means by an id, where its pattern has a part of a file name."""
    before, part, after = split_pattern(pattern) or ("", pattern, "")
    found: dict[str, set[str]] = {}
    for name in names if part in (*_OF_FILE_NAME, "file_name", "path") else ():
        value = _OF_FILE_NAME.get(part, str)(name)
        for form in {value, quote(value, safe=""), quote(value, safe="/")}:
            found.setdefault(f"{before}{form}{after}", set()).add(name)
    return found


def find_pattern(ids: Iterable[str], images: "pd.DataFrame") -> tuple[str, int] | None:
    """Return the pattern that explains most of the ids, percent-encoded or not, and how many; None where none explains
    half of them. Of two that explain as many, the one with the shorter texts around the id, then the first part."""
    looked_at = sorted({one for one in ids if 0 < len(one) <= _LONGEST})[:_EXAMPLES]
    best: tuple[str, int] | None = None
    for forms in (looked_at, [unquote(one) for one in looked_at]):
        if (pattern := _find_surroundings(forms, images)) is not None:
            known = map_pattern(images, pattern)
            count = sum(one in known for one in looked_at)
            best = (pattern, count) if best is None or count > best[1] else best
    return best if best is not None and best[1] >= _FEWEST * len(looked_at) else None


def _find_surroundings(looked_at: Sequence[str], images: "pd.DataFrame") -> str | None:
    best: tuple[int, int, str] | None = None
    for part in ID_PARTS:
        known = _map_part(images, part)
        lengths = {len(value) for value in known}
        found = Counter(around for one in looked_at for around in _list_surroundings(one, known, lengths))
        for (before, after), count in found.items():
            score = (count, -len(before) - len(after), f"{before}{{{part}}}{after}" if before or after else part)
            if "{" not in before + after and "}" not in before + after and (best is None or score[:2] > best[:2]):
                best = score
    if best is None:
        return None
    return f"{{{best[2]}}}" if best[2] in ID_PARTS and best[2] not in ID_COLUMNS else best[2]


def _list_surroundings(one: str, known: dict[str, str], lengths: set[int]) -> set[tuple[str, str]]:
    """Return the texts before and after each value of the set within an id."""
    return {
        (one[:start], one[start + length :])
        for length in lengths
        for start in range(len(one) - length + 1)
        if one[start : start + length] in known
    }


def match_column(names: list[str], pairs: list[tuple[str, str]], are_paths: bool) -> dict[str, set[str]]:
    """Return the ids by name. Whole values come first; for paths, then values where one is the end of the other."""
    by_value: dict[str, set[str]] = {}
    for value, one in pairs:
        by_value.setdefault(value, set()).add(one)
    matched = {name: by_value[name] for name in names if name in by_value}
    if not are_paths:
        return matched
    by_last: dict[str, list[tuple[str, str]]] = {}
    for value, one in pairs:
        path = f"/{_clean_path(value)}"
        stem = path[: path.rindex(".")] if "." in path.rpartition("/")[2][1:] else path
        for way in {path, stem}:  # many systems know 000000113588.jpg as 000000113588
            by_last.setdefault(way.rpartition("/")[2], []).append((way, one))
    for name in names:
        path = f"/{_clean_path(name)}"
        for way in dict.fromkeys((path, unquote(path))) if name not in matched else ():  # my%20holiday/dog%201.jpg
            candidates = by_last.get(way.rpartition("/")[2], ())
            if ids := {one for value, one in candidates if value.endswith(way) or way.endswith(value)}:
                matched[name] = ids
                break
    return matched


def _clean_path(text: str) -> str:
    return text.replace("\\", "/").removeprefix("./").lstrip("/")
