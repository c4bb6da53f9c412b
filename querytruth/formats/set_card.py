"""The card of a set: a README.md in the format of Hugging Face, ambiguous captions included."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import yaml

from querytruth.audit.shortcuts import describe_shortcuts
from querytruth.errors import make_visible
from querytruth.sets import manifest_notes
from querytruth.sets.benchmark_set import Tables, make_canary
from querytruth.sets.manifest import Counts, Manifest

POLICY_TEXTS = {
    "drop": "A caption that also fits another image is left out.",
    "merge": "If a caption also fits other images, they are relevant, like its own.",
    "recaption": "A caption that also fits other images was requested again, with their captions in the prompt.",
    "review": "A caption that also fits other images stays, and people judge each pair.",
    "judge": "A judge was asked about the nearest images of each caption; those it is sure about are relevant.",
}
_THEN = {
    "drop": "A caption that is still ambiguous is left out.",
    "merge": "For a caption that is still ambiguous, all those images are relevant.",
    "review": "A caption that is still ambiguous stays, and people judge each pair.",
}
OUTCOME_TEXTS = {
    "dropped": "left out",
    "merged": "the other images are also relevant",
    "marked": "left for people to judge",
    "asked_again": "unambiguous with its new caption",
    "kept": "unambiguous, because the other images have new captions",
    "rescued": "still ambiguous, kept in the set by a person's override",
}
_LEFT_OUT = {
    "too_many_rivals": "left out: it fits more images than are listed",
    "repeated_query": "left out: another query has the same text and the same relevant images",
}
_SYNTHETIC = (
    "Its queries were generated, not typed by people who search: they rank systems, but absolute scores may be "
    "biased (arXiv 2506.10301)."
)
_CONDITIONS = re.compile(r"cc-by(-nc)?(-nd|-sa)?")
_KINDS = {
    "gallery": "images to search: queries are made for them and answered with them",
    "precision": "one query, many relevant images, from annotated objects",
    "queries": "queries of a search log, judged by people",
    "recall": "captions as queries, each of which should find the image that it was written for",
    "generated": "queries about topics and objects, and images that were found for them on the web",
    "imported": "queries, images and judgments imported from another collection",
}
_SIZES = [(1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")]
_AMBIGUOUS = 8  # captions shown
_TYPED_STYLE = "query"  # of what people typed into a search; captions, phrases and words were made
_LICENCES = 12  # listed one by one; where there are more, their families are listed


def list_biases(kind: str, by_style: Mapping[str, int]) -> list[str]:
    """Return what holds of queries that nobody typed into a search, in a set of this kind with so many of each
    language and style (`en/caption`)."""
    typed = sum(count for style, count in by_style.items() if style.rpartition("/")[2] == _TYPED_STYLE)
    all_queries = sum(by_style.values())
    if 0 < typed < all_queries:
        counts = f"{all_queries - typed:,} of its queries were generated, {typed:,} were typed by people who search"
        return [f"{counts}: absolute scores may be biased, and `--slice style` shows those of each group."]
    return [_SYNTHETIC] if kind in ("precision", "recall", "generated") else []


def describe_policy(ambiguity: manifest_notes.Ambiguity) -> str:
    """Return how the policy resolved ambiguous captions."""
    parts = (POLICY_TEXTS.get(ambiguity["policy"], ""), _THEN.get(ambiguity["then"] or "", ""))
    return " ".join(part for part in parts if part)


def describe_outcome(example: manifest_notes.AmbiguityExample, ledger: pd.DataFrame) -> str:
    """Return the outcome of an ambiguous query, with the reason from the ledger where the query was rejected."""
    reasons = ledger.loc[(ledger["item"] == example["query_id"]) & (ledger["stage"] == "ambiguity"), "reason"]
    outcome = OUTCOME_TEXTS.get(example["outcome"], example["outcome"].replace("_", " "))
    return _LEFT_OUT.get(str(reasons.iloc[0]), outcome) if len(reasons) else outcome


def describe_comparisons(ambiguity: manifest_notes.Ambiguity) -> list[str]:
    """Return the comparisons that found confusable images; the captions are always compared."""
    seen = ambiguity["seen"]
    ways = {"captions": "caption similarity", "pictures": "image similarity", "descriptions": "descriptions"}
    return ["what the captions say", *[f"{ways[name]} ({seen[name]})" for name in ways if seen.get(name)]]


def format_share(part: manifest_notes.AmbiguityShare) -> str:
    """Return the share of ambiguous queries in percent; it is never rounded to 0%."""
    if not part["ambiguous"]:
        return "0%"
    percent = 100 * part["ambiguous"] / part["queries"]
    if percent >= 1:
        return f"{percent:.1f}".removesuffix(".0") + "%"
    return f"{percent:.2g}%" if percent >= 0.01 else "under 0.01%"


def describe_measurement(ambiguity: manifest_notes.Ambiguity) -> list[str]:
    """Return a sentence or two per language: what the scores were fitted to, and what is expected of them."""
    judged = [describe_judge(ambiguity["judge"])] if "judge" in ambiguity else []
    return [*judged, *(describe_language(one) for one in ambiguity.get("measured", ()))]


def describe_judge(judged: manifest_notes.JudgeFigures) -> str:
    """Return what a judge decided of a set's pairs, and how far it can be believed."""
    asked = f"{judged['name']} was asked about {judged['asked']:,} pairs"
    found = judged["reliability"]
    if found is None:
        return f"{asked}; people answered {judged['answers']:,} of these, too few to trust it: it decides nothing yet."
    return (
        f"{asked}: {judged['merged']:,} fit with a probability of {judged['at_least']:g} or more, calibrated on "
        f"{judged['answers']:,} answers of people (area under the ROC curve {found['area']:.3f}, expected calibration "
        f"error {found['expected_error']:.3f}); it is unsure about {judged['waiting']:,}: people decide these."
    )


def describe_language(measured: dict[str, Any]) -> str:
    """Return what the scores of a language were fitted to, and what is expected of them."""
    language = measured["language"]
    if not measured["is_calibrated"]:
        return f"{language}: not calibrated ({measured['reason']}); the score is a rule of thumb, not a probability."
    fitted = measured["fitted_on"]
    return (
        f"{language}: probabilities fitted to {fitted['pairs']:,} pairs of {fitted['source']}, by "
        f"{measured['embedder']}, and to {fitted['unselected']['pairs']:,} {fitted['unselected']['source']}. On pairs "
        f"of other images, every tenth of the scale is off by at most {100 * measured['greatest_error']:.1f} points."
    )


def licence_family(licence: str) -> str:
    """Return a licence without version and country: cc-by-sa-3.0-de is cc-by-sa; pd, whatever the ground; cc0."""
    plain = licence.strip().lower().replace(" ", "-")
    if plain.startswith(("cc0", "cc-zero")):
        return "cc0"
    if plain.startswith(("pd", "public-domain")):
        return "pd"
    match = _CONDITIONS.match(plain)
    return match[0] if match else plain


def render_set_card(manifest: Manifest, tables: Tables, shortcuts: list[str] | None = None) -> str:
    """Return the card as Markdown: counts, examples, funnel, provenance, known limitations and licences. `shortcuts`:
    what `describe_shortcuts` returns; None: it is asked here."""
    shortcuts = describe_shortcuts(tables) if shortcuts is None else shortcuts
    return "\n".join([*_front_matter(manifest), *_body(manifest, tables, shortcuts)]) + "\n"


def _front_matter(manifest: Manifest) -> Iterator[str]:
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


def _body(manifest: Manifest, tables: Tables, shortcuts: list[str]) -> Iterator[str]:
    counts = manifest["counts"]
    name = f"`{manifest['name']}/v{manifest['version']}`"
    yield f"# {_plain(manifest['title'])}\n"
    about = ": ".join(filter(None, ["text-to-image search", _KINDS.get(manifest["kind"])]))
    yield f"{name} · a {manifest['kind']} set for {about}.\n"
    yield from _images_alone(counts, tables) if manifest["kind"] == "gallery" else _judged(manifest, tables)
    if certificate := manifest["notes"].get("certificate"):
        is_chinese = any(style.startswith("zh/") for style in manifest["counts"]["by_style"])
        stated = [
            f"{_plain(manifest_notes.describe_certificate(certificate, one))}" for one in ("en", *["zh"] * is_chinese)
        ]
        yield "## Completeness of the judgments\n\n" + ".\n\n".join(stated) + "\n"
    if ambiguity := manifest["notes"].get("ambiguity"):
        yield from _ambiguous(ambiguity, tables)
    if judged := manifest["notes"].get("judge"):
        yield f"## Decisions of the judge\n\n{_plain(describe_judge(judged))}\n"
    if collection := manifest["notes"].get("collection"):
        yield from _collected(collection)
    yield "## How the set was made\n"
    stages = [
        [s["stage"], f"{s['entered']:,}", f"{s['accepted']:,}", _reasons(s["rejected"]), _reasons(s["quarantined"])]
        for s in manifest["funnel"]
    ]
    yield from _table(["stage", "in", "kept", "rejected", "quarantined"], stages)
    yield from (f"- input `{_plain(entry['file'])}` sha256 `{entry['sha256']}`" for entry in manifest["inputs"])
    decisions = manifest["decisions"]
    in_effect, stale = len(decisions["in_effect"]), len(decisions["stale"])
    yield f"- effective decisions of people: {in_effect}, stale: {stale}"
    yield f"- content digest `{manifest['content_digest']}`"
    yield f"- canary `{make_canary(manifest['content_digest'])}`: a text corpus with it contains this version\n"
    yield "## Known limitations\n"
    biases = list_biases(manifest["kind"], counts["by_style"])
    limitations = [*manifest["known_limitations"], *biases, *shortcuts]
    yield from (f"- {_plain(limitation)}" for limitation in limitations)
    yield "\n## Licences\n"
    yield f"The set: {_plain(manifest['licence']) or 'not stated'}. Its images:\n"
    yield from _licences(tables)


def _collected(collection: manifest_notes.Collection) -> Iterator[str]:
    """Yield where the images of a search come from, and how many are relevant to several queries or found twice."""
    fetched, chosen = collection["fetched"], sum(topic["queries"] for topic in collection["by_topic"])
    yield "## Where the images come from\n"
    days = sorted({day[:10] for day in (fetched["first"], fetched["last"]) if day})
    hosts = "1 host" if fetched["hosts"] == 1 else f"{fetched['hosts']:,} hosts"
    when = f", fetched from {hosts} ({' to '.join(days)})" if days else ""
    by_people = " that people chose" if collection.get("choices_of_people") else ""
    summary = f"Of {chosen:,} queries{by_people}, {collection['queries']:,} found enough images."
    yield f"Found by `{_plain(collection['search'])}`{when}. {summary}"
    if fetched["hosts"]:
        yield "The address, web page and caption of every image are in `images.parquet`, and its licence and creator"
        yield "where the search names them.\n"
    else:
        yield "No image was fetched from the web: the search used files on this machine.\n"
    figures = [collection["pictures_of_several_queries"], collection["same_picture_at_other_addresses"]]
    columns = ["images relevant to several queries", "additional addresses of the same image"]
    yield from _table(columns, [[f"{figure:,}" for figure in figures]])


def _licences(tables: Tables) -> Iterator[str]:
    licences = tables.images["licence"].astype("object").fillna("not stated").astype(str)  # all null: of any type
    if licences.nunique() > _LICENCES:
        licences = licences.map(lambda name: name if name == "not stated" else licence_family(name))
    counts = sorted(licences.value_counts().items())
    yield from (f"- {_plain(str(licence))}: {number:,}" for licence, number in counts)
    if "creator" in tables.images and tables.images["creator"].notna().any():
        yield "\nThe creators are in the column `creator` of `images.parquet`."


def _images_alone(counts: Counts, tables: Tables) -> Iterator[str]:
    images, duplicates = tables.images, tables.duplicates
    placed, dated = int(images["latitude"].notna().sum()), int(images["taken_at"].notna().sum())
    left_out = len(duplicates) - int(duplicates["is_representative"].sum())
    figures = [counts["images"], placed, dated, counts["duplicate_groups"], left_out]
    columns = ["images", "with a place", "with a time", "duplicate groups", "images left out as duplicates"]
    yield from _table(columns, [[f"{figure:,}" for figure in figures]])


def _judged(manifest: Manifest, tables: Tables) -> Iterator[str]:
    counts = manifest["counts"]
    if nested := manifest["notes"].get("nested"):
        yield f"The first {nested['size']:,} images of `{nested['of']}`, and those of its queries that they answer.\n"
    spread = counts["relevant_per_query"]
    span = f"{spread['least']:,} to {spread['most']:,}, median {spread['median']:g}"
    sizes = [f"{counts['queries']:,}", f"{counts['images']:,}", f"{counts['judgments']:,}"]
    yield from _table(["queries", "images", "judgments", "relevant images per query"], [[*sizes, span]])
    yield "## Examples\n"
    traits = ["language", "level"] if manifest["kind"] == "precision" else ["language", "style"]
    yield from _table(["query", *traits, "relevant images"], _examples(tables, traits))
    yield "## Meaning of the grades\n"
    yield from (f"- **{_plain(grade)}**: {_plain(meaning)}" for grade, meaning in manifest["grades"].items())
    yield "\nA pair that is not listed was never judged.\n"


def _examples(tables: Tables, traits: list[str]) -> list[list[str]]:
    """Return two queries of each combination of traits, with the number of relevant images."""
    relevant = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].value_counts()
    chosen = tables.queries.groupby(traits, sort=True).head(2).sort_values(traits, kind="stable")
    return [
        [*[_plain(str(row[name])) for name in ("text", *traits)], f"{int(relevant.get(row['query_id'], 0)):,}"]
        for row in chosen.to_dict("records")
    ]


def _ambiguous(ambiguity: manifest_notes.Ambiguity, tables: Tables) -> Iterator[str]:
    """Yield how many captions fit other images, too, and examples with their outcomes."""
    before, after = ambiguity["before"], ambiguity["after"]
    yield "## Ambiguous captions\n"
    yield f"{describe_policy(ambiguity)}\n"
    figures = [
        [name, f"{part['queries']:,}", f"{part['ambiguous']:,}", format_share(part)]
        for name, part in (("before", before), ("after", after))
    ]
    yield from _table(["", "queries", "ambiguous", "share"], figures)
    yield f"Confusable images were found by {_plain(', '.join(describe_comparisons(ambiguity)))}.\n"
    for sentences in describe_measurement(ambiguity):
        yield f"{_plain(sentences)}\n"
    names = dict(zip(tables.images["image_id"], tables.images["file_name"], strict=True))
    rows = []
    for example in ambiguity["examples"][:_AMBIGUOUS]:
        confusable, others = example["rivals"][0], len(example["rivals"]) - 1
        says = f": {confusable['text']}" if confusable["text"] else ""
        more = f" and {others} more" if others else ""
        fits = f"{names.get(confusable['image_id']) or confusable['image_id']}{says}{more}"
        new = f": {example['new_text']}" if example["new_text"] else ""
        outcome = describe_outcome(example, tables.ledger) + new
        rows.append([_plain(cell) for cell in (example["text"], fits, outcome)])
    if rows:
        yield from _table(["caption", "also fits", "outcome"], rows)


def _table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _reasons(reasons: dict[str, int]) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in reasons.items()) or "0"


def _plain(text: str) -> str:
    """Return the text with the characters of Markdown and HTML escaped, and invisible ones shown."""
    escapes = {"<": "&lt;", ">": "&gt;", "&": "&amp;"} | {mark: f"\\{mark}" for mark in "\\`*_[]#|"}
    return "".join(escapes.get(character, character) for character in make_visible(text.replace("\n", " ")))
