"""Decodes an image, a local file or one at a URL, for a scan: whole or not, small and grey, a digest.

Every frame is decoded, although only the first that is not blank is used: an animation that breaks off is an
interrupted copy. A JPEG is decoded at 1/2, 1/4 or 1/8 of its size, in a sixth of the time: libjpeg still reads all
coded data, so that truncated and damaged files are found.
"""

import errno
import hashlib
import io
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from querytruth.array_types import GreyImage
from querytruth.backends.environment import may_be_environment_fault
from querytruth.backends.images import image_headers, jpeg_files
from querytruth.backends.images.image_colours import WHITE, choose_ground, flatten
from querytruth.backends.images.source_names import is_allowed_url
from querytruth.backends.images.worker_messages import open_file
from querytruth.backends.web.offline import is_offline

_IN_BUCKETS = ("s3", "s3a", "gs", "az", "abfs", "abfss")
_LEAST_FRAME = 5000  # pixels that each frame counts as at least: a million tiny frames also take time
_BLANK = 4  # levels between the darkest and the lightest pixel, of lossy files
_MARKED_UTF8 = 0x800  # flag of a name in an archive
_SCANS = 30  # scans of the largest image that a JPEG may take the time of; a usual progressive one has about 10
_BAND = 1 << 20  # pixels converted at a time, to bound memory
HEAD_BYTES = 4096  # enough to recognize the format of a file, and that a file has changed


class _RunningDigest(Protocol):
    """A digest object of hashlib."""

    def update(self, data: Any, /) -> None: ...


class _Jpeg(JpegImagePlugin.JpegImageFile):
    coded_from = 0  # offset of the first scan

    def _open(self) -> None:
        super()._open()
        self.coded_from = self.fp.tell() if self.fp else 0

    def _read_dpi_from_exif(self) -> None:
        """Skip Pillow's parsing of the whole EXIF block, whose resolution is not needed."""


def _open_heif(data: io.BytesIO) -> ImageFile.ImageFile:
    """Open a HEIC file; libheif turns its pixels and sets the orientation of its EXIF block to 1."""
    from pillow_heif import HeifImageFile, options

    options.DECODE_THREADS = 1  # a worker per core decodes
    image: ImageFile.ImageFile = HeifImageFile(data)
    return image


AvifImagePlugin.DEFAULT_MAX_THREADS = 1
# The plugin classes are used directly, because Image.open would import forty more.
_OPEN: dict[str, Callable[[io.BytesIO], ImageFile.ImageFile]] = {
    "JPEG": _Jpeg,
    "PNG": PngImagePlugin.PngImageFile,
    "WEBP": WebPImagePlugin.WebPImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
    "AVIF": AvifImagePlugin.AvifImageFile,
    "HEIF": _open_heif,
}


def open_limited(kind: str, data: bytes, most: int) -> tuple[ImageFile.ImageFile, int]:
    """Open an image without decoding it, and return it with its number of frames; a TIFF at the page that is its
    image, an animation at its first frame that is not blank. Raises UnusableImage, as for more than `most` pixels in
    all (`too_many_pixels`) and for scans of a JPEG that take far longer to decode than its pixels (`too_many_scans`).
    """
    if kind == "WEBP" and (size := image_headers.read_webp_size(data)):
        _limit(size, 1, most)
    page = image_headers.find_image_page(data) if kind == "TIFF" else 0
    image = _OPEN[kind](io.BytesIO(jpeg_files.close_jpeg(data) if kind == "JPEG" else data))
    _limit(image.size, 1, most)
    if isinstance(image, _Jpeg):
        _limit_scans(data, image.size, image.layers, image.coded_from, most)
    if kind == "TIFF":
        frames = _pages(image, most)
        image.seek(page)
    elif kind == "GIF":
        frames = image_headers.count_gif_frames(data, most // _LEAST_FRAME)
    else:
        frames = int(getattr(image, "n_frames", 1))
    _limit(image.size, frames, most)
    if frames > 1 and kind != "TIFF":
        _seek_first_seen(image, frames, most)
    return image, frames


def _seek_first_seen(image: ImageFile.ImageFile, frames: int, most: int) -> None:
    """Go to the first frame with more than one colour, if there is one: many animations begin with a blank frame."""
    for frame in [*range(frames), 0]:
        image.seek(frame)
        _limit(image.size, 1, most)  # a later frame of a GIF may be larger
        shown: Any = image.convert("RGBA").getextrema()
        if shown[3][1] and any(high - low > _BLANK for low, high in shown):
            return


def check_decoder(kind: str, error: Exception, decode: Callable[[bytes], object]) -> None:
    """Raise ImportError where an error is the library's and no file's: a small image of the format fails as well. (An
    error of this kind crosses the border of a worker process.)"""
    if not may_be_environment_fault(error):
        return
    data = io.BytesIO()
    try:
        Image.new("RGB", (64, 64), "grey").save(data, kind)
        decode(data.getvalue())
    except Exception as again:  # any other error says nothing about the library
        if may_be_environment_fault(again):
            reason = f"Pillow {version('pillow')} cannot decode {kind} here ({type(again).__name__}: {again})"
            raise ImportError(reason) from None


def _limit(size: tuple[int, int], frames: int, most: int) -> None:
    pixels = size[0] * size[1]
    if (pixels if frames == 1 else max(pixels, _LEAST_FRAME) * frames) > most:
        raise image_headers.UnusableImage("too_many_pixels", f"{size[0]} x {size[1]} x {frames}")


def _limit_scans(data: bytes, size: tuple[int, int], layers: int, coded_from: int, most: int) -> None:
    if jpeg_files.exceeds_scan_work(data, size[0] * size[1], layers, coded_from, _SCANS * most):
        detail = f"{size[0]} x {size[1]}: decoding its scans takes as long as {_SCANS * most} pixels or more"
        raise image_headers.UnusableImage("too_many_scans", detail)


def _pages(image: ImageFile.ImageFile, most: int) -> int:
    """Count a TIFF's pages; they can differ in size and form an endless chain."""
    pages = pixels = 0
    while True:
        pages += 1
        pixels += max(image.width * image.height, _LEAST_FRAME)
        if pages > 1 and pixels > most:
            raise image_headers.UnusableImage("too_many_pixels", f"{pages} pages with {pixels} pixels")
        try:
            image.seek(pages)
        except EOFError:
            image.seek(0)
            return pages


class DecodedFrame(NamedTuple):
    """The first frame of a complete file: width and height as stored, the EXIF block (b"": none), the small frame in
    grey, and its colours at SAMPLES x SAMPLES places (None: grey or unknown). `damage`: how pixels of a JPEG are lost,
    or ""."""

    size: tuple[int, int]
    exif: bytes
    grey: GreyImage
    samples: NDArray[np.uint8] | None
    damage: str = ""


def decode_and_digest(kind: str, data: bytes, most: int, digest: _RunningDigest) -> DecodedFrame:
    """Decode every frame and add the pixels of the first to `digest`, at full size, for a JPEG at reduced size. The
    longer side of the grey image has at most GREY_SIDE pixels. Raises UnusableImage as `open_limited` does, and the
    decoder's error for a damaged file."""
    if kind == "JPEG" and (plain := jpeg_files.read_plain_jpeg_header(data)):
        size = plain.width, plain.height
        _limit(size, 1, most)
        if not plain.has_one_scan:
            _limit_scans(data, size, plain.layers, plain.coded_from, most)
        digest.update(jpeg_files.checksum_coded_data(data, plain.layers, plain.coded_from, plain.tables))
        grey, samples, damage = jpeg_files.decode_reduced(data, plain)
        digest.update(grey)
        return DecodedFrame(size, plain.exif, grey, samples, damage)
    image, frames = open_limited(kind, data, most)
    size, shown = image.size, image.tell()
    _load_first(kind, data, image)
    exif = exif_block(kind, data, image)
    grey, samples = _reduce_and_digest(data, image, digest)
    for frame in (number for number in range(frames) if number != shown):
        image.seek(frame)
        _limit(image.size, 1, most)  # a later frame of a GIF may be larger
        image.load()
    damage = jpeg_files.find_damage(data, image.layers == 4) if isinstance(image, _Jpeg) else ""
    return DecodedFrame(size, exif, grey, samples, damage)


def _load_first(kind: str, data: bytes, image: ImageFile.ImageFile) -> None:
    """Decode the first frame; a JPEG reduced."""
    if kind == "PNG":
        image_headers.check_png(data)
    elif kind == "JPEG":
        scale = jpeg_files.choose_reduction(image.size)
        image.draft("L" if image.mode == "L" else "RGB", (image.width // scale, image.height // scale))
        image.decodermaxblock = len(data)  # in one piece: 3% faster
    image.load()


def exif_block(kind: str, data: bytes, image: ImageFile.ImageFile) -> bytes:
    """Return the EXIF block of a loaded file, or b""."""
    if kind == "TIFF":
        return data
    if isinstance(profile := image.info.get("Raw profile type exif"), str):  # as ImageMagick writes it to PNG
        return bytes.fromhex("".join(profile.split("\n")[3:]))
    block = image.info.get("exif")
    return block if isinstance(block, bytes) else b""


def _reduce_and_digest(
    data: bytes, image: Image.Image, digest: _RunningDigest
) -> tuple[GreyImage, NDArray[np.uint8] | None]:
    """Return the loaded image in grey, its longer side at most GREY_SIDE, and its sampled colours; adds its pixels to
    `digest`."""
    factor = -(-max(image.size) // jpeg_files.GREY_SIDE)
    span = _span(image)
    if isinstance(image, _Jpeg):
        tables = jpeg_files.read_tables(data, image.coded_from)
        digest.update(jpeg_files.checksum_coded_data(data, image.layers, image.coded_from, tables))
        small = _grey(image, span)
        grey = np.asarray(small.reduce(factor) if factor > 1 else small)
        digest.update(grey)
        return grey, None if image.mode == "L" else jpeg_files.sample_colours(image.convert("RGB"))
    rows = max(1, _BAND // (image.width * factor)) * factor
    size = -(-image.width // factor), -(-image.height // factor)
    small, coloured = Image.new("L", size), Image.new("RGB", size)
    ground = choose_ground(image) if _is_transparent(image) else WHITE
    has_colours = False
    for top in range(0, image.height, rows):
        band = _flat(image.crop((0, top, image.width, min(top + rows, image.height))), ground)
        digest.update(band.mode.encode() + band.tobytes())
        if has_colours := band.mode in ("RGB", "CMYK", "YCbCr", "HSV"):
            reduced = band.convert("RGB").reduce(factor)
            coloured.paste(reduced, (0, top // factor))
            small.paste(reduced.convert("L"), (0, top // factor))
        else:
            small.paste(_grey(band, span).reduce(factor), (0, top // factor))
    return np.asarray(small), jpeg_files.sample_colours(coloured) if has_colours else None


def _is_transparent(image: Image.Image) -> bool:
    return image.mode in ("PA", "RGBa", "La", "RGBA", "LA") or (
        image.mode in ("L", "RGB", "P", "1") and image.has_transparency_data
    )


def _flat(band: Image.Image, ground: str) -> Image.Image:
    """Remove palette and transparency: images that look the same get equal bytes, whatever transparent pixels hide."""
    if _is_transparent(band):
        return flatten(band, ground)
    return band.convert("RGB") if band.mode == "P" else band


def _grey(band: Image.Image, span: tuple[float, float]) -> Image.Image:
    if band.mode.startswith(("I", "F")):  # Pillow's own conversion clips at 255
        low, high = span
        values = (np.nan_to_num(np.asarray(band, np.float32)).astype(np.float64) - low) * (255 / (high - low))
        return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))
    if band.mode == "LAB":
        return band.getchannel(0)
    return band if band.mode == "L" else band.convert("L")


def _span(image: Image.Image) -> tuple[float, float]:
    """Return the values of black and white: 0 and 65535 for 16 bits, else the range of the image's values."""
    if image.mode not in ("I", "F"):
        return 0, 65535
    low, high = np.nan_to_num(np.asarray(image.getextrema(), np.float32)).tolist()
    if image.mode == "I" and low >= 0 and high <= 65535:
        return 0, 65535
    return low, max(high, low + 1e-6)


def head_digest(head: bytes) -> str:
    """Return the digest of a file's first bytes, as `ScannedImage.head` has it."""
    return hashlib.sha256(head).hexdigest()[:16]


def is_remote(location: str) -> bool:
    """Return whether fsspec opens the location. An absolute path is local, whatever it contains."""
    return "://" in location and not location.startswith("/")


def read_bounded(location: str, limit: int) -> bytes:
    """Return at most `limit` + 1 bytes; `limit` + 1 bytes mean that the file is too large. Links are followed.
    Raises OSError; FileNotFoundError for what is not a regular file."""
    if not is_remote(location):
        handle = open_file(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a regular file")
            return file.read(limit + 1)
    if not is_allowed_url(location):
        raise OSError(None, "cannot be read: its URL scheme is not allowed")
    try:
        with fsspec_for(location).open(location, "rb") as remote_file:
            return read_stream(remote_file, limit + 1)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # each file system has its own errors; their texts may hold a URL with a password
        raise OSError(None, f"cannot be read: {type(error).__name__}") from None


def fsspec_for(url: str) -> Any:
    """Return fsspec, set up to read buckets through obstore like the rest of the project. Raises PermissionError if the
    run is offline: the check of Python's sockets does not see obstore's connections."""
    if is_offline() and any(f"{protocol}://" in url.lower() for protocol in _IN_BUCKETS):
        raise PermissionError(errno.EACCES, "--offline forbids connections to a bucket")
    return _fsspec()


@cache
def _fsspec() -> Any:
    import fsspec
    from obstore.fsspec import register

    from querytruth.backends.files.bucket import client_settings  # it takes 20 ms, and few sources are in buckets

    for protocol in _IN_BUCKETS:
        if protocol not in fsspec.registry:  # a file system that the process chose itself stays
            register(protocol)
            fsspec.config.conf[protocol] = client_settings(protocol) | fsspec.config.conf.get(protocol, {})
    fsspec.register_implementation("zip", _zip_of_any_encoding(), clobber=True)
    return fsspec


def _zip_of_any_encoding() -> Any:
    from fsspec.implementations.zip import ZipFileSystem

    class NamedZipFileSystem(ZipFileSystem):  # type: ignore[misc]
        """A zip file whose unmarked names may be UTF-8, or GBK as written by a Chinese Windows."""

        def __init__(self, *given: object, **options: object) -> None:
            super().__init__(*given, **options)
            archive: ZipFile = self.zip  # type: ignore[has-type]
            names = "\n".join(one.filename for one in archive.infolist() if not one.flag_bits & _MARKED_UTF8)
            if self.mode == "r" and (encoding := _find_encoding(names.encode("cp437", "ignore"))):
                self.zip = ZipFile(self.fo, metadata_encoding=encoding)

    return NamedZipFileSystem


def _find_encoding(names: bytes) -> str | None:
    for encoding in ("utf-8", "gb18030"):
        with suppress(UnicodeDecodeError):
            beyond = [char for char in names.decode(encoding) if not char.isascii()]
            if beyond and (encoding == "utf-8" or all("\u3000" <= char <= "\u9fff" for char in beyond)):
                return encoding
    return None


def read_stream(file: Any, limit: int) -> bytes:
    """Return up to `limit` bytes. Reads repeatedly, because one read of a stream may return less."""
    pieces = []
    while limit > 0 and (piece := file.read(limit)):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)
