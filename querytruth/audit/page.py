"""The page of an audit: what the set lacks, the systems before and after, what was found, the judge."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from querytruth.audit.audit_files import REPORT_PAGE_FILE
from querytruth.backends.files.durable_files import write_page
from querytruth.backends.files.safe_paths import contained_path
from querytruth.backends.files.text_formats import read_package_yaml
from querytruth.review import page_parts, set_parts
from querytruth.review.vega_lite import draw_intervals
from querytruth.sets.manifest import Manifest
from querytruth.sets.set_files import StoredSet
from querytruth.sets.set_thumbnails import make_set_thumbnails

_TEXTS = read_package_yaml(Path(__file__).with_name("page_texts.yaml"))
AUDIT_TEXTS, STRATUM_TEXTS = (_TEXTS[part] for part in ("page", "strata"))
PAGE_LANGUAGES = tuple(AUDIT_TEXTS)
_MOST_SHOWN = 24  # found pairs of a kind
_KINDS = ("missing", "wrong")
_TemplateData = dict[str, Any]


def list_shown_images(report: Mapping[str, Any]) -> list[str]:
    """Return the ids of the images that the page of a report shows, each once."""
    pairs = [pair for kind in _KINDS for pair in report["found"][kind]["pairs"][:_MOST_SHOWN]]
    return list(dict.fromkeys(pair["image_id"] for pair in pairs))


def render_audit_page(
    report: Mapping[str, Any],
    images: pd.DataFrame,
    manifest: Manifest,
    thumbnails: Mapping[str, bytes],
    language: str = "en",
) -> str:
    """Return one HTML document without other files and scripts, in a language of PAGE_LANGUAGES. `report`: that of
    report_audit; `images` and `manifest`: those of the set; `thumbnails`: JPEGs by image id."""
    tiles = set_parts.build_image_tiles(images, manifest, thumbnails, list_shown_images(report))
    for tile in tiles.values():
        tile["covers"] = set_parts.get_covering_size(tile, float(tile["ratio"]), manifest)
    return page_parts.render_page(
        "audit_page.html",
        {"funnel": []},
        images,
        set_parts.list_thumbnails(tiles, thumbnails),
        script="",
        t=_describe_scores(report["judge"], AUDIT_TEXTS[language]),
        language=language,
        name=report["name"],
        set_name=f"{report['set']['name']}/v{report['set']['version']}",
        digest=report["set"]["content_digest"],
        audit_id=report["audit_id"],
        answers=report["answers"],
        truth={row["measure"]: row for row in report["truth"]},
        certificate=report.get("certificate"),
        unit=report["unit"],
        metrics=_metrics(report["figures"], AUDIT_TEXTS[language]),
        slices=report["slices"],
        found=[_found(kind, report["found"][kind], tiles) for kind in _KINDS],
        judge=report["judge"],
        grades=_list_grades(report["judge"]),
        outside=report["outside"],
        strata=_strata(report, STRATUM_TEXTS[language]),
    )


def _describe_scores(judge: Mapping[str, Any] | None, texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the texts of the page; of a judge that gives scores, how far these can be believed, for its grades."""
    if judge is None or "reliability" not in judge:
        return texts
    found = judge["reliability"]
    believed = texts["unreliable"] if found is None else texts["reliable"].format(**found)
    sampled = texts["sampled"].format(**judge) if judge.get("samples") else ""
    return {**texts, "judge_lead": texts["scored_lead"] + sampled, "no_agreement": believed}


def _metrics(figures: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> list[_TemplateData]:
    """Return by metric the rows of the systems, the best first, and a drawing of all."""
    metrics: dict[str, list[Mapping[str, Any]]] = {}
    for row in figures:
        metrics.setdefault(row["metric"], []).append({**row, "name": row["system"]})
    return [
        {
            "metric": metric,
            "rows": sorted(rows, key=lambda row: -row["value"]),
            "plot": draw_intervals(rows, f"{metric}: {texts['as_judged']} → {texts['corrected']}", width=720),
        }
        for metric, rows in metrics.items()
    ]


def _found(kind: str, found: Mapping[str, Any], tiles: set_parts.ImageTiles) -> _TemplateData:
    pairs = [{**pair, "image": tiles[pair["image_id"]]} for pair in found["pairs"][:_MOST_SHOWN]]
    return {"kind": kind, "number": found["number"], "pairs": pairs}


def _list_grades(judge: Mapping[str, Any] | None) -> list[int]:
    """Return the grades that a judge gave to pairs that people graded."""
    agreement = (judge or {}).get("agreement") or {"confusion": {}}
    return sorted({int(grade) for row in agreement["confusion"].values() for grade in row})


def _strata(report: Mapping[str, Any], names: Mapping[str, str]) -> list[_TemplateData]:
    rows = [*report["strata"], {"stratum": "outside", **report["outside"]}]
    return [
        {
            "name": ", ".join(names[part] for part in row["stratum"].split(".")),
            **{k: row[k] for k in ("pairs", "drawn")},
        }
        for row in rows
    ]


def write_audit_page(report: dict[str, Any], folder: Path, stored: StoredSet, language: str) -> Path:
    """Write report.html into the audit's folder and return its path. `report` comes from report_audit; `stored` is the
    audited version. Raises UserError where it cannot be written."""
    page = contained_path(folder, REPORT_PAGE_FILE, "write report")
    thumbnails = make_set_thumbnails(stored, list_shown_images(report))
    html = render_audit_page(report, stored.tables.images, stored.manifest, thumbnails, language)
    write_page(page, html, "or leave out the page: --no-page")
    return page
