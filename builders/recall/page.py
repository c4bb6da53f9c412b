"""The page of a recall set: a fixed sample of queries with their images, ambiguous captions, and how captions begin."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from builders.recall.caption_cleaning import CAPTION_REJECTION_REASONS
from querytruth.errors import LintFinding
from querytruth.formats import set_card
from querytruth.review import page_parts, set_parts
from querytruth.review.set_parts import DisplayedWording, RejectionReason, reading_order, sample_rejections
from querytruth.sets.benchmark_set import Tables, open_candidate_judgments
from querytruth.sets.manifest import Manifest
from querytruth.sets.manifest_notes import Ambiguity, AmbiguityExample, Captions, Notes

_CLEANING = "clean"  # the stage in the ledger that rejects replies without a caption
_EXAMPLES = 4  # rejected replies shown of each reason
_ABOUT = (
    "Captions as queries. Each one asks for the image that it describes; other images that a caption fits were "
    "searched for."
)
_JUDGES = {
    "model": "a model's caption of the image",
    "caption": "captions that fit the image",
    "judge": "a judge, calibrated on people's answers",
    "human": "people",
}
_REASONS = CAPTION_REJECTION_REASONS | {"repeated_caption": "repeats another caption of the same image"}
_OPEN_IMAGES, _OPEN_CASES, _OPEN_ROWS = 30, 6, 10  # shown without unfolding
_CARD, _SMALL = 4 / 3, 1.0  # aspect ratios of an image beside its queries, and of another relevant one
_TemplateData = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CaptionQuery(DisplayedWording):
    """One query, with the other images that are relevant for it, sorted."""

    other_relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageQueries:
    """An image with its queries; `image_id` is None for a query that has no relevant image in the set."""

    image_id: str | None
    queries: tuple[CaptionQuery, ...]


@dataclass(frozen=True, slots=True)
class RecallSelection:
    """The content of the page: images of `image_total`, ambiguous captions from the manifest's notes, and rejected
    replies; `further`: queries of other images, of `further_total`."""

    images: list[ImageQueries]
    image_total: int
    ambiguous: list[AmbiguityExample]
    rejected_replies: list[RejectionReason]
    max_other_relevant: int  # images shown beside the own image of a query
    further: list[list[DisplayedWording]]
    further_total: int

    @property
    def image_ids(self) -> list[str]:
        """Return the ids of all images shown, once, in the order of the page."""
        shown = [one.image_id for one in self.images if one.image_id is not None]
        queries = [query for one in self.images for query in one.queries]
        shown += [name for query in queries for name in query.other_relevant[: self.max_other_relevant]]
        for example in self.ambiguous:
            shown += [example["image_id"], *[confusable["image_id"] for confusable in example["rivals"]]]
        return list(dict.fromkeys(shown))


def select_recall(
    tables: Tables, notes: Notes, *, images: int = 240, examples: int = 24, max_other_relevant: int = 3
) -> RecallSelection:
    """Select images with queries by their ids, which are digests; `notes`: those of the manifest."""
    right = _relevant_pairs(tables)
    shown = _shown_image(tables.queries, right)
    image_ids = shown.dropna().unique()
    chosen = heapq.nsmallest(images, image_ids)
    queries_without_image = heapq.nsmallest(images - len(chosen), tables.queries.loc[shown.isna(), "query_id"])
    ledger, ambiguous = tables.ledger, notes["ambiguity"]["examples"][:examples] if "ambiguity" in notes else []
    grouped = _group_by_image(tables.queries, shown, chosen, right)
    others = tables.queries[~(shown.isin(chosen) | tables.queries["query_id"].isin(queries_without_image))]
    names = ["query_id", "text", "language", "style"]
    further = others.sort_values("text")[names].head(set_parts.MOST_FURTHER).itertuples(index=False)
    return RecallSelection(
        [*grouped, *_without_image(tables.queries, queries_without_image)],
        len(image_ids),
        ambiguous,
        sample_rejections(ledger[ledger["stage"] == _CLEANING], _EXAMPLES),
        max_other_relevant,
        [[DisplayedWording(*row)] for row in further],
        len(others),
    )


def _relevant_pairs(tables: Tables) -> pd.DataFrame:
    """Return the sorted pairs of queries and relevant images that are in the set."""
    qrels = tables.qrels[tables.qrels["relevance"] > 0]
    plain = qrels[["query_id", "image_id"]].astype("str")
    plain = plain[plain["image_id"].isin(tables.images["image_id"])]
    return plain.sort_values(["query_id", "image_id"], ignore_index=True)


def _shown_image(queries: pd.DataFrame, right: pd.DataFrame) -> pd.Series:
    """Return per query its image on the page: the source of the caption if it is relevant, else the first relevant one,
    as in a smaller gallery without the source."""
    pairs = pd.MultiIndex.from_frame(right)
    own = pd.MultiIndex.from_arrays([queries["query_id"].astype("str"), queries["source_image_id"].astype("object")])
    first = right.drop_duplicates("query_id").set_index("query_id")["image_id"]
    return queries["source_image_id"].where(own.isin(pairs), queries["query_id"].map(first))


def _group_by_image(
    queries: pd.DataFrame, shown: pd.Series, chosen: list[str], right: pd.DataFrame
) -> Iterator[ImageQueries]:
    chosen_queries = queries[shown.isin(chosen)].assign(image=shown[shown.isin(chosen)])
    pairs = right[right["query_id"].isin(chosen_queries["query_id"])]
    of_query = pairs.groupby("query_id")["image_id"].agg(tuple).to_dict()
    by_image: dict[str, list[CaptionQuery]] = {image_id: [] for image_id in chosen}
    for row in chosen_queries.itertuples(index=False):
        also = tuple(image_id for image_id in of_query[row.query_id] if image_id != row.image)
        by_image[row.image].append(CaptionQuery(row.query_id, row.text, row.language, row.style, also))
    for image_id, caption_queries in by_image.items():
        yield ImageQueries(image_id, tuple(sorted(caption_queries, key=reading_order)))


def _without_image(queries: pd.DataFrame, lost: Iterable[str]) -> Iterator[ImageQueries]:
    for row in queries[queries["query_id"].isin(list(lost))].sort_values("query_id").itertuples(index=False):
        yield ImageQueries(None, (CaptionQuery(row.query_id, row.text, row.language, row.style, ()),))


def render_recall_page(
    tables: Tables,
    manifest: Manifest,
    thumbnails: Mapping[str, bytes],
    findings: list[LintFinding],
    selection: RecallSelection,
) -> str:
    """Return one HTML document without other files. `thumbnails`: JPEGs by image id; an image without one
    is shown by its name."""
    images = set_parts.build_image_tiles(tables.images, manifest, thumbnails, selection.image_ids)
    for image in images.values():
        image["card"] = set_parts.get_covering_size(image, _CARD, manifest)
        image["small"] = set_parts.get_covering_size(image, _SMALL, manifest)
    notes = manifest["notes"]
    styles = [style for style, _ in page_parts.count_values(tables.queries["style"])]
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
        cards=selection.images,
        open={"cards": _OPEN_IMAGES, "cases": _OPEN_CASES, "rows": _OPEN_ROWS},
        most_others=selection.max_other_relevant,
        ambiguity=_ambiguity(notes["ambiguity"], selection, tables) if "ambiguity" in notes else None,
        captions=notes.get("captions"),
        caption_languages=_list_caption_languages(notes.get("captions")),
        rejected_replies=selection.rejected_replies,
        reason_texts=_REASONS,
        findings=findings,
        further=selection.further,
        further_total=selection.further_total,
    )


def _more_right(manifest: Manifest, tables: Tables) -> int:
    """Return the number of relevant judgments beyond one per query."""
    counts = manifest["counts"]["by_grade"]
    right = sum(int(number) for grade, number in counts.items() if int(grade) > 0)
    return right - int(tables.qrels.loc[tables.qrels["relevance"] > 0, "query_id"].nunique())


def _ambiguity(ambiguity: Ambiguity, selection: RecallSelection, tables: Tables) -> _TemplateData:
    before, after = ambiguity["before"], ambiguity["after"]
    return {
        "parts": [
            {**part, "name": name, "share_text": set_card.format_share(part)}
            for name, part in (("before", before), ("after", after))
        ],
        "policy": page_parts.translate(set_card.describe_policy(ambiguity)),
        "ways": [page_parts.translate(one) for one in set_card.describe_comparisons(ambiguity)],
        "measured": [set_card.describe_language(one) for one in ambiguity.get("measured", ())],
        "reliability": [one for one in ambiguity.get("measured", ()) if one["is_calibrated"]],
        "rounds": ambiguity["rounds"],
        "waiting": len(open_candidate_judgments(tables)),
        "cases": [_case(example, tables) for example in selection.ambiguous],
    }


def _case(example: AmbiguityExample, tables: Tables) -> _TemplateData:
    outcome = example["outcome"]
    return {
        **example,
        "became": set_card.describe_outcome(example, tables.ledger),
        "kind": outcome if outcome in set_card.OUTCOME_TEXTS else "other",
        "confusable_images": [
            {
                **confusable,
                "percent": f"{100 * min(max(confusable['score'], 0), 1):.0f}%",
                "why": confusable["evidence"].removesuffix(f": {confusable['text'] or ''}"),
            }
            for confusable in example["rivals"]
        ],
    }


def _list_caption_languages(captions: Captions | None) -> list[tuple[str, str]]:
    """Return code and name of the languages that captions have, in the order of the page."""
    codes = captions["stripped"].keys() | captions["openings"].keys() if captions else ()
    return [(code, set_parts.get_language_name(code)) for code in sorted(codes, key=set_parts.language_order)]
