"""Sets that an attacker could send: a small whole one, with one thing in it replaced. Each case is a name and a
function that gets the set's folder, and the folder of the victim."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from querytruth.records import TABLE_SCHEMAS

HostileCase = tuple[str, Callable[[Path, Path], None]]
IDS = ["../../../home/escaped", "/tmp/absolute", "a/b", "", "img_\x1b[2J", "x" * 200, "img_\u202eabc", ".."]
TEXTS = [
    "\x1b]0;owned\x07",
    "\u202etxet",
    "zero\u200bwidth",
    "nul\x00byte",
    "<script>alert(1)</script>",
    "=1+1",
    "词" * 9000,
]
_PATHS = [
    *("/etc/passwd", "../../../home/private.jpg", "images/../../../../home/private.jpg", "images/link.jpg"),
    *("images/pipe.jpg", "manifest.json", "images/checksums.parquet", "images/\x00.jpg", "", "images", "~/private.jpg"),
    *("http://127.0.0.1:9/a.jpg", "webhdfs://127.0.0.1:9/a.jpg", "simplecache::http://127.0.0.1:9/a.jpg"),
    *("file:///etc/passwd", "zip://a::file:///etc/passwd", "s3://127.0.0.1/a.jpg", "ftp://127.0.0.1:9/a", "x" * 5000),
]
_BESIDE = [
    *("decisions.jsonl", "captions.jsonl", "latest", ".lock", ".publish", ".thumbnails", "shown", "evaluations"),
    *("pages", "generated", "replies.sqlite", "review", ".rendered", ".scan", ".imported"),
]
_INSIDE = ["README.md", "images/checksums.parquet", "images"]
_LINES = [
    *("{", "[]", "7", "null", '{"kind": "x"}', '{"query_id": 7, "text": [], "decision": "drop"}', "\x00", "[" * 5000),
    '{"query_id": "../../x", "text": "a", "decision": "edit", "new_text": "\\ud800", "at": ""}',
]


def hostile_cases() -> Iterator[HostileCase]:
    """All cases, in one order."""
    yield from _manifests()
    yield from _tables()
    yield from _columns()
    yield from _links()
    yield from _definitions()
    for number, line in enumerate(_LINES):
        yield f"decision {number}", lambda folder, _home, line=line: _append(folder / "decisions.jsonl", line)
        yield f"caption {number}", lambda folder, _home, line=line: _append(folder / "captions.jsonl", line)


def _append(path: Path, line: str) -> None:
    path.write_text(line + "\n", "utf-8")


def version_of(folder: Path) -> Path:
    return folder / "v1"


def _edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = version_of(folder) / "manifest.json"
    manifest = json.loads(path.read_bytes())
    change(manifest)
    path.write_text(json.dumps(manifest), "utf-8")


def _manifests() -> Iterator[HostileCase]:
    keys = [
        *(
            "schema_version",
            "name",
            "version",
            "kind",
            "title",
            "licence",
            "content_digest",
            "manifest_digest",
            "parent",
        ),
        *("configuration", "inputs", "models", "prompts", "thresholds", "counts", "funnel", "grades", "notes"),
        *("known_limitations", "decisions", "files", "envelope"),
    ]
    for key in keys:
        yield f"manifest without {key}", lambda folder, _home, key=key: _edit(folder, lambda one: one.pop(key))
        wrong: Any = 7 if key not in ("version", "schema_version") else "../.."
        yield (
            f"manifest {key} of another type",
            lambda folder, _home, key=key, wrong=wrong: _edit(folder, lambda one: one.__setitem__(key, wrong)),
        )
    nested = "[" * 100_000 + "]" * 100_000
    texts = {
        "empty": "",
        "no json": "{",
        "a list": "[]",
        "too deep": nested,
        "a number": '{"version": 1e999}',
        "long digits": '{"version": ' + "9" * 6000 + "}",
        "nan": '{"version": NaN}',
        "twice": '{"a": 1, "a": 2}',
        "half a character": '{"name": "\\ud800"}',
        "no utf-8": "\xff\xfe",
    }
    for name, text in texts.items():
        yield (
            f"manifest {name}",
            lambda folder, _home, text=text: (version_of(folder) / "manifest.json").write_bytes(text.encode("latin-1")),
        )
    for name, value in (("name", "../../home"), ("title", TEXTS[0] + TEXTS[1]), ("licence", TEXTS[4])):
        yield (
            f"hostile {name}",
            lambda folder, _home, name=name, value=value: _edit(folder, lambda one: one.__setitem__(name, value)),
        )
    files = {"path": "../../../home/private.jpg", "sha256": "0" * 64, "bytes": 1, "rows": None}
    yield "a listed file outside", lambda folder, _home: _edit(folder, lambda one: one["files"].append(files))
    yield "a grade of 20 digits", lambda folder, _home: _edit(folder, lambda one: one["grades"].update({"9" * 20: "x"}))
    for note in ("scan", "ambiguity", "collection", "nested", "captions", "stages", "render", "parents"):
        for number, value in enumerate(({}, [7], "x")):
            yield (
                f"note {note} {number}",
                lambda folder, _home, note=note, value=value: _edit(
                    folder, lambda one: one["notes"].__setitem__(note, value)
                ),
            )


def _tables() -> Iterator[HostileCase]:
    for name, schema in TABLE_SCHEMAS.items():
        at = f"{name}.parquet"
        needed = [field.name for field in schema if not field.nullable]

        def replace(folder: Path, table: pa.Table, at: str = at) -> None:
            pq.write_table(table, version_of(folder) / at)

        def read(folder: Path, at: str = at) -> pa.Table:
            return pq.read_table(version_of(folder) / at)

        yield f"{name} is missing", lambda folder, _home, at=at: (version_of(folder) / at).unlink()
        yield f"{name} is garbage", lambda folder, _home, at=at: (version_of(folder) / at).write_bytes(b"PAR1" * 9)
        yield f"{name} is a link", lambda folder, home, at=at: _link(version_of(folder) / at, home / "private.parquet")
        yield f"{name} is a pipe", lambda folder, _home, at=at: _pipe(version_of(folder) / at)
        yield f"{name} is empty", lambda folder, _home, replace=replace, read=read: replace(folder, read(folder)[:0])
        for column in needed[:2]:
            yield (
                f"{name} lacks {column}",
                lambda folder, _home, column=column, replace=replace, read=read: replace(
                    folder, read(folder).drop_columns([column])
                ),
            )
        yield (
            f"{name} has numbers",
            lambda folder, _home, replace=replace, needed=needed: replace(
                folder, pa.table({column: [1.5] for column in needed})
            ),
        )


def _set_column(folder: Path, name: str, column: str, value: str) -> None:
    path = version_of(folder) / f"{name}.parquet"
    table = pq.read_table(path)
    if not len(table):
        return
    old = pc.cast(table[column], pa.string()).to_pylist()
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array([value, *old[1:]])), path)


def _columns() -> Iterator[HostileCase]:
    ids = [("images", "image_id"), ("queries", "query_id"), ("qrels", "image_id"), ("qrels", "query_id")]
    for name, column in [*ids, ("queries", "source_image_id")]:
        for number, value in enumerate(IDS):
            yield (
                f"{name}.{column} {number}",
                lambda folder, _home, name=name, column=column, value=value: _set_column(folder, name, column, value),
            )
    for number, value in enumerate(_PATHS):
        yield f"images.path {number}", lambda folder, home, value=value: _set_path(folder, home, value)
    for name, column in (("queries", "text"), ("images", "file_name"), ("qrels", "evidence"), ("queries", "style")):
        for number, value in enumerate(TEXTS):
            yield (
                f"{name}.{column} {number}",
                lambda folder, _home, name=name, column=column, value=value: _set_column(folder, name, column, value),
            )


def _set_path(folder: Path, home: Path, value: str) -> None:
    _set_column(folder, "images", "path", value)
    if value == "images/link.jpg":
        (version_of(folder) / value).symlink_to(home / "private.jpg")
    if value == "images/pipe.jpg":
        os.mkfifo(version_of(folder) / value)


def _link(path: Path, target: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name("moved"))
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(target)


def _grow(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _links() -> Iterator[HostileCase]:
    for name in _BESIDE:
        yield f"{name} is a link", lambda folder, home, name=name: _link(folder / name, home / "target")
    for name in _INSIDE:
        yield (
            f"v1/{name} is a link",
            lambda folder, home, name=name: _link(folder / "v1" / name, home / "note.txt"),
        )
    for name in ("decisions.jsonl", "captions.jsonl"):
        yield f"{name} is 3 GB", lambda folder, _home, name=name: _grow(folder / name)
    yield "the manifest is a link", lambda folder, home: _link(version_of(folder) / "manifest.json", home / "note.txt")


def _definitions() -> Iterator[HostileCase]:
    endpoint = {
        "model": "openai_compatible",
        "options": {"base_url": "http://127.0.0.1:9", "key_env": "VICTIM_KEY", "name": "x"},
    }
    recall = {"kind": "recall", "name": "small", "out": "/tmp"}
    definitions: dict[str, Any] = {
        "a key and an address": {**recall, "images": "images", "captions": endpoint},
        "the victim's folder": {"kind": "gallery", "name": "small", "images": "{home}", "out": "{home}"},
        "another set": {**recall, "gallery": "../../home", "captions": {"model": "human"}},
        "a database": {**recall, "images": "{home}", "replies": "postgresql://127.0.0.1:9/x"},
        "a file as replies": {**recall, "images": "{home}", "replies": "{home}/target/replies.sqlite"},
        "annotations": {"kind": "precision", "name": "small", "annotations": "{home}/note.txt", "out": "{home}"},
        "importer": {"kind": "imported", "name": "small", "format": "csv", "annotations": "{home}", "out": "{home}"},
        "no definition": "a text",
        "deep": {"kind": "gallery", "name": "small", "images": [[[[[[{}]]]]]]},
    }
    for name, value in definitions.items():

        def write(folder: Path, home: Path, value: Any = value) -> None:
            filled = json.loads(json.dumps(value).replace("{home}", str(home)))
            kind = filled.get("kind", "precision") if isinstance(filled, dict) else "precision"
            _edit(
                folder, lambda one: (one["envelope"].__setitem__("definition", filled), one.__setitem__("kind", kind))
            )

        yield f"definition of {name}", write
