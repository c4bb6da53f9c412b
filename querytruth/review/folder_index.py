"""An index of a folder, read from its files alone: sets with results and audits, reports, searches, photos.

One walk; of each set only its newest manifest and the first figures of its results are read, no table and no image. A
page is listed if its first bytes are those of a querytruth page.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from querytruth.evaluation.result_types import BOUNDING_BASELINES
from querytruth.sets.build_progress import PROGRESS_FILE, BuildProgress, read_progress
from querytruth.sets.published_files import AUDITS_FOLDER, RESULTS_FOLDER

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".heic", ".heif", ".avif", ".gif", ".bmp", ".tif", ".tiff")
_OWN_PAGE = b'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:'
_TITLE = re.compile(rb"<title>(.*?)</title>", re.DOTALL)
_LANGUAGE = re.compile(rb'<html lang="(\w+)"')
T = TypeVar("T")
_VERSION = re.compile(r"v([1-9][0-9]{0,8})")
_HEAD = 4096  # bytes of a file that say what it is


class _Manifest(msgspec.Struct):
    name: str
    kind: str
    title: str = ""
    counts: dict[str, object] = {}
    notes: dict[str, object] = {}


class _Figure(msgspec.Struct):
    metric: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


class _Report(msgspec.Struct):
    """The keys that tell a check from a gate."""

    golden: str = ""
    system: str = ""
    is_failed: bool = False
    verdict: str = ""
    candidate: str = ""
    baseline: str = ""
    certificate: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page or report on disk: its path, its title, and a summary in a word ("" without one)."""

    path: Path
    title: str
    verdict: str = ""
    language: str = ""

    @property
    def key(self) -> str:
        """Return the name of the page in addresses."""
        return _make_key(self.path)


class ListedResult(msgspec.Struct):
    """The figures of a system on a set; `page`: its report, where one was written."""

    figures: list[_Figure] = []
    name: str = ""
    page: ListedPage | None = None

    @property
    def shown(self) -> _Figure:
        """Return the headline figure: ndcg@10, else the first."""
        return next((one for one in self.figures if one.metric == "ndcg@10"), [*self.figures, _Figure("")][0])

    @property
    def is_bound(self) -> bool:
        """Return whether it is a baseline that no system competes with."""
        return self.name in BOUNDING_BASELINES


@dataclass(frozen=True, slots=True)
class ListedSet:
    """A set by its newest version. `key`: its name in addresses; `progress`: of a build that runs now;
    `manifest` is None before the first version."""

    folder: Path
    versions: list[int]
    manifest: _Manifest | None
    page: ListedPage | None
    results: list[ListedResult]
    audits: list[ListedPage]
    certificate: object
    progress: BuildProgress | None

    @property
    def key(self) -> str:
        return _make_key(self.folder)

    @property
    def version(self) -> Path:
        """Return the folder of the newest version."""
        return self.folder / f"v{self.versions[-1]}"


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """The content of a folder. `systems` and `golden`: files that describe a search, and golden queries; `photos`:
    images that belong to no set."""

    sets: list[ListedSet] = field(default_factory=list)
    pages: list[ListedPage] = field(default_factory=list)
    systems: list[Path] = field(default_factory=list)
    golden: list[Path] = field(default_factory=list)
    photos: list[Path] = field(default_factory=list)

    def list_pages(self) -> Iterator[ListedPage]:
        """Return every page that the index links to."""
        yield from self.pages
        for one in self.sets:
            yield from filter(None, [one.page, *one.audits, *(result.page for result in one.results)])


def read_folder(*folders: Path, beside: Path | None = None) -> FolderIndex:
    """Return the content of the folders, counting a folder inside another once, and the YAML files directly in
    `beside`."""
    index, seen = FolderIndex(), set[str]()
    for root in folders:
        for place, inner, names in os.walk(root):
            folder = Path(place)
            if (real := os.path.realpath(place)) in seen:
                inner.clear()
                continue
            seen.add(real)
            if (found := _read_set(folder, inner, PROGRESS_FILE in names)) is not None:
                index.sets.append(found)
                others = map(read_page, sorted([*folder.glob("review/*.html"), *folder.glob("shown/*.html")]))
                index.pages.extend(page for page in others if page is not None and page != found.page)
                inner.clear()
                continue
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            for name in sorted(names):
                _add_file(index, folder / name)
    if beside is not None and os.path.realpath(beside) not in seen:
        for path in sorted(beside.glob("*.y*ml")):
            _add_file(index, path)
    index.sets.sort(key=lambda one: (one.folder.name, str(one.folder)))
    return index


def _add_file(index: FolderIndex, path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        index.photos.append(path)
    elif suffix == ".html" and (page := read_page(path)) is not None:
        index.pages.append(page)
    elif path.name in ("gate.json", "check.json") and (report := _decode(path, _Report)) is not None:
        verdict = report.verdict or ("FAIL" if report.is_failed else "PASS")
        title = f"{report.golden}, {report.system}" if report.golden else f"{report.candidate} / {report.baseline}"
        shown = path.with_suffix(".md") if report.verdict else path.with_suffix(".html")
        index.pages.append(ListedPage(shown, title, verdict))
    elif suffix in (".yaml", ".yml"):
        head = _read_head(path)
        if re.search(rb"^cases:", head, re.MULTILINE):
            index.golden.append(path)
        elif re.search(rb"^system:", head, re.MULTILINE):
            index.systems.append(path)


def read_page(path: Path) -> ListedPage | None:
    """Return a page with its title, None for another file; the page of a check is listed by its JSON."""
    head = _read_head(path)
    if _OWN_PAGE not in head or (path.name == "check.html" and path.with_suffix(".json").exists()):
        return None
    title, language = _TITLE.search(head), _LANGUAGE.search(head)
    name = title[1].decode("utf-8", "replace") if title else path.name
    return ListedPage(path, name, language=language[1].decode() if language else "")


def _read_set(folder: Path, inner: list[str], runs: bool) -> ListedSet | None:
    """Return the set whose versions, or first build, the folder has."""
    numbers = [int(found[1]) for name in inner if (found := _VERSION.fullmatch(name))]
    versions = sorted(number for number in numbers if (folder / f"v{number}" / "manifest.json").is_file())
    progress = read_progress(folder) if runs else None
    if not versions:
        return None if progress is None else ListedSet(folder, [], None, None, [], [], None, progress)
    newest = f"v{versions[-1]}"
    manifest = _decode(folder / newest / "manifest.json", _Manifest)
    if manifest is None:
        return None
    audits, certificate = list[ListedPage](), manifest.notes.get("certificate")
    for path in sorted(folder.glob(f"{AUDITS_FOLDER}/*/report.json")):
        report = _decode(path, _Report)
        certificate = certificate or (report and report.certificate)
        audits.append(ListedPage(path.with_suffix(".html"), path.parent.name))
    results = [_read_result(path) for path in sorted(folder.glob(f"{RESULTS_FOLDER}/{newest}/*/result.json"))]
    results.sort(key=lambda one: (one.is_bound, -(one.shown.value or 0), one.name))
    page = read_page(folder / "shown" / f"{newest}.html")
    return ListedSet(folder, versions, manifest, page, results, audits, certificate, progress)


def _read_result(path: Path) -> ListedResult:
    figures = (_decode(path, ListedResult) or ListedResult()).figures
    return ListedResult(figures, path.parent.name, read_page(path.with_name("report.html")))


def _make_key(path: Path) -> str:
    return sha256(os.fsencode(path)).hexdigest()[:12]


def _decode(path: Path, kind: type[T]) -> T | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=kind)
    return None


def _read_head(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.read(_HEAD)
    return b""
