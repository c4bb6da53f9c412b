"""Pictures as a chat model is shown them: the bytes that the request names and no others, upright."""

from __future__ import annotations

import hashlib
import io

from PIL import Image, ImageOps

from backends.chat import Failure, ShownPicture

_SENT_AS_THEY_ARE = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
_MAX_PIXELS = 50_000_000


def picture_bytes(picture: ShownPicture) -> bytes | Failure:
    """The file's bytes. A file that is gone, or no longer the one that the answer would be kept for, is a failure
    that is not held against the picture for ever."""
    try:
        data = picture.path.read_bytes()
    except OSError as error:
        return Failure("picture_unreadable", "transient", error.strerror or type(error).__name__)
    if hashlib.sha256(data).hexdigest() != picture.sha256:
        return Failure("picture_changed", "transient", "the file's digest is not the request's")
    return data


def upright(data: bytes) -> Image.Image | Failure:
    """The decoded picture in RGB, turned as EXIF says, transparent parts on white."""
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > _MAX_PIXELS:
                return Failure("picture_too_large", "final", f"{image.width} x {image.height} pixels")
            image.load()
            turned = ImageOps.exif_transpose(image)
    except Exception as error:  # decoders raise whatever they like at broken files
        return Failure("picture_undecodable", "final", type(error).__name__)
    if turned.mode == "P" or "transparency" in turned.info or turned.mode in ("RGBA", "LA", "PA"):
        turned = turned.convert("RGBA")
        turned = Image.alpha_composite(Image.new("RGBA", turned.size, "white"), turned)
    return turned.convert("RGB")


def as_sent(data: bytes) -> tuple[str, bytes] | Failure:
    """Media type and bytes for an endpoint: as they are where every endpoint reads them right, else as JPEG."""
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            media_type = _SENT_AS_THEY_ARE.get(image.format or "")
            is_turned = image.getexif().get(0x0112, 1) != 1
    except Exception as error:
        return Failure("picture_undecodable", "final", type(error).__name__)
    if media_type and not is_turned:
        return media_type, data
    picture = upright(data)
    if isinstance(picture, Failure):
        return picture
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=90)
    return "image/jpeg", out.getvalue()
