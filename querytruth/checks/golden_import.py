"""A golden file as a set: its folder is the gallery, and its cases are queries with judgments."""

from pathlib import Path

from querytruth.checks.golden_file import load_golden
from querytruth.formats import importers
from querytruth.formats.set_images import ImageStore

_ANY = "Where a case names any of several images, each of them is judged relevant."


def read(source: Path, split: str | None, image_store: ImageStore) -> importers.ImportedTables:
    """Reads must and any as relevant, must_not as judged and not relevant; a case of nothing is a query without
    judgments. `split` and `image_store` are of no use here."""
    cases = load_golden(source, {}).cases
    rows = [
        (case.query, image, relevance)
        for case in cases
        for relevance, names in ((1, [*case.must, *case.any]), (0, case.must_not))
        for image in names
    ]
    return importers.ImportedTables(
        queries=importers.build_query_table(((case.query, case.query) for case in cases), "query"),
        images=importers.build_image_table((name, name, None) for name in dict.fromkeys(row[1] for row in rows)),
        qrels=importers.build_judgment_table(rows, "table"),
        files=[source],
        grades={"1": "the golden file expects it", "0": "the golden file forbids it"},
        title=source.stem,
        known_limitations=[_ANY] if any(case.any for case in cases) else [],
    )
