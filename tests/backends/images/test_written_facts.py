"""Facts that people and programs wrote into files: exiftool writes and reads them beside us; hostile files cost a
line."""

import json
import random
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pillow_heif
import pytest
from PIL import Image

from querytruth.backends.images.metadata_blocks import find_blocks
from querytruth.backends.images.written_facts import Fact, normalise_date, read_facts
from tests.images import draw_scene, encode_image, make_exif, make_jpeg

PHOTOS = Path(__file__).parents[4] / "shared/data/photos_exif"
needs_exiftool = pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
NAMES = [
    "Gracie",
    "王芳",
    "Jürgen Müßig",
    "O'Brien, Pat",
    'Sam "Ace" Roe',
    "AC/DC",
    "Zoë | x",
    "小明",
    "Dvořák",
    "2019",
]
NAMES.append("Ann & Bo")
LATIN = ["Gracie", "Jürgen Müßig", "O'Brien, Pat", 'Sam "Ace" Roe', "Zoë", "naïve – “quoted”"]
SUFFIXES = (".jpg", ".png", ".webp", ".heic", ".tif", ".xmp")


def exiftool(*words: object) -> str:
    done = subprocess.run(["exiftool", *map(str, words)], capture_output=True, text=True, check=False)
    return done.stdout


def _drawn_tags(draw: random.Random, suffix: str) -> dict[str, Any]:
    """Random facts as exiftool's JSON import takes them."""
    names = lambda most=3: draw.sample(NAMES, draw.randint(1, most))  # noqa: E731
    box = lambda: [round(draw.uniform(0.1, 0.4), 4) for _ in range(4)]  # noqa: E731

    def mwg() -> dict[str, Any]:
        x, y, w, h = box()
        area = {"X": x + 0.2, "Y": y + 0.2, "W": w, "H": h, "Unit": "normalized"}
        name = {"Name": draw.choice(NAMES)} if draw.random() < 0.8 else {}
        return {**name, "Type": draw.choice(["Face", "Face", "Pet", "Focus"]), "Area": area}

    tags: dict[str, Any] = {
        "XMP-dc:Subject": names(),
        "XMP-digiKam:TagsList": ["/".join(names()) for _ in range(2)],
        "XMP-lr:HierarchicalSubject": ["|".join(names()) for _ in range(2)],
        "XMP-microsoft:LastKeywordXMP": names(),
        "XMP-iptcExt:PersonInImage": names(),
        "XMP-photoshop:City": draw.choice(NAMES),
        "XMP-photoshop:State": draw.choice(NAMES),
        "XMP-photoshop:Country": draw.choice(NAMES),
        "XMP-iptcCore:Location": draw.choice(NAMES),
        "XMP-dc:Description": " ".join(names()),
        "XMP-dc:Title": draw.choice(NAMES),
        "XMP-xmp:Rating": draw.randint(0, 5),
        "XMP-xmp:Label": "Red",
        "XMP-exif:DateTimeOriginal": f"{draw.randint(1990, 2025)}:05:03 10:11:12+02:00",
        "XMP-exif:GPSLatitude": round(draw.uniform(-89, 89), 4),
        "XMP-exif:GPSLongitude": round(draw.uniform(-179, 179), 4),
        "XMP-mwg-rs:RegionInfo": {
            "AppliedToDimensions": {"W": 60, "H": 40, "Unit": "pixel"},
            "RegionList": [mwg() for _ in range(draw.randint(1, 3))],
        },
        "XMP-MP:RegionInfoMP": {
            "Regions": [{"PersonDisplayName": draw.choice(NAMES), "Rectangle": ", ".join(map(str, box()))}]
        },
    }
    if suffix in (".jpg", ".tif"):
        known = NAMES if (is_utf8 := draw.random() < 0.5) else LATIN
        one = lambda most: draw.choice(known)[:most]  # noqa: E731
        tags |= {
            "IPTC:Keywords": [one(64), one(64)],
            "IPTC:City": one(32),
            "IPTC:Province-State": one(32),
            "IPTC:Country-PrimaryLocationName": one(64),
            "IPTC:Sub-location": one(32),
            "IPTC:Caption-Abstract": one(99),
            "IPTC:ObjectName": one(64),
            "IPTC:DateCreated": "2011:02:03",
            "IPTC:TimeCreated": "04:05:06+01:00",
        }
        tags |= {"IPTC:CodedCharacterSet": "UTF8"} if is_utf8 else {}
    if suffix not in (".xmp",):
        place = {"GPSLatitude": 51.5, "GPSLatitudeRef": "S", "GPSLongitude": 2.25, "GPSLongitudeRef": "E"}
        tags |= {f"GPS:{name}": value for name, value in place.items()}
        tags |= {
            "ExifIFD:DateTimeOriginal": "2015:06:07 08:09:10",
            "ExifIFD:OffsetTimeOriginal": "-05:00",
            "IFD0:XPKeywords": ";".join(one.replace(";", "") for one in names()),
            "IFD0:XPSubject": draw.choice(NAMES),
            "IFD0:ImageDescription": draw.choice(NAMES),
            "IFD0:Make": "NIKON",
            "IFD0:Model": "D70",
        }
    return {name: value for name, value in tags.items() if draw.random() < 0.6 or name.startswith("IPTC:Coded")}


def _write_files(folder: Path, count: int, seed: int) -> list[Path]:
    draw, entries, made = random.Random(seed), [], []
    for number in range(count):
        path = folder / f"{number:03}{SUFFIXES[number % len(SUFFIXES)]}"
        picture = draw_scene(number, (60, 40))
        if path.suffix == ".heic":
            pillow_heif.from_pillow(picture).save(path)
        elif path.suffix != ".xmp":
            picture.save(path)
        tags = _drawn_tags(draw, path.suffix)
        if path.suffix == ".jpg" and number % 4 == 0:
            tags["XMP-dc:Description"] = "长" * 30_000 + str(number)  # an extended packet
        entries.append({"SourceFile": str(path), **tags})
        made.append(path)
    (folder / "in.json").write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")
    quietly = ("-q", "-q", "-m", "-struct", "-n", "-overwrite_original", "-codedcharacterset<CodedCharacterSet")
    exiftool(*quietly, f"-json={folder / 'in.json'}", *made)
    return made


TAGS = {
    "Subject": "keyword",
    "TagsList": "keyword/",
    "HierarchicalSubject": "keyword|",
    "LastKeywordXMP": "keyword/",
    "CatalogSets": "keyword|",
    "PersonInImage": "person",
    "City": "city",
    "State": "state",
    "Country": "country",
    "Location": "location",
    "Description": "description",
    "Title": "title",
    "Label": "label",
    "Keywords": "keyword",
    "Province-State": "state",
    "Country-PrimaryLocationName": "country",
    "Sub-location": "location",
    "Caption-Abstract": "description",
    "ObjectName": "title",
    "XPKeywords": "keyword;",
    "XPSubject": "title",
    "XPTitle": "title",
    "XPComment": "description",
    "ImageDescription": "description",
}


DATES = {"XMP-exif:DateTimeOriginal", "XMP-photoshop:DateCreated", "XMP-xmp:CreateDate"}


def _as_exiftool_reads(*paths: Path) -> list[Counter[tuple[str, str, str]]]:
    """Facts of each file as (kind, value, source), by another reader and other code."""
    entries = json.loads(exiftool("-json", "-G1", "-struct", "-n", "-m", *paths), parse_float=str, parse_int=str)
    return [_facts_of(entry) for entry in entries]


def _facts_of(entry: dict[str, Any]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    of_xmp = "sidecar" if entry["SourceFile"].endswith(".xmp") else "xmp"
    for key, value in entry.items():
        group, _, tag = key.partition(":")
        source = "iptc" if group == "IPTC" else of_xmp if group.startswith("XMP-") or of_xmp != "xmp" else "exif"
        values = [str(one) for one in (value if isinstance(value, list) else [value]) if not isinstance(one, dict)]
        if tag in TAGS and not (group == "XMP-iptcExt" and tag != "PersonInImage"):
            kind, split = TAGS[tag].rstrip("/|;"), TAGS[tag][-1] if TAGS[tag][-1] in "/|;" else None
            for one in values:
                parts = one.split(split) if split else [one]
                found.update((kind, part.strip()[:10_000], source) for part in parts if part.strip())
        elif tag == "Rating" and group in ("XMP-xmp", "IFD0") and values[0] in "12345":
            found["rating", values[0], source] += 1
        elif f"{group}:{tag}" in DATES:
            if normal := normalise_date(values[0]):
                found["date", normal, source] += 1
        elif tag == "RegionInfo":
            for region in value.get("RegionList", []):
                if kind := {"Face": "person", "Pet": "keyword"}.get(region.get("Type", "Face")):
                    found[kind, str(region.get("Name", "")), source] += 1
        elif tag == "RegionInfoMP":
            found.update(("person", str(one.get("PersonDisplayName", "")), source) for one in value.get("Regions", []))
    if {"XMP-exif:GPSLatitude", "XMP-exif:GPSLongitude"} <= entry.keys():
        place = ",".join(f"{float(entry[f'XMP-exif:GPS{axis}']):.6f}" for axis in ("Latitude", "Longitude"))
        found["gps", place, of_xmp] += 1
    return found


def _as_we_read(path: Path) -> tuple[Counter[tuple[str, str, str]], list[str]]:
    facts, problems = read_facts(path.read_bytes(), path.suffix)
    return Counter((one.kind, one.value, one.source) for one in facts.get("", [])), problems


@pytest.mark.thorough
@needs_exiftool
def test_facts_are_those_that_exiftool_wrote_and_reads(tmp_path: Path) -> None:
    facts, files = 0, _write_files(tmp_path, 36, 1)
    for path, theirs in zip(files, _as_exiftool_reads(*files), strict=True):
        ours, problems = _as_we_read(path)
        for kind, value, source in list(ours):
            # Of EXIF's dates, places and cameras, tests/backends/images/test_exif.py compares more.
            if (source == "exif" and kind in ("date", "gps", "camera")) or (source, kind) == ("iptc", "date"):
                del ours[kind, value, source]
        assert (ours - theirs, theirs - ours) == (Counter(), Counter()), path
        assert not problems, (path, problems)
        facts += sum(ours.values())
    assert facts > 400


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the real photos are not here")
@needs_exiftool
@pytest.mark.thorough
def test_real_photos_say_what_exiftool_reads() -> None:
    # In three sidecars, UTF-16 with characters of another encoding, exiftool finds nothing.
    kinds = (".jpg", ".jpeg", ".png", ".webp", ".heic", ".tif")
    files, facts = sorted(path for path in PHOTOS.rglob("*") if path.suffix.lower() in kinds), 0
    for path, read in zip(files, _as_exiftool_reads(*files), strict=True):
        ours, theirs = (
            Counter({row: n for row, n in found.items() if row[0] not in ("date", "gps", "camera")})
            for found in (_as_we_read(path)[0], read)
        )
        assert (ours - theirs, theirs - ours) == (Counter(), Counter()), path
        facts += sum(ours.values())
    assert facts > 300


def _packet(body: str, description: str = "") -> str:
    spaces = " ".join(
        f'xmlns:{prefix}="{uri}"'
        for uri, prefix in {
            "http://purl.org/dc/elements/1.1/": "dc",
            "http://ns.adobe.com/photoshop/1.0/": "photoshop",
            "http://www.metadataworkinggroup.com/schemas/regions/": "mwg-rs",
            "http://ns.adobe.com/xmp/sType/Area#": "stArea",
            "http://ns.adobe.com/xap/1.0/": "xmp",
        }.items()
    )
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        f'<rdf:Description rdf:about="" {spaces} {description}>{body}</rdf:Description></rdf:RDF></x:xmpmeta>'
    )


def _read(data: bytes | str, suffix: str = ".xmp") -> tuple[list[tuple[str, str]], list[str]]:
    facts, problems = read_facts(data.encode() if isinstance(data, str) else data, suffix)
    return [(one.kind, one.value) for of_image in facts.values() for one in of_image], problems


def _jpeg_with(*segments: tuple[int, bytes]) -> bytes:
    made = make_jpeg()
    added = b"".join(b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body for marker, body in segments)
    return made[:2] + added + made[2:]


XAP = b"http://ns.adobe.com/xap/1.0/\0"
CITY = _packet("", 'photoshop:City="Bath"')


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_sidecar_is_read_in_every_encoding_of_unicode(encoding: str) -> None:
    text = _packet("<dc:subject><rdf:Bag><rdf:li>西湖</rdf:li></rdf:Bag></dc:subject>")
    assert _read(text.encode(encoding)) == ([("keyword", "西湖")], [])


def test_an_entity_is_refused_in_every_encoding_and_costs_a_line() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + CITY
    outside = '<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd">' + CITY
    for data in (bomb.encode(), bomb.encode("utf-16"), outside.encode()):
        facts, problems = _read(data)
        assert (facts, problems) == ([], ["XMP: has a DTD, which XMP never needs"])


def test_a_declaration_of_an_encoding_chooses_nothing() -> None:
    assert _read('<?xml version="1.0" encoding="gb18030"?>' + CITY)[0] == [("city", "Bath")]


def test_damaged_documents_cost_a_line_each() -> None:
    huge = CITY.encode() + b" " * (17 << 20)
    for data, suffix in [
        (huge, ".xmp"),
        (b"<x:xmpmeta", ".xmp"),
        (_packet("<dc:subject><rdf:Bag><rdf:li>" * 5000 + "</rdf:li></rdf:Bag></dc:subject>" * 5000), ".xmp"),
        (b"[" * 100_000, ".json"),
        (b"{", ".json"),
        (b'{"photoTakenTime": 1e999}', ".json"),
        (b"a: &a [1]\nb: " + b"*a " * 3, ".yml"),
        (b"\xff\xfe\x00", ".json"),
        (b'{"SourceFile": 1' + b"0" * 5000 + b"}", ".json"),
    ]:
        facts, problems = _read(data, suffix)
        assert facts == [] and len(problems) == 1, (data[:30], problems)
        assert "\n" not in problems[0] and len(problems[0]) < 250


def test_an_absurd_date_or_coordinate_costs_itself_alone() -> None:
    absurd = 'xmp:CreateDate="999999999999" exif:GPSLatitude="' + "9" * 5000 + ',1N" exif:GPSLongitude="1,1E"'
    packet = CITY.replace("rdf:about", f'xmlns:exif="http://ns.adobe.com/exif/1.0/" {absurd} rdf:about')
    image = _jpeg_with((0xE1, XAP + packet.encode()))
    assert _read(packet)[0] == _read(image, ".jpg")[0] == [("city", "Bath")]


def test_broken_utf_8_costs_a_line_and_the_rest_is_read() -> None:
    data = CITY.encode().replace(b"Bath", b"B\xc3th")
    facts, problems = _read(data)
    assert facts == [("city", "B\ufffdth")] and len(problems) == 1


def test_ten_thousand_keywords_are_read() -> None:
    items = "".join(f"<rdf:li>k{number}</rdf:li>" for number in range(10_000))
    facts, problems = _read(_packet(f"<dc:subject><rdf:Bag>{items}</rdf:Bag></dc:subject>"))
    assert len(facts) == 10_000 and not problems


def _region(x: float, y: float, w: float, name: str = "Gracie", kind: str = "Face") -> str:
    return (
        f'<mwg-rs:Regions rdf:parseType="Resource"><mwg-rs:RegionList><rdf:Bag><rdf:li><rdf:Description '
        f'mwg-rs:Name="{name}" mwg-rs:Type="{kind}"><mwg-rs:Area stArea:x="{x}" stArea:y="{y}" stArea:w="{w}" '
        f'stArea:h="0.2" stArea:unit="normalized"/></rdf:Description></rdf:li></rdf:Bag></mwg-rs:RegionList>'
        f"</mwg-rs:Regions>"
    )


def test_a_face_has_its_place_and_one_outside_the_image_keeps_its_name() -> None:
    inside = read_facts(_packet(_region(0.5, 0.4, 0.2)).encode(), ".xmp")
    assert inside[0][""] == [Fact("person", "Gracie", "sidecar", "0.4 0.3 0.2 0.2")]
    outside = read_facts(_packet(_region(7, 0.4, 0.2)).encode(), ".xmp")
    assert outside[0][""] == [Fact("person", "Gracie", "sidecar")]
    assert outside[1] == ["region of 'Gracie': 6.9 0.3 0.2 0.2 is outside the image"]
    nobody = read_facts(_packet(_region(0.5, 0.5, 0.1, "")).encode(), ".xmp")
    assert [(one.kind, one.value) for one in nobody[0][""]] == [("person", "")]


def test_parts_of_an_extended_packet_are_joined_in_order_and_a_missing_one_is_reported() -> None:
    whole = _packet("<dc:title><rdf:Alt><rdf:li>long</rdf:li></rdf:Alt></dc:title>").encode()
    digest = b"A" * 32
    note = f'xmlns:n="http://ns.adobe.com/xmp/note/" n:HasExtendedXMP="{digest.decode()}"'
    main = XAP + _packet("", f'photoshop:City="Bath" {note}').encode()

    def part(digest: bytes, size: int, at: int, data: bytes) -> tuple[int, bytes]:
        return 0xE1, b"http://ns.adobe.com/xmp/extension/\0" + digest + struct.pack(">II", size, at) + data

    parts = [part(digest, len(whole), at, whole[at : at + 200]) for at in range(0, len(whole), 200)]
    other = part(b"B" * 32, 4, 0, b"evil")
    facts, problems = _read(_jpeg_with((0xE1, main), *reversed(parts), other), ".jpg")
    assert (facts, problems) == ([("city", "Bath"), ("title", "long")], [])
    facts, problems = _read(_jpeg_with((0xE1, main), *parts[1:]), ".jpg")
    assert (facts, problems) == ([("city", "Bath")], ["extended XMP: a part is missing"])


def test_a_png_whose_text_expands_to_gigabytes_costs_a_line() -> None:
    import zlib

    inflated = b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(b" " * (40 << 20))
    chunk = struct.pack(">I", len(inflated)) + b"iTXt" + inflated + b"\0\0\0\0"
    made = encode_image(Image.new("RGB", (4, 4)), "PNG")
    facts, problems = _read(made[:33] + chunk + made[33:], ".png")
    assert facts == [] and problems == ["xmp: 16 MB, more than 16 MB"]


@pytest.mark.parametrize("seed", range(40))
def test_flipped_and_cut_bytes_never_raise(seed: int) -> None:
    draw = random.Random(seed)
    exif = make_exif({0x010E: "x", 0x0110: "D70", 0x9C9E: "a;b".encode("utf-16-le")})
    kind = ("JPEG", "PNG", "WEBP", "TIFF")[seed % 4]
    xmp = {"xmp": CITY.encode()} if kind == "WEBP" else {}
    whole = encode_image(Image.new("RGB", (16, 16)), kind, exif=exif, **xmp)
    data = bytearray(whole)
    for _ in range(30):
        data[draw.randrange(len(data))] = draw.randrange(256)
    read_facts(bytes(data[: draw.randrange(20, len(data))]), ".jpg")
    find_blocks(whole, [])


TAKEOUT = {
    "title": "a.jpg",
    "description": "At the sea",
    "photoTakenTime": {"timestamp": "1409598797"},
    "geoData": {"latitude": 51.37, "longitude": -2.36, "altitude": 0.0},
    "people": [{"name": "Gracie"}, {"name": "王芳"}],
    "favorited": True,
}
FACE = {"imageWidth": 100, "imageHeight": 100}
FACE |= {"boundingBoxX1": 10, "boundingBoxY1": 10, "boundingBoxX2": 30, "boundingBoxY2": 40}
IMMICH = {
    "originalFileName": "a.jpg",
    "isFavorite": False,
    "tags": [{"value": "Animals/Dog"}],
    "exifInfo": {
        "city": "Bath",
        "state": None,
        "country": "United Kingdom",
        "latitude": 51.37,
        "longitude": -2.36,
        "dateTimeOriginal": "2019-05-03T10:00:00.000Z",
        "rating": 4,
        "description": "",
    },
    "people": [{"name": "Gracie", "faces": [FACE]}],
}
OSXPHOTOS = {
    "original_filename": "a.jpg",
    "filename": "X.jpeg",
    "persons": ["Gracie", "_UNKNOWN_"],
    "keywords": ["sea"],
    "albums": ["Summer"],
    "favorite": True,
    "title": None,
    "description": "At the sea",
    "date": "2019-05-03T10:00:00.123456+01:00",
    "latitude": 51.37,
    "longitude": -2.36,
    "place": {
        "name": "Bath, United Kingdom",
        "names": {"country": ["United Kingdom"], "city": ["Bath"], "state_province": []},
    },
}
SIDECAR = [
    {
        "SourceFile": "a.jpg",
        "ExifTool:ExifToolVersion": "12.00",
        "XMP:PersonInImage": ["Gracie"],
        "IPTC:Keywords": "sea",
        "EXIF:DateTimeOriginal": "2019:05:03 10:00:00",
        "EXIF:OffsetTimeOriginal": "+01:00",
        "EXIF:GPSLatitude": 51.37,
        "EXIF:GPSLatitudeRef": "N",
        "EXIF:GPSLongitude": 2.36,
        "EXIF:GPSLongitudeRef": "W",
    }
]
PHOTOPRISM = """
TakenAt: 2019-05-03T09:00:00Z
TakenAtLocal: 2019-05-03T10:00:00Z
UID: pqbcf5j446s0futy
Title: Sea / Bath
Favorite: true
Lat: 51.37
Lng: -2.36
Details:
  Keywords: sea, dog
"""


def test_documents_of_photo_managers_are_read() -> None:
    assert set(_read(json.dumps(TAKEOUT), ".json")[0]) == {
        ("person", "Gracie"),
        ("person", "王芳"),
        ("date", "2014-09-01T19:13:17Z"),
        ("gps", "51.370000,-2.360000"),
        ("description", "At the sea"),
        ("favourite", "yes"),
    }
    assert set(_read(json.dumps([IMMICH]), ".json")[0]) == {
        ("person", "Gracie"),
        ("keyword", "Animals"),
        ("keyword", "Dog"),
        ("city", "Bath"),
        ("country", "United Kingdom"),
        ("gps", "51.370000,-2.360000"),
        ("date", "2019-05-03T10:00:00Z"),
        ("rating", "4"),
    }
    assert (
        Fact("person", "Gracie", "immich", "0.1 0.1 0.2 0.3")
        in read_facts(json.dumps({"assets": {"items": [IMMICH]}}).encode(), ".json")[0]["a.jpg"]
    )
    assert set(_read(json.dumps(OSXPHOTOS), ".json")[0]) == {
        ("person", "Gracie"),
        ("person", ""),
        ("keyword", "sea"),
        ("album", "Summer"),
        ("favourite", "yes"),
        ("description", "At the sea"),
        ("date", "2019-05-03T10:00:00+01:00"),
        ("gps", "51.370000,-2.360000"),
        ("country", "United Kingdom"),
        ("city", "Bath"),
    }
    assert set(_read(json.dumps(SIDECAR), ".json")[0]) == {
        ("person", "Gracie"),
        ("keyword", "sea"),
        ("date", "2019-05-03T10:00:00+01:00"),
        ("gps", "51.370000,-2.360000"),
    }
    assert set(_read(PHOTOPRISM, ".yml")[0]) == {
        ("title", "Sea / Bath"),
        ("favourite", "yes"),
        ("gps", "51.370000,-2.360000"),
        ("keyword", "sea"),
        ("keyword", "dog"),
        ("date", "2019-05-03T10:00:00"),
    }
    assert _read('{"title": "Wedding", "access": "protected"}', ".json")[0] == [("album", "Wedding")]
    assert _read('{"some": "other"}', ".json") == ([], [])


def test_an_export_of_many_images_names_each(tmp_path: Path) -> None:
    read = read_facts(json.dumps([IMMICH, IMMICH | {"originalFileName": "x/../../b.jpg"}]).encode(), ".json")
    assert sorted(read[0]) == ["a.jpg", "b.jpg"]


def test_dates_are_iso_as_far_as_they_are_known() -> None:
    dates = {
        "2019:05:03 10:00:00": "2019-05-03T10:00:00",
        "2019-05-03T10:00+0200": "2019-05-03T10:00:00+02:00",
        "2019-05": "2019-05",
        "2019": "2019",
        "2019:13:40 10:00:00": "",
        "0000:00:00 00:00:00": "",
        "2019-05-03T10:00:00.5Z": "2019-05-03T10:00:00Z",
        "1409598797": "2014-09-01T19:13:17Z",
        "x": "",
    }
    assert {written: normalise_date(written) for written in dates} == dates


def test_a_list_beside_the_description_is_read_as_f_spot_writes_it() -> None:
    rdf = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    bag = '<rdf:Bag rdf:nodeID="a2"><rdf:li>Gracie</rdf:li><rdf:li>Bath</rdf:li></rdf:Bag>'
    about = '<rdf:Description><dc:subject rdf:nodeID="a2"/><dc:title rdf:nodeID="none"/></rdf:Description>'
    for inside in (bag + about, about + bag):
        found, problems = read_facts(f"<x><rdf:RDF {rdf}>{inside}</rdf:RDF></x>".encode(), ".xmp")
        assert [(one.kind, one.value) for one in found[""]] == [("keyword", "Gracie"), ("keyword", "Bath")]
        assert problems == []
