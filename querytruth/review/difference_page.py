"""The differences of two versions of a set, as rows for the terminal and the page, and the page with the images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from querytruth.review.page_parts import embed_jpeg, render_template
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.set_files import StoredSet
from querytruth.sets.set_thumbnails import make_set_thumbnails
from querytruth.sets.version_difference import RowDict, VersionDifference

_COLUMNS = {"images": ["image", "what"], "queries": ["query", "text", "what"], "judgments": ["query", "image", "what"]}


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """Queries, images or judgments with one kind of change: their `total`, and the first of them as `rows`;
    `image_ids`: the image of each row, of a query the one that it was written of, or ""."""

    kind: str
    change: str
    total: int
    columns: list[str]
    rows: list[list[str]]
    image_ids: list[str]


def list_changes(before: Tables, after: Tables, difference: VersionDifference, most: int) -> Iterator[ChangeTable]:
    """Yield a table per kind of change, with at most so many rows."""
    texts: dict[object, object] = {}
    sources: dict[object, object] = {}
    for one in (after, before):
        texts |= dict(zip(one.queries["query_id"], one.queries["text"], strict=True))
        written = one.queries.dropna(subset="source_image_id")
        sources |= dict(zip(written["query_id"], written["source_image_id"], strict=True))
        named = one.images.dropna(subset="file_name")
        texts |= dict(zip(named["image_id"], named["file_name"], strict=True))
    # Why an image that is gone is not in the later version, and why a new one was not in the earlier.
    ledgers = [one.ledger for one in (before, after)]
    reasons = {item: reason for one in ledgers for item, reason in zip(one["item"], one["reason"], strict=True)}
    for kind, columns in _COLUMNS.items():
        for change in ("added", "removed", "changed", "confirmed"):
            if entries := getattr(difference, f"{kind}_{change}", ()):
                shown = [entry if isinstance(entry, dict) else {"image_id": entry} for entry in entries[:most]]
                rows = [_describe_change(kind, entry, texts, reasons) for entry in shown]
                images = [entry.get("image_id", sources.get(entry.get("query_id"), "")) for entry in shown]
                yield ChangeTable(kind, change, len(entries), columns, rows, images)


def _describe_change(kind: str, entry: RowDict, texts: dict[object, object], reasons: dict[str, str]) -> list[str]:
    """Return texts and file names, and the changed values, or the reason."""
    query, image = entry.get("query_id"), entry.get("image_id")
    values = {name: value for name, value in entry.items() if name not in ("query_id", "image_id")}
    if kind == "queries" and not isinstance(values.get("text"), tuple):
        values.pop("text", None)
    changes = {name: value for name, value in values.items() if not isinstance(value, tuple) or value[0] != value[1]}
    words = [f"{k} {v[0]} → {v[1]}" if isinstance(v, tuple) else f"{k} {v}" for k, v in changes.items()]
    name, text = str(texts.get(image, image)), str(texts.get(query))
    about = {"queries": [str(query), text], "images": [name], "judgments": [text, name]}
    return [*about[kind], ", ".join(words) or reasons.get(name, "").replace("_", " ")]


def render_difference_page(
    before: StoredSet, after: StoredSet, tables: Sequence[ChangeTable], comparability: str
) -> str:
    """Return one HTML document: each change with its image, where that can be read, and its reason."""
    shown = list(dict.fromkeys(name for table in tables for name in table.image_ids if name))
    jpegs: dict[str, bytes] = {}
    for one in (before, after):
        known = set(one.tables.images["image_id"])
        jpegs |= make_set_thumbnails(one, [name for name in shown if name in known and name not in jpegs])
    names = [f"{one.manifest['name']}/v{one.manifest['version']}" for one in (before, after)]
    data = {name: embed_jpeg(jpeg) for name, jpeg in jpegs.items()}
    return render_template(
        "difference_page.html", name=" → ".join(names), tables=tables, data=data, comparability=comparability
    )
