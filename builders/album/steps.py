"""Reads the facts of a folder of photos into tables, and the tables that people corrected."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from builders.album.events import EVENT_COLUMNS, AlbumEvent, DatedPhoto, find_events, read_point
from builders.album.fact_table import (
    FACT_COLUMNS,
    OCR,
    REMOVED,
    AlbumFacts,
    FactRow,
    keep_corrections,
    make_reading,
    merge_facts,
)
from builders.album.fact_tags import read_local_time
from builders.album.places import name_cities
from builders.album.sidecar_names import find_documents
from querytruth.backends.files.durable_files import LineJournal, open_journal
from querytruth.backends.files.table_rows import iterate_rows
from querytruth.backends.files.text_formats import unescape_formula, write_csv
from querytruth.backends.images.image_sources import FileState, ImageSource, RefusedItem, open_source, read_file_state
from querytruth.backends.images.text_reading import TextLine, read_texts
from querytruth.backends.images.worker_processes import WorkerFailure, map_in_parallel
from querytruth.backends.images.written_facts import normalise_date, read_file
from querytruth.backends.steps import current_run
from querytruth.errors import UserError

STAGE = "read facts"
_ReadPhoto = tuple[str, FileState | None, list[TextLine]]  # in the journal: its name, state of its file, and texts
_SHOWN_PROBLEMS = 20
WITHIN_KILOMETRES = 10.0  # of a city's centre: beyond it, a photo is not "in" it


def read_album(
    folder: Path,
    export: Sequence[Path] = (),
    *,
    albums: bool = False,
    texts: Path | None = None,
    within: float = WITHIN_KILOMETRES,
    former: Iterable[FactRow] = (),
) -> AlbumFacts:
    """Return the facts of the photos in a folder, from the documents beside them and the exports, with the corrections
    of an earlier table. `albums`: each folder is an album; `texts`: read the texts in the photos, but those in
    this journal, which keeps them; without it those of the earlier table stay. Raises UserError if the folder cannot be
    read or contains no photos."""
    source = open_source(str(folder))
    listing = source.list_items()
    problems = [f"{row['item']}: {row['reason']}" for row in listing.refused.to_pylist()]
    photos, documents = find_documents(listing.items.to_pylist())
    if not photos:
        raise UserError(STAGE, folder, "contains no photos", "give the folder that contains the photos")
    about = {name: [name] for name in photos} | {name: images for name, images in documents.items() if images}
    known = list(former)
    if texts is not None:  # first: where the extra is missing, nothing else was done in vain
        with open_journal(texts) as journal:
            rows = _read_photo_texts(source, photos, problems, journal)
    else:
        rows = [row for row in known if row.source == OCR and row.image in about]
    rows += _read_files(source, about, export, problems)
    if albums:
        rows += [FactRow(name, "album", Path(name).parent.name, "", "folder") for name in photos if "/" in name]
    merged = merge_facts([*rows, *(row for row in known if row.source == "person")])
    try:
        named = list(name_cities(keep_corrections(merged, known), within))
    except ImportError:
        current_run().reporter.log("no offline place names: to add them, pip install 'querytruth[places]'")
        named = []
    stated = {(row.image, row.kind) for row in merged}
    named = [row for row in named if (row.image, row.kind) not in stated]
    return AlbumFacts(keep_corrections([*merged, *named], known), len(photos), problems)


def _read_files(
    source: ImageSource, about: dict[str, list[str]], export: Sequence[Path], problems: list[str]
) -> list[FactRow]:
    located = dict(zip(about, source.locate_all(about), strict=True))
    problems += [f"{name}: {place.reason}" for name, place in located.items() if isinstance(place, RefusedItem)]
    files = {name: place for name, place in located.items() if isinstance(place, str)}
    files |= {str(path): str(path.absolute()) for path in export}
    by_name = defaultdict[str, set[str]](set)
    for photo in {photo for photos in about.values() for photo in photos}:
        by_name[Path(photo).name].add(photo)
    rows: list[FactRow] = []
    read = map_in_parallel(read_file, [*files.values()], current_run().workers)
    for name, found in zip(files, read, strict=True):
        facts, lines = ({}, [found.reason]) if isinstance(found, WorkerFailure) else found
        problems += [f"{name}: {line}" for line in lines]
        for image, of_image in facts.items():
            for photo in about.get(name, by_name[image]):
                rows += [FactRow(photo, one.kind, one.value, "", one.source, one.region) for one in of_image]
    return rows


def _read_photo_texts(
    source: ImageSource, photos: list[str], problems: list[str], journal: LineJournal
) -> list[FactRow]:
    """Return a row per text in the photos. A photo whose file is as the journal has it is not read again, so that a run
    that was stopped goes on. What cannot be located was already reported."""
    located = zip(photos, source.locate_all(photos), strict=True)
    files = {name: place for name, place in located if isinstance(place, str)}
    states = {name: state for name, place in files.items() if isinstance(state := read_file_state(place), FileState)}
    known = dict[str, list[TextLine]]()
    for line in journal.lines:
        with suppress(msgspec.DecodeError):  # a damaged one: its photo is read again
            name, state, lines = msgspec.json.decode(line, type=_ReadPhoto)
            if state is not None and state == states.get(name):
                known[name] = lines
    waiting, run = [name for name in files if name not in known], current_run()
    bar = run.reporter.bar("read texts", len(waiting), "images")
    read = read_texts([files[name] for name in waiting], run.workers, bar)
    for name, lines in zip(waiting, read, strict=True):
        if isinstance(lines, str):
            problems.append(f"{name}: texts: {lines}")
        else:
            known[name] = lines
            journal.append(msgspec.json.encode((name, states.get(name), lines)).decode())
    return [make_reading(name, *line) for name in photos for line in known.get(name, ())]


def _list_dated(rows: Iterable[FactRow]) -> list[DatedPhoto]:
    """Return the photos with a time, and what may name their event."""
    by_image = defaultdict[str, list[FactRow]](list)
    for row in rows:
        if row.used_value:
            by_image[row.image].append(row)
    photos = []
    for image, of_image in by_image.items():
        values = {row.kind: row.used_value for row in of_image}
        if (time := read_local_time(values.get("date", ""))) is not None:
            point = read_point(values["gps"]) if "gps" in values else None
            cities = [(row.used_value, row.zh or row.used_value) for row in of_image if row.kind == "city"]
            shared = [row.used_value for kind in ("album", "keyword") for row in of_image if row.kind == kind]
            photos.append(DatedPhoto(time, image, point, cities[0] if cities else ("", ""), tuple(shared)))
    return photos


def refresh_tables(folder: Path, facts: Path, *, texts: bool = False, **options: Any) -> tuple[AlbumFacts, Path]:
    """Read a folder into `facts` and, beside it, a table of events; return what was found and where the events are.
    What people corrected is kept: of facts the rows, of events the whole table. `options`: others of `read_album`.
    `texts`: read the texts in the photos, and keep a journal of them beside the table. Raises UserError."""
    former = read_fact_table(facts) if facts.is_file() else []
    journal = facts.with_name(f"{facts.stem}.texts.jsonl") if texts else None
    found = read_album(folder, former=former, texts=journal, **options)
    log, events = current_run().reporter.log, facts.with_name(f"{facts.stem}.events.csv")
    log(str(found))
    for line in found.problems[:_SHOWN_PROBLEMS]:
        log(line)
    if found.problems[_SHOWN_PROBLEMS:]:
        log(f"… {len(found.problems):,} problems in total; labels facts --json lists all of them")
    write_csv(facts, FACT_COLUMNS, found.rows)
    if not events.is_file():
        write_csv(events, EVENT_COLUMNS, find_events(_list_dated(found.rows)))
    return found, events


def add_pseudonyms(facts: Path) -> Path:
    """Add a pseudonym of each person of a table of facts who has none to the table of pseudonyms beside it, and
    return that. Raises UserError."""
    path = facts.with_name(f"{facts.stem}.pseudonyms.csv")
    known = read_pseudonyms(path) if path.is_file() else {}
    people = {row.used_value for row in read_fact_table(facts) if row.kind == "person"} - {*known, ""}
    known |= {name: f"Person {number}" for number, name in enumerate(sorted(people), len(known) + 1)}
    write_csv(path, ("name", "pseudonym"), known.items())
    return path


def read_fact_table(path: Path) -> list[FactRow]:
    """Return the rows of a table of facts; columns but image, kind and value may be missing. Raises UserError."""
    rows = []
    for where, cells in _read_cells(path, FACT_COLUMNS[:3], FACT_COLUMNS[3:]):
        written = {name: _read_value(cells["kind"], cells[name], where) for name in ("value", "corrected")}
        rows.append(FactRow(**cells | written | {"source": cells["source"] or "person"}))
    return rows


def _read_value(kind: str, text: str, where: str) -> str:
    """Return the text of a cell, a date in ISO 8601. Raises UserError for a date or a point that cannot be read."""
    if text in ("", REMOVED):
        return text
    if kind == "date":
        if day := normalise_date(text):
            return text if text[:19] == day[:19] else day  # with its fraction of a second, by which a row is known
        raise UserError(STAGE, where, f"{text[:40]!r} is not a date", "write it like 2019-05-03T10:00:00 or 2019-05")
    if kind == "gps":
        with suppress(ValueError):
            latitude, longitude = read_point(text)
            if abs(latitude) <= 90 and abs(longitude) <= 180:
                return text
        raise UserError(STAGE, where, f"{text[:40]!r} is not a point", "write degrees like 51.37,-2.36")
    return text


def read_events(path: Path) -> list[AlbumEvent]:
    """Return the rows of a table of events. Raises UserError with the row if its times are invalid, or end before they
    start."""
    events = []
    for where, cells in _read_cells(path, ("event", "start", "end"), ("zh", "trip", "trip_zh", "photos")):
        try:
            is_ordered = datetime.fromisoformat(cells["start"]) <= datetime.fromisoformat(cells["end"])
        except ValueError:
            is_ordered = False
        if not is_ordered or not cells["event"]:
            reason = "needs an event name and a start time before its end time"
            raise UserError(STAGE, where, reason, "write times like 2019-05-03T10:00:00")
        events.append(AlbumEvent(**cells))
    return events


def read_pseudonyms(path: Path) -> dict[str, str]:
    """Return the pseudonym of each name of a person. Raises UserError."""
    rows = [cells for _, cells in _read_cells(path, ("name", "pseudonym"))]
    return {cells["name"]: cells["pseudonym"] for cells in rows if all(cells.values())}


def _read_cells(
    path: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield place and cells of each row, "" where a column is missing."""
    for where, row in iterate_rows(path, columns, optional, STAGE):
        yield where, {name: unescape_formula(str(row.get(name) or "")).strip() for name in (*columns, *optional)}
