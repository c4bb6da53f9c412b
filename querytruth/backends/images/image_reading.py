"""Scanned image files: completeness, size, place, time, quality, and hashes, of cropped copies, too.

The header is read before anything is decoded; formats and pixels are limited. A file that fails has a reason.
"""

import errno
import hashlib
import logging
import os
import stat
import warnings
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from querytruth.array_types import GreyImage
from querytruth.backends.images import image_decoding, image_headers, image_quality, perceptual_hashes
from querytruth.backends.images.exif import Exif, read_exif
from querytruth.backends.images.image_headers import UnusableImage
from querytruth.backends.images.worker_messages import open_file

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF")
MAX_PIXELS = 50_000_000  # width x height x frames
MAX_FILE_BYTES = 200 << 20
_LONG_EXIF = 1 << 16  # bytes of a block that is read at once, and not held until other files are decoded
# Reasons that may not apply the next time; all others remain as long as the file is unchanged.
TRANSIENT_REASONS = frozenset({"unreadable", "missing", "took_too_long", "worker_crashed", "out_of_memory"})
DAMAGED = "damaged"  # the reason of a file that every program shows, with made-up pixels where its data are lost
TRANSPOSE_BY_ORIENTATION = {  # makes an image with this EXIF orientation upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_HASH_TURN_BY_ORIENTATION = {1: 0, 2: 4, 3: 2, 4: 6, 5: 5, 6: 3, 7: 7, 8: 1}  # the same turns, of the perceptual hash
# Shares cut off at the left, right, top and bottom: one or several edges by 5%, and all of them by half of that.
CROPS = [*list(product((0, 0.05), repeat=4))[1:], (0.025,) * 4]


warnings.filterwarnings("ignore", module=r"PIL\.")  # what matters about a file is in its reason
logging.getLogger("PIL").setLevel(logging.CRITICAL)


class ScannedImage(NamedTuple):
    """A row of SCANNED_IMAGES_SCHEMA. A file that cannot be used has `reason` and few other fields; a damaged JPEG has
    them all.

    Width and height are those of the upright image. `pixels` is equal for two files that differ in metadata alone.
    `phash` and `turned` are the perceptual hashes of the image and of its seven other turns, in the order of
    `querytruth.backends.images.perceptual_hashes`; None where the image has too little structure.
    """

    path: str = ""
    size: int | None = None
    modified: int | None = None
    head: str | None = None
    sha256: str | None = None
    pixels: str | None = None
    phash: int | None = None
    turned: list[int] | None = None
    outline: bytes | None = None
    patches: bytes | None = None
    thumbnail: bytes | None = None
    colours: bytes | None = None
    details: bytes | None = None
    width: int | None = None
    height: int | None = None
    orientation: int | None = None
    format: str | None = None
    taken_at: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    brightness: float | None = None
    contrast: float | None = None
    sharpness: float | None = None
    flatness: float | None = None
    reason: str | None = None
    detail: str | None = None


class DecodedFile(NamedTuple):
    """A complete file after decoding: the known fields of its `ScannedImage`, the EXIF block (or what was read of a
    long one), the small grey image as stored, its sampled colours (None where it has none), and the unfinished digest
    of its pixels."""

    fields: dict[str, Any]
    exif: bytes | Exif
    grey: GreyImage
    samples: NDArray[np.uint8] | None
    digest: Any


class DecodedImage(NamedTuple):
    """A complete image after decoding: the known fields of its `ScannedImage`, the small grey image, its sampled
    colours (None where it has none), and the turn of the perceptual hash that makes it upright."""

    fields: dict[str, Any]
    grey: GreyImage
    samples: NDArray[np.uint8] | None
    hash_turn: int


def read_image(location: str | Path) -> ScannedImage:
    """Reads and checks a file, which is a local path or an fsspec URL (with `://`); links are not followed. A file that
    cannot be used is returned with its reason. Raises only MemoryError."""
    return describe_images([decode_image(location)])[0]


def decode_image(location: str | Path) -> DecodedFile | ScannedImage:
    """The first half of `read_image`. Returns a `ScannedImage` with a reason where the file cannot be used."""
    known: dict[str, Any] = {"path": str(location)}
    try:
        data = _read_remote(known) if image_decoding.is_remote(known["path"]) else _read_local(known)
        return _decode_bytes(data, known)
    except UnusableImage as error:
        return ScannedImage(**known, reason=error.reason, detail=error.detail)


def describe_images(decoded: list[DecodedFile | ScannedImage]) -> list[ScannedImage]:
    """The second half, for many images at once, which takes half the time. Keeps the order."""
    complete = [complete_image(one) for one in decoded if isinstance(one, DecodedFile)]
    low = np.empty((len(complete), perceptual_hashes.FREQUENCY_COUNT))
    scores: dict[int, image_quality.QualityScores] = {}
    for (_, turn), places in _places_by_shape(complete).items():
        stacked = np.stack([complete[place].grey for place in places])
        low[places] = perceptual_hashes.dct_coefficients(stacked, turn)
        scores.update(zip(places, image_quality.compute_quality_scores(stacked), strict=True))
    hashes, patches, colours = (
        perceptual_hashes.compute_perceptual_hashes(low),
        _compute_patches(complete),
        _compute_colours(complete),
    )
    details = [_compute_details(one, scores[place]) for place, one in enumerate(complete)]
    scanned = iter(
        ScannedImage(
            **one.fields,
            **hashes[place]._asdict(),
            **scores[place]._asdict(),
            **patches[place],
            colours=colours[place],
            details=details[place],
        )
        for place, one in enumerate(complete)
    )
    return [one if isinstance(one, ScannedImage) else next(scanned) for one in decoded]


def complete_image(file: DecodedFile) -> DecodedImage:
    """Reads the EXIF block of a decoded file and what depends on it. Many blocks after each other take a third of the
    time that each takes between two decodes, which push the code for them out of the processor's caches."""
    fields, exif, grey, samples, digest = file
    exif = read_exif(exif) if isinstance(exif, bytes) else exif
    orientation = 1 if fields["format"] == "TIFF" else exif.orientation  # Pillow turns a TIFF on loading
    width, height = fields["width"], fields["height"]
    if orientation >= 5:
        width, height = height, width
    digest.update(b"%dx%d %d" % (width, height, orientation))
    found = {"pixels": digest.hexdigest()[:32], "width": width, "height": height}
    return DecodedImage(fields | found | exif._asdict(), grey, samples, _HASH_TURN_BY_ORIENTATION[orientation])


def _places_by_shape(decoded: list[DecodedImage]) -> dict[tuple[tuple[int, ...], int], list[int]]:
    """Returns the positions of the images by shape and turn: those of one size are computed with together."""
    places: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for place, one in enumerate(decoded):
        places.setdefault((one.grey.shape, one.hash_turn), []).append(place)
    return places


def _compute_patches(decoded: list[DecodedImage]) -> list[dict[str, Any]]:
    """Returns the fields of the patches of each image; none for one that is small inside its borders."""
    guides, boxes, places = [], [], []
    upright_images = [turn_upright(one.grey, one.hash_turn) for one in decoded]
    for place, (upright, box) in enumerate(
        zip(upright_images, image_quality.find_content_boxes(upright_images), strict=True)
    ):
        left, top, right, bottom = box
        width, height = right - left, bottom - top
        longer = max(width, height)
        if longer < perceptual_hashes.GUIDE_SIDE:
            continue
        size = (
            max(1, round(width * perceptual_hashes.GUIDE_SIDE / longer)),
            max(1, round(height * perceptual_hashes.GUIDE_SIDE / longer)),
        )
        shared = Image.frombuffer("L", upright.shape[::-1], upright, "raw", "L", 0, 1)  # no copy
        guides.append(np.asarray(shared.resize(size, Image.Resampling.BOX, box)))
        high, wide = upright.shape
        has_borders = box != (0, 0, wide, high)
        boxes.append((left / wide, top / high, right / wide, bottom / high) if has_borders else None)
        places.append(place)
    found = dict(zip(places, perceptual_hashes.compute_patch_features(guides, boxes), strict=True))
    names = "patches", "thumbnail"
    return [dict(zip(names, found[one], strict=True)) if one in found else {} for one in range(len(decoded))]


def _compute_colours(decoded: list[DecodedImage]) -> list[bytes]:
    """Returns the colours of each upright image; zeros for a grey one."""
    samples = np.full((len(decoded), image_quality.SAMPLES, image_quality.SAMPLES, 3), 128, np.uint8)
    for own, one in zip(samples, decoded, strict=True):
        if one.samples is not None:
            own[:] = turn_upright(one.samples, one.hash_turn)
    return [own.tobytes() for own in image_quality.compute_colours(samples)]


def _compute_details(decoded: DecodedImage, scores: image_quality.QualityScores) -> bytes | None:
    """Returns whether a flat image is a page or screen, a byte, and its pixels at DETAIL_SIDE; None for another."""
    if scores.flatness < image_quality.LEAST_FLATNESS:
        return None
    upright = turn_upright(decoded.grey, decoded.hash_turn)
    shared = Image.frombuffer("L", upright.shape[::-1], upright, "raw", "L", 0, 1)
    small = shared.resize((image_quality.DETAIL_SIDE, image_quality.DETAIL_SIDE), Image.Resampling.BICUBIC)
    return bytes([scores.flatness >= image_quality.FLAT]) + small.tobytes()


def turn_upright(grey: NDArray[np.uint8], turn: int) -> NDArray[np.uint8]:
    """Returns an image (height, width, …) after a turn of the perceptual hash: 1 to 3 quarter turns counter-clockwise,
    from 4 on after mirroring it left-right."""
    return np.ascontiguousarray(np.rot90(grey[:, ::-1] if turn >= 4 else grey, turn % 4)) if turn else grey


def _read_local(known: dict[str, Any]) -> bytes:
    try:
        # A FIFO or device must not block, and a link may have come here since the folder was listed.
        handle = open_file(known["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise UnusableImage("not_a_regular_file")
            known |= {"size": status.st_size, "modified": status.st_mtime_ns}
            _check_head(os.pread(handle, image_decoding.HEAD_BYTES, 0), status.st_size, known)
            data = os.read(handle, status.st_size + 1)
        finally:
            os.close(handle)
    except OSError as error:
        kind = "not_a_regular_file" if error.errno in (errno.ELOOP, errno.ENXIO) else "unreadable"  # a link, a socket
        raise UnusableImage(kind, error.strerror) from None
    except ValueError as error:  # not a possible file name
        raise UnusableImage("unreadable", str(error)) from None
    if len(data) != status.st_size:
        raise UnusableImage("unreadable", "it changed while it was read")
    return data


def _read_remote(known: dict[str, Any]) -> bytes:
    try:
        with image_decoding.fsspec_for(known["path"]).open(known["path"], "rb") as file:
            head = image_decoding.read_stream(file, image_decoding.HEAD_BYTES)
            _check_head(head, getattr(file, "size", None) or len(head), known)
            data = head + image_decoding.read_stream(file, MAX_FILE_BYTES + 1 - len(head))
    except UnusableImage:
        raise
    except Exception as error:  # each file system has its own errors; their texts may hold a URL with a password
        raise UnusableImage("unreadable", getattr(error, "strerror", None) or type(error).__name__) from None
    if len(data) > MAX_FILE_BYTES:
        raise UnusableImage("file_too_large", f"over {MAX_FILE_BYTES} bytes")
    known |= {"size": len(data), "modified": 0}
    return data


def _check_head(head: bytes, size: int, known: dict[str, Any]) -> None:
    """Raises UnusableImage for what is no image or too large, before more of it is read."""
    known["head"] = image_decoding.head_digest(head)
    if not head:
        raise UnusableImage("empty_file")
    if image_headers.is_camera_raw(head):
        raise UnusableImage("camera_raw")
    if image_headers.sniff_format(head) is None:
        raise UnusableImage("not_an_image", image_headers.describe_other_kind(head))
    if size > MAX_FILE_BYTES:
        raise UnusableImage("file_too_large", f"{size} bytes")


def _decode_bytes(data: bytes, known: dict[str, Any]) -> DecodedFile:
    kind, digest = image_headers.sniff_format(data) or "", hashlib.sha256()
    try:
        (width, height), block, grey, samples, damage = image_decoding.decode_and_digest(kind, data, MAX_PIXELS, digest)
        exif = block if len(block) <= _LONG_EXIF else read_exif(block)
    except Image.DecompressionBombError as error:
        raise UnusableImage("too_many_pixels", str(error)[:200]) from None
    except (UnusableImage, MemoryError):  # MemoryError: not the file's fault
        raise
    except Exception as error:  # Pillow's decoders raise any exception on hostile files
        image_decoding.check_decoder(
            kind, error, lambda own: image_decoding.decode_and_digest(kind, own, MAX_PIXELS, hashlib.sha256())
        )
        raise UnusableImage("cannot_be_decoded", f"{type(error).__name__}: {error}"[:200]) from None
    known |= {"sha256": hashlib.sha256(data).hexdigest(), "format": kind, "width": width, "height": height}
    if damage:
        known |= {"reason": DAMAGED, "detail": damage}
    return DecodedFile(known, exif, grey, samples, digest)


def hash_crops(location: str) -> list[perceptual_hashes.PerceptualHash]:
    """Returns the hashes of CROPS of an image that have enough structure; none of one that cannot be read."""
    file = decode_image(location)
    if isinstance(file, ScannedImage):
        return []
    decoded = complete_image(file)
    upright = turn_upright(decoded.grey, decoded.hash_turn)
    height, width = upright.shape
    low = [
        perceptual_hashes.dct_coefficients(
            upright[round(top * height) : height - round(bottom * height)][
                :, round(left * width) : width - round(right * width)
            ]
        )
        for left, right, top, bottom in CROPS
    ]
    hashes = perceptual_hashes.compute_perceptual_hashes(np.array(low).reshape(-1, perceptual_hashes.FREQUENCY_COUNT))
    return [one for one in hashes if one.phash is not None]
