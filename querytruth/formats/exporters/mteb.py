"""MTEB's Any2AnyRetrieval: configs corpus (id, image), queries (id, text), qrels, and a task file that loads them.

Layout as mteb 2.26 reads it (mteb/abstasks/retrieval_dataset_loaders.py). Other columns of images and queries are in
separate configs: mteb's data loader accepts no column with missing values.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from querytruth.errors import UserError
from querytruth.formats import parquet_shards, set_description
from querytruth.formats.exporters.huggingface import SPLIT, readme_configs
from querytruth.formats.set_description import NO_LEDGER, FormatLimits
from querytruth.formats.set_images import iterate_set_images, list_images_with_sizes
from querytruth.records import to_arrow
from querytruth.sets.benchmark_set import Tables, canonical_json
from querytruth.sets.set_files import StoredSet

_LANGUAGES = {"en": "eng-Latn", "zh": "zho-Hans"}
_CONFIGS = ("corpus", "queries", "qrels", "image-details", "query-details")
_USAGE = Path(__file__).with_name("mteb_usage.txt").read_text("utf-8")
# All values of a set are in task.json, so that none of them is ever run as code.
_TASK = Path(__file__).with_name("mteb_task.txt").read_text("utf-8")


def _unjudged_queries(tables: Tables) -> str:
    judged = set(tables.qrels["query_id"].unique())
    rest = int((~tables.queries["query_id"].isin(judged)).sum())
    return f"{rest:,} queries without judgments (kept here, but mteb skips them)" if rest else ""


LIMITS = FormatLimits(
    needs_images=True, omissions=(_unjudged_queries, "how duplicates were found (their groups are kept)", *NO_LEDGER)
)


def export(stored: StoredSet, out: Path) -> None:
    """Write the five configs and the task, with grades and judged zeros; mteb uses the grade as gain."""
    _write_task(stored, out)
    images = to_arrow("images", list_images_with_sizes(stored))
    queries, qrels = (to_arrow(name, getattr(stored.tables, name)) for name in ("queries", "qrels"))
    corpus = images.select(["image_id"]).rename_columns(["id"])
    parquet_shards.write_images_table(out / "corpus", SPLIT, corpus, iterate_set_images(stored))
    texts = queries.select(["query_id", "text"]).rename_columns(["id", "text"])
    parquet_shards.write_table(out / "queries", SPLIT, texts)
    names = ["query-id", "corpus-id", "score", "judged-by", "evidence"]
    scores = qrels.set_column(2, "relevance", pc.cast(qrels["relevance"], pa.int32()))
    parquet_shards.write_table(out / "qrels", SPLIT, scores.rename_columns(names))
    image_details = images.drop_columns(["path"]).rename_columns(["id", *images.column_names[2:]])
    query_details = queries.drop_columns(["text"]).rename_columns(["id", *queries.column_names[2:]])
    parquet_shards.write_table(out / "image-details", SPLIT, image_details)
    parquet_shards.write_table(out / "query-details", SPLIT, query_details)
    set_description.write_description(stored, out)
    set_description.write_readme(stored, out, readme_configs(stored, _CONFIGS), _USAGE)


def _write_task(stored: StoredSet, out: Path) -> None:
    languages = sorted(set(stored.tables.queries["language"]))
    if unknown := [language for language in languages if language not in _LANGUAGES]:
        raise UserError("export", stored.path, f"language {unknown[0]!r} has no mteb code", "choose huggingface")
    manifest = stored.manifest
    name = "".join(word.capitalize() for word in manifest["name"].replace(".", "-").replace("_", "-").split("-"))
    task_fields = {
        "name": f"{name}V{manifest['version']}T2IRetrieval",
        "description": manifest["title"],
        "languages": [_LANGUAGES[language] for language in languages],
        "revision": manifest["content_digest"],
    }
    (out / "task.json").write_bytes(canonical_json(task_fields))
    (out / "task.py").write_text(_TASK, "utf-8", newline="\n")
