"""The page of an audit: what the set lacks, the systems before and after, what was found, the judge."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from querytruth.audit.audit_files import REPORT_PAGE_FILE
from querytruth.backends.files.durable_files import write_page
from querytruth.backends.files.safe_paths import contained_path
from querytruth.review import page_parts, set_parts
from querytruth.review.vega_lite import draw_intervals
from querytruth.sets.manifest import Manifest
from querytruth.sets.set_files import StoredSet
from querytruth.sets.set_thumbnails import make_set_thumbnails

_TEXTS = yaml.safe_load(Path(__file__).with_name("page_texts.yaml").read_text("utf-8"))
AUDIT_TEXTS, STRATUM_TEXTS = (_TEXTS[part] for part in ("page", "strata"))
PAGE_LANGUAGES = tuple(AUDIT_TEXTS)
_MOST_SHOWN = 24  # found pairs of a kind
_KINDS = ("missing", "wrong")
_SHARES = ("missing_share", "wrong_share")
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
        headline=[_figure(row) for row in report["truth"]],
        certificate=_certificate(report.get("certificate")),
        undetermined=_undetermined(report),
        unit=report["unit"],
        metrics=_metrics(report["figures"], AUDIT_TEXTS[language]),
        orders=[one for one in report["order"] if one["pairs"]],
        slices=[_slice(row) for row in report["slices"]],
        found=[_found(kind, report["found"][kind], tiles) for kind in _KINDS],
        judge=_judge(report["judge"]),
        outside=report["outside"],
        width=report["width"],
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


def _certificate(stated: Mapping[str, Any] | None) -> _TemplateData | None:
    """Return what is certified, as texts, and what more judgments would give."""
    if stated is None:
        return None
    shares = {name: _format(stated[name], True) for name in ("recall_at_least", "wrong_at_most", "goal")}
    unseen, of_all = stated["outside_per_query_at_most"], stated["recall_of_all_at_least"]
    return {
        **stated,
        **shares,
        "outside_per_query_at_most": None if unseen is None else _format(unseen, False),
        "recall_of_all_at_least": None if of_all is None else _format(of_all, True),
        "then": _format(stated["further"]["recall_at_least"], True),
    }


def _figure(row: Mapping[str, Any]) -> _TemplateData:
    is_share = row["measure"] in _SHARES
    return {"measure": row["measure"]} | {end: _format(row[end], is_share) for end in ("value", "low", "high")}


def _format(value: float | None, is_share: bool) -> str:
    """Return a share in percent, a count as a whole number, another figure with three digits."""
    if value is None:
        return "∞"
    if is_share:
        return f"{100 * value:.1f}%"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _undetermined(report: Mapping[str, Any]) -> list[str]:
    rows = [row for row in report["truth"] if row["measure"] == "missing_share"]
    return [_format(end, True) for row in rows for end in row["if_undetermined"]]


def _metrics(figures: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> list[_TemplateData]:
    """Return by metric a row per system as text, and a drawing of all."""
    metrics: dict[str, list[Mapping[str, Any]]] = {}
    for row in figures:
        metrics.setdefault(row["metric"], []).append({**row, "name": row["system"]})
    return [
        {
            "metric": metric,
            "rows": [
                {**row, **{end: f"{row[end] or 0:.3f}" for end in ("before", "value", "low", "high")}} for row in rows
            ],
            "plot": draw_intervals(rows, f"{metric}: {texts['as_judged']} → {texts['corrected']}"),
        }
        for metric, rows in metrics.items()
    ]


def _slice(row: Mapping[str, Any]) -> _TemplateData:
    ends = {end: _format(row[key], True) for end, key in (("estimate", "estimate"), ("low", "low"), ("high", "high"))}
    return {**row, **ends}


def _found(kind: str, found: Mapping[str, Any], tiles: set_parts.ImageTiles) -> _TemplateData:
    pairs = [{**pair, "image": tiles[pair["image_id"]]} for pair in found["pairs"][:_MOST_SHOWN]]
    return {"kind": kind, "number": found["number"], "pairs": pairs}


def _judge(judge: Mapping[str, Any] | None) -> _TemplateData | None:
    if judge is None:
        return None
    agreement = judge["agreement"]
    grades = sorted({int(g) for row in agreement["confusion"].values() for g in row}) if agreement else []
    return {
        "name": judge["name"],
        "revision": judge.get("revision") or "",
        "digest": judge["digest"],
        "agreement": agreement,
        "rates": {
            name: {end: _format(agreement[name][end], True) for end in ("value", "low", "high")}
            for name in (("sensitivity", "specificity") if agreement else ())
        },
        "grades": grades,
        "confusion": [
            (people, [row.get(str(grade), 0) for grade in grades])
            for people, row in (agreement["confusion"].items() if agreement else ())
        ],
    }


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
    """Writes report.html into the audit's folder and returns it. `report` is that of report_audit; `stored` the version
    that it is of. Raises UserError where it cannot be written."""
    page = contained_path(folder, REPORT_PAGE_FILE, "write report")
    thumbnails = make_set_thumbnails(stored, list_shown_images(report))
    html = render_audit_page(report, stored.tables.images, stored.manifest, thumbnails, language)
    write_page(page, html, "or leave out the page: --no-page")
    return page
