"""Judging the texts that were read in photos without certainty: each beside its place in the photo."""

import io
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.album.fact_table import FACT_COLUMNS, REMOVED, UNCONFIRMED, FactRow
from builders.album.steps import read_fact_table
from querytruth.backends.files.text_formats import write_csv
from querytruth.backends.images.image_sources import open_source
from querytruth.backends.images.rendering import PixelsJob, run_pixels_job
from querytruth.backends.images.text_reading import READING_SIDE
from querytruth.backends.images.worker_processes import map_in_workers
from querytruth.backends.images.written_facts import to_number
from querytruth.records import stable_hash
from querytruth.review import deck
from querytruth.review.pool_views import CONFLICT_MESSAGE, lock_folder
from querytruth.sets.review_tables import compute_table_digest

if TYPE_CHECKING:
    from fastapi import APIRouter

_CROP_SIDE = 320  # pixels: the side at which the page asks for the part of a photo that has the text


class ReadingVerdict(deck.Verdict):
    """A person's answer to a reading: the text that the photo shows, or "" if it shows none."""

    key: deck.ShortText
    text: deck.LongText


class ReadingCards(deck.DeckView):
    """The readings of a table of facts that a person has to confirm. The table is the truth: it is read again where
    another program changed it, and each answer is in its column `corrected` before the response."""

    name, verdict_model = "readings", ReadingVerdict
    promise = "A text without a decision is neither a right answer nor a wrong one."

    def __init__(self, table: Path, folder: Path) -> None:
        self._table, self._source = table, open_source(str(folder))
        self._lock, self._before = Lock(), list[tuple[str, str]]()
        self._digest, self._rows, self._places = "", list[FactRow](), dict[str, int]()
        self._read()

    def _read(self) -> None:
        if (digest := compute_table_digest(self._table)) == self._digest:
            return
        rows = read_fact_table(self._table)
        waiting = {
            f"{stable_hash('reading', *row[:3], row.region):x}": number
            for number, row in enumerate(rows)
            if row.detail.startswith(UNCONFIRMED)
        }
        self._digest, self._rows, self._places = digest, rows, waiting

    def refresh(self) -> None:
        """Read the table again if another program changed it."""
        with self._lock:
            self._read()

    def list_fields(self) -> list[deck.CardData]:
        """Return the search, and what is decided."""
        return [deck.search_field("text or name ( / )"), deck.state_field(decided="yes")]

    def build_queue(self, card_filter: deck.CardFilter) -> deck.CardData:
        """Return the readings that pass the filter, in the table's order."""
        search, state = card_filter.search.strip().casefold(), card_filter.state
        keys = [
            key
            for key, number in self._places.items()
            if (state == "all" or (state == "decided") == self.is_decided(key))
            and any(search in text.casefold() for text in self._rows[number])
        ]
        return deck.queue_of(keys, self.is_decided)

    def is_decided(self, key: str) -> bool:
        """Return whether a person decided on a reading."""
        return bool(self._rows[self._places[key]].corrected)

    def build_cards(self, keys: Iterable[str]) -> list[deck.CardData]:
        """Return these readings with their places in the photos, as shares of them."""
        return [self._build_card(key) for key in keys if key in self._places]

    def _build_card(self, key: str) -> deck.CardData:
        row = self._rows[self._places[key]]
        left, top, width, height = _read_region(row.region)
        box = {"label": row.value, "place": 0, "sides": [left, top, left + width, top + height], "score": None}
        own = {"text": row.corrected.removeprefix(REMOVED)} if row.corrected else None
        shown = {"name": row.image, "text": row.value, "confidence": row.confidence, "boxes": [box], "own": own}
        return {"key": key, "query_id": key, "image_id": key, **shown}

    def decide(self, verdict: ReadingVerdict) -> deck.CardData:
        """Write the text, or that there is none, into the table."""
        text = deck.clean_text(verdict.text, "the text", "") or REMOVED
        with self._lock:
            self._before.append((verdict.key, self._write(verdict.key, text)))
            return self._build_card(verdict.key)

    def undo(self) -> deck.CardData:
        """Undo the last answer of this page."""
        with self._lock:
            if not self._before:
                raise deck.ActionError("there is nothing to undo")
            self._write(*self._before[-1])
            key, _ = self._before.pop()
            return self._build_card(key) | {"undone": 1}

    def _write(self, key: str, corrected: str) -> str:
        """Write a cell of `corrected` and return what was there. Raises ActionError where the table lacks the row, or
        another program changed it meanwhile."""
        with lock_folder(self._table.absolute().parent):
            self._read()
            if key not in self._places:
                raise deck.ActionError("this row is not in the table")
            number = self._places[key]
            before, rows = self._rows[number].corrected, [*self._rows]
            rows[number] = rows[number]._replace(corrected=corrected)
            if compute_table_digest(self._table) != self._digest:
                raise deck.ActionError(CONFLICT_MESSAGE)
            write_csv(self._table, FACT_COLUMNS, rows)
            self._digest, self._rows = compute_table_digest(self._table), rows
            return before

    def has_image(self, key: str) -> bool:
        """Return whether the table has the reading."""
        return key in self._places

    def load_image(self, key: str, side: int) -> bytes | None:
        """Return the photo of a reading as a JPEG; at the side of a thumbnail the part around the text. None if it
        cannot be read."""
        row = self._rows[self._places[key]]
        (place,) = self._source.locate_all([row.image])
        pixels = _read_pixels(place) if isinstance(place, str) else None
        if pixels is None:
            return None
        return encode_region(pixels, row.region) if side == _CROP_SIDE else encode_region(pixels, "0 0 1 1", side)


def build_reading_routes(table: Path, folder: Path) -> "tuple[list[APIRouter], dict[str, Any]]":
    """Return the routes of the readings of a table of facts, and what their page shows of it. Raises UserError where
    the table or the folder of the photos cannot be read."""
    from querytruth.review.server import image_routes

    cards = ReadingCards(table, folder)
    about = {"name": table.stem, "version": 0, "title": table.stem, "grades": {}, "kept_in": table.name}
    about |= {"views": ["Readings"]}
    return [deck.deck_routes(cards, about), image_routes("/image", cards.has_image, cards.load_image)], about


def _read_region(region: str) -> list[float]:
    """Return left, top, width and height as shares; those of the whole image where a spreadsheet changed the cell."""
    shares = [to_number(part) for part in region.split()]
    inside = len(shares) == 4 and all(0 <= one <= 1 for one in shares) and min(shares[2:]) > 0
    return shares if inside else [0.0, 0.0, 1.0, 1.0]


@lru_cache(maxsize=8)
def _read_pixels(location: str) -> NDArray[np.uint8] | None:
    (pixels,) = map_in_workers(run_pixels_job, [PixelsJob(location, READING_SIDE, None)])
    return pixels if isinstance(pixels, np.ndarray) else None


def encode_region(pixels: NDArray[np.uint8], region: str, side: int = 960) -> bytes:
    """Return the part of an image (height, width, 3) around a region, with half of the region's height on each side, as
    a JPEG of at most `side` pixels."""
    height, width = pixels.shape[:2]
    left, top, across, down = np.multiply(_read_region(region), (width, height, width, height))
    edge = down / 2 + 2
    box = max(left - edge, 0), max(top - edge, 0), min(left + across + edge, width), min(top + down + edge, height)
    part, out = Image.fromarray(pixels).crop(box), io.BytesIO()  # Pillow rounds
    part.thumbnail((side, side))
    part.save(out, "JPEG")
    return out.getvalue()
