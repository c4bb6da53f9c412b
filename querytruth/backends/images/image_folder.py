"""A folder in which images of annotations and imports are found by their listed names.

Data sets are unpacked in several ways, and tools write the paths of the machine they ran on. A name is matched by its
end with the files that are below the folder; it is never followed as a path out of it.
"""

import filecmp
import os
import posixpath
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from threading import Lock
from urllib.parse import unquote

from querytruth.backends.images.source_names import is_inside

Parts = tuple[str, ...]

# The parts of a data set that go by several names; two of them are never one.
_SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}

_SPLITS |= dict.fromkeys(("val", "valid", "validation", "dev"), "val")
_DRIVE = re.compile(r"[A-Za-z]:/")


def _decode(part: str) -> str:
    return unicodedata.normalize("NFC", unquote(part))


def _without_case_of_extension(part: str) -> str:
    stem, extension = posixpath.splitext(_decode(part))
    return stem + extension.lower()


# Forms in which two spellings of a name are equal, the strictest first. A looser one counts only where it is clear.
_FORMS: tuple[Callable[[str], str], ...] = (
    lambda part: part,
    str.strip,  # of a table that has a blank after each comma
    lambda part: unicodedata.normalize("NFC", part),
    _decode,
    _without_case_of_extension,
    lambda part: unicodedata.normalize("NFC", _decode(part).casefold()),
    lambda part: unicodedata.normalize("NFC", _decode(part.partition("?")[0]).casefold()),  # the query of a URL
)


class ImageFolder:
    """Finds listed images below a folder, never outside it, not even through a link."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._home = os.path.realpath(os.fsencode(root))
        self._below: list[str] | None = None
        self._by_form: dict[int, dict[str, list[str]]] = {}
        self._walk = Lock()

    def find(self, listed: str, near: frozenset[str] = frozenset(), near_first: bool = False) -> Path | str:
        r"""Return the file for a listed name, or a reason code.

        The name is tried unchanged, then without its leading folders one by one (`images/v1/patch8/x.jpg`,
        `patch8/x.jpg`, `x.jpg`), then as the end of one file's path in a deeper folder (`val2017/x.jpg` for `x.jpg`),
        then in the forms of Unicode, URLs and file systems without case. A name with the root of another machine
        (`/home/…`, `D:\…`, `../…`) is the file that shares most of its end. Files of one name in several folders are
        one image where their bytes are the same; the first by path is returned. Otherwise it is the single file in a
        folder that `near` names; with `near_first`, also if the unchanged name exists.
        """
        parts, is_foreign = split_listed_name(listed)
        if not parts:
            return "not_a_relative_name"
        if not near_first and (path := self._find_directly(parts)) is not None:
            return path
        for number in range(len(_FORMS)):
            found = self._find_by_end(parts, number, is_foreign, near)
            if near_first and not (isinstance(found, Path) and near & self.folder_words(found)):
                continue
            if found != "image_missing":
                return found
        return self.find(listed, near) if near_first else "image_missing"

    def find_all(self, lists: Sequence[Sequence[str]], nears: Sequence[frozenset[str]]) -> list[list[Path | str]]:
        """Return the file or the reason for each name of each list. `nears`: per list, the words of its folder's name.

        A name in several lists is first searched in the folder of its own list. Contradicting names (`train/x.jpg` and
        `val/x.jpg` for `x.jpg`) match no image, since its owner is unknown.
        """
        counts: dict[str, int] = defaultdict(int)
        for names in lists:
            for name in set(names):
                counts[name] += 1
        found = [
            [self.find(name, near, counts[name] > 1) for name in names]
            for names, near in zip(lists, nears, strict=True)
        ]
        claims: dict[Path, set[tuple[Parts, str]]] = defaultdict(set)
        for names, files, near in zip(lists, found, nears, strict=True):
            for name, file in zip(names, files, strict=True):
                if isinstance(file, Path):
                    claims[file].add((split_listed_name(name)[0], _split_of(near) if counts[name] > 1 else ""))
        refused = {file: self._contradict(file, names) for file, names in claims.items() if len(names) > 1}
        for names, files, near in zip(lists, found, nears, strict=True):
            for place, (name, file) in enumerate(zip(names, files, strict=True)):
                claim = (split_listed_name(name)[0], _split_of(near) if counts[name] > 1 else "")
                if isinstance(file, Path) and claim in refused.get(file, ()):
                    files[place] = "named_by_several"
        return found

    def _contradict(self, file: Path, claims: set[tuple[Parts, str]]) -> set[tuple[Parts, str]]:
        """Return the names of a file that cannot all be its name. The one that is its path, in its split, stays."""
        forms = {tuple(map(_decode, parts)) for parts, _ in claims}  # a.jpg and A.jpg are two names
        longest = max(forms, key=len)
        splits = {split for _, split in claims if split}
        if all(longest[-len(one) :] == one for one in forms) and len(splits) < 2:
            return set()
        own = tuple(map(_decode, Path(os.path.relpath(file, self.root)).parts))
        split = _split_of(self.folder_words(file))
        return {
            (parts, of_list)
            for parts, of_list in claims
            if tuple(map(_decode, parts)) != own[-len(parts) :] or (of_list and of_list != split)
        }

    def folder_words(self, file: Path) -> frozenset[str]:
        """Return the words of the folders between the root and a file."""
        return frozenset(
            word for part in Path(os.path.relpath(file, self.root)).parts[:-1] for word in folder_words(part)
        )

    def _find_directly(self, parts: Parts) -> Path | None:
        for start in range(len(parts)):
            path = self.root.joinpath(*parts[start:])
            if self._is_inside(path):
                return path.resolve() if path.is_symlink() else path  # links are not followed when it is read
        return None

    def _find_by_end(self, parts: Parts, number: int, is_foreign: bool, near: frozenset[str]) -> Path | str:
        form = _FORMS[number]
        wanted = tuple(form(part) for part in parts)
        shared: dict[int, list[str]] = defaultdict(list)
        for path in self._files(number).get(wanted[-1], []):
            own = tuple(form(part) for part in PurePosixPath(path).parts)
            same = _shared_end(wanted, own)
            if same == min(len(wanted), len(own)) or (is_foreign and not _differ_in_split(wanted, own, same)):
                shared[same].append(path)
        if not shared:
            return "image_missing"
        candidates = sorted(shared[max(shared)])
        if near and len(candidates) > 1:
            candidates = [one for one in candidates if near & self.folder_words(self.root / one)] or candidates
        if not all(self._has_same_bytes(candidates[0], other) for other in candidates[1:]):
            return "found_in_several_folders"
        return self.root / candidates[0]

    def _has_same_bytes(self, path: str, other: str) -> bool:
        try:
            return filecmp.cmp(self.root / path, self.root / other, shallow=False)
        except OSError:
            return False

    def _is_inside(self, path: Path) -> bool:
        try:
            return is_inside(os.path.realpath(os.fsencode(path), strict=True), self._home)
        except (OSError, ValueError):
            return False

    def _files(self, number: int) -> dict[str, list[str]]:
        """Return the paths of all regular files below the root by a form of their name."""
        with self._walk:
            if number not in self._by_form:
                index = self._by_form[number] = defaultdict(list)
                for path in self.list_names():
                    index[_FORMS[number](posixpath.basename(path))].append(path)
            return self._by_form[number]

    def list_names(self) -> list[str]:
        """Return the sorted paths of all regular files below the root, relative to it. Walks the folder once."""
        if self._below is None:
            below = list[str]()
            for folder, _, names in os.walk(self.root):
                paths = (Path(folder, name) for name in names)
                kept = (path for path in paths if path.is_file() and not path.is_symlink())
                below += [str(path.relative_to(self.root)) for path in kept]
            self._below = sorted(below)
        return self._below


def split_listed_name(listed: str) -> tuple[Parts, bool]:
    """Return the parts of a listed name that can be below a folder, and whether the name has a root of its own."""
    name = listed.replace("\\", "/")
    if not name or "\x00" in name:
        return (), False
    is_foreign = name.startswith(("/", "../")) or "/../" in name or "://" in name or bool(_DRIVE.match(name))
    parts = [part for part in posixpath.normpath(_DRIVE.sub("/", name)).split("/") if part not in ("", ".", "..")]
    return tuple(parts), is_foreign


def folder_words(name: str) -> frozenset[str]:
    """Return the words in the name of a folder or a file, including the whole name: `instances_val2017` has
    `instances`, `val2017`, `val`."""
    words = {name.casefold(), *re.split(r"[\W_]+", name.casefold())} - {""}
    words |= {word.rstrip("0123456789") for word in words} - {""}
    return frozenset(words | {_SPLITS[word] for word in words if word in _SPLITS})


def _split_of(words: frozenset[str]) -> str:
    named = {_SPLITS[word] for word in words if word in _SPLITS}
    return named.pop() if len(named) == 1 else ""


def _shared_end(one: Parts, other: Parts) -> int:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _differ_in_split(wanted: Parts, own: Parts, same: int) -> bool:
    """Return whether the folders above a shared path end belong to different splits."""
    splits = [_split_of(folder_words(" ".join(parts[: len(parts) - same]))) for parts in (wanted, own)]
    return all(splits) and splits[0] != splits[1]
