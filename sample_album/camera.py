"""Writes a painted scene as a camera would: JPEG, PNG or WebP, with the hour and the place in its EXIF."""

from dataclasses import dataclass
from datetime import datetime
from io import BytesIO

from PIL import ExifTags, Image, TiffImagePlugin

_ROTATED = 6  # EXIF orientation: turn by 90 degrees clockwise to see it upright


@dataclass(frozen=True, slots=True)
class CameraSettings:
    """How one picture is written; None for what its EXIF leaves out, `without_exif` for no EXIF at all."""

    taken_at: datetime
    offset: str
    latitude: float | None
    longitude: float | None
    suffix: str  # .jpg, .png or .webp
    without_exif: bool
    is_rotated: bool
    quality: int = 88


def encode_image(image: Image.Image, shot: CameraSettings) -> bytes:
    """The file's bytes; a sideways shot is stored turned, with the orientation that turns it back."""
    stored = image.transpose(Image.Transpose.ROTATE_90) if shot.is_rotated else image
    out = BytesIO()
    exif = None if shot.without_exif else _exif(shot)
    extra = {} if exif is None else {"exif": exif}
    if shot.suffix == ".png":
        stored.save(out, "PNG", compress_level=6, **extra)
    elif shot.suffix == ".webp":
        stored.save(out, "WEBP", quality=shot.quality, method=2, **extra)
    else:
        stored.save(out, "JPEG", quality=shot.quality, subsampling=0, **extra)
    return out.getvalue()


def _exif(shot: CameraSettings) -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "Sample album"
    exif[ExifTags.Base.Model] = "Drawn by code"
    exif[ExifTags.Base.Orientation] = _ROTATED if shot.is_rotated else 1
    inner = exif.get_ifd(ExifTags.IFD.Exif)
    inner[ExifTags.Base.DateTimeOriginal] = shot.taken_at.strftime("%Y:%m:%d %H:%M:%S")
    inner[ExifTags.Base.OffsetTimeOriginal] = shot.offset
    if shot.latitude is not None and shot.longitude is not None:
        gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
        gps[ExifTags.GPS.GPSVersionID] = b"\x02\x03\x00\x00"
        gps[ExifTags.GPS.GPSLatitudeRef] = "N" if shot.latitude >= 0 else "S"
        gps[ExifTags.GPS.GPSLatitude] = _sexagesimal(shot.latitude)
        gps[ExifTags.GPS.GPSLongitudeRef] = "E" if shot.longitude >= 0 else "W"
        gps[ExifTags.GPS.GPSLongitude] = _sexagesimal(shot.longitude)
    return exif


def _sexagesimal(degrees: float) -> tuple[TiffImagePlugin.IFDRational, ...]:
    """Degrees, minutes and seconds to a ten-thousandth of a second, about three millimetres."""
    parts = round(abs(degrees) * 3600 * 10_000)
    whole, rest = divmod(parts, 3600 * 10_000)
    minutes, seconds = divmod(rest, 60 * 10_000)
    rational = TiffImagePlugin.IFDRational
    return rational(whole, 1), rational(minutes, 1), rational(seconds, 10_000)
