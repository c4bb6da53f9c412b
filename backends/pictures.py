"""Picture files: found below a folder, proven whole, read for size, place and time, rendered.

The header is read before anything is decoded; formats and pixels are limited. A file that fails says why.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import stat
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from backends.durable_files import write_atomically

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 50_000_000  # width x height x frames
MAX_BYTES = 200 << 20
_TIME = re.compile(r"(\d{4})[:-](\d{2})[:-](\d{2})[ T](\d{2}):(\d{2}):(\d{2})")
_OFFSET = re.compile(r"[+-]\d{2}:\d{2}|Z")
warnings.filterwarnings("ignore", module=r"PIL\.")  # a file's oddities are in its reason or do not matter


@dataclass(frozen=True, slots=True)
class Picture:
    """What a file says of itself; width and height after EXIF orientation. `reason` is set where it is no good."""

    path: str = ""
    sha256: str = ""
    width: int = 0
    height: int = 0
    taken_at: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    reason: str = ""
    detail: str | None = None


class PictureFolder:
    """Finds listed pictures below a folder, never outside it, not even through a link."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._home = os.path.realpath(root)
        self._below: dict[str, list[str]] | None = None
        self._walk = Lock()

    def find(self, listed: str) -> Path | str:
        """The file for a listed name, or the reason why there is none.

        The name as it stands; else with leading folders left off one by one (`images/v1/patch8/x.jpg`,
        `patch8/x.jpg`, `x.jpg`); else the one file in a deeper folder that ends in the whole name
        (`val2017/x.jpg` for `x.jpg`): data sets are unpacked in all of these ways.
        """
        parts = PurePosixPath(listed.replace("\\", "/")).parts
        if not parts or any(part in ("..", "/") for part in parts) or "\x00" in listed:
            return "not_a_relative_name"
        for start in range(len(parts)):
            path = self.root.joinpath(*parts[start:])
            if self._is_inside(path):
                return path
        deeper = [
            path for path in self._files().get(parts[-1], []) if PurePosixPath(path).parts[-len(parts) :] == parts
        ]
        if len(deeper) > 1:
            return "found_in_several_folders"
        return self.root / deeper[0] if deeper else "picture_missing"

    def _is_inside(self, path: Path) -> bool:
        try:
            return os.path.commonpath([self._home, os.path.realpath(path, strict=True)]) == self._home
        except (OSError, ValueError):
            return False

    def _files(self) -> dict[str, list[str]]:
        """Every regular file below the root by its name; walked once, and only if a name was not where it should be."""
        with self._walk:
            if self._below is None:
                self._below = {}
                for folder, _, names in os.walk(self.root):
                    for name in names:
                        path = Path(folder, name)
                        if path.is_file() and not path.is_symlink():
                            self._below.setdefault(name, []).append(str(path.relative_to(self.root)))
            return self._below


def read_picture(path: Path) -> Picture:
    """Prove a file whole and read it; a file that is none comes back with its reason, never as an exception."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - a FIFO must not block
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return Picture(str(path), reason="not_a_regular_file")
            if status.st_size > MAX_BYTES:
                return Picture(str(path), reason="file_too_large", detail=f"{status.st_size} bytes")
            data = file.read()
    except OSError as error:
        return Picture(str(path), reason="unreadable", detail=error.strerror)
    if not data:
        return Picture(str(path), reason="empty_file")
    try:
        with _opened(data) as image:
            frames = getattr(image, "n_frames", 1)
            if image.width * image.height * frames > MAX_PIXELS:
                return Picture(str(path), reason="too_many_pixels", detail=f"{image.width} x {image.height} x {frames}")
            exif = image.getexif()
            turned = exif.get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
            width, height = (image.height, image.width) if turned else image.size
            image.load()
            latitude, longitude = _place(exif)
            taken_at = _time(exif)
    except Image.DecompressionBombError as error:  # Pillow's own limit, far above ours
        return Picture(str(path), reason="too_many_pixels", detail=str(error)[:200])
    except UnidentifiedImageError:
        return Picture(str(path), reason="not_a_picture")
    except Exception as error:  # Pillow's decoders raise whatever a hostile file makes them raise
        return Picture(str(path), reason="cannot_be_decoded", detail=f"{type(error).__name__}: {error}"[:200])
    return Picture(str(path), hashlib.sha256(data).hexdigest(), width, height, taken_at, latitude, longitude)


def render_to(source: Path, target: Path, size: int, mode: str) -> None:
    """Render to size x size as JPEG without metadata, unless the target is there already."""
    if not target.exists():
        write_atomically(target, rendered(source.read_bytes(), size, mode))


def rendered(data: bytes, size: int, mode: str, quality: int = 90) -> bytes:
    """A picture as a size x size JPEG: squashed, fitted with grey bars, or cropped in the middle."""
    with _opened(data) as image:
        image.draft("RGB", (2 * size, 2 * size))
        upright = _on_white(ImageOps.exif_transpose(image))
        if mode == "fit":
            upright = ImageOps.pad(upright, (size, size), Image.Resampling.LANCZOS, color=(128, 128, 128))
        elif mode == "crop":
            upright = ImageOps.fit(upright, (size, size), Image.Resampling.LANCZOS)
        else:
            upright = upright.resize((size, size), Image.Resampling.LANCZOS)
        return _jpeg(upright, quality)


def thumbnail(data: bytes, side: int) -> bytes:
    """A small JPEG in the picture's own proportions, its longer side at most `side`."""
    with _opened(data) as image:
        image.draft("RGB", (2 * side, 2 * side))
        upright = _on_white(ImageOps.exif_transpose(image))
        upright.thumbnail((side, side), Image.Resampling.LANCZOS)
        return _jpeg(upright, 82)


def _opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data), formats=FORMATS)


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def _jpeg(image: Image.Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _time(exif: Image.Exif) -> str | None:
    """When the picture was taken, as the camera wrote it; with its offset where there is one."""
    detail = exif.get_ifd(ExifTags.IFD.Exif)
    for time_tag, offset_tag in (
        (ExifTags.Base.DateTimeOriginal, ExifTags.Base.OffsetTimeOriginal),
        (ExifTags.Base.DateTimeDigitized, ExifTags.Base.OffsetTimeDigitized),
    ):
        if (found := _TIME.match(str(detail.get(time_tag, "")))) and found[1] != "0000" and found[2] != "00":
            offset = str(detail.get(offset_tag, "")).strip()
            suffix = offset if _OFFSET.fullmatch(offset) else ""
            return f"{found[1]}-{found[2]}-{found[3]}T{found[4]}:{found[5]}:{found[6]}{suffix}"
    return None


def _place(exif: Image.Exif) -> tuple[float | None, float | None]:
    gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
    latitude = _degrees(gps.get(ExifTags.GPS.GPSLatitude), gps.get(ExifTags.GPS.GPSLatitudeRef), "S", 90)
    longitude = _degrees(gps.get(ExifTags.GPS.GPSLongitude), gps.get(ExifTags.GPS.GPSLongitudeRef), "W", 180)
    return (latitude, longitude) if latitude is not None and longitude is not None else (None, None)


def _degrees(parts: Any, reference: Any, negative: str, limit: int) -> float | None:
    try:
        degrees, minutes, seconds = (float(part) for part in parts)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    value = degrees + minutes / 60 + seconds / 3600
    if not math.isfinite(value) or value > limit or value < 0:
        return None
    return round(-value if str(reference).strip("\x00 ").upper() == negative else value, 7)
