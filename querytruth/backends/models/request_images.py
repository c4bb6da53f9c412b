"""The images of a chat request: exactly the bytes that it names, upright, and of a shape that the model takes."""

import hashlib
import io

from PIL import Image, ImageOps

from querytruth.backends.environment import translate_environment_faults
from querytruth.backends.files.safe_paths import read_regular
from querytruth.backends.images.image_colours import choose_ground, flatten
from querytruth.backends.images.image_decoding import check_decoder, open_limited
from querytruth.backends.images.image_headers import UnusableImage, sniff_format
from querytruth.backends.images.image_reading import MAX_FILE_BYTES, MAX_PIXELS
from querytruth.backends.models.chat import ChatImage, Failure

_SENT_AS_THEY_ARE = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}

# The limits of families of models, of which the strictest holds for all: an endpoint may serve one under any name, and
# a server answers what is beyond them with status 500. A merged patch has a side of 28 pixels in Qwen2-VL, Qwen2.5-VL
# and GLM-4.1V, of 32 in Qwen3-VL; the sides of an image may be as 200 to 1 in all of these and in DashScope. An image
# smaller than the smaller patch shows nothing to describe, and is refused; any other is enlarged or padded.
LEAST_SIDE = 28  # pixels
PATCH_SIDE = 32
MAX_RATIO = 200
_MAX_ENLARGED = 4096  # pixels of a longer side that was enlarged


def read_image_bytes(image: ChatImage) -> bytes | Failure:
    """Return the file's bytes; a transient failure where the file is missing or has changed."""
    try:
        data = read_regular(image.path, MAX_FILE_BYTES)
    except OSError as error:
        return Failure("image_unreadable", "transient", error.strerror or type(error).__name__)
    if hashlib.sha256(data).hexdigest() != image.sha256:
        return Failure("image_changed", "transient", "the file's digest differs from the request's")
    return data


def decode_upright(data: bytes) -> Image.Image | Failure:
    """Return the image in RGB, turned by its EXIF orientation, transparent parts on the ground of `choose_ground`; or
    a final failure."""
    try:
        image, _ = open_limited(sniff_format(data) or "", data, MAX_PIXELS)
        image.load()
        oriented = ImageOps.exif_transpose(image)
    except Exception as error:  # decoders raise any exception on broken files
        return _describe_failure(data, error)
    if oriented.mode == "P" or "transparency" in oriented.info or oriented.mode in ("RGBA", "LA", "PA"):
        oriented = flatten(oriented, choose_ground(oriented))
    return oriented.convert("RGB")


def open_upright(image: ChatImage) -> Image.Image | Failure:
    """Return the image of a request in RGB, upright, or why it cannot be shown."""
    data = read_image_bytes(image)
    return decode_upright(data) if isinstance(data, bytes) else data


def fit_for_model(image: Image.Image, min_side: int = PATCH_SIDE) -> Image.Image | Failure:
    """Return an image that models take: a small one enlarged with its proportions to a shorter side of `min_side`
    pixels, a long and narrow one with white beside its long sides; any other as it is. A final failure for one that is
    smaller than a patch."""
    if min(image.size) < LEAST_SIDE:
        return _too_small(image.size)
    size, padded = _fit_size(image.size, min_side)
    if padded == image.size:
        return image
    enlarged = image if size == image.size else image.resize(size, Image.Resampling.BICUBIC)
    canvas = Image.new("RGB", padded, "white")
    canvas.paste(enlarged, ((padded[0] - size[0]) // 2, (padded[1] - size[1]) // 2))
    return canvas


def _too_small(size: tuple[int, int]) -> Failure:
    width, height = size
    return Failure("image_too_small", "final", f"{width} x {height} pixels; models need sides of {LEAST_SIDE} or more")


def _fit_size(size: tuple[int, int], min_side: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the size of the enlarged image, and with what is added at its sides."""
    shorter, longer = min(size), max(size)
    scale = max(1.0, min(min_side / shorter, _MAX_ENLARGED / longer))
    enlarged = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    least = max(min_side, -(-max(enlarged) // (MAX_RATIO - 1)))
    return enlarged, (max(enlarged[0], least), max(enlarged[1], least))


def encode_for_endpoint(data: bytes) -> tuple[str, bytes] | Failure:
    """Return media type and bytes for an endpoint: unchanged where all endpoints and models read them correctly, else
    a JPEG, or a PNG of an image that was enlarged or padded."""
    try:
        kind = sniff_format(data) or ""
        media_type = _SENT_AS_THEY_ARE.get(kind)
        opened = open_limited(kind, data, MAX_PIXELS)[0]
        is_turned, is_fit = opened.getexif().get(0x0112, 1) != 1, _fit_size(opened.size, PATCH_SIDE)[1] == opened.size
    except Exception as error:
        return _describe_failure(data, error)
    if min(opened.size) < LEAST_SIDE:
        return _too_small(opened.size)
    if media_type and is_fit and not is_turned:
        return media_type, data
    upright_image = decode_upright(data)
    if isinstance(upright_image, Failure):
        return upright_image
    out = io.BytesIO()
    fit = fit_for_model(upright_image)
    if isinstance(fit, Failure):
        return fit
    if not is_fit:
        fit.save(out, "PNG")
        return "image/png", out.getvalue()
    upright_image.save(out, "JPEG", quality=90)
    return "image/jpeg", out.getvalue()


def _describe_failure(data: bytes, error: Exception) -> Failure:
    """Return why an image cannot be decoded. Raises EnvironmentFault if the decoder fails for every image, so that the
    image is not at fault."""
    if isinstance(error, UnusableImage) and error.reason == "too_many_pixels":
        return Failure("image_too_large", "final", f"{error.detail} pixels")
    with translate_environment_faults("decode images", "the images of the questions"):
        check_decoder(
            sniff_format(data) or "",
            error,
            lambda own: open_limited(sniff_format(own) or "", own, MAX_PIXELS)[0].load(),
        )
    return Failure("image_undecodable", "final", type(error).__name__)
