"""A table of facts read as annotations: each tag of an album is on the whole image, and what is known to be absent is
kept beside them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from builders.album.fact_table import FACT_COLUMNS
from builders.album.fact_tags import derive_tags
from builders.album.steps import read_events, read_fact_table, read_pseudonyms
from builders.precision.annotated_gallery import AnnotationFile
from builders.precision.definition import FactOptions
from builders.precision.label_index import BitWords, pack_image_rows
from builders.precision.tag_files import make_tag_annotations
from builders.precision.tag_tree import LabelConcept
from querytruth.backends.files.table_rows import read_columns
from querytruth.sets.ledger import Rejection


def is_fact_file(path: Path) -> bool:
    """Return whether a table has the columns of facts."""
    is_table = path.suffix.lower() in (".csv", ".tsv") and path.is_file()
    return is_table and {*FACT_COLUMNS[:3]} <= {*read_columns(path, usual=FACT_COLUMNS)}


def read_facts(path: Path, options: FactOptions) -> AnnotationFile:
    """Read a table of facts as annotations of whole images. Raises UserError for a table in another form, and where
    `derive_tags` does."""
    rows = read_fact_table(path)
    names = None if options.pseudonyms is None else read_pseudonyms(options.pseudonyms)
    dated = [] if options.events is None else read_events(options.events)
    concepts, pairs, facts = derive_tags(rows, dated, options.complete, options.hemisphere, names, options.holidays)
    doubtful = [
        Rejection(f"{path.name} line {number}", "rejected", "contradiction", detail=f"{row.kind} {row.value}")
        for number, row in enumerate(rows, start=2)
        if row.is_overruled
    ]
    boxes = pd.DataFrame(pairs, columns=["image", "category"]).assign(record=range(len(pairs)))
    categories = pd.DataFrame(concepts, columns=["kind", "name", "zh"])
    categories = categories.assign(id=range(len(concepts)), supercategory="")
    return replace(make_tag_annotations(path, list(facts.index), boxes, categories, doubtful), facts=facts)


def join_facts(files: list[AnnotationFile], image_rows: tuple[Any, ...], image_count: int) -> pd.DataFrame | None:
    """Return what is known of each image of a gallery, as `derive_tags`; None without a table of facts."""
    parts = [
        file.facts.set_axis(rows[: len(file.facts)])  # images of the folder that the table does not name follow
        for file, rows in zip(files, image_rows, strict=True)
        if file.facts is not None
    ]
    return (
        pd.concat(parts).astype(int).groupby(level=0).max().reindex(range(image_count), fill_value=0) if parts else None
    )


def find_unknown(facts: pd.DataFrame, concepts: Sequence[LabelConcept]) -> BitWords:
    """Return by concept, as in LabelIndex, the images that may have it: all where its kind is never complete. Of what
    annotators marked, what they left out is absent."""
    table = facts.assign(**{"": True}).reindex(columns=[one.kind for one in concepts], fill_value=False)
    label, image = np.nonzero(~table.to_numpy(dtype=bool).T)
    return pack_image_rows(label, image, len(concepts), len(facts))
