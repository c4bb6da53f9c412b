"""The page of a folder: everything below it, a search box, and the first steps of a folder without a set.

The page runs commands: builds, imports and evaluations run as the command that is shown beside the button; a judgment
is a row of judgments.csv, which `import pairs` and `check` read.
"""

from __future__ import annotations

import atexit
import csv
import io
import os
import re
import shlex
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import quote

from querytruth.backends.files.durable_files import write_atomically, write_page
from querytruth.backends.images.source_names import strip_password
from querytruth.checks.golden_file import add_cases
from querytruth.errors import UserError, translate_read_errors, translate_write_errors
from querytruth.review.folder_index import FolderIndex, ListedPage, ListedSet, read_folder
from querytruth.review.page_parts import embed_jpeg, page_language, pages_in, render_template
from querytruth.sets.published_files import NOTICE_FILE, notice_folder

if TYPE_CHECKING:
    from querytruth.backends.search_systems import SearchHit

STAGE = "open"
SHOWN = 10  # results of a query
JUDGMENTS, GOLDEN, SYSTEM = "judgments.csv", "golden.yaml", "my-search.yaml"
_FIELDS = ["query", "image", "grade", "reviewer"]
_SHEET = 8  # images of a set that stand for it
_SHEET_SIDE = 128
_FRAMES = "│┃┌├└┏┡┗╭╰"  # of tables
_METRICS = "p@10,hit@1"
STATIC_FILES = {"zh": "index.zh.html", "en": "index.html"}  # by language
_MOMENT = 1.0  # seconds for which an index serves: a page of results asks for ten photos at once


@dataclass(slots=True)
class Job:
    """Commands that run one after the other; `lines` has the last of what they print, `state` running, done or
    failed."""

    commands: list[list[str]]
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=4))
    state: str = "running"

    def run(self) -> None:
        """Run the commands until one fails."""
        for words in self.commands:
            command = [sys.executable, "-m", "querytruth", *words]
            none, pipe, out = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
            now = os.environ | {"PYTHONUNBUFFERED": "1"}
            with subprocess.Popen(command, stdin=none, stdout=pipe, stderr=out, text=True, env=now) as process:
                assert process.stdout is not None
                self.lines.extend(line.strip() for line in process.stdout if line.strip() and line[0] not in _FRAMES)
            if process.returncode:
                self.state = "failed"
                return
        self.state = "done"


class Door:
    """The content of a folder, and the actions of a person on it. New sets are written to `out`, other files to the
    folder where the command runs."""

    def __init__(self, root: Path, out: Path, reviewer: str = "") -> None:
        if not root.is_dir():
            raise UserError(STAGE, root, "is not a folder", "give a folder of photos or sets")
        self.root, self.out, self.reviewer = root, out, reviewer
        self.jobs: list[Job] = []
        self._index: tuple[float, FolderIndex] = 0.0, FolderIndex()
        self._answers: dict[tuple[str, str], list[SearchHit]] = {}
        self._lock = Lock()

    def read_index(self) -> FolderIndex:
        """Return the current content, at most a moment old."""
        if time.monotonic() - self._index[0] > _MOMENT:
            index = read_folder(self.root, self.out, beside=Path())
            self._index = time.monotonic(), index
        return self._index[1]

    def find_set(self, key: str) -> ListedSet | None:
        """Return the set with a key."""
        return next((one for one in self.read_index().sets if one.key == key and one.versions), None)

    def find_photo_folder(self, index: FolderIndex) -> Path:
        """Return the folder that has all photos, relative to the one where the command runs."""
        folders = {*map(normalise_path, {one.parent for one in index.photos} or {self.root})}
        return Path(os.path.relpath(os.path.commonpath(folders)))

    def name_systems(self, index: FolderIndex) -> dict[str, str]:
        """Return the files of searches, the newest first, each with a label that has its address."""
        newest = sorted(index.systems, key=lambda one: (-one.stat().st_mtime if one.exists() else 0.0, str(one)))
        return {os.path.relpath(path): self.name_system(path) for path in newest}

    def name_system(self, path: Path) -> str:
        """Return the name of a search's file with its address, where it has one."""
        with suppress(OSError, ValueError):
            if url := re.search(r"^url:\s*['\"]?([^\s'\"]+)", path.read_text("utf-8"), re.MULTILINE):
                return f"{os.path.relpath(path)} ({strip_password(url[1])})"
        return os.path.relpath(path)

    def render(self, files: Path | None = None) -> str:
        """Return the page: served, or as one of the `files` of a folder, into which it copies the pages from
        elsewhere."""
        index = self.read_index()
        own = {(files or Path()) / name for name in STATIC_FILES.values()}
        index = replace(index, pages=[page for page in index.pages if page.path not in own])
        photos = self.find_photo_folder(index)
        doors = {name: self.write_work(name) for name in ("gallery", "set")}
        doors["golden"] = _write_line("check", "init", "--images", photos, "--system", SYSTEM)
        listed = [self._describe_set(one, is_live=files is None) for one in index.sets]

        def link(page: ListedPage) -> str:
            if files is None:
                return f"/door/page/{page.key}"
            if page.path.resolve().is_relative_to(files.resolve()):
                return quote(os.path.relpath(page.path.resolve(), files.resolve()))
            copy = f"pages/{page.key}{page.path.suffix}"
            write_page(files / copy, page.path.read_text("utf-8"))
            return copy

        about = {"name": str(self.root), "version": 0, "views": [], "reviewer": self.reviewer}
        context = {"index": index, "link": link, "sets": listed, "doors": doors, "about": about, "image_data": []}
        context["systems"] = self.name_systems(index) if files is None else {}
        context["golden"] = [_write_line("check", os.path.relpath(one)) for one in index.golden]
        context |= {"place": lambda path: os.path.relpath(path, self.root), "name": str(self.root)}
        context["photo_name"] = lambda path: os.path.relpath(path, photos)
        context |= {"is_live": files is None, "command": _write_line("open", self.root)}
        return render_template("door.html", **context)

    def _describe_set(self, one: ListedSet, *, is_live: bool) -> dict[str, object]:
        name = os.path.relpath(one.folder)
        lines = [_write_line("show", name, "--page", "set.html"), _write_line("review", name)]
        lines += [_write_line("evaluate", name, "--system", SYSTEM), _write_line("lint", name)]
        sheet = embed_jpeg(data) if not is_live and one.versions and (data := make_sheet(one)) else ""
        return {"one": one, "lines": lines, "sheet": sheet}

    def list_work(self, photos: Path, system: str = SYSTEM) -> dict[str, list[list[object]]]:
        """Return the commands of each door: a gallery of the photos; a set of the judgments, and the search on it."""
        name = self.out / "my-queries"
        imported = ["import", "pairs", JUDGMENTS, name, "--images", photos]
        return {
            "gallery": [["build", "gallery", "--set", f"images={photos}", "--out", self.out]],
            "set": [imported, ["evaluate", name, "--system", system]],
        }

    def write_work(self, name: str, system: str = SYSTEM) -> str:
        """Return the command line of a door."""
        photos = self.find_photo_folder(self.read_index())
        return " && ".join(_write_line(*words) for words in self.list_work(photos, system)[name])

    def start(self, commands: Sequence[Sequence[object]]) -> Job:
        """Start commands. Raises UserError where others still run."""
        with self._lock:
            if any(job.state == "running" for job in self.jobs):
                raise UserError(STAGE, "the page", "is already running a command", "wait until it finishes")
            self.jobs.append(job := Job([[str(word) for word in words] for words in commands]))
        Thread(target=job.run, daemon=True).start()
        return job

    def propose_system(self, url: str, text: str) -> Path:
        """Write the description of the search at an address, and return its file. Raises UserError where its answers
        name no photo, and where the file has another search."""
        from querytruth.checks.proposed_search import propose_search

        index = self.read_index()
        names = [os.path.relpath(one, self.find_photo_folder(index)) for one in index.photos]
        if not names:
            raise UserError(STAGE, self.root, "contains no photos", "open the folder that the search indexes")
        data, path = propose_search(url, text, names), Path(SYSTEM)
        number = 1
        while path.exists() and path.read_text("utf-8") != data:
            number += 1
            path = Path(f"{Path(SYSTEM).stem}-{number}.yaml")
        with translate_write_errors(STAGE, path, "start it in a writable folder"):
            write_atomically(path, data.encode())
        self._index = 0.0, self._index[1]
        return path

    def search(self, system: str, text: str) -> list[SearchHit]:
        """Return the first results of a search, each named by its photo's path. Raises UserError."""
        from flows.search import ask_once
        from querytruth.backends.search_systems import load_system_file
        from querytruth.checks.answers import match_answers
        from querytruth.evaluation.system_answers import SystemAnswer

        Thread(target=import_module, args=["flows.evaluation"], daemon=True).start()  # the first figure needs it
        if (system, text) not in self._answers:
            index = self.read_index()
            if system not in {os.path.relpath(one) for one in index.systems}:
                raise UserError(STAGE, system, "is not a search of this folder", "reload the page")
            described, photos = load_system_file(Path(system)), self.find_photo_folder(index)
            answer = SystemAnswer(tuple(ask_once(described, text, SHOWN)))
            ids = described.system.options.ids
            (matched,) = match_answers([answer], photos, ids, described.name, allow_unclear=True)
            self._answers[system, text] = list(matched.hits)[:SHOWN]
        return self._answers[system, text]

    def read_judgments(self) -> dict[tuple[str, str], dict[str, str]]:
        """Return the rows of the judgments by query and image."""
        path = Path(JUDGMENTS)
        if not path.exists():
            return {}
        with translate_read_errors(STAGE, path, "fix or remove the file", also=(ValueError, KeyError, csv.Error)):
            rows = csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline=""))
            read = [{name: row.get(name) or "" for name in _FIELDS} for row in rows]
            return {(row["query"], row["image"]): row | {"grade": str(int(row["grade"]))} for row in read}

    def read_stated_grades(self, text: str) -> dict[str, str]:
        """Return what the sets below the folder state about photos for a query, such as "trips: 1", by the photo's
        path. A set that cannot be read states nothing."""
        stated: dict[str, list[str]] = {}
        for one in self.read_index().sets:
            with suppress(OSError, ValueError, KeyError):
                for name, grade in _read_grades(one.version, text) if one.versions else ():
                    stated.setdefault(name, []).append(f"{one.folder.name}: {grade}")
        return {name: ", ".join(grades) for name, grades in stated.items()}

    def judge(self, text: str, image: str, grade: int | None) -> None:
        """Write a judgment, or remove it. Raises UserError where the file cannot be written."""
        with self._lock:
            rows = self.read_judgments()
            rows.pop((text, image), None)
            if grade is not None:
                rows[text, image] = dict(zip(_FIELDS, (text, image, str(grade), self.reviewer), strict=True))
            written = io.StringIO(newline="")
            table = csv.DictWriter(written, _FIELDS, lineterminator="\n")
            table.writeheader()
            table.writerows(rows.values())
            with translate_write_errors(STAGE, JUDGMENTS, "start it in a writable folder"):
                write_atomically(Path(JUDGMENTS), written.getvalue().encode())

    def measure(self, system: str) -> dict[str, object]:
        """Return the figures of a search on the judged queries, as `evaluate` computes them; but a query without a
        fitting result counts as 0, where `evaluate` has it wait for a relevant image."""
        import pandas as pd

        from flows.evaluation import evaluate_systems
        from querytruth.checks.answers import NO_IMAGE
        from querytruth.evaluation.judged_sets import JudgedSet
        from querytruth.evaluation.program_systems import make_table_system
        from querytruth.evaluation.requests import EvaluationOptions

        judged = self.read_judgments()
        texts = list(dict.fromkeys(text for text, _ in judged))
        if not judged:
            return {"queries": 0, "judgments": 0, "figures": []}
        pair = ["query_id", "image_id"]
        grades = [(*key, int(row["grade"])) for key, row in judged.items()]
        fitting = {text for text, _, grade in grades if grade > 0}
        missed = [(text, NO_IMAGE, 1) for text in texts if text not in fitting]  # an image that no search returns
        qrels = pd.DataFrame([*grades, *missed], columns=[*pair, "relevance"])
        ranked = [(text, hit.id, -rank) for text in texts for rank, hit in enumerate(self.search(system, text))]
        run = pd.DataFrame(ranked, columns=[*pair, "score"]).astype({"score": "float64"})
        described = JudgedSet(
            {"name": "judgments", "version": 0, "content_digest": "", "kind": "qrels", "title": JUDGMENTS}, qrels
        )
        options = EvaluationOptions(store=False, page=False, metrics=_METRICS, max_unknown=1)
        (stored,) = evaluate_systems(described, [make_table_system(run, system)], ("text_to_image",), options)
        figures = stored.scored.result.figures[["metric", "value", "low", "high", "at_most"]].to_dict("records")
        return {"queries": len(texts), "judgments": len(judged), "figures": figures}

    def write_golden(self, system: str) -> int:
        """Add a case to golden.yaml for each query with a right photo, and return how many were new. Raises
        UserError."""
        right: dict[str, list[str]] = {}
        for (text, image), row in self.read_judgments().items():
            if int(row["grade"]) > 0:
                right.setdefault(text, []).append(image)
        cases: list[dict[str, object]] = [{"query": text, "must": images} for text, images in right.items()]
        photos = self.find_photo_folder(self.read_index())
        return add_cases(Path(GOLDEN), {"system": Path(system), "images": photos}, SHOWN, cases)


def _read_grades(version: Path, text: str) -> Iterable[tuple[str, int]]:
    """Return file names and grades of a query's judgments; of a set without this query nothing but its texts is
    read."""
    import pandas as pd

    def read(table: str, columns: list[str], column: str, values: list[str]) -> pd.DataFrame:
        return pd.read_parquet(version / f"{table}.parquet", columns=columns, filters=[(column, "in", values)])

    queries = read("queries", ["query_id"], "text", [text])
    if queries.empty:
        return ()
    qrels = read("qrels", ["image_id", "relevance"], "query_id", queries["query_id"].tolist()).astype({"image_id": str})
    names = read("images", ["image_id", "file_name"], "image_id", qrels["image_id"].unique().tolist())
    merged = qrels.merge(names.astype(str))
    return zip(merged["file_name"], merged["relevance"].tolist(), strict=True)


def normalise_path(path: Path) -> str:
    """Return the absolute path, without dots; links stay."""
    return os.path.normpath(path.absolute())


def _write_line(*words: object) -> str:
    return shlex.join(["querytruth", *map(str, words)])


def make_sheet(one: ListedSet) -> bytes | None:
    """Return the first images of a set side by side, as JPEG; None where none can be read."""
    from querytruth.backends.images.rendering import make_contact_sheet, make_thumbnail
    from querytruth.sets.set_files import read_set
    from querytruth.sets.set_thumbnails import make_set_thumbnails

    stored = read_set(one.version, ("images",))
    first = stored.tables.images.head(_SHEET)
    small = make_set_thumbnails(replace(stored, tables=replace(stored.tables, images=first)), first["image_id"])
    return (
        make_contact_sheet([make_thumbnail(one, _SHEET_SIDE) for one in small.values()], _SHEET_SIDE) if small else None
    )


def read_shown_page(page: ListedPage | None, one: ListedSet | None) -> str:
    """Return a page on disk; of a set the one in the reader's language, made anew where the file has another, or is
    older than what `querytruth notice` found."""
    if page is not None and (one is None or page.language == page_language()):
        with translate_read_errors(STAGE, page.path, "reload the page of the folder"):
            noticed = None if one is None else notice_folder(one.version) / NOTICE_FILE
            if noticed is None or not noticed.is_file() or page.path.stat().st_mtime >= noticed.stat().st_mtime:
                return page.path.read_text("utf-8")
    assert one is not None
    from flows.set_kinds import write_set_page

    with TemporaryDirectory() as folder:
        write_set_page(one.version, made := Path(folder) / "page.html")
        return made.read_text("utf-8")


def write_static(door: Door, out: Path, *, with_names: bool = False) -> Path:
    """Write the index as files, and return the English one. Pages below `out` are linked, the others copied into it,
    and sets without a page get one. Raises UserError, also for a set that names people, places or texts of an album
    unless `with_names`."""
    from querytruth.sets.set_files import read_set

    index = door.read_index()
    for path in [one.version for one in index.sets if one.versions]:
        next_step = "add --with-names if readers may see the names and places, or give a folder without this set"
        read_set(path, ("queries",)).tables.refuse_facts(STAGE, path, next_step, places=True, names=with_names)
    for one in index.sets:
        if one.versions and one.page is None:
            page = one.folder / "shown" / f"{one.version.name}.html"
            write_page(page, read_shown_page(None, one), "or run it where the sets are writable")
    door = Door(door.root, door.out)  # which sees these pages
    for language, name in STATIC_FILES.items():
        with pages_in(language):
            write_page(out / name, door.render(out), "or give another folder")
    return out / "index.html"


_TAKEN = {  # by what a file is: the commands that take it
    "golden queries": ("check {file}", "import golden {file} {set} --images {images}"),
    "a search": ("check init --images {images} --system {file}",),
    "boxes of objects": ("init precision --annotations {file} --images {images}", "build precision precision.yaml"),
    "captions of COCO": ("import coco_captions {file} {set} --images {images}",),
    "captions of Karpathy's splits": ("import karpathy {file} {set} --images {images}",),
    "queries": ("init queries --queries {file} --images {images}", "build queries queries.yaml"),
    "texts and their images": (
        "import pairs {file} {set} --images {images}",
        f"check {{file}} --images {{images}} --system {SYSTEM}",
    ),
}

# The first that a JSON file has says what it is.
_JSON_KEYS = {"bbox": "boxes of objects", "annotations": "captions of COCO"}
_JSON_KEYS |= {"sentences": "captions of Karpathy's splits"}


def recognise_file(path: Path, photos: Path) -> tuple[str, list[str]]:
    """Return what a file is, and the commands that accept it. Raises UserError if no command accepts it."""
    kind = _find_kind(path)
    words = {"file": path.name, "set": f"datasets/{path.stem.lower()}", "images": str(photos)}
    quoted = {name: shlex.quote(word) for name, word in words.items()}
    return kind, [f"querytruth {line.format(**quoted)}" for line in _TAKEN[kind]]


def _find_kind(path: Path) -> str:
    head = path.read_bytes()[: 1 << 20].decode("utf-8", "replace")
    if path.suffix in (".yaml", ".yml"):
        return "golden queries" if "\ncases:" in f"\n{head}" else "a search"
    for key, kind in _JSON_KEYS.items():
        if path.suffix == ".json" and f'"{key}"' in head:
            return kind
    if path.suffix == ".txt":
        return "queries"
    from querytruth.backends.files.table_profile import COLUMN_NAMES
    from querytruth.backends.files.table_rows import find_usual_column, read_columns

    columns = read_columns(path, STAGE)
    image, text = (find_usual_column(columns, COLUMN_NAMES[one]) for one in ("image", "text"))
    if not text and len(columns) > 1:
        raise UserError(
            STAGE, path.name, f"has no columns that a command accepts ({', '.join(columns[:8])})", "see docs/formats.md"
        )
    return "texts and their images" if image and text else "queries"


def open(folder: str | Path = ".", out: str | Path = "datasets", *, show: bool = True) -> str:
    """Serve the page of a folder while this process lives, as `querytruth open` does, and return its address; `show`:
    also open it in the browser. Raises UserError."""
    words = [sys.executable, "-m", "querytruth", "open", str(folder), "--out", str(out)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words if show else [*words, "--no-open"], stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None and process.stderr is not None
    if not (line := process.stdout.readline()):
        raise UserError(STAGE, folder, process.stderr.read().strip(), "run querytruth open --help")
    atexit.register(process.terminate)
    return line.rpartition(" ")[2].strip()
