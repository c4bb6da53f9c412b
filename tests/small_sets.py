"""A published set that is small enough to know by heart: what exporters and importers are tried on."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders.publication import BuiltTables, publish_built
from querytruth.definitions import SetDefinition
from querytruth.records import empty_frame, from_arrow, to_arrow
from querytruth.sets import set_files
from querytruth.sets.benchmark_set import Tables, make_canary
from querytruth.sets.ledger import Ledger, rejection_table
from querytruth.sets.set_files import StoredSet
from tests.images import make_jpeg

COLOURS = {"dog": (200, 40, 40), "beach": (40, 200, 40), "cat": (40, 40, 200), "tree": (90, 90, 90)}
SMALL_SET_GRADES = {"2": "all that is asked for", "1": "a part of it"}


def image_id_of(name: str) -> str:
    """The id of an image of the small set."""
    return f"img_{hashlib.sha256(name.encode()).hexdigest()[:20]}"


def query_id_of(name: str) -> str:
    """The id of a query of the small set."""
    return f"q_{hashlib.sha256(name.encode()).hexdigest()[:20]}"


def small_tables(*, graded: bool = True) -> Tables:
    """Four images, four queries; `graded`: two grades, judged zeros and several right images a query, else each
    query has the one image that it was written of."""
    names = list(COLOURS)
    images = pd.DataFrame(
        {
            "image_id": [image_id_of(name) for name in names],
            "path": [f"images/{image_id_of(name)[4:6]}/{image_id_of(name)}.jpg" for name in names],
            "file_name": [f"holiday/{name} 1.jpg" for name in names],
            "sha256": [hashlib.sha256(name.encode()).hexdigest() for name in names],
            "width": [640, 480, 24, 16],
            "height": [480, 640, 16, 16],
            "taken_at": ["2024-05-01T12:00:00+02:00", None, None, None],
            "latitude": [48.2, None, None, None],
            "longitude": [-16.4, None, None, None],
            "duplicate_group": ["g1", None, "g1", None],
            "source_url": ["https://example.org/a?b=c", "", None, None],
            "page_url": [None] * 4,
            "licence": ["CC BY 4.0", "=SUM(A1)", None, None],
        }
    ).sort_values("image_id", ignore_index=True)
    queries_given = [
        ("dog", "a dog, wet", "en"),
        ("狗", "沙滩上的狗", "zh"),
        ("cat", "'cat'\nasleep", "en"),
        ("none", "-1", "en"),
    ]
    queries = pd.DataFrame(
        {
            "query_id": [query_id_of(name) for name, _, _ in queries_given],
            "text": [text for _, text, _ in queries_given],
            "language": [language for _, _, language in queries_given],
            "style": "word",
            "level": [1, 2, 1, 1],
            "labels": [["dog"], ["dog", "beach"], [], None],
        }
    ).sort_values("query_id", ignore_index=True)
    judged = [("dog", "dog", 2), ("dog", "beach", 1), ("dog", "cat", 0), ("狗", "beach", 2), ("cat", "cat", 2)]
    if not graded:
        judged = [("dog", "dog", 1), ("狗", "beach", 1), ("cat", "cat", 1), ("none", "dog", 1)]
    qrels = pd.DataFrame(
        {
            "query_id": [query_id_of(query) for query, _, _ in judged],
            "image_id": [image_id_of(image) for _, image, _ in judged],
            "relevance": pd.array([relevance for _, _, relevance in judged], dtype="int8"),
            "judged_by": ["detector" if relevance else "human" for _, _, relevance in judged],
            "evidence": [f"{query} + {image}" if relevance else None for query, image, relevance in judged],
        }
    ).astype(dict.fromkeys(["query_id", "image_id", "judged_by", "evidence"], "category"))
    return Tables(queries, images, qrels.sort_values(["query_id", "image_id"], ignore_index=True))


def make_whole_manifest(**fields: Any) -> dict[str, Any]:
    """The fields with all others that a manifest has, empty."""
    counts: dict[str, Any] = dict.fromkeys(["queries", "images", "judgments", "duplicate_groups"], 0)
    counts |= {name: {} for name in ("by_level", "by_style", "by_grade", "by_judge")}
    empty: dict[str, Any] = {name: [] for name in ("inputs", "models", "prompts", "thresholds", "funnel")}
    empty |= {name: {} for name in ("configuration", "grades", "notes", "envelope")}
    return {
        **empty,
        "schema_version": 2,
        "name": "small",
        "version": 1,
        "kind": "precision",
        "title": "",
        "licence": "",
        "build_digest": "",
        "canary": make_canary(str(fields.get("content_digest"))),
        "parent": None,
        "known_limitations": [],
        "decisions": {"in_effect": [], "stale": []},
        **fields,
        "counts": counts | {"relevant_per_query": {"least": 0, "median": 0, "most": 0}} | fields.get("counts", {}),
    }


def strangers_tables() -> Tables:
    """Four images with a dog in the middle of each, in no group, as a stranger would publish them."""
    tables = small_tables()
    images = tables.images.assign(duplicate_group=None)
    middle = {"left": 0.25, "top": 0.25, "right": 0.75, "bottom": 0.75}
    boxes = images[["image_id"]].assign(label="dog", counts_for='["dog"]', **middle)
    boxes = boxes.astype({"image_id": "category", "label": "category", "counts_for": "category"})
    aliases = tables.queries[["query_id"]].assign(source_id=["17", "18", "19", "20"])
    return Tables(tables.queries, images, tables.qrels, boxes=boxes, query_aliases=aliases)


def publish_tables(folder: Path, name: str, frames: dict[str, pd.DataFrame], rendered: Path | None = None) -> StoredSet:
    """These tables, of pandas' own types, as a precision set on disk; `rendered`: the folder of its images."""
    tables = Tables(**{kind: from_arrow(to_arrow(kind, frame)) for kind, frame in frames.items()})
    definition = SetDefinition(
        kind="precision", name=name, title=name.title(), licence="CC0-1.0", out=folder / "sets", lose_at_most=None
    )
    built = BuiltTables(tables, Ledger(), SMALL_SET_GRADES, rendered_folder=rendered)
    return set_files.read_set(publish_built(definition, built).path)


def publish_small_set(
    folder: Path,
    tables: Tables,
    *,
    images: bool = True,
    name: str = "small",
    render: dict[str, Any] | None = None,
    size: tuple[int, int] = (24, 16),
) -> StoredSet:
    """The tables as a set on disk, with an image for each row, the first of this size; `render`: how the set says they
    were rendered."""
    rendered = None
    if images:
        rendered = folder / "rendered"
        for place, (path, colour) in enumerate(zip(tables.images["path"], COLOURS.values(), strict=True)):
            (rendered / path).parent.mkdir(parents=True, exist_ok=True)
            (rendered / path).write_bytes(make_jpeg(colour, (size[0] + place, size[1])))
    else:
        tables = Tables(tables.queries, tables.images.assign(path=None), tables.qrels, duplicates=tables.duplicates)
    definition = SetDefinition(
        kind="precision",
        name=name,
        title="A small set",
        licence="CC0-1.0",
        out=folder / "sets",
        lose_at_most=None,
    )
    built = BuiltTables(
        tables,
        Ledger(),
        SMALL_SET_GRADES,
        notes={"render": render},
        known_limitations=["It is small."],
        rendered_folder=rendered,
    )
    with pytest.MonkeyPatch.context() as patch:  # a received set holds any text
        patch.setattr("builders.publication.sieve_tables", lambda tables, *_: (tables, rejection_table([]), []))
        return set_files.read_set(publish_built(definition, built).path)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def publish_other_small_set(folder: Path) -> StoredSet:
    """A first version of the same name with other queries."""
    tables = small_tables()
    changed = tables.queries.assign(text=[f"{text}!" for text in tables.queries["text"]])
    return publish_small_set(folder / "other", replace(tables, queries=changed))


def gallery_tables() -> Tables:
    """The images alone."""
    return Tables(empty_frame("queries"), small_tables().images, empty_frame("qrels"))
