"""The table of facts: one row per image, kind and value, with its source, as people open and correct it.

Columns: `image` (as the folder lists it), `kind`, `value`, `zh` (the value in Chinese, if known), `source`, `region`
(left top width height as shares of the image), `confidence` (0 to 1, if a program guessed it), `detail` (why a row does
not count, or how far away a place is) and `corrected`: what a person wrote instead, `-` for "not so". Rows that people
add have the source `person`.

A text that a program read in the image (source `ocr`) below CONFIDENT does not count until a person writes the text
into `corrected`; nor is the image a wrong answer.

If a sidecar states people, keywords or albums, those inside the file do not count; of one date, city, state, country or
rating the first source of SOURCES counts. An overruled row stays in the table with the reason: it is a contradiction,
and is used neither as a right nor as a wrong answer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

FACT_COLUMNS = ("image", "kind", "value", "zh", "source", "region", "confidence", "detail", "corrected")
SOURCES = ("person", "sidecar", "exif", "xmp", "iptc", "immich", "osxphotos", "exiftool", "photoprism", "takeout")
_SINGLE_KINDS = ("date", "gps", "city", "state", "country", "rating")
_MANY_KINDS = ("person", "keyword", "album")
_INSIDE = ("xmp", "iptc", "exif")
OCR = "ocr"
REMOVED, OVERRULED, UNCONFIRMED = "-", "overruled by ", "to confirm: "
CONFIDENT = 0.9  # confidence of a reading that counts: benchmarks/text_in_images.py


class FactRow(NamedTuple):
    """A row of the table; the names of its fields are FACT_COLUMNS."""

    image: str
    kind: str
    value: str
    zh: str = ""
    source: str = "person"
    region: str = ""
    confidence: str = ""
    detail: str = ""
    corrected: str = ""

    @property
    def is_overruled(self) -> bool:
        """Return whether another source contradicts it and no person decided."""
        return self.detail.startswith(OVERRULED) and not self.corrected

    @property
    def is_unconfirmed(self) -> bool:
        """Return whether a program read it without being certain, and no person decided."""
        return self.detail.startswith(UNCONFIRMED) and not self.corrected

    @property
    def used_value(self) -> str:
        """Return the value that counts: "" where a person removed it, where another source overrules it, or where a
        person has to confirm it first."""
        if self.corrected:
            return "" if self.corrected == REMOVED else self.corrected
        return "" if self.is_overruled or self.is_unconfirmed else self.value

    @property
    def is_used(self) -> bool:
        """Return whether the row counts; a face without a name also counts."""
        return bool(self.used_value) or (self.kind == "person" and not self.value and not self.corrected)


def make_reading(image: str, text: str, region: str, confidence: float) -> FactRow:
    """Return the row of a text that a program read in an image; one that is not certain waits for a person."""
    detail = "" if confidence >= CONFIDENT else f"{UNCONFIRMED}confidence below {CONFIDENT}"
    return FactRow(image, "text", text, "", OCR, region, f"{confidence:g}", detail)


def merge_facts(rows: Iterable[FactRow]) -> list[FactRow]:
    """Return the rows of all sources, sorted by image, kind and source: each value once, with the region of whichever
    has one, and marked where it is overruled."""
    by_kind: dict[tuple[str, str], dict[str, FactRow]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: SOURCES.index(row.source) if row.source in SOURCES else len(SOURCES)):
        values, key = by_kind[row.image, row.kind], row.value.casefold() or row.region
        first = values.setdefault(key, row)
        if row.region and not first.region:
            values[key] = first._replace(region=row.region)
    return [row for _, values in sorted(by_kind.items()) for row in _mark_overruled(list(values.values()))]


def _mark_overruled(rows: list[FactRow]) -> list[FactRow]:
    first, reason = rows[0], f"{OVERRULED}{rows[0].source}"
    if first.kind in _SINGLE_KINDS:
        is_doubtful = first.kind not in ("date", "gps") and any(row.source == first.source for row in rows[1:])
        if is_doubtful:  # two countries in one file: nobody knows which
            return [row._replace(detail=f"{reason}, which states several values") for row in rows]
        return [first, *(row._replace(detail=reason) for row in rows[1:] if not _agree(first, row))]
    has_sidecar = first.kind in _MANY_KINDS and any(row.source == "sidecar" for row in rows)
    return [
        row._replace(detail=f"{OVERRULED}sidecar") if has_sidecar and row.source in _INSIDE else row for row in rows
    ]


def _agree(one: FactRow, other: FactRow) -> bool:
    """Return whether two values agree: dates on the same day (one may be less exact, or in UTC and a day apart), or
    points whose coordinates each differ by less than a hundredth of a degree (about a kilometre)."""
    if one.kind != "date":
        sides = zip(one.value.split(","), other.value.split(","), strict=True) if one.kind == "gps" else ()
        return bool(sides) and all(abs(float(a) - float(b)) < 0.01 for a, b in sides)
    length = min(len(one.value), len(other.value), 10)
    days = one.value[:length], other.value[:length]
    if length == 10 and "Z" in (one.value[-1], other.value[-1]):  # the local day is that of UTC, or the next to it
        return abs(date.fromisoformat(days[0]) - date.fromisoformat(days[1])) <= timedelta(days=1)
    return days[0] == days[1]


def keep_corrections(rows: Iterable[FactRow], former: Iterable[FactRow]) -> list[FactRow]:
    """Return the rows of a new reading with what people corrected, translated or added in a former table."""
    known = {(row.image, row.kind, row.value, row.region): row for row in former}
    kept = [
        row._replace(corrected=one.corrected, zh=one.zh or row.zh)
        if (one := known.pop((row.image, row.kind, row.value, row.region), None))
        else row
        for row in rows
    ]
    return sorted([*kept, *(row for row in known.values() if row.source == "person" or row.corrected)])


@dataclass(frozen=True, slots=True)
class AlbumFacts:
    """The facts of a folder: rows of the table, how many photos there are, and a line for each thing that cannot be
    read."""

    rows: list[FactRow]
    photos: int
    problems: list[str]

    def counts(self) -> dict[str, int]:
        """Return how many photos there are, of how many of them each kind is known, and how many contradictions."""
        known = {(row.kind, row.image) for row in self.rows if row.used_value}
        overruled = sum(row.is_overruled for row in self.rows)
        return {"photos": self.photos, **Counter(kind for kind, _ in sorted(known)), "contradictions": overruled}

    def __str__(self) -> str:
        """Return a summary of the facts in one sentence: "of 6,310 photos 1,204 name people (14); …"."""
        values = Counter(kind for kind, value in {(row.kind, row.used_value.casefold()) for row in self.rows} if value)
        counts = self.counts()
        parts = [f"{counts[kind]:,} {text} ({values[kind]:,})" for kind, text in _SENTENCES.items() if kind in counts]
        found = "; ".join(parts) or "none have facts"
        waiting = sum(row.is_unconfirmed for row in self.rows)
        more = f"; {waiting:,} readings to confirm" if waiting else ""
        return f"of {self.photos:,} photos {found}; {counts['contradictions']:,} contradictions{more}"


_SENTENCES = {
    "person": "name people",
    "keyword": "have keywords",
    "date": "have a date",
    "gps": "have coordinates",
    "country": "name a country",
    "city": "name a city",
    "album": "are in albums",
    "text": "have a text",
    "rating": "are rated",
    "description": "are described",
}
