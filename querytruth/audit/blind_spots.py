"""Where a search is blind, and what nobody asks: images that no query finds, hubs, parts of a gallery without truth.

Hubs are images that are among the first ten of more queries than the mean and two standard deviations (Radovanović,
Nanopoulos and Ivanović, "Hubs in space", JMLR 11, 2010). A kind of images is compared with all others by the
difference of two shares by Welch's test, each with one cluster added at both ends (`estimate_mean`; for single images
that is Agresti and Caffo, American Statistician 54, 2000); images that are right for the same query are one cluster,
and Holm corrects for all kinds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from querytruth.array_types import BoolArray, RowIndices, Vectors
from querytruth.audit.mutation_score import AnsweredQueries, name_parts
from querytruth.evaluation.statistics import compare_means, correct_holm

DEPTH = 10  # the first results, which people look at
CUTS = (1, 2, 5, 10, 20, 50, 100)
FEWEST = 10  # images of a kind, and of all others
KIND_COLUMNS = ["of", "kind", "images", "share", "others", "difference", "low", "high", "p"]
PART_COLUMNS = ["by", "part", "images", "share", "expected", "queries"]
PAGE_FLATNESS = 0.45  # of pages and screenshots (querytruth.backends.images.image_quality)
_GROUPS = 12  # folders, formats or creators that are kinds of their own: the largest
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class BlindSpots:
    """`never`: by cut the share of images that no query has among its first results. `counts` (images,): of how many
    queries the first ten have each. `unfound` (images,): relevant to a query, and found by none of them. `kinds`:
    KIND_COLUMNS of kinds of images, by p."""

    never: dict[int, float]
    gini: float
    counts: RowIndices
    asked: BoolArray
    unfound: BoolArray
    kinds: pd.DataFrame

    @property
    def hubs(self) -> RowIndices:
        """Return the rows of the hubs, the largest first."""
        limit = self.counts.mean() + 2 * self.counts.std()
        order: RowIndices = np.argsort(-self.counts, kind="stable")
        return order[: np.count_nonzero(self.counts > limit)]


def find_blind_spots(answers: AnsweredQueries, images: pd.DataFrame) -> BlindSpots:
    """Return the blind spots of a run; `images` in the order of the truth, where they were looked at with the
    columns of QualityScores, NaN for the others."""
    ranked, place = answers.ranked, answers.place
    inside = place >= 0
    best = np.full(answers.images, np.iinfo(np.int64).max)
    np.minimum.at(best, place[inside], ranked.rank[inside])
    deepest = int(ranked.rank.max(initial=1))
    never = {cut: float((best > cut).mean()) for cut in CUTS if cut <= max(deepest, 1)}
    counts = np.bincount(place[inside & (ranked.rank <= DEPTH)], minlength=answers.images)
    query, image = np.divmod(ranked.truth.pair_keys[ranked.truth.grades > 0], answers.images)
    found = np.zeros(answers.images, dtype=bool)
    found[place[inside & (ranked.grade > 0) & (ranked.rank <= DEPTH)]] = True
    asked = np.zeros(answers.images, dtype=bool)
    asked[image] = True
    # Images of one query succeed and fail together; an image that no query is right for stands alone.
    cluster = answers.queries + np.arange(answers.images)
    cluster[image] = query
    unfound = asked & ~found
    measures = [("never", best > DEPTH, np.ones(answers.images, dtype=bool)), ("unfound", unfound, asked)]
    tables = [compare_kinds(name, images, is_blind, of, cluster) for name, is_blind, of in measures]
    return BlindSpots(never, measure_gini(counts), counts, asked, unfound, pd.concat(tables, ignore_index=True))


def measure_gini(counts: RowIndices) -> float:
    """Return the Gini coefficient: 0 where all images are returned as often, 1 where one image alone is."""
    total, count = counts.sum(), len(counts)
    ordered = np.sort(counts)
    return (
        float(2 * (np.arange(1, count + 1) * ordered).sum() / (count * total) - (count + 1) / count) if total else 0.0
    )


def compare_kinds(
    name: str, images: pd.DataFrame, is_blind: BoolArray, of: BoolArray, cluster: RowIndices
) -> pd.DataFrame:
    """Return the kinds of images (KIND_COLUMNS) whose share of blind ones differs, of the images in `of`."""
    rows = []
    for kind, member, known in list_kinds(images):
        members = member[compared := of & known]
        if FEWEST <= members.sum() <= len(members) - FEWEST:
            blind = is_blind[compared].astype(np.float64)
            found, p = compare_means(blind, members, cluster[compared])
            shares = float(blind[members].mean()), float(blind[~members].mean())
            rows.append((name, kind, int(members.sum()), *shares, found.value, found.low, found.high, p))
    table = pd.DataFrame(rows, columns=KIND_COLUMNS)
    table["p"] = correct_holm(table["p"].to_numpy(dtype=np.float64))
    return table.sort_values("p", kind="stable", ignore_index=True)


def list_kinds(images: pd.DataFrame) -> Iterator[tuple[str, BoolArray, BoolArray]]:
    """Yield kinds of images with their members, and the images that are compared."""
    everything = np.ones(len(images), dtype=bool)
    yield from ((kind, member, everything) for kind, member in _list_described_kinds(images))
    if "brightness" in images:
        known = images["brightness"].notna().to_numpy()
        for kind, name in (("dark", "brightness"), ("pale", "contrast"), ("blurred", "sharpness")):
            values = images[name].to_numpy(np.float64)
            yield f"{kind} (lowest quarter of {name})", values <= np.nanquantile(values, 0.25), known
        yield "pages and screens", images["flatness"].to_numpy(np.float64) > PAGE_FLATNESS, known


def _list_described_kinds(images: pd.DataFrame) -> Iterator[tuple[str, BoolArray]]:
    width, height = (images[name].to_numpy(np.float64) for name in ("width", "height"))
    area = width * height
    quarter = np.quantile(area, [0.25, 0.75]) if len(area) else (0, 0)
    yield "small (lowest quarter of pixels)", area <= quarter[0]
    yield "large (highest quarter of pixels)", area >= quarter[1]
    yield "portrait", height > width
    yield "landscape", width > height
    age = images["taken_at"].astype("str").where(images["taken_at"].notna()).rank(method="first", pct=True)
    if age.notna().any():
        yield "newest tenth", (age > 0.9).to_numpy()
        yield "oldest tenth", (age <= 0.1).to_numpy()
    for name, column in (("in several copies", "duplicate_group"), ("with a place", "latitude")):
        if column in images:
            yield name, images[column].notna().to_numpy()
    for name, values in name_parts(images):
        if name != "place":
            largest = values.value_counts().index[:_GROUPS]
            yield from ((f"{name}: {value}", (values == value).to_numpy()) for value in largest)


def name_clusters(vectors: Vectors, centres: RowIndices) -> pd.Series:
    """Return the nearest centre of each vector, the first centres being rows of the vectors."""
    blocks = np.array_split(vectors, 1 + len(vectors) // 4096)
    nearest = np.concatenate([(block @ vectors[centres].T).argmax(axis=1) for block in blocks])
    return pd.Series(nearest + 1).astype("str")


def find_uncovered(
    images: pd.DataFrame, asked: BoolArray, clusters: pd.Series | None = None, first: RowIndices | None = None
) -> tuple[pd.DataFrame, BoolArray]:
    """Return the parts (PART_COLUMNS) that no query asks about, and the images in one of them (images,). `first`:
    the row of each query's first result; `queries` of a part counts those in it, for it may be asked about, unjudged.

    Of n relevant images spread at random none is in a part of share s with probability (1 - s)^n: a part counts where
    that is below 5%, divided by the number of parts."""
    uncovered, rows, total = np.zeros(len(images), dtype=bool), [], int(asked.sum())
    for name, values in [*name_parts(images), *([] if clusters is None else [("cluster", clusters)])]:
        code, labels = pd.factorize(values)
        sizes, relevant = np.bincount(code), np.bincount(code, asked, minlength=len(labels))
        share = sizes / len(images)
        is_empty = (relevant == 0) & ((1 - share) ** total < LEVEL / len(labels))
        uncovered |= is_empty[code]
        near = np.bincount(code[[] if first is None else first], minlength=len(labels)).tolist()
        figures = zip(labels, sizes.tolist(), share.tolist(), (share * total).tolist(), near, strict=True)
        rows += [(name, str(one[0]), *one[1:]) for one, empty in zip(figures, is_empty, strict=True) if empty]
    return pd.DataFrame(rows, columns=PART_COLUMNS).sort_values("images", ascending=False, ignore_index=True), uncovered
