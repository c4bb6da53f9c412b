"""Images and texts as vectors: encoded once, kept next to the set or in a bucket, compared by cosine.

Images are decoded in worker processes, a few in memory at a time. The median of random pairs is 0.06 for one model and
0.84 for another, so a cut on a cosine belongs to its embedder. A cut defined for another model is derived from the
set's own random pairs; one within their range is rejected.
"""

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from PIL import Image

from querytruth.array_types import BoolArray, RowIndices, Vectors
from querytruth.backends.files import bucket, bucket_urls, durable_files, parquet_files, safe_paths
from querytruth.backends.images.rendering import PixelsJob, ThumbnailJob, run_pixels_job, run_thumbnail_job
from querytruth.backends.images.worker_processes import map_in_parallel, map_in_workers
from querytruth.backends.models.embedders import Embedder, ImageTextEmbedder, load_image_text_embedder
from querytruth.backends.models.nearest_neighbours import find_pairs_above, pair_cosines
from querytruth.backends.models.vector_store import VectorStore, is_sound_vector_file
from querytruth.backends.steps import Advance, current_run, open_transfer_bar, step
from querytruth.errors import UserError, translate_write_errors
from querytruth.records import digest_start_of_image_id
from querytruth.sets.kept_work import KeptObject, KeptObjects
from querytruth.sets.manifest import Model, Provenance, Threshold, describe_threshold

MIN_ITEMS = 20  # whose pairs are a background
MAX_SHARE_ABOVE = 0.01  # of random pairs that a cut may take for the same
# Albums hold many images of one subject (ten bursts of ten are 9% of the pairs of 100 images), which texts do not.
MIN_IMAGES = 100
MAX_SHARE_OF_IMAGES_ABOVE = 0.1
_PAIRS = 20_000
_KIND = "parquet"
_MAX_BYTES = 256 << 20
_AT_ONCE = 256
_WRITE_EVERY = 1024  # between two writes
Encode = Callable[[list[str], Advance], tuple[list[int], Vectors]]
_NEAR_DUPLICATE_COSINE = 0.95
_SIDE = 512  # pixels of the longer side: encoders look at 224 to 384


@dataclass(frozen=True, slots=True)
class CosineBackground:
    """Cosines of random pairs: their number, the median, and `high`, the quantile that a `share` of them exceeds."""

    pairs: int
    median: float
    high: float
    share: float = MAX_SHARE_ABOVE

    def derive_cut(self) -> float:
        """Return a cut for this embedder: half way from `high` to 1."""
        return round((self.high + 1) / 2, 4)

    def as_thresholds(self, name: str) -> list[Threshold]:
        """Return the background as records of the manifest, beside the cut `name`."""
        return [
            describe_threshold(f"{name}.background.median", "over", self.median),
            describe_threshold(f"{name}.background.high", "over", self.high),
        ]


def measure_cosine_background(vectors: Vectors) -> CosineBackground | None:
    """Return the background of unit vectors (n, d) of different texts; None for fewer than MIN_ITEMS."""
    return None if len(vectors) < MIN_ITEMS else _measure(vectors, MAX_SHARE_ABOVE)


def measure_image_background(vectors: Vectors) -> CosineBackground | None:
    """Return the background of unit vectors (n, d) of the images of a set, which may contain many duplicates; None for
    fewer than MIN_IMAGES."""
    return None if len(vectors) < MIN_IMAGES else _measure(vectors, MAX_SHARE_OF_IMAGES_ABOVE)


def _measure(vectors: Vectors, share: float) -> CosineBackground:
    count = len(vectors)
    if count * (count - 1) // 2 <= _PAIRS:
        left, right = np.triu_indices(count, 1)
    else:
        left, right = np.random.default_rng(0).integers(0, count, (2, _PAIRS))
        left, right = left[left != right], right[left != right]
    cosines = pair_cosines(vectors, vectors, left.astype(np.int64), right.astype(np.int64))
    high = float(np.quantile(cosines, 1 - share))
    return CosineBackground(len(cosines), round(float(np.median(cosines)), 4), round(high, 4), share)


def check_cosine_cut(stage: str, key: str, cut: float, background: CosineBackground | None, model: str) -> None:
    """Raise UserError for a cut in the range of random pairs: nearly all images would count as the same."""
    if background is None or cut > background.high:
        return
    reason = (
        f"{cut:g} is in the range of random pairs of {model}: their median is {background.median:.2f}, and more than "
        f"{background.share:.0%} of them exceed {background.high:.2f}"
    )
    raise UserError(stage, key, reason, f"remove {key}, or set it above {background.high:.2f}")


class KeptVectors:
    """The vector files of a folder here, named after their model, and of the folder of that name in a bucket."""

    def __init__(self, local: Path, work: bucket_urls.BucketFolder) -> None:
        """Connect to nothing yet."""
        self._local, self._objects = local, KeptObjects(work.below(f"vectors/{local.name}"))

    def exchange(self) -> None:
        """Get the files that are only in the bucket, and store those that are only here; damaged ones are left out.
        Raises UserError."""
        here = {durable_files.file_sha256(path)[0]: path for path in sorted(self._local.glob(f"*.{_KIND}"))}
        stored = self._objects.list_kept()
        new = [one for one in stored if one.sha256 not in here]
        with (
            open_transfer_bar("read vectors", sum(one.size for one in new)) as advance,
            translate_write_errors("embed images", self._local),
        ):

            def fetch(one: KeptObject) -> None:
                self._objects.fetch(one, self._local / f"{one.sha256}.{_KIND}", _MAX_BYTES, is_sound_vector_file)
                advance(one.size)

            list(bucket.map_at_once(fetch, new))
        known = {one.sha256 for one in stored}
        for sha256, path in here.items():
            if sha256 not in known and parquet_files.read_checked(path) is not None:
                self._objects.store(path, _KIND)

    def store(self, path: Path) -> None:
        """Store a new file. Raises UserError and OSError."""
        self._objects.store(path, _KIND)


class DecodedImages:
    """The images that can be decoded, in the jobs' order, once. After the iteration `failures` has reason and detail of
    the others by position."""

    def __init__(self, jobs: Sequence[PixelsJob], advance: Advance) -> None:
        self._jobs, self._advance = jobs, advance
        self.failures: dict[int, tuple[str, str]] = {}

    def __iter__(self) -> Iterator[Image.Image]:
        for start in range(0, len(self._jobs), _AT_ONCE):
            jobs = self._jobs[start : start + _AT_ONCE]
            images = map_in_parallel(run_pixels_job, jobs, min(current_run().workers, len(jobs)))
            for number, decoded in enumerate(images, start=start):
                self._advance(1)
                if isinstance(decoded, np.ndarray):
                    yield Image.fromarray(decoded)
                else:
                    self.failures[number] = decoded


class ImageToEmbed(NamedTuple):
    """An image: its id, its path or URL (None: it has none), and the sha256, or its first digits, that its bytes must
    have."""

    image_id: str
    location: str | None
    sha256: str


@step("embed images")
def find_similar_pairs(
    frame: pd.DataFrame, locations: Sequence[str | None], name: str, cosine: float | None, folder: Path
) -> tuple[RowIndices, Provenance]:
    """Return the rows (n, 2) of the images with at least that cosine, and the model and its cut. `cosine` None: 0.95,
    or the embedder's own where it exceeds the background of the images. Raises UserError for too low a cut."""
    # The same file under two names is one image, whose vector is asked for once.
    rows = np.flatnonzero(~frame["image_id"].duplicated().to_numpy())
    embedder = load_image_text_embedder(name)
    images = []
    for row, image_id in zip(rows.tolist(), frame["image_id"].iloc[rows].tolist(), strict=True):
        location = locations[row] if isinstance(locations[row], str) else None
        images.append(ImageToEmbed(image_id, location, digest_start_of_image_id(image_id)))
    vectors, is_known = _embed_with_cache(embedder, images, folder)
    known = vectors[is_known]
    thresholds = choose_image_cut("near_duplicates.cosine", cosine, embedder, known)
    pairs = find_pairs_above(known, thresholds[0]["value"], threads=current_run().workers)[0]
    model = Model(role="near-duplicates", name=embedder.name, revision=embedder.revision, parameters={})
    return rows[is_known][pairs], Provenance(models=[model], thresholds=thresholds)


def choose_image_cut(key: str, given: float | None, embedder: ImageTextEmbedder, vectors: Vectors) -> list[Threshold]:
    """Return the cut of similar images and the background of these vectors (n, d): the definition's cut, or else 0.95,
    or the embedder's own if that is higher. Raises UserError for a cut among random pairs."""
    background, cut = measure_image_background(vectors), _NEAR_DUPLICATE_COSINE if given is None else given
    if given is None and background is not None:
        cut = max(cut, background.derive_cut())
    check_cosine_cut("embed images", key, cut, background, embedder.name)
    return [describe_threshold(key, "at least", cut), *(background.as_thresholds(key) if background else [])]


def embed_texts(embedder: Embedder, texts: Sequence[str], folder: Path) -> Vectors:
    """Return the vectors (n, d) of texts, stored in `folder` by the digest of the text: what is decided by them does
    not change with the processor, the batch or the other texts of a later run."""
    by_key = {hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(): text for text in texts}
    keys = sorted(by_key, key=lambda key: (len(by_key[key]), key))  # texts of one length need little padding

    def encode(new_keys: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        vectors = embedder.encode_texts([by_key[key] for key in new_keys])
        advance(len(new_keys))
        return list(range(len(new_keys))), vectors

    fingerprint = f"{embedder.fingerprint} texts"
    vectors, _ = encode_with_cache(keys, embedder.dimensions, encode, folder, fingerprint, "texts")
    row = {by_key[key]: place for place, key in enumerate(keys)}
    return vectors[[row[text] for text in texts]]


def _embed_with_cache(
    embedder: ImageTextEmbedder, images: Sequence[ImageToEmbed], folder: Path
) -> tuple[Vectors, BoolArray]:
    """Return the vectors of images with ids of their own, stored below the set's `folder`, and which are known. An
    image that is gone or cannot be decoded is not, and its row is zeros: similar to no other."""
    by_id = {image.image_id: image for image in images}

    def encode(new_ids: list[str], advance: Advance) -> tuple[list[int], Vectors]:
        return _encode(embedder, [by_id[image_id] for image_id in new_ids], advance)

    ids = [image.image_id for image in images]
    store = safe_paths.contained_path(folder, ".vectors", "embed images")
    vectors, known = encode_with_cache(ids, embedder.dimensions, encode, store, embedder.fingerprint, "images")
    return np.where(known[:, None], vectors, np.float32(0)), known


embed_images = step("embed images")(_embed_with_cache)


def _encode(embedder: ImageTextEmbedder, images: Sequence[ImageToEmbed], advance: Advance) -> tuple[list[int], Vectors]:
    """Return the positions of the images that could be read, and their vectors."""
    readable_rows: list[int] = []

    def decoded() -> Iterator[Image.Image]:
        jobs = [ThumbnailJob(image.location or "", _SIDE, sha256=image.sha256) for image in images]
        for number, jpeg in enumerate(map_in_workers(run_thumbnail_job, jobs)):
            advance(1)
            if isinstance(jpeg, bytes):
                readable_rows.append(number)
                yield Image.open(io.BytesIO(jpeg)).convert("RGB")

    return readable_rows, embedder.encode_images(decoded())


def encode_with_cache(
    keys: Sequence[str], dimensions: int, encode: Encode, folder: Path, fingerprint: str, unit: str
) -> tuple[Vectors, BoolArray]:
    """Return the vectors (n, dimensions) of different keys, and which are known. `encode` gets the new keys and
    returns the positions of those that it could encode, and their vectors. A folder that cannot be written is reported
    once."""
    store, work = VectorStore(folder.absolute(), fingerprint), current_run().work
    kept = None if work is None else KeptVectors(store.folder, work)
    if kept is not None:
        kept.exchange()
    vectors, is_known = store.read(keys, dimensions)
    missing = np.flatnonzero(~is_known)
    is_writable = True
    with current_run().reporter.bar(f"encode {unit}", len(missing), unit) as advance:
        for start in range(0, len(missing), _WRITE_EVERY):
            part = missing[start : start + _WRITE_EVERY]
            encoded_rows, encoded = encode([keys[place] for place in part.tolist()], advance)
            done = part[encoded_rows]
            vectors[done], is_known[done] = encoded, True
            is_writable = is_writable and _store_vectors(store, kept, [keys[place] for place in done.tolist()], encoded)
    return vectors, is_known


def _store_vectors(store: VectorStore, kept: KeptVectors | None, keys: list[str], vectors: Vectors) -> bool:
    try:
        if keys:
            path = store.add(keys, vectors)
            if kept is not None:
                kept.store(path)
    except OSError as error:
        current_run().reporter.log(f"the vectors cannot be stored for the next run ({error.strerror})")
        return False
    return True
