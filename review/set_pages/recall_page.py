"""The page of a recall set: queries with their images, ambiguous captions and their outcomes, and how captions
begin."""

from collections.abc import Iterator, Mapping
from typing import Any

from builders.benchmark_set import Tables, open_candidate_judgments
from builders.lint import LintFinding
from builders.recall import ambiguity_report
from builders.recall.caption_cleaning import CAPTION_REJECTION_REASONS
from review import page_parts
from review.set_pages import set_parts
from review.set_pages.recall_selection import CaptionQuery, ImageQueries, RecallSelection

_ABOUT = (
    "Captions as queries. Each asks for the picture that it was written of; "
    "captions that fit other pictures, too, were looked for."
)
_JUDGES = {"model": "a model's caption of the picture", "caption": "captions that fit the picture", "human": "people"}
_REASONS = CAPTION_REJECTION_REASONS | {"repeated_caption": "what another caption of the same picture says"}
_OPEN_IMAGES, _OPEN_CASES, _OPEN_ROWS = 30, 6, 10  # shown without unfolding
_CARD, _SMALL = 4 / 3, 1.0  # aspect ratios of an image beside its queries, and of another relevant one
_TemplateData = dict[str, Any]


def render_recall_page(
    tables: Tables,
    manifest: dict[str, Any],
    thumbnails: Mapping[str, bytes],
    findings: list[LintFinding],
    selection: RecallSelection,
) -> str:
    """Return one HTML document without other files and scripts. `thumbnails`: JPEGs by image id; an image without one
    is shown by its name."""
    images = set_parts.build_image_tiles(tables.images, manifest, thumbnails, selection.image_ids)
    for image in images.values():
        image["card"] = set_parts.get_covering_size(image, _CARD, manifest)
        image["small"] = set_parts.get_covering_size(image, _SMALL, manifest)
    notes = manifest["notes"]
    styles = [style for style, _ in page_parts.count_values(tables.queries["style"])]
    cards = [_card(one, selection.max_other_relevant) for one in selection.images]
    return page_parts.render_page(
        "recall_page.html",
        manifest,
        tables.images,
        set_parts.list_thumbnails(images, thumbnails),
        about=_ABOUT,
        nested=notes.get("nested"),
        languages=set_parts.list_languages(tables.queries),
        styles=styles,
        image_total=selection.image_total,
        more_right=_more_right(manifest, tables),
        judges=set_parts.count_judges(manifest, _JUDGES),
        grades=set_parts.describe_grades(manifest),
        images=images,
        any_missing=any(not image["has_thumbnail"] for image in images.values()),
        cards=(cards[:_OPEN_IMAGES], cards[_OPEN_IMAGES:]),
        ambiguity=_ambiguity(notes["ambiguity"], selection, tables) if notes.get("ambiguity") else None,
        captions=_captions(notes["captions"], selection) if notes.get("captions") else None,
        findings=findings,
    )


def _more_right(manifest: dict[str, Any], tables: Tables) -> int:
    """Return the number of relevant judgments beyond one per query."""
    counts = manifest["counts"]["by_grade"]
    right = sum(int(number) for grade, number in counts.items() if int(grade) > 0)
    answered = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].nunique()
    return right - int(answered)


def _card(one: ImageQueries, most: int) -> _TemplateData:
    """Return an image with its queries; other images that are relevant for all of them are shown once."""
    same = len({query.other_relevant for query in one.queries}) == 1 and len(one.queries) > 1
    return {
        "image_id": one.image_id,
        "lines": [
            {"query": query, "other_relevant": {} if same else _other_relevant(query, most)} for query in one.queries
        ],
        "other_relevant": _other_relevant(one.queries[0], most) if same else {},
    }


def _other_relevant(query: CaptionQuery, most: int) -> _TemplateData:
    others = query.other_relevant
    return {"shown": others[:most], "further": len(others[most:])} if others else {}


def _ambiguity(ambiguity: dict[str, Any], selection: RecallSelection, tables: Tables) -> _TemplateData:
    before, after = ambiguity["before"], ambiguity["after"]
    cases = [_case(example, tables) for example in selection.ambiguous]
    return {
        "parts": [
            {**part, "name": name, "share_text": ambiguity_report.format_share(part)}
            for name, part in (("before", before), ("after", after))
        ],
        "policy": ambiguity_report.describe_policy(ambiguity),
        "ways": ambiguity_report.describe_comparisons(ambiguity),
        "measured": ambiguity_report.describe_measurement(ambiguity),
        "reliability": [one for one in ambiguity.get("measured", ()) if one["is_calibrated"]],
        "rounds": ambiguity["rounds"],
        "waiting": len(open_candidate_judgments(tables)),
        "cases": (cases[:_OPEN_CASES], cases[_OPEN_CASES:]),
    }


def _case(example: dict[str, Any], tables: Tables) -> _TemplateData:
    outcome = example["outcome"]
    return {
        **example,
        "became": ambiguity_report.describe_outcome(example, tables.ledger),
        "kind": outcome if outcome in ambiguity_report.OUTCOME_TEXTS else "other",
        "confusable_images": [
            {
                **confusable,
                "percent": f"{100 * min(max(confusable['score'], 0), 1):.0f}%",
                "why": confusable["evidence"].removesuffix(f": {confusable['text'] or ''}"),
            }
            for confusable in example["rivals"]
        ],
    }


def _captions(captions: dict[str, Any], selection: RecallSelection) -> _TemplateData:
    return {
        "written_by_people": 0,
        **captions,
        "languages": list(_by_language(captions)),
        "rejected_replies": [
            {"record": one, "title": one.reason.replace("_", " "), "description": _REASONS.get(one.reason, "")}
            for one in selection.rejected_replies
        ],
    }


def _by_language(captions: dict[str, Any]) -> Iterator[_TemplateData]:
    stripped, openings = captions["stripped"], captions["openings"]
    for code in sorted(stripped.keys() | openings.keys(), key=set_parts.language_order):
        rows = openings.get(code, [])
        yield {
            "code": code,
            "name": set_parts.get_language_name(code),
            "most": max((row["count"] for row in rows), default=1),
            "openings": (rows[:_OPEN_ROWS], rows[_OPEN_ROWS:]),
            "stripped": stripped.get(code, []),
        }
