"""What people would scan and render a gallery with otherwise; each way runs in a process of its own.

    PYTHON benchmarks/gallery_peers.py WAY FOLDER [--keep FOLDER]

PYTHON is an interpreter that has the peers (benchmarks/gallery.py says how), not the project's. Prints one line of
JSON: images, seconds (wall and processor, start and imports apart), peak memory in MB; or what is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from gallery_timing import Work, images_in, measure_call, measure_each

SIDE, QUALITY = 512, 90
INSTALL = {  # the line that installs a module that a way imports
    "imagededup": "pip install torch==2.13.0 scikit-learn PyWavelets matplotlib tqdm; pip install --no-deps imagededup",
    "cleanvision": "pip install cleanvision",
    "imagehash": "pip install imagehash",
    "cv2": "pip install opencv-python-headless",
    "simplejpeg": "pip install simplejpeg",
    "pyvips": "pip install 'pyvips[binary]'",
    "img2dataset": "pip install img2dataset",
}

# ---- scan: proof that the file decodes, size, EXIF, sha256 and a 64-bit perceptual hash


def image_facts(data: bytes) -> Any:
    """Digest, size and EXIF, as anyone would read them with Pillow; the open image with it."""
    from PIL import Image

    image = Image.open(io.BytesIO(data))
    exif = image.getexif()
    return hashlib.sha256(data).hexdigest(), image, (dict(exif.get_ifd(0x8769)), dict(exif.get_ifd(0x8825)))


def pillow_imagehash() -> Work:
    import imagehash

    def scan(path: Path) -> Any:
        digest, image, exif = image_facts(path.read_bytes())
        return digest, image.size, exif, imagehash.phash(image)

    return scan


def pillow_draft_imagehash() -> Work:
    import imagehash

    def scan(path: Path) -> Any:
        digest, image, exif = image_facts(path.read_bytes())
        size = image.size
        image.draft("L", (size[0] // 8, size[1] // 8))
        return digest, size, exif, imagehash.phash(image)

    return scan


def cv2_phash(cv2: Any, grey: Any) -> int:
    """The perceptual hash with OpenCV's resampling and its DCT."""
    import numpy as np

    small = cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA).astype(np.float32)
    low = cv2.dct(small)[:8, :8]
    return int.from_bytes(np.packbits(low > np.median(low)).tobytes(), "big")


def opencv_reduced() -> Work:
    import cv2
    import numpy as np

    cv2.setNumThreads(1)

    def scan(path: Path) -> Any:
        data = path.read_bytes()
        digest, image, exif = image_facts(data)
        grey = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_REDUCED_GRAYSCALE_8)
        return digest, image.size, exif, cv2_phash(cv2, grey)

    return scan


def simplejpeg_eighth() -> Work:
    import cv2
    import simplejpeg

    cv2.setNumThreads(1)

    def scan(path: Path) -> Any:
        data = path.read_bytes()
        digest, image, exif = image_facts(data)
        grey = simplejpeg.decode_jpeg(data, "GRAY", min_height=1, min_width=1)
        return digest, image.size, exif, cv2_phash(cv2, grey)

    return scan


def pyvips_eighth() -> Work:
    import cv2
    import numpy as np
    import pyvips

    cv2.setNumThreads(1)

    def scan(path: Path) -> Any:
        data = path.read_bytes()
        digest, image, exif = image_facts(data)
        grey = pyvips.Image.jpegload_buffer(data, shrink=8, fail_on="warning").colourspace("b-w")
        return digest, image.size, exif, cv2_phash(cv2, np.ascontiguousarray(grey.numpy()))

    return scan


def limit_scan() -> Work:
    """libjpeg-turbo alone, at the scale where it has least to do: it reads the entropy stream and little else."""
    import simplejpeg

    return lambda path: simplejpeg.decode_jpeg(path.read_bytes(), "GRAY", min_height=1, min_width=1)


# ---- peers that take a folder


def imagededup_phash(folder: Path) -> Callable[[], int]:
    # The hashes need no networks, but its package imports their definitions, which need torchvision. There is none
    # for every build of torch: nothing of it is called, so a stand-in does.
    for name in ("", ".models", ".transforms", ".models.vision_transformer"):
        sys.modules[f"torchvision{name}"] = MagicMock()
    from imagededup.methods import PHash

    # 0 workers are one, in a process of its own.
    return lambda: len(PHash(verbose=False).encode_images(str(folder), num_enc_workers=0))


def cleanvision_duplicates(folder: Path) -> Callable[[], int]:
    from cleanvision import Imagelab

    lab = Imagelab(data_path=str(folder), verbose=False)
    kinds: dict[str, Any] = {"exact_duplicates": {}, "near_duplicates": {}}

    def find() -> int:
        lab.find_issues(kinds, n_jobs=1, verbose=False)
        return len(lab.issues)

    return find


# ---- render: 512 x 512, JPEG of quality 90


def pillow_jpeg(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


def pillow_lanczos() -> Work:
    from PIL import Image, ImageOps

    def render(path: Path) -> bytes:
        image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        return pillow_jpeg(image.resize((SIDE, SIDE), Image.Resampling.LANCZOS))

    return render


def pillow_draft() -> Work:
    from PIL import Image, ImageOps

    def render(path: Path) -> bytes:
        file = Image.open(path)
        file.draft("RGB", (SIDE, SIDE))
        image = ImageOps.exif_transpose(file).convert("RGB")
        return pillow_jpeg(image.resize((SIDE, SIDE), Image.Resampling.LANCZOS))

    return render


def img2dataset_resizer() -> Work:
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    from img2dataset.resizer import Resizer

    # It cannot squash: the crop gives as many pixels.
    resizer = Resizer(SIDE, "center_crop", resize_only_if_bigger=False, encode_quality=QUALITY)

    def render(path: Path) -> bytes:
        data, *_, error = resizer(io.BytesIO(path.read_bytes()))
        assert data, error
        return bytes(data)

    return render


def pyvips_thumbnail() -> Work:
    import pyvips

    def render(path: Path) -> bytes:
        small = pyvips.Image.thumbnail_buffer(path.read_bytes(), SIDE, height=SIDE, size="force")
        return bytes(small.jpegsave_buffer(Q=QUALITY, keep="none"))

    return render


def opencv_reduced_render() -> Work:
    import cv2
    import numpy as np
    from PIL import Image

    cv2.setNumThreads(1)
    scales = {8: cv2.IMREAD_REDUCED_COLOR_8, 4: cv2.IMREAD_REDUCED_COLOR_4, 2: cv2.IMREAD_REDUCED_COLOR_2}

    def render(path: Path) -> bytes:
        data = path.read_bytes()
        side = min(Image.open(io.BytesIO(data)).size)
        way = next((flag for scale, flag in scales.items() if side // scale >= SIDE), cv2.IMREAD_COLOR)
        image = cv2.imdecode(np.frombuffer(data, np.uint8), way)
        small = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        return bytes(cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes())

    return render


def simplejpeg_opencv() -> Work:
    import cv2
    import simplejpeg

    cv2.setNumThreads(1)

    def render(path: Path) -> bytes:
        image = simplejpeg.decode_jpeg(path.read_bytes(), "BGR", min_height=SIDE, min_width=SIDE)
        small = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        return bytes(simplejpeg.encode_jpeg(small, QUALITY, "BGR", "420"))

    return render


def limit_render() -> Work:
    """libjpeg-turbo alone: a decode at the smallest scale that still has 512 pixels, and the coding of 512 x 512."""
    import numpy as np
    import simplejpeg

    def render(path: Path) -> bytes:
        image = simplejpeg.decode_jpeg(path.read_bytes(), "RGB", min_height=SIDE, min_width=SIDE)
        return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(image[:SIDE, :SIDE]), QUALITY, "RGB", "420"))

    return render


SCANS = (pillow_imagehash, pillow_draft_imagehash, opencv_reduced, simplejpeg_eighth, pyvips_eighth, limit_scan)
RENDERS = (
    pillow_lanczos,
    pillow_draft,
    img2dataset_resizer,
    pyvips_thumbnail,
    opencv_reduced_render,
    simplejpeg_opencv,
    limit_render,
)
PER_IMAGE_METHODS: dict[str, Callable[[], Work]] = {way.__name__: way for way in (*SCANS, *RENDERS)}
PER_FOLDER_METHODS: dict[str, Callable[[Path], Callable[[], int]]] = {
    way.__name__: way for way in (imagededup_phash, cleanvision_duplicates)
}


def measure(way: str, folder: Path, keep: Path | None) -> dict[str, Any]:
    try:
        if way in PER_FOLDER_METHODS:
            return measure_call(PER_FOLDER_METHODS[way](folder))
        return measure_each(PER_IMAGE_METHODS[way](), images_in(folder), keep)
    except ModuleNotFoundError as error:
        return {"missing": str(error.name).partition(".")[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=PER_IMAGE_METHODS | PER_FOLDER_METHODS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", type=Path, help="where a way that renders leaves its images")
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a peer may print as it goes
    print(json.dumps(measure(given.way, given.folder, given.keep)), file=answers)


if __name__ == "__main__":
    main()
