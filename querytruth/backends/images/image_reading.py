"""Scanned image files: completeness, size, place, time, quality, hashes, and a thumbnail.

The header is read before anything is decoded; formats and pixels are limited. A file that fails has a reason.
"""

import errno
import hashlib
import logging
import os
import stat
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from querytruth.array_types import GreyImage
from querytruth.backends.images import image_decoding, image_headers, image_quality, image_views
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
_TURN_BY_ORIENTATION = {1: 0, 2: 4, 3: 2, 4: 6, 5: 5, 6: 3, 7: 7, 8: 1}  # the same ones, of `turn_upright`

warnings.filterwarnings("ignore", module=r"PIL\.")  # what matters about a file is in its reason
logging.getLogger("PIL").setLevel(logging.CRITICAL)


class ScannedImage(NamedTuple):
    """A row of SCANNED_IMAGES_SCHEMA. An unusable file has `reason` and few other fields; a damaged JPEG has all
    fields.

    Width and height are those of the upright image. `pixels` is equal for two files that differ only in metadata.
    `views` and `thumbnail` come from `querytruth.backends.images.image_views`.
    """

    path: str = ""
    size: int | None = None
    modified: int | None = None
    head: str | None = None
    sha256: str | None = None
    pixels: str | None = None
    views: bytes | None = None
    thumbnail: bytes | None = None
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
    """A complete image after decoding, upright: the known fields of its `ScannedImage`, the small grey image, and its
    sampled colours (None where it has none)."""

    fields: dict[str, Any]
    grey: GreyImage
    samples: NDArray[np.uint8] | None


def read_image(location: str | Path) -> ScannedImage:
    """Read and check a file: a local path or an fsspec URL (with `://`); links are not followed. An unusable file is
    returned with its reason. Raises only MemoryError."""
    return describe_images([decode_image(location)])[0]


def decode_image(location: str | Path) -> DecodedFile | ScannedImage:
    """Return the first half of `read_image`. Return a `ScannedImage` with a reason where the file cannot be used."""
    known: dict[str, Any] = {"path": str(location)}
    try:
        data = _read_remote(known) if image_decoding.is_remote(known["path"]) else _read_local(known)
        return _decode_bytes(data, known)
    except UnusableImage as error:
        return ScannedImage(**known, reason=error.reason, detail=error.detail)


def describe_images(decoded: list[DecodedFile | ScannedImage]) -> list[ScannedImage]:
    """Return the second half for many images at once, in the same order; this takes half the time."""
    complete = [complete_image(one) for one in decoded if isinstance(one, DecodedFile)]
    scores: dict[int, image_quality.QualityScores] = {}
    for places in _places_by_shape(complete).values():
        stacked = np.stack([complete[place].grey for place in places])
        scores.update(zip(places, image_quality.compute_quality_scores(stacked), strict=True))
    views = image_views.describe_views([one.grey for one in complete], [one.samples for one in complete])
    scanned = iter(
        ScannedImage(
            **one.fields,
            **scores[place]._asdict(),
            views=views[place][0],
            thumbnail=views[place][1],
            details=_compute_details(one.grey, scores[place]),
        )
        for place, one in enumerate(complete)
    )
    return [one if isinstance(one, ScannedImage) else next(scanned) for one in decoded]


def complete_image(file: DecodedFile) -> DecodedImage:
    """Read the EXIF block of a decoded file and the fields that depend on it. Reading many blocks in a row takes a
    third of the time, since decoding evicts the code from the processor's caches."""
    fields, exif, grey, samples, digest = file
    exif = read_exif(exif) if isinstance(exif, bytes) else exif
    orientation = 1 if fields["format"] == "TIFF" else exif.orientation  # Pillow turns a TIFF on loading
    width, height = fields["width"], fields["height"]
    if orientation >= 5:
        width, height = height, width
    digest.update(b"%dx%d %d" % (width, height, orientation))
    found = {"pixels": digest.hexdigest()[:32], "width": width, "height": height}
    turn = _TURN_BY_ORIENTATION[orientation]
    upright = samples if samples is None else turn_upright(samples, turn)
    return DecodedImage(fields | found | exif._asdict(), turn_upright(grey, turn), upright)


def _places_by_shape(decoded: list[DecodedImage]) -> dict[tuple[int, ...], list[int]]:
    """Return the positions of the images by shape: those of one size are computed with together."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, one in enumerate(decoded):
        places.setdefault(one.grey.shape, []).append(place)
    return places


def _compute_details(upright: GreyImage, scores: image_quality.QualityScores) -> bytes | None:
    """Return whether a flat image is a page or screen, a byte, and its pixels at DETAIL_SIDE; None for another."""
    if scores.flatness < image_quality.LEAST_FLATNESS:
        return None
    shared = Image.frombuffer("L", upright.shape[::-1], upright, "raw", "L", 0, 1)
    small = shared.resize((image_quality.DETAIL_SIDE, image_quality.DETAIL_SIDE), Image.Resampling.BICUBIC)
    return bytes([scores.flatness >= image_quality.FLAT]) + small.tobytes()


def turn_upright(grey: NDArray[np.uint8], turn: int) -> NDArray[np.uint8]:
    """Return an image (height, width, …) after a turn: 1 to 3 quarter turns counter-clockwise,
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
        raise UnusableImage("file_too_large", f"more than {MAX_FILE_BYTES} bytes")
    known |= {"size": len(data), "modified": 0}
    return data


def _check_head(head: bytes, size: int, known: dict[str, Any]) -> None:
    """Raise UnusableImage for a file that is not an image or is too large, before more of it is read."""
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
