"""`querytruth overlap SET` and `querytruth overlap index`: what a set shares with training data or with another set.

`querytruth shortcuts`: whether a set can be answered without a look at its images.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from querytruth import terminal
from querytruth.cli.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption, SetArgument, default_to

PdqOption = Annotated[
    Literal["pdq"] | None,
    typer.Option("--hash", help="Also use this hash. Each image is decoded once more, at a larger size."),
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Also compare vectors of this model: its folder, or its name on the hub."),
]
app = typer.Typer(
    help="Find what a set shares with training data: querytruth overlap SET --against FOLDER. Or index such data.",
    cls=default_to("find"),
    no_args_is_help=True,
)
_EXAMPLES = 3


@app.command("find")
def find(
    set_: SetArgument,
    against: Annotated[
        list[str],
        typer.Option(help="Images (a folder, a list, shards), an index, a table of captions, or a set; repeatable."),
    ],
    to: Annotated[
        Path | None,
        typer.Option(help="A folder for the result (default: beside the set, for evaluate --slice overlap)."),
    ] = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Decide that leaked queries leave the set: the next `apply` drops them.")
    ] = False,
    hash_: PdqOption = None,
    embedder: EmbedderOption = None,
    min_cosine: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="The least cosine of two vectors that count as the same (default: 0.95)."),
    ] = None,
    page_language: Annotated[Literal["en", "zh"], typer.Option(help="Of the page.")] = "en",
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Find the images and texts of a set that another collection has, and the queries that they leak.

    Example: querytruth overlap family-album --against training/images --against captions.parquet --to overlap"""
    terminal.err.print(f"querytruth: comparing {set_} with {', '.join(against)}", markup=False)
    from querytruth.audit.overlap import (
        OverlapOptions,
        drop_leaked_queries,
        find_overlap,
        summarize_overlap,
        write_overlap,
    )
    from querytruth.audit.overlap_page import write_overlap_page
    from querytruth.audit.overlap_pairs import describe_bytes_alone
    from querytruth.sets.leaked_queries import overlap_folder
    from querytruth.sets.set_files import find_set, read_set

    stored = read_set(find_set(set_, out))
    with terminal.reported_run():
        found = find_overlap(stored, against, out, OverlapOptions(hash_ is not None, embedder, min_cosine))
    summary = summarize_overlap(stored, against, found)
    folder = overlap_folder(stored.path) if to is None else to
    write_overlap(folder, found.tables, summary)
    with terminal.reported_run():
        page = write_overlap_page(folder, stored, found.tables, out, page_language)
    dropped = drop_leaked_queries(stored, found.queries, against, terminal.current_user_name()) if drop else 0
    if json:
        terminal.print_json(summary)
        return
    pairs = ", ".join(f"{count:,} by {name}" for name, count in summary["pairs"].items()) or "none"
    leaked = f"{summary['leaked']:,} of {summary['queries']:,} queries are leaked"
    by = f"{summary['leaked_by_image']:,} by an image, {summary['leaked_by_text']:,} by the text"
    terminal.out.print(f"pairs: {pairs}\n{leaked} ({by})", markup=False, soft_wrap=True)
    read = f"{summary['images_compared']:,} of {summary['images']:,} images of the set were compared"
    terminal.out.print(read, markup=False)
    if summary["by_bytes_alone"]:
        alone = describe_bytes_alone(summary["by_bytes_alone"])
        terminal.out.print(f"without a hash, so that no edited copy is found: {alone}", markup=False, soft_wrap=True)
    terminal.out.print(f"not searched for: {'; '.join(summary['not_searched'])}", markup=False, soft_wrap=True)
    terminal.out.print(f"written: {page}", markup=False, soft_wrap=True)
    if drop:
        says = f"{dropped:,} queries decided to be dropped; next: querytruth apply {set_}"
        terminal.out.print(says, markup=False, soft_wrap=True)


@app.command("index")
def index(
    images: Annotated[str, typer.Argument(metavar="IMAGES", help="A folder of images, a list of them, or shards.")],
    out: Annotated[Path, typer.Option(help="The index, a .parquet file.")],
    hash_: PdqOption = None,
    embedder: EmbedderOption = None,
) -> None:
    """Write the hashes of images, without the images, so that others can compare their sets with them.

    Example: querytruth overlap index training/images --out training.parquet"""
    from querytruth.audit.overlap import load_image_features
    from querytruth.audit.overlap_index import write_index
    from querytruth.audit.overlap_sources import ImageFeatures

    with terminal.reported_run():
        encoder = None if embedder is None else load_image_features(embedder)
        count = write_index(images, out, ImageFeatures(hash_ is not None, encoder))
    terminal.out.print(f"{count:,} images indexed in {out}", markup=False, soft_wrap=True)


def shortcuts(
    set_: SetArgument,
    to: Annotated[Path | None, typer.Option(help="A folder for the page shortcuts.html, two tables and JSON.")] = None,
    page_language: Annotated[Literal["en", "zh"], typer.Option(help="Of the page.")] = "en",
    out: OutOption = DEFAULT_DATASETS_FOLDER,
    json: JsonOption = False,
) -> None:
    """Test whether file names, positions, sizes, popularity or labels answer the queries, without any image.

    Example: querytruth shortcuts family-album --to shortcuts"""
    terminal.err.print(f"querytruth: reading {set_}", markup=False)
    from querytruth.audit.shortcuts import PAGE_FILE, find_shortcuts, summarize_shortcuts, write_shortcuts
    from querytruth.sets.set_files import find_set, read_set

    stored = read_set(find_set(set_, out))
    tables = find_shortcuts(stored)
    summary = summarize_shortcuts(stored, tables)
    if to is not None:
        write_shortcuts(to, stored, tables, summary, page_language)
    if json:
        terminal.print_json(summary)
        return
    if tables["shortcuts"].empty:
        terminal.out.print("nothing measured: fewer than 10 queries have a relevant image")
        return
    rows: list[list[object]] = [
        [
            f"! {one.system}" if one.beats_chance else f"  {one.system}",
            f"{one.queries:,}",
            f"{one.ndcg:.3f} [{one.low:.3f}, {one.high:.3f}]",
            f"{one.random:.3f}",
            f"{one.deviations:.1f}",
        ]
        for one in tables["shortcuts"].itertuples()
    ]
    columns = ["system", "queries", "nDCG [95%]", "random", "sd"]
    terminal.print_table(f"Without a look at the images: {set_}", columns, rows)
    beaten = int(tables["shortcuts"]["beats_chance"].sum())
    terminal.out.print(f"{beaten} of {len(rows)} systems beat chance")
    for name, queries in tables["queries"].groupby("system", sort=False):
        texts = "; ".join(queries["text"].head(_EXAMPLES))
        terminal.out.print(f"{name}: such as {texts}", markup=False, soft_wrap=True)
    if to is not None:
        terminal.out.print(f"written: {to / PAGE_FILE}", markup=False, soft_wrap=True)
