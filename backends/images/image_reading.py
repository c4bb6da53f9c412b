"""Scanned image files: completeness, size, place, time, perceptual hash and quality.

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

from backends.images.bounded_reading import HEAD_BYTES, head_digest, is_remote, read_stream
from backends.images.exif import Exif, read_exif
from backends.images.image_decoding import GREY_SIDE, TooManyPixels, TooManyScans, check_decoder, decode_and_digest
from backends.images.image_headers import JPEG_XL_STARTS, is_camera_raw, sniff_format
from backends.images.tiff_directories import CameraRaw, ThumbnailFirst
from backends.workers.handed_files import open_file
from builders.array_types import GreyImage
from builders.gallery.colour_cells import DETAIL_SIDE, FLAT, LEAST_FLATNESS, SAMPLES, compute_colours
from builders.gallery.patch_hashes import GUIDE_SIDE, compute_patch_features
from builders.gallery.perceptual_hash import FREQUENCY_COUNT, compute_perceptual_hashes, dct_coefficients
from builders.gallery.quality import QualityScores, compute_quality_scores
from builders.gallery.uniform_borders import find_content_boxes

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
warnings.filterwarnings("ignore", module=r"PIL\.")  # what matters about a file is in its reason
logging.getLogger("PIL").setLevel(logging.CRITICAL)


class ScannedImage(NamedTuple):
    """A row of SCANNED_IMAGES_SCHEMA. A file that cannot be used has `reason` and few other fields; a damaged JPEG has
    them all.

    Width and height are those of the upright image. `pixels` is equal for two files that differ in metadata alone.
    `phash` and `turned` are the perceptual hashes of the image and of its seven other turns, in the order of
    `builders.gallery.perceptual_hash`; None where the image has too little structure.
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


class _Unusable(Exception):
    """Raised for a file that cannot be used, with reason and detail."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


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


def decode_image(location: str | Path, longer: int = GREY_SIDE) -> DecodedFile | ScannedImage:
    """The first half of `read_image`. Returns a `ScannedImage` with a reason where the file cannot be used. `longer`:
    pixels of the longer side of the grey image at most; `pixels` depends on it."""
    known: dict[str, Any] = {"path": str(location)}
    try:
        data = _read_remote(known) if is_remote(known["path"]) else _read_local(known)
        return _decode_bytes(data, known, longer)
    except _Unusable as error:
        return ScannedImage(**known, reason=error.reason, detail=error.detail)


def describe_images(decoded: list[DecodedFile | ScannedImage]) -> list[ScannedImage]:
    """The second half, for many images at once, which takes half the time. Keeps the order."""
    complete = [complete_image(one) for one in decoded if isinstance(one, DecodedFile)]
    low = np.empty((len(complete), FREQUENCY_COUNT))
    scores: dict[int, QualityScores] = {}
    for (_, turn), places in _places_by_shape(complete).items():
        stacked = np.stack([complete[place].grey for place in places])
        low[places] = dct_coefficients(stacked, turn)
        scores.update(zip(places, compute_quality_scores(stacked), strict=True))
    hashes, patches, colours = compute_perceptual_hashes(low), _compute_patches(complete), _compute_colours(complete)
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
    for place, (upright, box) in enumerate(zip(upright_images, find_content_boxes(upright_images), strict=True)):
        left, top, right, bottom = box
        width, height = right - left, bottom - top
        longer = max(width, height)
        if longer < GUIDE_SIDE:
            continue
        size = max(1, round(width * GUIDE_SIDE / longer)), max(1, round(height * GUIDE_SIDE / longer))
        shared = Image.frombuffer("L", upright.shape[::-1], upright, "raw", "L", 0, 1)  # no copy
        guides.append(np.asarray(shared.resize(size, Image.Resampling.BOX, box)))
        high, wide = upright.shape
        has_borders = box != (0, 0, wide, high)
        boxes.append((left / wide, top / high, right / wide, bottom / high) if has_borders else None)
        places.append(place)
    found = dict(zip(places, compute_patch_features(guides, boxes), strict=True))
    return [found[place]._asdict() if place in found else {} for place in range(len(decoded))]


def _compute_colours(decoded: list[DecodedImage]) -> list[bytes]:
    """Returns the colours of each upright image; zeros for a grey one."""
    samples = np.full((len(decoded), SAMPLES, SAMPLES, 3), 128, np.uint8)
    for own, one in zip(samples, decoded, strict=True):
        if one.samples is not None:
            own[:] = turn_upright(one.samples, one.hash_turn)
    return [own.tobytes() for own in compute_colours(samples)]


def _compute_details(decoded: DecodedImage, scores: QualityScores) -> bytes | None:
    """Returns whether a flat image is a page or screen, a byte, and its pixels at DETAIL_SIDE; None for another."""
    if scores.flatness < LEAST_FLATNESS:
        return None
    upright = turn_upright(decoded.grey, decoded.hash_turn)
    shared = Image.frombuffer("L", upright.shape[::-1], upright, "raw", "L", 0, 1)
    small = shared.resize((DETAIL_SIDE, DETAIL_SIDE), Image.Resampling.BICUBIC)
    return bytes([scores.flatness >= FLAT]) + small.tobytes()


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
                raise _Unusable("not_a_regular_file")
            known |= {"size": status.st_size, "modified": status.st_mtime_ns}
            _check_head(os.pread(handle, HEAD_BYTES, 0), status.st_size, known)
            data = os.read(handle, status.st_size + 1)
        finally:
            os.close(handle)
    except OSError as error:
        kind = "not_a_regular_file" if error.errno in (errno.ELOOP, errno.ENXIO) else "unreadable"  # a link, a socket
        raise _Unusable(kind, error.strerror) from None
    except ValueError as error:  # not a possible file name
        raise _Unusable("unreadable", str(error)) from None
    if len(data) != status.st_size:
        raise _Unusable("unreadable", "it changed while it was read")
    return data


def _read_remote(known: dict[str, Any]) -> bytes:
    try:
        import fsspec

        with fsspec.open(known["path"], "rb") as file:
            head = read_stream(file, HEAD_BYTES)
            _check_head(head, getattr(file, "size", None) or len(head), known)
            data = head + read_stream(file, MAX_FILE_BYTES + 1 - len(head))
    except _Unusable:
        raise
    except Exception as error:  # each file system has its own errors; their texts may hold a URL with a password
        raise _Unusable("unreadable", getattr(error, "strerror", None) or type(error).__name__) from None
    if len(data) > MAX_FILE_BYTES:
        raise _Unusable("file_too_large", f"over {MAX_FILE_BYTES} bytes")
    known |= {"size": len(data), "modified": 0}
    return data


def _check_head(head: bytes, size: int, known: dict[str, Any]) -> None:
    """Raises _Unusable for what is no image or too large, before more of it is read."""
    known["head"] = head_digest(head)
    if not head:
        raise _Unusable("empty_file")
    if sniff_format(head) is None:
        if is_camera_raw(head):
            raise _Unusable("camera_raw")
        raise _Unusable("not_an_image", "JPEG XL, which is not read" if head.startswith(JPEG_XL_STARTS) else None)
    if size > MAX_FILE_BYTES:
        raise _Unusable("file_too_large", f"{size} bytes")


def _decode_bytes(data: bytes, known: dict[str, Any], longer: int) -> DecodedFile:
    kind, digest = sniff_format(data) or "", hashlib.sha256()
    try:
        (width, height), block, grey, samples, damage = decode_and_digest(kind, data, MAX_PIXELS, digest, longer)
        exif = block if len(block) <= _LONG_EXIF else read_exif(block)
    except (TooManyPixels, Image.DecompressionBombError) as error:
        raise _Unusable("too_many_pixels", str(error)[:200]) from None
    except CameraRaw as error:
        raise _Unusable("camera_raw", str(error)) from None
    except ThumbnailFirst as error:
        raise _Unusable("thumbnail_first", str(error)) from None
    except TooManyScans as error:
        raise _Unusable("too_many_scans", str(error)) from None
    except MemoryError:  # not the file's fault
        raise
    except Exception as error:  # Pillow's decoders raise any exception on hostile files
        check_decoder(kind, error, lambda own: decode_and_digest(kind, own, MAX_PIXELS, hashlib.sha256(), longer))
        raise _Unusable("cannot_be_decoded", f"{type(error).__name__}: {error}"[:200]) from None
    known |= {"sha256": hashlib.sha256(data).hexdigest(), "format": kind, "width": width, "height": height}
    if damage:
        known |= {"reason": DAMAGED, "detail": damage}
    return DecodedFile(known, exif, grey, samples, digest)
