"""The card of a set: a README.md in the format of Hugging Face."""

from collections.abc import Iterator
from typing import Any

import yaml

from builders.benchmark_set import Tables
from builders.canary import make_canary
from builders.recall import ambiguity_report
from builders.self_instruct.result_screening import licence_family
from builders.shortcuts.shortcut_test import describe_shortcuts
from builders.visible_text import make_visible

_KINDS = {
    "gallery": "pictures to search in: what queries are made for, and what answers them",
    "precision": "one query, many right pictures, from annotated objects",
    "recall": "captions as queries, each of which finds the picture that it was written of",
    "generated": "queries about topics and objects, and pictures that were found for them on the web",
    "imported": "queries, pictures and judgments as another collection has them",
}
_SIZES = [(1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")]
_AMBIGUOUS = 8  # captions shown
_LICENCES = 12  # listed one by one; where there are more, their families are listed


def render_set_card(manifest: dict[str, Any], tables: Tables) -> str:
    """Returns the card as Markdown: counts, examples, funnel, provenance, known limitations and licences."""
    return "\n".join([*_front_matter(manifest), *_body(manifest, tables)]) + "\n"


def _front_matter(manifest: dict[str, Any]) -> Iterator[str]:
    size = next((name for limit, name in _SIZES if manifest["counts"]["images"] < limit), "n>1M")
    configs = ("images", "duplicates") if manifest["kind"] == "gallery" else ("queries", "images", "qrels")
    fields = {
        "license": "other" if not manifest["licence"] else manifest["licence"].lower().replace(" ", "-"),
        "pretty_name": manifest["title"],
        "task_categories": ["image-feature-extraction"],
        "language": sorted({key.split("/")[0] for key in manifest["counts"]["by_style"]}),
        "size_categories": [size],
        "tags": ["text-to-image-retrieval", "querytruth"],
        "configs": [
            # The digest keeps `datasets` from taking two folders of one name and one card for the same data.
            {"config_name": name, "data_files": f"{name}.parquet", "description": f"set {manifest['content_digest']}"}
            for name in configs
        ],
    }
    yield "---"
    yield yaml.safe_dump(fields, allow_unicode=True, sort_keys=False).rstrip()
    yield "---"


def _body(manifest: dict[str, Any], tables: Tables) -> Iterator[str]:
    counts = manifest["counts"]
    name = f"`{manifest['name']}/v{manifest['version']}`"
    yield f"# {_plain(manifest['title'])}\n"
    yield f"{name} · a {manifest['kind']} set for text-to-image search: {_KINDS[manifest['kind']]}.\n"
    yield from _images_alone(counts, tables) if manifest["kind"] == "gallery" else _judged(manifest, tables)
    if ambiguity := manifest["notes"].get("ambiguity"):
        yield from _ambiguous(ambiguity, tables)
    if collection := manifest["notes"].get("collection"):
        yield from _collected(collection)
    yield "## How it came about\n"
    stages = [
        [s["stage"], f"{s['entered']:,}", f"{s['accepted']:,}", _reasons(s["rejected"]), _reasons(s["quarantined"])]
        for s in manifest["funnel"]
    ]
    yield from _table(["stage", "came in", "went on", "rejected", "quarantined"], stages)
    yield from (f"- input `{_plain(entry['file'])}` sha256 `{entry['sha256']}`" for entry in manifest["inputs"])
    decisions = manifest["decisions"]
    in_effect, stale = len(decisions["in_effect"]), len(decisions["stale"])
    yield f"- decisions of people in effect: {in_effect}, no longer fitting: {stale}"
    yield f"- content digest `{manifest['content_digest']}`"
    yield f"- canary `{make_canary(manifest['content_digest'])}`: a text corpus with it holds this version\n"
    yield "## Known limitations\n"
    limitations = [*manifest["known_limitations"], *describe_shortcuts(tables)]
    yield from (f"- {_plain(limitation)}" for limitation in limitations)
    yield "\n## Licences\n"
    yield f"The set: {_plain(manifest['licence']) or 'not stated'}. Its pictures:\n"
    yield from _licences(tables)


def _collected(collection: dict[str, Any]) -> Iterator[str]:
    """Yields where the images of a search come from, and how many are relevant to several queries or found twice."""
    fetched, chosen = collection["fetched"], sum(topic["queries"] for topic in collection["by_topic"])
    yield "## Where the pictures come from\n"
    days = sorted({day[:10] for day in (fetched["first"], fetched["last"]) if day})
    hosts = "1 host" if fetched["hosts"] == 1 else f"{fetched['hosts']:,} hosts"
    when = f", fetched from {hosts} ({' to '.join(days)})" if days else ""
    by_people = " that people chose" if collection.get("choices_of_people") else ""
    summary = f"Of {chosen:,} queries{by_people}, {collection['queries']:,} found enough pictures."
    yield f"Found by `{_plain(collection['search'])}`{when}. {summary}"
    if fetched["hosts"]:
        yield "Every picture's address, web page and caption, and where the search names them its licence and creator,"
        yield "stand in `images.parquet`.\n"
    else:
        yield "No picture was fetched from the web: the search has them on this machine.\n"
    figures = [collection[name] for name in ("pictures_of_several_queries", "same_picture_at_other_addresses")]
    columns = ["pictures right for several queries", "more addresses with the same picture"]
    yield from _table(columns, [[f"{figure:,}" for figure in figures]])


def _licences(tables: Tables) -> Iterator[str]:
    licences = tables.images["licence"].astype("object").fillna("not stated").astype(str)  # all null: of any type
    if licences.nunique() > _LICENCES:
        licences = licences.map(lambda name: name if name == "not stated" else licence_family(name))
    counts = sorted(licences.value_counts().items())
    yield from (f"- {_plain(str(licence))}: {number:,}" for licence, number in counts)
    if "creator" in tables.images and tables.images["creator"].notna().any():
        yield "\nWhose they are: column `creator` of `images.parquet`."


def _images_alone(counts: dict[str, Any], tables: Tables) -> Iterator[str]:
    images, duplicates = tables.images, tables.duplicates
    placed, dated = int(images["latitude"].notna().sum()), int(images["taken_at"].notna().sum())
    left_out = len(duplicates) - int(duplicates["is_representative"].sum())
    figures = [counts["images"], placed, dated, counts["duplicate_groups"], left_out]
    columns = ["pictures", "with a place", "with a time", "groups of duplicates", "pictures left out for them"]
    yield from _table(columns, [[f"{figure:,}" for figure in figures]])


def _judged(manifest: dict[str, Any], tables: Tables) -> Iterator[str]:
    counts = manifest["counts"]
    if nested := manifest["notes"].get("nested"):
        yield f"The first {nested['size']:,} pictures of `{nested['of']}`, and its queries that they answer.\n"
    spread = counts["relevant_per_query"]
    span = f"{spread['least']:,} to {spread['most']:,}, median {spread['median']:g}"
    sizes = [f"{counts[part]:,}" for part in ("queries", "images", "judgments")]
    yield from _table(["queries", "pictures", "judgments", "right pictures a query"], [[*sizes, span]])
    yield "## Examples\n"
    traits = ["language", "level"] if manifest["kind"] == "precision" else ["language", "style"]
    yield from _table(["query", *traits, "right pictures"], _examples(tables, traits))
    yield "## What the grades mean\n"
    yield from (f"- **{_plain(grade)}**: {_plain(meaning)}" for grade, meaning in manifest["grades"].items())
    yield "\nA pair that is not listed was never judged.\n"


def _examples(tables: Tables, traits: list[str]) -> list[list[str]]:
    """Returns two queries of each combination of traits, with the number of relevant images."""
    relevant = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].value_counts()
    chosen = tables.queries.groupby(traits, sort=True).head(2).sort_values(traits, kind="stable")
    return [
        [*[_plain(str(row[name])) for name in ("text", *traits)], f"{int(relevant.get(row['query_id'], 0)):,}"]
        for row in chosen.to_dict("records")
    ]


def _ambiguous(ambiguity: dict[str, Any], tables: Tables) -> Iterator[str]:
    """Yields how many captions fit other images, too, and examples with their outcomes."""
    before, after = ambiguity["before"], ambiguity["after"]
    yield "## Ambiguous captions\n"
    yield f"{ambiguity_report.describe_policy(ambiguity)}\n"
    figures = [
        [name, f"{part['queries']:,}", f"{part['ambiguous']:,}", ambiguity_report.format_share(part)]
        for name, part in (("before", before), ("after", after))
    ]
    yield from _table(["", "queries", "ambiguous", "share"], figures)
    yield f"Confusable pictures were found by {_plain(', '.join(ambiguity_report.describe_comparisons(ambiguity)))}.\n"
    for sentences in ambiguity_report.describe_measurement(ambiguity):
        yield f"{_plain(sentences)}\n"
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    rows = []
    for example in ambiguity["examples"][:_AMBIGUOUS]:
        confusable, others = example["rivals"][0], len(example["rivals"]) - 1
        says = f": {confusable['text']}" if confusable["text"] else ""
        more = f" and {others} more" if others else ""
        fits = f"{names.get(confusable['image_id']) or confusable['image_id']}{says}{more}"
        new = f": {example['new_text']}" if example["new_text"] else ""
        outcome = ambiguity_report.describe_outcome(example, tables.ledger) + new
        rows.append([_plain(cell) for cell in (example["text"], fits, outcome)])
    if rows:
        yield from _table(["caption", "fits, too", "what became of it"], rows)


def _table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _reasons(reasons: dict[str, int]) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in reasons.items()) or "0"


def _plain(text: str) -> str:
    """Returns the text with the characters of Markdown and HTML escaped, and invisible ones shown."""
    escapes = {"<": "&lt;", ">": "&gt;", "&": "&amp;"} | {mark: f"\\{mark}" for mark in "\\`*_[]#|"}
    return "".join(escapes.get(character, character) for character in make_visible(text.replace("\n", " ")))
