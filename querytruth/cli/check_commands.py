"""`querytruth overlap` and `querytruth shortcuts`: is a set seen elsewhere, or solved without looking?"""

from __future__ import annotations

from querytruth import terminal
from querytruth.audit.requests import OverlapRequest, ShortcutsRequest
from querytruth.cli.command_line import command
from querytruth.cli.options import JsonOption

_EXAMPLES = 3


@command
def overlap(json: JsonOption = False, *, request: OverlapRequest) -> None:
    """Find what a set shares with training data or with another set: images, texts, and the queries that they leak.

    Example: querytruth overlap family-album --against training/images --against captions.parquet --to overlap"""
    terminal.err.print(f"querytruth: comparing {request.of} with {', '.join(request.against)}", markup=False)
    from querytruth.audit.overlap_page import overlap_set
    from querytruth.audit.overlap_pairs import describe_bytes_alone

    with terminal.reported_run():
        _, summary, page, dropped = overlap_set(request)
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
    if request.drop:
        says = f"{dropped:,} queries decided to be dropped; next: querytruth apply {request.of}"
        terminal.out.print(says, markup=False, soft_wrap=True)


@command
def shortcuts(json: JsonOption = False, *, request: ShortcutsRequest) -> None:
    """Test whether queries are answered without a look at the images: by file names, positions, sizes, popularity or
    labels.

    Example: querytruth shortcuts family-album --to shortcuts"""
    terminal.err.print(f"querytruth: reading {request.of}", markup=False)
    from querytruth.audit.shortcuts import PAGE_FILE, find_set_shortcuts

    tables, summary = find_set_shortcuts(request)
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
    terminal.print_table(f"Without a look at the images: {request.of}", columns, rows)
    beaten = int(tables["shortcuts"]["beats_chance"].sum())
    terminal.out.print(f"{beaten} of {len(rows)} systems beat chance")
    for name, queries in tables["queries"].groupby("system", sort=False):
        texts = "; ".join(queries["text"].head(_EXAMPLES))
        terminal.out.print(f"{name}: such as {texts}", markup=False, soft_wrap=True)
    if request.to is not None:
        terminal.out.print(f"written: {request.to / PAGE_FILE}", markup=False, soft_wrap=True)
