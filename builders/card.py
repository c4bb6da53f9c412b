"""The card of a set: a README.md that people read and Hugging Face understands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from builders.benchmark_set import Tables

_KINDS = {
    "gallery": "pictures to search in: what queries are made for, and what answers them",
    "precision": "one query, many right pictures, from annotated objects",
}


def card(manifest: dict[str, Any], tables: Tables) -> str:
    """What the set is, its counts and examples, how it came about, its known faults and licences."""
    return "\n".join([*_front_matter(manifest), *_body(manifest, tables)]) + "\n"


def _front_matter(manifest: dict[str, Any]) -> Iterator[str]:
    count = manifest["counts"]["images"]
    size = next((name for limit, name in _SIZES if count < limit), "n>1M")
    fields = {
        "license": "other" if not manifest["licence"] else manifest["licence"].lower().replace(" ", "-"),
        "pretty_name": manifest["title"],
        "task_categories": ["image-feature-extraction"],
        "language": sorted({key.split("/")[0] for key in manifest["counts"]["by_style"]}),
        "size_categories": [size],
        "tags": ["text-to-image-retrieval", "querytruth"],
        "configs": [{"config_name": name, "data_files": f"{name}.parquet"} for name in _configs(manifest)],
    }
    yield "---"
    yield yaml.safe_dump(fields, allow_unicode=True, sort_keys=False).rstrip()
    yield "---"


def _configs(manifest: dict[str, Any]) -> tuple[str, ...]:
    return ("images", "duplicates") if manifest["kind"] == "gallery" else ("queries", "images", "qrels")


_SIZES = [(1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")]


def _body(manifest: dict[str, Any], tables: Tables) -> Iterator[str]:
    counts = manifest["counts"]
    name = f"`{manifest['name']}/v{manifest['version']}`"
    yield f"# {_plain(manifest['title'])}\n"
    yield f"{name} · a {manifest['kind']} set for text-to-image search: {_KINDS[manifest['kind']]}.\n"
    yield from _pictures_alone(counts, tables) if manifest["kind"] == "gallery" else _judged(manifest, tables)
    yield "## How it came about\n"
    stages = [
        [s["stage"], f"{s['entered']:,}", f"{s['accepted']:,}", _reasons(s["rejected"]), _reasons(s["quarantined"])]
        for s in manifest["funnel"]
    ]
    yield from _table(["stage", "came in", "went on", "rejected", "quarantined"], stages)
    yield from (f"- input `{_plain(entry['file'])}` sha256 `{entry['sha256']}`" for entry in manifest["inputs"])
    decided = manifest["decisions"]
    yield f"- decisions of people in effect: {len(decided['in_effect'])}, no longer fitting: {len(decided['stale'])}"
    yield f"- content digest `{manifest['content_digest']}`\n"
    yield "## Known faults\n"
    yield from (f"- {fault}" for fault in manifest["faults"])
    yield "\n## Licences\n"
    yield f"The set: {_plain(manifest['licence']) or 'not stated'}. Its pictures:\n"
    licences = tables.images["licence"].fillna("not stated").value_counts()
    yield from (f"- {_plain(str(licence))}: {number:,}" for licence, number in sorted(licences.items()))


def _pictures_alone(counts: dict[str, Any], tables: Tables) -> Iterator[str]:
    images, duplicates = tables.images, tables.duplicates
    placed, dated = int(images["latitude"].notna().sum()), int(images["taken_at"].notna().sum())
    left_out = len(duplicates) - int(duplicates["is_representative"].sum())
    figures = [counts["images"], placed, dated, counts["duplicate_groups"], left_out]
    columns = ["pictures", "with a place", "with a time", "groups of duplicates", "pictures left out for them"]
    yield from _table(columns, [[f"{figure:,}" for figure in figures]])


def _judged(manifest: dict[str, Any], tables: Tables) -> Iterator[str]:
    counts = manifest["counts"]
    spread = counts["relevant_per_query"]
    span = f"{spread['least']:,} to {spread['most']:,}, median {spread['median']:g}"
    sizes = [f"{counts[part]:,}" for part in ("queries", "images", "judgments")]
    yield from _table(["queries", "pictures", "judgments", "right pictures a query"], [[*sizes, span]])
    yield "## Examples\n"
    yield from _table(["query", "language", "level", "right pictures"], _examples(tables))
    yield "## What the grades mean\n"
    yield from (f"- **{grade}**: {meaning}" for grade, meaning in manifest["grades"].items())
    yield "\nA pair that is not listed was never judged.\n"


def _examples(tables: Tables) -> list[list[str]]:
    """Two queries of each language and level."""
    relevant = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].value_counts()
    chosen = tables.queries.groupby(["language", "level"], sort=True).head(2).sort_values(["language", "level"])
    return [
        [_plain(row.text), row.language, str(row.level), f"{int(relevant.get(row.query_id, 0)):,}"]
        for row in chosen.itertuples()
    ]


def _table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _reasons(reasons: dict[str, int]) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in reasons.items()) or "0"


def _plain(text: str) -> str:
    """Text of unknown origin, without what Markdown or HTML would act on."""
    return "".join(
        f"\\{c}" if c in "\\`*_[]#|" else {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "}.get(c, c) for c in text
    )
