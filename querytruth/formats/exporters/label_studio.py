"""Label Studio: tasks-*.json, one task per judgment with its grade as prediction, and the interface config.xml.

Task format: https://labelstud.io/guide/task_format. Images are copied to images/ and served as local files
(`LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT` = this folder).
"""

import json
from itertools import islice
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pandas as pd

from querytruth.formats.set_description import NO_METADATA, FormatLimits
from querytruth.formats.set_images import describe_sizes, write_images
from querytruth.sets.manifest import Manifest
from querytruth.sets.set_files import StoredSet

TASKS_PER_FILE = 20_000  # Label Studio recommends at most 100,000 tasks a project, imported in parts

LIMITS = FormatLimits(
    needs_images=True,
    omissions=(
        "pairs that were never judged",
        *NO_METADATA,
    ),
)


def export(stored: StoredSet, out: Path) -> None:
    """Write interface, tasks and images; all judgments, also with grade 0, are predictions to confirm."""
    places, sizes = write_images(stored, out), describe_sizes(stored)
    (out / "config.xml").write_text(_labelling_config(stored.manifest["grades"]), "utf-8", newline="\n")
    rows = iter(_judgments_with_texts(stored).itertuples(index=False))
    number = 0
    while part := list(islice(rows, TASKS_PER_FILE)):
        tasks = [_task(row, places[row.image_id], sizes[row.image_id], stored.manifest) for row in part]
        (out / f"tasks-{number:05}.json").write_text(json.dumps(tasks, ensure_ascii=False, indent=1) + "\n", "utf-8")
        number += 1


def _judgments_with_texts(stored: StoredSet) -> pd.DataFrame:
    """Return the judgments of the set's images as text columns, with the query's text, sorted."""
    tables = stored.tables
    names = ["query_id", "image_id", "judged_by", "evidence"]
    qrels = tables.qrels[tables.qrels["image_id"].isin(tables.images["image_id"])]
    qrels = qrels.astype(dict.fromkeys(names, "object")).sort_values(["query_id", "image_id"], kind="stable")
    return qrels.merge(tables.queries[["query_id", "text", "language"]], on="query_id", how="inner", sort=False)


def _task(row: Any, place: str, sizes: dict[str, int], manifest: Manifest) -> dict[str, Any]:
    evidence = row.evidence if isinstance(row.evidence, str) else ""
    grade = {"from_name": "grade", "to_name": "image", "type": "choices", "value": {"choices": [str(row.relevance)]}}
    return {
        "data": {
            "image": f"/data/local-files/?d={place}",
            "text": row.text,
            "language": row.language,
            "query_id": row.query_id,
            "image_id": row.image_id,
            "judged_by": row.judged_by,
            "evidence": evidence,
            **sizes,
        },
        "predictions": [{"model_version": f"{manifest['name']}/v{manifest['version']}", "result": [grade]}],
    }


def _labelling_config(grades: dict[str, str]) -> str:
    choices = {"0": "not relevant", **grades}
    listed = [
        f"    <Choice value={quoteattr(grade)} hint={quoteattr(choices[grade])}/>"
        for grade in sorted(choices, key=int, reverse=True)
    ]
    head = ["<View>", '  <Text name="query" value="$text"/>', '  <Image name="image" value="$image"/>']
    return "\n".join([*head, '  <Choices name="grade" toName="image">', *listed, "  </Choices>", "</View>", ""])
