"""The page on which a person first looks at a recall set: queries with their pictures, captions that fit several
pictures and what became of them, and how captions begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from builders.benchmark_set import Tables
from builders.lint import Finding
from builders.recall import ambiguity_report
from builders.recall.captions import REASONS
from builders.suspicions import open_suspicions
from review import page_parts
from review.set_pages import set_parts
from review.set_pages.recall_selection import Asked, Described, RecallSelection, select_described

__all__ = ["RecallSelection", "render_recall_page", "select_described"]

_ABOUT = (
    "Captions as queries. Each asks for the picture that it was written of; "
    "captions that fit other pictures, too, were looked for."
)
_JUDGES = {"model": "a model's caption of the picture", "caption": "captions that fit the picture", "human": "people"}
_REASONS = REASONS | {"repeated_caption": "what another caption of the same picture says"}
_OPEN_PICTURES, _OPEN_CASES, _OPEN_ROWS = 30, 6, 10  # what is not folded away
_CARD, _SMALL = 4 / 3, 1.0  # proportions of a picture beside its queries, and of one that is right, too
Shown = dict[str, Any]


def render_recall_page(
    tables: Tables,
    manifest: dict[str, Any],
    thumbnails: Mapping[str, bytes],
    findings: list[Finding],
    shown: RecallSelection,
) -> str:
    """One HTML document that needs no other file and no script. `thumbnails` holds JPEGs by image id; a picture
    that has none is shown by its name."""
    pictures = set_parts.shown_pictures(tables.images, manifest, thumbnails, shown.image_ids)
    for picture in pictures.values():
        picture["card"] = set_parts.covering(picture, _CARD, manifest)
        picture["small"] = set_parts.covering(picture, _SMALL, manifest)
    notes = manifest["notes"]
    styles = [style for style, _ in page_parts.tally(tables.queries["style"])]
    cards = [_card(one, shown.most) for one in shown.described]
    return page_parts.render_page(
        "recall_page.html",
        manifest,
        tables.images,
        set_parts.jpegs_of(pictures, thumbnails),
        about=_ABOUT,
        nested=notes.get("nested"),
        languages=set_parts.languages_of(tables.queries),
        styles=styles,
        described=shown.there,
        more_right=_more_right(manifest, tables),
        judges=set_parts.judges_of(manifest, _JUDGES),
        grades=set_parts.grades_of(manifest),
        pictures=pictures,
        any_missing=any(not picture["has"] for picture in pictures.values()),
        cards=(cards[:_OPEN_PICTURES], cards[_OPEN_PICTURES:]),
        ambiguity=_ambiguity(notes["ambiguity"], shown, tables) if notes.get("ambiguity") else None,
        captions=_captions(notes["captions"], shown) if notes.get("captions") else None,
        findings=findings,
        fill=set_parts.fill(manifest),
    )


def _more_right(manifest: dict[str, Any], tables: Tables) -> int:
    """Right pictures beyond one a query."""
    counts = manifest["counts"]["by_grade"]
    right = sum(int(number) for grade, number in counts.items() if int(grade) > 0)
    answered = tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].nunique()
    return right - int(answered)


def _card(one: Described, most: int) -> Shown:
    """A picture and what is asked of it; what else is right for all of that is said once."""
    same = len({asked.also for asked in one.asked}) == 1 and len(one.asked) > 1
    return {
        "image_id": one.image_id,
        "lines": [{"asked": asked, "also": {} if same else _also(asked, most)} for asked in one.asked],
        "also": _also(one.asked[0], most) if same else {},
    }


def _also(asked: Asked, most: int) -> Shown:
    return {"shown": asked.also[:most], "further": len(asked.also[most:])} if asked.also else {}


def _ambiguity(ambiguity: dict[str, Any], shown: RecallSelection, tables: Tables) -> Shown:
    before, after = ambiguity["before"], ambiguity["after"]
    cases = [_case(example, tables) for example in shown.ambiguous]
    return {
        "parts": [
            {**part, "name": name, "words": ambiguity_report.share_words(part)}
            for name, part in (("before", before), ("after", after))
        ],
        "policy": ambiguity_report.policy_words(ambiguity),
        "ways": ambiguity_report.compared_by(ambiguity),
        "rivals": ambiguity["rivals"],
        "rounds": ambiguity["rounds"],
        "waiting": len(open_suspicions(tables)),
        "cases": (cases[:_OPEN_CASES], cases[_OPEN_CASES:]),
    }


def _case(example: dict[str, Any], tables: Tables) -> Shown:
    outcome = example["outcome"]
    return {
        **example,
        "became": ambiguity_report.outcome_words(example, tables.ledger),
        "kind": outcome if outcome in ambiguity_report.OUTCOMES else "other",
        "rivals": [
            {
                **rival,
                "percent": f"{100 * min(max(rival['score'], 0), 1):.0f}%",
                "why": rival["evidence"].removesuffix(f": {rival['text'] or ''}"),
            }
            for rival in example["rivals"]
        ],
    }


def _captions(captions: dict[str, Any], shown: RecallSelection) -> Shown:
    return {
        "written_by_people": 0,
        **captions,
        "languages": list(_by_language(captions)),
        "refused": [
            {"words": reason.reason.replace("_", " "), "says": _REASONS.get(reason.reason, ""), "found": reason}
            for reason in shown.refused
        ],
    }


def _by_language(captions: dict[str, Any]) -> Iterator[Shown]:
    stripped, openings = captions["stripped"], captions["openings"]
    for code in sorted(stripped.keys() | openings.keys(), key=lambda code: (code != "zh", code)):
        rows = openings.get(code, [])
        yield {
            "code": code,
            "name": set_parts.language_name(code),
            "most": max((row["count"] for row in rows), default=1),
            "openings": (rows[:_OPEN_ROWS], rows[_OPEN_ROWS:]),
            "stripped": stripped.get(code, []),
        }
