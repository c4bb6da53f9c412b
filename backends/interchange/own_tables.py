"""Tables that were exported with all that they hold, as an importer hands them on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from backends.importers import Imported
from backends.interchange.set_description import Description
from builders.records import empty

_IDS = {"image": re.compile(r"img_[0-9a-f]{20}"), "query": re.compile(r"q_[0-9a-f]{20}")}
_KEYS = {"query_id": "query", "image_id": "image"}
_GRADES = {"1": "right, as the publisher says"}


def are_ours(kind: str, ids: Iterable[str]) -> bool:
    """Whether all ids are such as this program gives."""
    return all(_IDS[kind].fullmatch(name) for name in ids)


def read_own(
    tables: dict[str, pd.DataFrame],
    places: Sequence[str | None],
    files: Sequence[Path],
    described: Description | None,
    title: str = "",
) -> Imported:
    """Queries, images and qrels with the columns of builders.records, and where the unpacked pictures lie."""
    queries, images, qrels = (tables[name].rename(columns=_KEYS) for name in ("queries", "images", "qrels"))
    ours = are_ours("image", images["image"]) and are_ours("query", queries["query"])
    return Imported(
        queries=queries,
        images=images.assign(place=pd.Series(list(places), index=images.index, dtype="object")),
        qrels=qrels,
        duplicates=tables["duplicates"] if ours else empty("duplicates"),
        files=files,
        grades=described.grades if described else _GRADES,
        title=described.title if described else title,
        licence=described.licence if described else "",
        faults=described.faults if described else (),
        keeps_ids=ours,
    )
