"""Conversion of sets of schema version 1 to version 2 on reading; their files stay unchanged."""

import re
from typing import Any

import pandas as pd

from builders.definition_keys import rename_old_keys
from builders.ledger import BUCKETS, current_code
from builders.recall.caption_ids import caption_query_id, query_ids_by_item
from builders.records import LEDGER_SCHEMA

TABLE_NAMES = {"candidate_judgments": "suspicions"}  # tables whose files have another name in version 1
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
_MEASURED = rf"(?P<value>{_NUMBER}) is (?:not (?:over|at least|under|at most)|under|over) (?P<threshold>{_NUMBER})"
_MEASURES = {
    "too_small": "shorter_side",
    "too_large": "longer_side",
    "too_narrow": "ratio",
    "too_wide": "ratio",
    "too_dark": "brightness",
    "too_light": "brightness",
    "nearly_uniform": "contrast",
    "blurred": "sharpness",
    "screen_or_text": "flatness",
    "too_elongated": "longer_to_shorter_side",
    "too_few_results": "reported_results",
}
_CAPTION = r"(?P<text>.*?)(?: — fits (?P<related_item>img_[0-9a-z_]+): (?P<detail>.*))?"
_QUERY = r"(?P<text>.*?)(?:: (?P<detail>.*))?"
_RESULT = r"(?P<text>.*?) #(?P<rank>[0-9]+)(?:: (?P<detail>.*))?"
_DUPLICATE = r"of (?P<related_item>.*)"
_WITHOUT_DETAIL = ["empty_text", "doubled_query", "no_image_left"]  # queries for which version 1 has the text alone


def upgrade_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns the manifest with the keys and codes of version 2; `schema_version` stays that of the files."""
    unchanged = {key: value for key, value in manifest.items() if key != "faults"}
    return unchanged | {
        "known_limitations": manifest["faults"],
        "funnel": [_stage(stage) for stage in manifest["funnel"]],
        "configuration": rename_old_keys(manifest["configuration"]),
    }


def upgrade_ledger(ledger: pd.DataFrame, images: pd.DataFrame, configuration: dict[str, Any]) -> pd.DataFrame:
    """Returns the ledger with the columns of version 2, filled from the sentences in `detail`. `images` are the set's,
    `configuration` is the manifest's."""
    places = [_place(stage, kind) for stage, kind in zip(ledger["stage"], ledger["kind"], strict=True)]
    rows = ledger.astype(object).reset_index(drop=True).reindex(columns=LEDGER_SCHEMA.names).astype(object)
    rows[["stage", "kind"]] = pd.DataFrame(places, columns=["stage", "kind"])
    rows["reason"] = rows["reason"].map(current_code)
    rows["item_id"] = rows["item"].where(rows["item"].str.fullmatch("(?:q|img)_[0-9a-z]{20}"))
    is_query = (rows["kind"] == "query") & (rows["stage"] != "review")
    for selected, pattern in (
        ((rows["kind"] == "caption") & (rows["stage"] != "caption"), _CAPTION),
        (is_query & rows["reason"].isin(_WITHOUT_DETAIL), "(?P<text>.*)"),
        (is_query & ~rows["reason"].isin(_WITHOUT_DETAIL), _QUERY),
        (rows["kind"] == "result", _RESULT),
        (rows["stage"] == "duplicates", _DUPLICATE),
        (rows["reason"].isin(list(_MEASURES)), f"(?:.*: |[a-z]+ )?{_MEASURED}"),
    ):
        _split_details(rows, selected, re.compile(pattern, re.DOTALL))
    numbers = {name: pd.to_numeric(rows[name]) for name in ("value", "threshold", "rank")}
    rows = rows.assign(**numbers, measure=rows["reason"].map(_MEASURES).where(rows["value"].notna()))
    return _with_caption_ids(rows, images, configuration.get("captions") or {})


def _split_details(rows: pd.DataFrame, selected: pd.Series, pattern: re.Pattern[str]) -> None:
    """Moves what the pattern's named groups match in the details of the selected rows to columns of these names."""
    details = rows.loc[selected, "detail"].dropna()
    parts = {row: match.groupdict() for row, detail in details.items() if (match := pattern.fullmatch(detail))}
    if parts:
        found = pd.DataFrame.from_dict(parts, orient="index", dtype=object)
        rows.loc[found.index, "detail"] = None
        rows.loc[found.index, found.columns] = found


def _with_caption_ids(rows: pd.DataFrame, images: pd.DataFrame, captions: dict[str, Any]) -> pd.DataFrame:
    """Adds item_id, image_id and language of captions, as far as their items determine them."""
    prompts, per_image = captions.get("prompt") or [], captions.get("per_image") or 0
    ids_by_item = query_ids_by_item(images, prompts, per_image)
    requested = {
        caption_query_id(image_id, prompt, number): (image_id, prompt.partition("/")[0])
        for image_id in images["image_id"]
        for prompt in prompts
        for number in range(per_image)
    }
    is_caption = rows["kind"] == "caption"
    item_ids = rows["item_id"].fillna(rows.loc[is_caption, "item"].map(ids_by_item))
    known = [requested.get(item_id, (None, None)) for item_id in item_ids]
    return rows.assign(
        item_id=item_ids, image_id=[image_id for image_id, _ in known], language=[language for _, language in known]
    )


def _stage(stage: dict[str, Any]) -> dict[str, Any]:
    counts = {bucket: {current_code(code): n for code, n in stage[bucket].items()} for bucket in BUCKETS}
    return stage | counts | _place(stage["stage"], stage["kind"])


def _place(stage: str, kind: str) -> dict[str, str]:
    is_import = (stage, kind) == ("pictures", "picture")
    return {"stage": "imported_images" if is_import else current_code(stage), "kind": current_code(kind)}
