"""The page of a gallery: a sample of its images that stays the same, its duplicates, what was rejected and why."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from builders.gallery.definition import SelectionOptions
from builders.gallery.selection import place_cells
from querytruth.review import page_parts, set_parts
from querytruth.review.plots import draw_histogram, draw_places, draw_timeline, format_location
from querytruth.review.set_parts import RejectionReason, sample_rejections
from querytruth.sets.benchmark_set import Tables, get_render_options
from querytruth.sets.manifest import Manifest, Threshold
from querytruth.sets.manifest_notes import QualityScore

MATCH_NAMES = {  # the kinds of matches, the most certain first
    "bytes": "same bytes",
    "pixels": "same pixels",
    "person": "marked as the same by a person",
    "views": "looks alike",
    "embedding": "similar by embedding",
}
_NAMED = 40  # further members of a group, by name
QUALITY_SCORES = {  # what 0 and 1 mean
    "brightness": ("dark", "light"),
    "contrast": ("uniform", "rich"),
    "sharpness": ("soft", "sharp"),
    "flatness": ("photograph", "screen or text"),
}
_HISTOGRAM_BINS = 40  # of a score's histogram, from 0 to 1
_METADATA_STATES = ("place_and_time", "place_only", "time_only", "neither")
_NARROWEST, _WIDEST = 0.6, 2.2  # limits of the aspect ratio on the contact sheet
_OPEN = 12  # groups shown without unfolding
_BAND = 20  # images side by side, wider than any screen
_MAX_ROWS = 6  # of places, days, sizes: the most frequent
_TemplateData = dict[str, Any]
_Row = Any  # of a table, as itertuples gives it


class ThumbnailKey(NamedTuple):
    """The key of a thumbnail: an image of the set by its image_id, or a listed item by its name. The kind is needed, as
    a file may have an image id as its name."""

    kind: Literal["image", "item"]
    name: str


@dataclass(frozen=True, slots=True)
class GallerySelection:
    """The content of the page, and the number of all groups. Of a duplicate group its size, some of its rows in the
    table of duplicates, with the `key` of their thumbnail, and the names of more members. A reason has no examples
    where the groups show all of its items."""

    image_ids: list[str]
    groups: list[tuple[int, list[_Row], list[str]]]
    group_total: int
    rejection_reasons: list[RejectionReason]

    @property
    def thumbnail_keys(self) -> list[ThumbnailKey]:
        """Return the keys of all images with a thumbnail, once, in the order of the page."""
        shown = [ThumbnailKey("image", image_id) for image_id in self.image_ids]
        shown += [row.key for _, rows, _ in self.groups for row in rows]
        shown += [ThumbnailKey("item", one.item) for reason in self.rejection_reasons for one in reason.examples]
        return list(dict.fromkeys(shown))


def select_gallery(
    tables: Tables, *, images: int = 150, groups: int = 60, members: int = 6, examples: int = 6
) -> GallerySelection:
    """Select images by their ids, which are digests; the largest duplicate groups with some members each; and examples
    of each reason for a rejection."""
    ids = tables.images["image_id"].sort_values().head(images)
    chosen = tables.images[tables.images["image_id"].isin(ids)]
    chosen = chosen.sort_values(["taken_at", "file_name", "image_id"], na_position="last")
    group_sizes = tables.duplicates["duplicate_group"].value_counts()
    return GallerySelection(
        [str(image_id) for image_id in chosen["image_id"]],
        list(_groups(tables, group_sizes, groups, members)),
        len(group_sizes),
        list(_rejection_reasons(tables, examples)),
    )


def _groups(tables: Tables, sizes: pd.Series, groups: int, members: int) -> Iterator[tuple[int, list[_Row], list[str]]]:
    least = sizes.iloc[min(groups, len(sizes)) - 1] if len(sizes) else 0
    largest = sorted(sizes[sizes >= least].items(), key=lambda pair: (-pair[1], str(pair[0])))[:groups]
    rows = tables.duplicates[tables.duplicates["duplicate_group"].isin([name for name, _ in largest])]
    ids = tables.images["image_id"]
    in_set = rows["is_representative"].astype(bool) & rows["image_id"].isin(ids[ids.isin(rows["image_id"])])
    names = rows["image_id"].where(in_set, rows["item"])
    keys = [ThumbnailKey("image" if inside else "item", name) for inside, name in zip(in_set, names, strict=True)]
    by_group = dict(list(rows.astype(object).where(rows.notna(), None).assign(key=keys).groupby("duplicate_group")))
    for name, size in largest:
        every = sorted(by_group[name].itertuples(index=False), key=_match_order)
        yield int(size), every[:members], [row.item for row in every[members : members + _NAMED]]


def _match_order(row: _Row) -> tuple[bool, int, int, str]:
    matches = [*MATCH_NAMES, row.matched_by]
    return not row.is_representative, matches.index(row.matched_by), row.distance or 0, row.item


def _rejection_reasons(tables: Tables, examples: int) -> Iterator[RejectionReason]:
    """Yield the reasons, without examples where the duplicate groups show all items."""
    ledger, duplicates = tables.ledger, tables.duplicates
    shown_in_groups = set(duplicates.loc[~duplicates["is_representative"].astype(bool), "item"])
    elsewhere = ledger.loc[~ledger["item"].isin(shown_in_groups), ["stage", "reason"]].astype("str")
    with_examples = set(elsewhere.itertuples(index=False, name=None))
    for one in sample_rejections(ledger, examples):
        yield one if (one.stage, one.reason) in with_examples else replace(one, examples=())


def render_gallery_page(
    tables: Tables,
    manifest: Manifest,
    thumbnails: Mapping[ThumbnailKey, bytes],
    selection: GallerySelection,
) -> str:
    """Return one HTML document without other files. `thumbnails`: JPEGs by the keys of `selection`; an image without
    one is shown by its name."""
    degrees = (manifest["configuration"].get("select") or {}).get("place_degrees", SelectionOptions().place_degrees)
    measured: Mapping[str, Any] = manifest["notes"].get("scan") or {"formats": {}, "scores": {}}
    places, days = _count_places(tables.images, degrees), _count_values(tables.images["taken_at"].str[:10])
    render = get_render_options(manifest).get("mode")
    classes, images = _classes(selection, thumbnails)
    sheet = list(_sheet(tables, selection, classes, render))
    return page_parts.render_page(
        "gallery_page.html",
        manifest,
        tables.images,
        images,
        about="A gallery: the images to search in. Queries are made for them, and answered with them.",
        places={**places, "degrees": degrees},
        days={**days, "span": _find_span(tables.images["taken_at"])},
        shapes=_count_shapes(tables.images),
        sizes=_count_values(tables.images[["width", "height"]], "%s × %s"),
        megapixels=_find_megapixels(tables.images),
        formats=_list_most(pd.Series(measured["formats"], dtype="int64")),
        left_out=int((~tables.duplicates["is_representative"].astype(bool)).sum()),
        metadata_states=_count_known(tables.images),
        sheet=sheet,
        band=_band(sheet),
        image_total=len(tables.images),
        groups=[
            (size, [_member(row, classes, render) for row in rows], names) for size, rows, names in selection.groups
        ],
        group_total=selection.group_total,
        open=_OPEN,
        rejection_reasons=selection.rejection_reasons,
        item_classes={key.name: name for key, name in classes.items() if key.kind == "item"},
        rejection_total=sum(one.count for one in selection.rejection_reasons),
        timeline=draw_timeline(tables.images["taken_at"]),
        located=draw_places(tables.images["latitude"], tables.images["longitude"]),
        most=[
            (title, f"{len(counts['most'])} / {counts['distinct']:,}", counts["most"])
            for title, counts in (("Places with the most images", places), ("Days with the most images", days))
            if counts["most"]
        ],
        scores=list(_scores(measured["scores"], manifest["thresholds"])),
    )


def _classes(
    selection: GallerySelection, thumbnails: Mapping[ThumbnailKey, bytes]
) -> tuple[dict[ThumbnailKey, str], list[tuple[str, bytes]]]:
    """Return the class of each image in the style sheet, and the JPEG of each class; equal JPEGs share one."""
    classes: dict[bytes, str] = {}
    for key in selection.thumbnail_keys:
        if key in thumbnails:
            classes.setdefault(thumbnails[key], f"p{len(classes)}")
    return (
        {key: classes[thumbnails[key]] for key in selection.thumbnail_keys if key in thumbnails},
        [(name, jpeg) for jpeg, name in classes.items()],
    )


def _count_known(images: pd.DataFrame) -> list[tuple[str, int]]:
    """Return the number of images by what their files state."""
    placed, timed = ~np.isnan(place_cells(images, 1.0)[0]), images["taken_at"].notna()
    ways = placed & timed, placed & ~timed, timed & ~placed, ~placed & ~timed
    return [(state, int(rows.sum())) for state, rows in zip(_METADATA_STATES, ways, strict=True)]


def _count_places(images: pd.DataFrame, degrees: float) -> _TemplateData:
    """Return the cells with the most images, by the coordinates of their centres."""
    rows, columns = place_cells(images, degrees)
    middles = {
        "latitude": ((rows + 0.5) * degrees).round(6).clip(-90, 90),
        "longitude": ((columns + 0.5) * degrees).round(6).clip(-180, 180),
    }
    return _list_most(pd.DataFrame(middles).value_counts(), lambda cell: format_location(*cell))


def _count_values(values: pd.Series | pd.DataFrame, form: str = "%s") -> _TemplateData:
    return _list_most(values.value_counts(), lambda value: form % value)


def _list_most(counts: pd.Series, label: Callable[[Any], str] = str) -> _TemplateData:
    """Return the number of distinct values, the most frequent with their counts, ties in the values' order, and the
    count of all others."""
    most = counts.sort_index().sort_values(ascending=False, kind="stable").head(_MAX_ROWS)
    rows = [(label(value), int(number)) for value, number in most.items()]
    return {"distinct": len(counts), "most": rows, "others": int(counts.sum() - most.sum())}


def _find_span(times: pd.Series) -> tuple[str, str] | None:
    return (times.min()[:10], times.max()[:10]) if times.notna().any() else None


def _count_shapes(images: pd.DataFrame) -> dict[str, int]:
    width, height = images["width"], images["height"]
    shapes = {"landscape": width > height, "portrait": width < height, "square": width == height}
    return {name: number for name, rows in shapes.items() if (number := int(rows.sum()))}


def _find_megapixels(images: pd.DataFrame) -> dict[str, str]:
    """Return the least, the median and the most; empty without images."""
    pixels = images["width"].astype("float64") * images["height"] / 1e6
    ends = {"low": pixels.min(), "median": pixels.median(), "high": pixels.max()}
    return {name: f"{value:.3g}" for name, value in ends.items()} if len(images) else {}


def measure_score(scores: pd.Series) -> QualityScore:
    """Return the distribution of a quality score; missing ones are left out. Without any, the histogram is empty."""
    values = scores.dropna().to_numpy(dtype=np.float64)
    histogram = np.histogram(values.clip(0, 1), bins=_HISTOGRAM_BINS, range=(0, 1))[0]
    median = round(float(np.median(values)), 4) if len(values) else 0.0
    return {"median": median, "histogram": histogram.tolist()}


def _scores(measured: Mapping[str, Any], thresholds: list[Threshold]) -> Iterator[_TemplateData]:
    for name, (low, high) in QUALITY_SCORES.items():
        score = measured.get(name) or {"histogram": ()}
        cuts = [cut for cut in thresholds if cut["name"] in (f"filter.min_{name}", f"filter.max_{name}")]
        if plot := draw_histogram(name, score["histogram"], cuts):
            yield {"name": name, "low": low, "high": high, "median": f"{score['median']:.2f}", "plot": plot}


def _sheet(
    tables: Tables, selection: GallerySelection, classes: dict[ThumbnailKey, str], render: str | None
) -> Iterator[_TemplateData]:
    rows = tables.images[tables.images["image_id"].isin(selection.image_ids)].set_index("image_id")
    for image_id in selection.image_ids:
        row = rows.loc[image_id]
        width, height = int(row["width"]), int(row["height"])
        true = 1.0 if render == "crop" else set_parts.get_aspect_ratio(width, height)
        ratio = min(max(true, _NARROWEST), _WIDEST)
        name, taken_at = (page_parts.text_or_empty(row[column]) for column in ("file_name", "taken_at"))
        size = set_parts.format_size(width, height)
        place = format_location(row["latitude"], row["longitude"])
        yield {
            "name": name or image_id,
            "size": size,
            "taken_at": taken_at,
            "place": place,
            "description": ", ".join(part for part in (name or image_id, size, taken_at, place) if part),
            "ratio": f"{ratio:.3f}",
            # An image wider or taller than its box is cropped at both ends.
            "fill": f";background-size:{100 * max(1, true / ratio):.1f}% {100 * max(1, ratio / true):.1f}%"
            if true != ratio and render not in ("fit", "crop")
            else "",
            "class": classes.get(ThumbnailKey("image", image_id)),
        }


def _band(sheet: list[_TemplateData]) -> list[_TemplateData]:
    """Return images from all over the sheet for the top of the page; empty if there are too few."""
    available = [image for image in sheet if image["class"]]
    return [available[n * len(available) // _BAND] for n in range(_BAND)] if len(available) >= _BAND else []


def _member(member: _Row, classes: dict[ThumbnailKey, str], render: str | None) -> _TemplateData:
    match = MATCH_NAMES.get(member.matched_by or "", member.matched_by or "")
    if member.distance is not None:
        match = page_parts.translate(match) + page_parts.translate(", %(bits)s bits apart", bits=f"{member.distance:g}")
    if member.edit is not None:
        match += f": {member.edit.replace('+', ', ')}"
    size = set_parts.format_size(member.width, member.height)
    cropped = render == "crop" and member.key.kind == "image"
    return {
        "name": member.item,
        "size": size,
        "match": match,
        "is_representative": member.is_representative,
        "description": ", ".join(part for part in (member.item, size, match or "kept") if part),
        "ratio": f"{1.0 if cropped else set_parts.get_aspect_ratio(member.width, member.height):.3f}",
        "fill": "",
        "class": classes.get(member.key),
    }
