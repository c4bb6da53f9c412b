"""What the album hands out: pictures with their bytes, and everything that is true about them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectBox:
    """The exact extent, in pixels, of what is to be seen of one object; `label` as Objects365 writes it; `colour`: that
    it was drawn in, None for a faulty file."""

    label: str
    x: float
    y: float
    width: float
    height: float
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class CaptionRequirement:
    """What a caption says of one label: None for the count means at least one, a number means exactly that
    many (of the colour, where one is said)."""

    label: str
    colour: str | None
    count: int | None


@dataclass(frozen=True, slots=True)
class CaptionClaims:
    """All that a caption says; None where it is silent about the place or the light."""

    place: str | None
    light: str | None
    required: tuple[CaptionRequirement, ...]


@dataclass(frozen=True, slots=True)
class AlbumImage:
    """One file of the album. Boxes, width and height hold after the EXIF orientation; a faulty file (`defect`)
    has neither captions nor facts, and boxes that are only claimed."""

    file_name: str
    data: bytes
    width: int
    height: int
    boxes: tuple[ObjectBox, ...]
    caption_zh: str
    caption_en: str
    place: str
    light: str  # day, evening, night or snow
    facts: tuple[tuple[str, str, int], ...]  # label, colour, count
    claims: CaptionClaims | None  # what both captions say
    taken_at: str | None  # ISO 8601, local time, only where the file's EXIF says so
    latitude: float | None
    longitude: float | None
    duplicate_of: str | None
    defect: str | None
