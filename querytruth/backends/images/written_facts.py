"""Facts that people and programs wrote into an image file or beside it: who, where, when and what.

One reader for all forms: `read_facts` takes the bytes of an image, of an XMP sidecar, or of a JSON or YAML document.
`written_facts.yaml` maps fields to kinds of facts. A file cannot choose a path, an entity or an address: documents with
a DTD are refused, texts are decoded here, and every file has a limit. Each unreadable part becomes a line of
`problems`; the rest is used.

Sources: XMP Specification Part 1 and 3 (2012), MWG Guidelines 2.0 (2010), IPTC-IIM 4.2, Exif 2.32, Microsoft's People
Tags schema.
"""

import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import yaml
from PIL import Image

from querytruth.backends.files.safe_paths import require_regular
from querytruth.backends.files.text_formats import load_yaml, parse_bounded_json, read_package_yaml
from querytruth.backends.images.exif import find_camera, read_exif
from querytruth.backends.images.metadata_blocks import MAX_BLOCK_BYTES, find_blocks
from querytruth.backends.images.worker_messages import open_file

FIELDS: dict[str, Any] = read_package_yaml(Path(__file__).with_suffix(".yaml"))
_DOCUMENTS = (".xmp", ".json", ".yml", ".yaml")
MAX_VALUE_CHARS = 10_000
MAX_DOCUMENT_BYTES, MAX_FILE_BYTES = 256 << 20, 200 << 20  # an export of a whole library; an image, as it is scanned
_RDF, _XML = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}", "{http://www.w3.org/XML/1998/namespace}"
_LISTS = (f"{_RDF}Bag", f"{_RDF}Seq", f"{_RDF}Alt")
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
_DATE = re.compile(
    r"(\d{4})(?!\d)(?:[:-](\d\d)(?:[:-](\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s*(Z|[+-]\d\d:?\d\d)?)?)?)?"
)
_REGION_KINDS = {"Face": "person", "Pet": "keyword"}
_IMMICH_FACE = ("boundingBoxX1", "boundingBoxY1", "boundingBoxX2", "boundingBoxY2", "imageWidth", "imageHeight")
_YES = {"true": "yes", "1": "yes", "yes": "yes"}

Properties = dict[str, object]  # of a document or a structure, by name


class Fact(NamedTuple):
    """A fact about an image. `region`: left, top, width, height as shares of the image as stored, "" without one;
    `source`: the form that states it."""

    kind: str
    value: str
    source: str
    region: str = ""


# The facts of a file by the name of the image that they are about ("": the image of the file itself), and a line for
# each thing that cannot be read.
WrittenFacts = tuple[dict[str, list[Fact]], list[str]]


def read_facts(data: bytes | mmap, suffix: str) -> WrittenFacts:
    """Return the facts of a file of this suffix: .xmp, .json, .yml and .yaml are documents, all else is an image."""
    problems = list[str]()
    try:
        if suffix in (".json", ".yml", ".yaml"):
            return _read_document(bytes(data), suffix), problems
        if suffix == ".xmp":
            return {"": list(read_xmp(bytes(data), "sidecar", problems))}, problems
        blocks = find_blocks(data, problems)
    except (ValueError, OSError, yaml.YAMLError, SyntaxError, EOFError, struct.error) as error:
        return {}, [f"{suffix[1:] or 'file'}: {' '.join(str(error).split())[:200]}"]
    packets = [blocks[name] for name in ("xmp", "extended_xmp") if name in blocks]
    facts = [fact for packet in packets for fact in read_xmp(packet, "xmp", problems)]
    facts += read_iptc(blocks.get("iptc", b""))
    return {"": [*facts, *read_exif_facts(blocks.get("exif", b""))]}, problems


def read_xmp(data: bytes, source: str, problems: list[str]) -> Iterator[Fact]:
    """Yield the facts of an XMP packet; a damaged one gives a line and what is before the damage is lost with it."""
    properties: Properties = {}
    try:
        nodes = [node for rdf in _parse_xml(data, problems).iter(f"{_RDF}RDF") for node in rdf]
        # F-Spot writes a list beside the description, which refers to it: <dc:subject rdf:nodeID="anon2"/>
        lists = {node.get(f"{_RDF}nodeID"): [*map(_to_plain, node)] for node in nodes if node.tag in _LISTS}
        for node in nodes:
            for name, value in _to_plain_structure(node).items():
                properties.setdefault(name, value)
            properties |= {_name(one.tag): lists[named] for one in node if (named := one.get(f"{_RDF}nodeID")) in lists}
    except (ElementTree.ParseError, ValueError) as error:
        problems.append(f"XMP: {error}")
        return
    except RecursionError:
        problems.append("XMP: nested too deeply")
        return
    yield from _find_fields(properties, FIELDS["xmp"], source)
    degrees = [_read_coordinate(properties.get(f"exif:GPS{axis}")) for axis in ("Latitude", "Longitude")]
    yield from _make_point(degrees, source)
    yield from _find_regions(properties, source, problems)


def _parse_xml(data: bytes, problems: list[str]) -> ElementTree.Element:
    """Return the root of a packet. It is parsed as text, so that no declaration in it chooses an encoding; a DTD is
    refused, so that there are no entities."""
    if len(data) > MAX_BLOCK_BYTES:
        raise ValueError(f"{len(data) >> 20} MB, more than {MAX_BLOCK_BYTES >> 20} MB")
    encoding = _MARKS.get(data[:2], "utf-8")
    text = data.decode(encoding, "replace")
    if "\ufffd" in text:
        problems.append(f"XMP: not valid {encoding.upper()} throughout; invalid bytes are shown as \ufffd")
    text = text[text.find("<") : text.rfind(">") + 1]  # without a mark before it, padding and zeros after it
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("has a DTD, which XMP never needs")
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", text)
    return ElementTree.fromstring(text)


def _to_plain_structure(node: ElementTree.Element) -> Properties:
    """Return the properties of an rdf:Description, or of a structure, by prefixed name."""
    found: Properties = {_name(key): value for key, value in node.attrib.items() if not key.startswith((_RDF, _XML))}
    for child in node:
        if child.tag not in (*_LISTS, f"{_RDF}Description"):
            found[_name(child.tag)] = _to_plain(child)
    return found


def _to_plain(node: ElementTree.Element) -> object:
    """Return the value of a property: a text, a list, or a structure. Of alternatives, the default one."""
    inside = list(node)
    if inside and inside[0].tag in _LISTS:
        items = list(inside[0])
        if inside[0].tag == _LISTS[2]:
            default = [one for one in items if one.get(f"{_XML}lang") == "x-default"]
            items = (default or items)[:1]
        return [_to_plain(item) for item in items]
    if inside and inside[0].tag == f"{_RDF}Description":
        return _to_plain_structure(inside[0])
    return _to_plain_structure(node) or node.text or ""


def _name(tag: str) -> str:
    uri, _, name = tag[1:].rpartition("}")
    return f"{FIELDS['namespaces'].get(uri, uri)}:{name}"


def _walk(value: object, path: list[str]) -> Iterator[Any]:
    """Yield what is at a path of keys; every item of a list on the way counts."""
    if isinstance(value, list):
        for one in value:
            yield from _walk(one, path)
    elif not path:
        yield value
    elif isinstance(value, dict) and path[0] in value:
        yield from _walk(value[path[0]], path[1:])


def _find_fields(document: object, fields: dict[str, str], source: str) -> Iterator[Fact]:
    for path, kind in fields.items():
        for value in _walk(document, path.split(".")):
            if isinstance(value, datetime):  # of YAML: PhotoPrism's local time, which it writes as if it were UTC
                value = value.isoformat()[:19]
            if isinstance(value, str | int | float):
                yield from make_facts(kind, value, source)


def make_facts(kind: str, value: object, source: str) -> Iterator[Fact]:
    """Yield the facts that a value of a field states, none where it is empty: dates in ISO 8601, each level of a path
    of keywords, favourites that are."""
    text = str(value).replace("\x00", "").strip()[:MAX_VALUE_CHARS]
    if kind == "favourite":
        text = _YES.get(text.lower(), "")
    elif kind == "date":
        text = normalise_date(text)
    elif kind == "rating":
        text = str(round(float(text))) if re.fullmatch(r"[1-5](\.0+)?", text) else ""
    if kind == "person" and text.casefold() in FIELDS["unnamed"]:
        yield Fact(kind, "", source)
    elif not kind.startswith("keyword") or kind == "keyword":
        if text:
            yield Fact(kind, text, source)
    else:
        yield from (Fact("keyword", part.strip(), source) for part in text.split(kind[-1]) if part.strip())


def normalise_date(text: str) -> str:
    """Return a date of EXIF, of XMP or in seconds since 1970 in ISO 8601 as far as it is known, with its offset; ""
    for one that cannot be."""
    if re.fullmatch(r"-?\d{5,11}", text):  # until the year 5138
        return datetime.fromtimestamp(int(text), UTC).isoformat()[:19] + "Z" if int(text) > 0 else ""
    match = _DATE.match(text)
    if match is None or match[1] == "0000":
        return ""
    year, month, day, clock, zone = (part or "" for part in match.groups())
    found = "-".join(part for part in (year, month, day) if part)
    if clock:
        found += f"T{clock}" + (":00" if len(clock) == 5 else "")
    try:
        datetime.fromisoformat(found + "-01" * (3 - len(found.split("-"))) if len(found) < 10 else found)
    except ValueError:
        return ""
    return found + (zone if not zone or zone == "Z" or ":" in zone else f"{zone[:3]}:{zone[3:]}")


def _read_coordinate(text: object) -> float:
    """Return degrees of XMP's "51,22.5N" or "51,22,30N"; NaN for another value."""
    match = re.fullmatch(r"\s*(\d{1,3}),(\d+(?:\.\d+)?)(?:,(\d+(?:\.\d+)?))?([NSEW])\s*", str(text))
    if match is None:
        return math.nan
    degrees = int(match[1]) + float(match[2]) / 60 + float(match[3] or 0) / 3600
    return degrees * (-1 if match[4] in "SW" else 1)


def _find_regions(properties: Properties, source: str, problems: list[str]) -> Iterator[Fact]:
    """Yield people with their faces, and faces without a name ("")."""
    for region in _walk(properties.get("mwg-rs:Regions"), ["mwg-rs:RegionList"]):
        kind = _REGION_KINDS.get(region.get("mwg-rs:Type", "Face")) if isinstance(region, dict) else None
        if kind is not None:
            x, y, w, h = (to_number(*_walk(region, ["mwg-rs:Area", f"stArea:{one}"])) for one in "xywh")
            box, fact = [x - w / 2, y - h / 2, w, h], Fact(kind, "", source)
            yield from _make_region(region.get("mwg-rs:Name"), box, fact, problems)
    for region in _walk(properties.get("MP:RegionInfo"), ["MPRI:Regions"]):
        if isinstance(region, dict):
            box = [*map(to_number, f"{region.get('MPReg:Rectangle')},,,".split(",")[:4])]
            yield from _make_region(region.get("MPReg:PersonDisplayName"), box, Fact("person", "", source), problems)


def to_number(text: object = None, *_: object) -> float:
    """Return a number, or nan if it is not a number."""
    try:
        return float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def _make_region(name: object, box: Sequence[float], fact: Fact, problems: list[str]) -> Iterator[Fact]:
    """Yield `fact` of a face with its name and region; without the region where that is outside the image."""
    text = str(name or "").strip()[:MAX_VALUE_CHARS]
    fact = fact._replace(value="" if text.casefold() in FIELDS["unnamed"] else text)
    left, top, width, height = box
    shown = " ".join(f"{round(side, 6):g}" for side in box)
    if width > 0 and height > 0 and min(left, top) >= -0.01 and max(left + width, top + height) <= 1.01:
        yield fact._replace(region=shown)
        return
    problems.append(f"region of {fact.value or 'a face'!r}: {shown} is outside the image")
    if fact.value:
        yield fact


def read_iptc(data: bytes) -> Iterator[Fact]:
    """Yield the facts of an IPTC-IIM block: UTF-8 if the character set record declares it, else Windows Latin-1
    (cp1252)."""
    records = list(_list_datasets(data))
    is_utf8 = any(number == (1, 90) and value == b"\x1b%G" for number, value in records)
    for (record, number), value in records:
        if record == 2 and number in FIELDS["iptc"]:
            text = value.decode("utf-8" if is_utf8 else "cp1252", "replace")
            yield from make_facts(FIELDS["iptc"][number], text, "iptc")


def _list_datasets(data: bytes) -> Iterator[tuple[tuple[int, int], bytes]]:
    at = 0
    while data[at : at + 1] == b"\x1c" and at + 5 <= len(data):
        end = at + 5 + int.from_bytes(data[at + 3 : at + 5], "big")
        yield (data[at + 1], data[at + 2]), data[at + 5 : end]
        at = end


def _make_point(degrees: Sequence[float], source: str) -> Iterator[Fact]:
    """Yield the point, none where it is not on the Earth."""
    if abs(degrees[0]) <= 90 and abs(degrees[1]) <= 180:
        yield Fact("gps", f"{degrees[0]:.6f},{degrees[1]:.6f}", source)


def read_exif_facts(block: bytes) -> Iterator[Fact]:
    """Yield date, place, camera and Microsoft's keywords of an EXIF block."""
    known = read_exif(block)
    if known.taken_at:
        yield Fact("date", known.taken_at, "exif")
    if known.latitude is not None:
        yield Fact("gps", f"{known.latitude:.6f},{known.longitude:.6f}", "exif")
    if camera := find_camera(b"Exif\0\0" + block):
        yield Fact("camera", camera, "exif")
    tags = Image.Exif()
    try:
        tags.load(b"Exif\0\0" + block)
        values = {tag: tags[tag] for tag in (*FIELDS["exif"], *FIELDS["exif_utf16"]) if tag in tags}
    except Exception:  # Pillow raises anything on a damaged directory
        return
    for tag, value in values.items():
        if isinstance(value, bytes | tuple):
            value = bytes(value).decode("utf-16-le", "replace")
        elif isinstance(value, str):  # Pillow reads ASCII as Latin-1; most programs write UTF-8
            value = value.encode("latin-1", "replace").decode("utf-8", "replace")
        yield from make_facts((FIELDS["exif"] | FIELDS["exif_utf16"])[tag], value, "exif")


def _read_document(data: bytes, suffix: str) -> dict[str, list[Fact]]:
    """Return the facts of a JSON or YAML document by the name of the image, none of one of an unknown form. Raises
    ValueError for one that is too large or damaged."""
    text = data.decode("utf-8-sig")
    document = parse_bounded_json(text) if suffix == ".json" else load_yaml(text)
    if isinstance(document, dict) and isinstance(document.get("assets"), dict | list):  # Immich's search
        document = document["assets"]["items"] if isinstance(document["assets"], dict) else document["assets"]
    entries = document if isinstance(document, list) else [document]
    found: dict[str, list[Fact]] = {}
    for entry in entries:
        if isinstance(entry, dict):
            entry = {str(key).rpartition(":")[2]: value for key, value in entry.items()}
            form = next((one for one, form in FIELDS["documents"].items() if entry.keys() & {*form["has"]}), None)
            if form is not None:
                name = Path(str(entry.get(FIELDS["documents"][form].get("name"), ""))).name
                found.setdefault(name, []).extend(_read_entry(entry, form))
    return found


def _read_entry(entry: Properties, form: str) -> Iterator[Fact]:
    known = FIELDS["documents"][form]
    if form == "exiftool":
        entry = entry | {
            "DateTimeOriginal": f"{entry.get('DateTimeOriginal', '')}{entry.get('OffsetTimeOriginal', '')}"
        }
    yield from _find_fields(entry, known["fields"], form)
    degrees = [to_number(*_walk(entry, path.split("."))) for path in known.get("gps", ())]
    for place, reference in enumerate(("GPSLatitudeRef", "GPSLongitudeRef")):
        if str(entry.get(reference, ""))[:1] in ("S", "W"):
            degrees[place] = -abs(degrees[place])
    if degrees and degrees != [0, 0]:
        yield from _make_point(degrees, form)
    for person in [*_walk(entry.get("people"), []), {"faces": entry.get("unassignedFaces")}]:
        for face in _walk(person, ["faces"]) if form == "immich" else ():
            left, top, right, bottom, width, height = (to_number(*_walk(face, [one])) for one in _IMMICH_FACE)
            if width and height:
                box = (left / width, top / height, (right - left) / width, (bottom - top) / height)
                yield from _make_region(person.get("name"), box, Fact("person", "", form), [])


def read_file(location: str) -> WrittenFacts:
    """Return the facts of a file by its path; links are not followed. An unreadable file or entry gives a line."""
    suffix = Path(location).suffix.lower()
    try:
        handle = open_file(location, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb"):
            require_regular(handle)
            size, most = os.fstat(handle).st_size, MAX_DOCUMENT_BYTES if suffix in _DOCUMENTS else MAX_FILE_BYTES
            if size > most:
                raise ValueError(f"{size >> 20} MB, more than {most >> 20} MB")
            with mmap(handle, 0, access=ACCESS_READ) as data:  # ValueError for an empty file
                return read_facts(data, suffix)
    except (OSError, ValueError) as error:
        return {}, [getattr(error, "strerror", None) or str(error)]
