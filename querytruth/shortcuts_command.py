"""`querytruth shortcuts`: whether a set can be answered without a look at its images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from querytruth import terminal
from querytruth.options import DEFAULT_DATASETS_FOLDER, JsonOption, OutOption, SetArgument

_EXAMPLES = 3


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
    from backends.sets.set_files import find_set, read_set
    from flows.shortcuts import PAGE_FILE, find_shortcuts, summarize_shortcuts, write_shortcuts

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
