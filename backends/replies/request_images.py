"""The images of a chat request: exactly the bytes that it names, upright."""

import hashlib
import io

from PIL import Image, ImageOps

from backends.chat import ChatImage, Failure
from backends.images.image_decoding import TooManyPixels, open_limited
from backends.images.image_headers import sniff_format
from backends.images.image_reading import MAX_FILE_BYTES, MAX_PIXELS
from backends.images.transparency import choose_ground, flatten
from backends.regular_files import read_regular

_SENT_AS_THEY_ARE = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}


def read_image_bytes(image: ChatImage) -> bytes | Failure:
    """Returns the file's bytes; a transient failure where the file is missing or has changed."""
    try:
        data = read_regular(image.path, MAX_FILE_BYTES)
    except OSError as error:
        return Failure("image_unreadable", "transient", error.strerror or type(error).__name__)
    if hashlib.sha256(data).hexdigest() != image.sha256:
        return Failure("image_changed", "transient", "the file's digest is not the request's")
    return data


def decode_upright(data: bytes) -> Image.Image | Failure:
    """Returns the image in RGB, turned by its EXIF orientation, transparent parts on the ground of `choose_ground`; or
    a final failure."""
    try:
        image, _ = open_limited(sniff_format(data) or "", data, MAX_PIXELS)
        image.load()
        oriented = ImageOps.exif_transpose(image)
    except TooManyPixels as error:
        return Failure("image_too_large", "final", f"{error} pixels")
    except Exception as error:  # decoders raise any exception on broken files
        return Failure("image_undecodable", "final", type(error).__name__)
    if oriented.mode == "P" or "transparency" in oriented.info or oriented.mode in ("RGBA", "LA", "PA"):
        oriented = flatten(oriented, choose_ground(oriented))
    return oriented.convert("RGB")


def encode_for_endpoint(data: bytes) -> tuple[str, bytes] | Failure:
    """Returns media type and bytes for an endpoint: unchanged where all endpoints read them correctly, else a JPEG."""
    try:
        kind = sniff_format(data) or ""
        media_type = _SENT_AS_THEY_ARE.get(kind)
        is_turned = open_limited(kind, data, MAX_PIXELS)[0].getexif().get(0x0112, 1) != 1
    except TooManyPixels as error:
        return Failure("image_too_large", "final", f"{error} pixels")
    except Exception as error:
        return Failure("image_undecodable", "final", type(error).__name__)
    if media_type and not is_turned:
        return media_type, data
    upright_image = decode_upright(data)
    if isinstance(upright_image, Failure):
        return upright_image
    out = io.BytesIO()
    upright_image.save(out, "JPEG", quality=90)
    return "image/jpeg", out.getvalue()
