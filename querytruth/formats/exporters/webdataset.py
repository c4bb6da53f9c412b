"""CLIP_benchmark's retrieval layout: test/0.tar … with an image and the texts of its queries, a line each.

Layout: LAION-AI/CLIP_benchmark 48de38c, clip_benchmark/datasets/builder.py (`build_wds_dataset`) and
webdataset_builder.py (`convert_retrieval_dataset`). A text has exactly one relevant image there, and only hits count.
"""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from querytruth.errors import UserError
from querytruth.formats import set_description
from querytruth.formats.set_images import describe_sizes, iterate_set_images
from querytruth.sets.set_files import StoredSet

SHARD_IMAGES, SHARD_BYTES = 10_000, 1_000_000_000  # as CLIP_benchmark writes them
_SUFFIXES = (".jpg", ".png", ".webp")

LIMITS = set_description.FormatLimits(
    needs_images=True,
    changes_figures=set_description.CHANGED_BY_SINGLE_ANSWERS,
    omissions=(set_description.whitespace_in_texts, *set_description.NO_METADATA),
)


def export(stored: StoredSet, out: Path) -> None:
    """Write the shards, their number and the type. A query with n relevant images becomes n texts, if allowed."""
    (out / "dataset_type.txt").write_text("retrieval\n")
    (out / "test").mkdir()
    shards = _write_shards(out / "test", _samples(stored))
    (out / "test" / "nshards.txt").write_text(f"{shards}\n")


def _samples(stored: StoredSet) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield per image its name and its files by suffix."""
    queries_by_image, sizes = relevant_queries_by_image(stored), describe_sizes(stored)
    for image in iterate_set_images(stored):
        assert image is not None
        if image.suffix not in _SUFFIXES:
            reason = f"is a {image.suffix[1:].upper()}, which CLIP_benchmark does not read"
            raise UserError("export", image.image_id, reason, "build the set with rendered images")
        image_queries = queries_by_image.get(image.image_id, [])
        query_ids = [query for query, _ in image_queries]
        details = {"image_id": image.image_id, "query_ids": query_ids, **sizes[image.image_id]}
        texts = "\n".join(set_description.collapse_whitespace(text) for _, text in image_queries)
        files = {image.suffix: image.data, ".json": json.dumps(details).encode(), ".txt": texts.encode()}
        yield image.image_id, files


def relevant_queries_by_image(stored: StoredSet) -> dict[str, list[tuple[str, str]]]:
    """Return, by image, the queries (id, text) it is relevant to, sorted by id."""
    queries = stored.tables.queries
    texts = pd.Series(queries["text"].to_numpy(), index=queries["query_id"])
    pairs = set_description.relevant_pairs(stored)
    queries_by_image: dict[str, list[tuple[str, str]]] = {}
    for query, image, text in zip(pairs["query_id"], pairs["image_id"], texts.loc[pairs["query_id"]], strict=True):
        queries_by_image.setdefault(image, []).append((query, text))
    return queries_by_image


def _write_shards(folder: Path, samples: Iterator[tuple[str, dict[str, bytes]]]) -> int:
    """Write tar files of bounded size, the same bytes for the same samples; return their number."""
    count, upcoming = 0, next(samples, None)
    while upcoming is not None:
        with tarfile.open(folder / f"{count}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            held, written = 0, 0
            while upcoming is not None and held < SHARD_IMAGES and written < SHARD_BYTES:
                name, files = upcoming
                for suffix, data in files.items():
                    member = tarfile.TarInfo(name + suffix)
                    member.size, member.mode = len(data), 0o644
                    tar.addfile(member, io.BytesIO(data))
                    written += len(data)
                tar.members.clear()  # type: ignore[attr-defined]  # else a million members take a gigabyte
                held, upcoming = held + 1, next(samples, None)
        count += 1
    return count
