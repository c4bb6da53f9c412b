"""An album that is drawn by chance, whose facts are plain dictionaries: written into the photos and beside them by text
templates alone, so that nothing of the readers takes part."""

import random
import struct
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from tests.images import draw_scene, encode_image

PEOPLE = ["Gracie", "Tom", "王芳", "O'Brien, Pat", "Jürgen"]
PLACES = {
    "Bath": ("Somerset", "United Kingdom", 51.38, -2.36),
    "杭州": ("浙江", "中国", 30.25, 120.16),
    "Sydney": ("New South Wales", "Australia", -33.87, 151.2),
}
KEYWORDS = ["beach", "Christmas", "dog", "birthday", "screenshot"]


@dataclass
class DrawnPhoto:
    """What is true of a photo, and what its files state."""

    name: str
    taken_at: datetime | None = None
    people: set[str] = field(default_factory=set)  # with a face each
    listed: set[str] = field(default_factory=set)  # named without a face
    unnamed: int = 0
    city: str = ""
    keywords: set[str] = field(default_factory=set)
    rating: int = 0
    album: str = ""
    in_sidecar: bool = False

    @property
    def has_faces(self) -> bool:
        return bool(self.people) or self.unnamed > 0


def draw_album(count: int, seed: int = 1) -> list[DrawnPhoto]:
    draw, photos = random.Random(seed), []
    moment = datetime.fromisoformat("2018-01-05T10:00")
    for number in range(count):
        moment += timedelta(minutes=7) if draw.random() < 0.95 else timedelta(days=draw.randint(2, 60))
        photo = DrawnPhoto(f"{number:04}.jpg")
        photo.taken_at = moment if draw.random() < 0.9 else None
        if draw.random() < 0.6:
            photo.people = set(draw.sample(PEOPLE, draw.choice([1, 1, 1, 2, 2, 3, 4])))
            photo.unnamed = draw.random() < 0.15
        elif draw.random() < 0.3:
            photo.listed = set(draw.sample(PEOPLE, 1))
        photo.city = draw.choice(list(PLACES)) if draw.random() < 0.7 else ""
        photo.keywords = set(draw.sample(KEYWORDS, draw.choice([0, 0, 1, 2])))
        photo.rating = draw.choice([0, 0, 0, 3, 5])
        photo.in_sidecar = draw.random() < 0.3
        photos.append(photo)
    return photos


def write_album(photos: list[DrawnPhoto], folder: Path, size: tuple[int, int] = (64, 48)) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, photo in enumerate(photos):
        jpeg, packet = encode_image(draw_scene(number, size), "JPEG"), make_packet(photo).encode()
        if photo.in_sidecar:
            (folder / f"{photo.name}.xmp").write_bytes(packet)
        else:
            body = b"http://ns.adobe.com/xap/1.0/\0" + packet
            jpeg = jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]
        (folder / photo.name).write_bytes(jpeg)


def make_packet(photo: DrawnPhoto) -> str:
    attributes = ""
    if photo.taken_at:
        attributes += f' exif:DateTimeOriginal="{photo.taken_at.isoformat()}"'
    if photo.city:
        state, country, north, east = PLACES[photo.city]
        attributes += f" photoshop:City={quoteattr(photo.city)} photoshop:State={quoteattr(state)}"
        attributes += f" photoshop:Country={quoteattr(country)}"
        sides = ((north, "NS", "Latitude"), (east, "EW", "Longitude"))
        for degrees, signs, name in sides:
            whole, minutes = divmod(abs(degrees), 1)
            attributes += f' exif:GPS{name}="{int(whole)},{60 * minutes:.4f}{signs[degrees < 0]}"'
    if photo.rating:
        attributes += f' xmp:Rating="{photo.rating}"'

    def bag(name: str, values: list[str]) -> str:
        items = "".join(f"<rdf:li>{escape(one)}</rdf:li>" for one in values)
        return f"<{name}><rdf:Bag>{items}</rdf:Bag></{name}>" if values else ""

    faces = [*sorted(photo.people), *[""] * photo.unnamed]
    regions = "".join(
        f'<rdf:li><rdf:Description mwg-rs:Type="Face" mwg-rs:Name={quoteattr(one)}>'
        f'<mwg-rs:Area stArea:x="{0.1 + 0.15 * place}" '
        f'stArea:y="0.5" stArea:w="0.1" stArea:h="0.2" stArea:unit="normalized"/></rdf:Description></rdf:li>'
        for place, one in enumerate(faces)
    )
    if regions:
        regions = (
            f'<mwg-rs:Regions rdf:parseType="Resource"><mwg-rs:RegionList><rdf:Bag>{regions}</rdf:Bag>'
            f"</mwg-rs:RegionList></mwg-rs:Regions>"
        )
    body = bag("dc:subject", sorted(photo.keywords)) + bag("Iptc4xmpExt:PersonInImage", sorted(photo.listed)) + regions
    spaces = {
        "dc": "http://purl.org/dc/elements/1.1/",
        "photoshop": "http://ns.adobe.com/photoshop/1.0/",
        "exif": "http://ns.adobe.com/exif/1.0/",
        "xmp": "http://ns.adobe.com/xap/1.0/",
        "mwg-rs": "http://www.metadataworkinggroup.com/schemas/regions/",
        "stArea": "http://ns.adobe.com/xmp/sType/Area#",
        "Iptc4xmpExt": "http://iptc.org/std/Iptc4xmpExt/2008-02-29/",
    }
    names = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in spaces.items())
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        f'<rdf:Description rdf:about="" {names}{attributes}>{body}</rdf:Description></rdf:RDF></x:xmpmeta>'
    )
