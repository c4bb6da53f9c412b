"""The page of a precision or imported set: description, funnel, and a sample of queries that stays the same."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from querytruth.array_types import AnyArray
from querytruth.errors import LintFinding
from querytruth.records import stable_hash
from querytruth.review import page_parts, set_parts
from querytruth.review.page_parts import labels_or_empty
from querytruth.review.query_queue import JudgmentIndex
from querytruth.review.set_parts import DisplayedWording, ImageTiles, reading_order
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.manifest import Manifest
from querytruth.sets.query_texts import list_meanings

_CANDIDATES = 2000  # queries that are sampled from, to bound the time
_ROWS = 4096  # judgments of one grade per query that are sampled from: "person" has half a million
_TEXTS = page_parts.PAGE_TEXTS["set_page"]
_MIX_INTRODUCTION = "%(level)s labels on one image, and the near misses that lack one."
_RUN, _SLIM = 6, 1.2  # most images that share a caption; the sum of ratios below which a caption needs more width
_OPEN, _OPEN_IN_ALL = 8, 10  # queries shown without unfolding: of a batch at most, and about as many of all


@dataclass(frozen=True, slots=True)
class JudgedImage:
    """A judgment on the page; `evidence` has (language, text) once per language of the query."""

    image_id: str
    relevance: int
    judged_by: str
    evidence: tuple[tuple[str, str], ...]


class Batch(NamedTuple):
    """A part of the page: queries of a level, parents of the tree apart, and each family of questions apart."""

    family: str
    level: int
    is_parent: bool


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Queries that ask for the same (`list_meanings`). Grades and images are those of the first wording;
    `has_differing_judgments`: another wording has other judgments, for example if people decided on only one."""

    labels: tuple[str, ...]
    wordings: tuple[DisplayedWording, ...]
    batch: "Batch"
    count_by_grade: dict[int, int]
    has_differing_judgments: bool
    images: tuple[JudgedImage, ...] = ()
    near_misses: tuple[JudgedImage, ...] = ()

    @property
    def relevant_count(self) -> int:
        """Return the number of relevant images."""
        return sum(number for grade, number in self.count_by_grade.items() if grade > 0)

    @property
    def main_wordings(self) -> list[DisplayedWording]:
        """Return the first wording of each language."""
        return [w for n, w in enumerate(self.wordings) if w.language not in {v.language for v in self.wordings[:n]}]


@dataclass(frozen=True, slots=True)
class SetSelection:
    """The queries shown, and the number of all questions, by part of the page; `further`: wordings of others."""

    batches: dict[Batch, list[QueryGroup]]
    batch_sizes: dict[Batch, int]
    further: tuple[list[DisplayedWording], ...]

    @property
    def image_ids(self) -> list[str]:
        """Return the ids of all images shown, once, in the order of the page."""
        shown = (p for batch in self.batches.values() for entry in batch for p in (*entry.images, *entry.near_misses))
        return list(dict.fromkeys(image.image_id for image in shown))


class _Judgments:
    """The qrels as category codes, so that 11 million rows are never copied as text."""

    def __init__(self, qrels: pd.DataFrame) -> None:
        columns = {name: qrels[name].astype("category").cat for name in ("image_id", "judged_by", "evidence")}
        self.texts = {name: column.categories for name, column in columns.items()}
        self.codes: dict[str, AnyArray] = {name: column.codes.to_numpy() for name, column in columns.items()}
        self.relevance: AnyArray = qrels["relevance"].to_numpy()
        self._index = JudgmentIndex(qrels)
        self.rows = self._index.rows

    def count_by_grade(self, query_ids: list[str]) -> dict[str, dict[int, int]]:
        """Return by query the number of its judgments per grade, the highest first."""
        counts = self._index.count_by_grade(query_ids)
        grades = sorted(counts.columns, reverse=True)
        rows = [
            {grade: n for grade, n in zip(grades, row, strict=True) if n} for row in counts[grades].to_numpy().tolist()
        ]
        return dict(zip(query_ids, rows, strict=True))

    def pick(self, query_id: str, grade: int, number: int) -> AnyArray:
        """Return up to `number` rows of a grade, each evidence in turn, starting at the query's hash."""
        rows: AnyArray = self.rows(query_id)
        rows = rows[self.relevance[rows] == grade]
        if not len(rows):
            return rows
        rows = np.roll(rows, -(stable_hash("page", query_id) % len(rows)))[:_ROWS]
        evidence = pd.Series(self.codes["evidence"][rows])
        chosen = np.argsort(evidence.groupby(evidence.to_numpy()).cumcount().to_numpy(), kind="stable")[:number]
        first, _ = pd.factorize(evidence.to_numpy()[chosen])
        return rows[chosen[np.argsort(first, kind="stable")]]

    def to_judged_images(self, rows: AnyArray, wordings: list[DisplayedWording]) -> tuple[JudgedImage, ...]:
        """Return the judgments of these rows, with the evidence of each language's wording."""
        images = self.codes["image_id"][rows]
        evidence: dict[int, list[tuple[str, str]]] = {int(image): [] for image in images}
        for wording in wordings:
            own = self.rows(wording.query_id)
            for row in own[np.isin(self.codes["image_id"][own], images)]:
                if (code := self.codes["evidence"][row]) >= 0:
                    entry = (wording.language, str(self.texts["evidence"][code]))
                    evidence[int(self.codes["image_id"][row])].append(entry)
        return tuple(
            JudgedImage(
                str(self.texts["image_id"][image]), int(self.relevance[row]),
                str(self.texts["judged_by"][self.codes["judged_by"][row]]), tuple(evidence[int(image)]),
            )
            for row, image in zip(rows, images, strict=True)
        )  # fmt: skip


def select_set_queries(
    tables: Tables, parents: Collection[str] = (), queries: int = 60, images: int = 12
) -> SetSelection:
    """Select up to `queries` groups of wordings with up to `images` images each; `parents`: labels that are nodes of
    the tag tree."""
    judgments = _Judgments(tables.qrels)
    groups: dict[Batch, list[QueryGroup]] = {}
    for entry in _group_wordings(tables.queries, judgments, parents):
        groups.setdefault(entry.batch, []).append(entry)
    keys = sorted(groups)
    shares = _shares([len(groups[key]) for key in keys], queries)
    batches = {}
    for key, share in zip(keys, shares, strict=True):
        chosen = [_with_images(entry, judgments, images) for entry in _spread(groups[key], share)]
        batches[key] = sorted(chosen, key=lambda entry: (-entry.relevant_count, entry.wordings[0].query_id))
    shown = {entry.wordings[0].query_id for chosen in batches.values() for entry in chosen}
    others = (entry.main_wordings for key in keys for entry in groups[key] if entry.wordings[0].query_id not in shown)
    return SetSelection(batches, {key: len(groups[key]) for key in keys}, tuple(islice(others, set_parts.MOST_FURTHER)))


def _group_wordings(queries: pd.DataFrame, judgments: _Judgments, parents: Collection[str]) -> Iterator[QueryGroup]:
    """Yield the queries that ask for the same as one group."""
    columns = [queries[name].tolist() for name in ("query_id", "text", "language", "style", "level", "labels")]
    wordings_by_meaning: dict[tuple[str, ...], list[DisplayedWording]] = {}
    asked: dict[tuple[str, ...], tuple[tuple[str, ...], int]] = {}
    for meaning, (query_id, text, language, style, level, labels) in zip(
        list_meanings(queries), zip(*columns, strict=True), strict=True
    ):
        wording = DisplayedWording(str(query_id), str(text), str(language), str(style))
        wordings_by_meaning.setdefault(meaning, []).append(wording)
        asked[meaning] = labels_or_empty(labels), int(level)
    count_by_grade = judgments.count_by_grade(queries["query_id"].tolist())
    for meaning, wordings in wordings_by_meaning.items():
        labels, level = asked[meaning]
        wordings.sort(key=reading_order)
        grades = [count_by_grade[wording.query_id] for wording in wordings]
        family = meaning[1].partition("/")[0] if meaning[0] == "family" else ""
        batch = Batch(family, 0 if family else level, not family and len(labels) == 1 and labels[0] in parents)
        yield QueryGroup(labels, tuple(wordings), batch, grades[0], any(other != grades[0] for other in grades))


def _shares(sizes: list[int], total: int) -> list[int]:
    """Return shares of `total` that are as even as the sizes allow."""
    shares = [0] * len(sizes)
    while (left := total - sum(shares)) > 0 and (open_ := [n for n, size in enumerate(sizes) if shares[n] < size]):
        for place in open_[:left]:
            shares[place] += min(max(left // len(open_), 1), sizes[place] - shares[place])
    return shares


def _spread(entries: list[QueryGroup], number: int) -> list[QueryGroup]:
    """Return entries by hash, preferring labels, languages and styles chosen least so far."""
    left = sorted(entries, key=lambda entry: stable_hash("page", entry.wordings[0].query_id))[:_CANDIDATES]
    seen: Counter[str] = Counter()
    chosen: list[QueryGroup] = []
    while left and len(chosen) < number:
        best = min(left, key=lambda entry: sum(seen[trait] for trait in _traits(entry)))
        left.remove(best)
        chosen.append(best)
        seen.update(_traits(best))
    return chosen


def _traits(entry: QueryGroup) -> list[str]:
    return [*entry.labels, *{w.language for w in entry.wordings}, *{w.style for w in entry.wordings}]


def _with_images(entry: QueryGroup, judgments: _Judgments, number: int) -> QueryGroup:
    """Return the entry with images, the highest grade first; lower grades get up to a third of the space."""
    lead = entry.wordings[0].query_id
    rows: list[AnyArray] = []
    grades = [grade for grade in entry.count_by_grade if grade > 0]
    for place, grade in enumerate(grades):
        room = number - sum(len(part) for part in rows)
        later = sum(entry.count_by_grade[other] for other in grades[place + 1 :])
        rows.append(judgments.pick(lead, grade, room - min(later, room // 3)))
    right = judgments.to_judged_images(np.concatenate(rows), entry.main_wordings) if rows else ()
    missed = judgments.to_judged_images(judgments.pick(lead, 0, max(number // 3, 1)), entry.main_wordings)
    return replace(entry, images=right, near_misses=missed)


def render_set_page(
    tables: Tables,
    manifest: Manifest,
    thumbnails: Mapping[str, bytes],
    findings: list[LintFinding],
    selection: SetSelection,
) -> str:
    """Return one HTML document without other files. `thumbnails`: JPEGs by image id; an image without one
    is shown by its name."""
    images = set_parts.build_image_tiles(tables.images, manifest, thumbnails, selection.image_ids)
    return page_parts.render_page(
        "set_page.html",
        manifest,
        tables.images,
        set_parts.list_thumbnails(images, thumbnails),
        about=_TEXTS["about"].get(manifest["kind"], "A set for text-to-image search."),
        query_group_total=sum(selection.batch_sizes.values()),
        languages=set_parts.list_languages(tables.queries),
        styles=[style for style, _ in page_parts.count_values(tables.queries["style"])],
        judges=set_parts.count_judges(manifest),
        grades=set_parts.describe_grades(manifest),
        batches=list(_batches(selection)),
        most_open=min(_OPEN, max(1, _OPEN_IN_ALL // max(len(selection.batches), 1))),
        runs=lambda judged: list(_runs(judged, images)),
        shown_total=sum(map(len, selection.batches.values())),
        further=selection.further,
        images=images,
        any_missing=any(not image["has_thumbnail"] for image in images.values()),
        log=manifest["notes"].get("log"),
        findings=findings,
    )


def _batches(selection: SetSelection) -> Iterator[dict[str, Any]]:
    for number, (batch, chosen) in enumerate(selection.batches.items()):
        if batch.family:
            title, description = _TEXTS["families"].get(batch.family, (batch.family.capitalize(), ""))
        elif not any(entry.labels for entry in chosen):
            title, description = "Queries", ""
        else:
            title = (
                "Parents of the tree"
                if batch.is_parent
                else _TEXTS["levels"].get(batch.level, page_parts.translate("Mixes of %(level)s", level=batch.level))
            )
            mixed = page_parts.translate(_MIX_INTRODUCTION, level=batch.level)
            description = _TEXTS["leads"].get("parents" if batch.is_parent else batch.level, mixed)
        yield {
            "id": f"batch-{number}",
            "title": title,
            "description": description,
            "entries": chosen,
            "total": selection.batch_sizes[batch],
        }


def _runs(images: tuple[JudgedImage, ...], tiles: ImageTiles) -> Iterator[dict[str, Any]]:
    """Yield runs of neighbours with the same evidence, which share a caption; annotated boxes need none."""
    runs: list[list[JudgedImage]] = []
    for image in images:
        if runs and _has_reason(image) and _reason(runs[-1][0]) == _reason(image) and len(runs[-1]) < _RUN:
            runs[-1].append(image)
        else:
            runs.append([image])
    for run in runs:
        ratios = sum(float(tiles[image.image_id]["ratio"]) for image in run)
        yield {
            "images": run,
            "ratios": f"{ratios:.3f}",
            "slim": ratios < _SLIM,
            "has_reason": _has_reason(run[0]),
            "by_people": run[0].judged_by == "human",
            "evidence": run[0].evidence,
        }


def _has_reason(image: JudgedImage) -> bool:
    return image.relevance == 0 or image.judged_by != "detector"


def _reason(image: JudgedImage) -> tuple[object, ...]:
    return image.judged_by, image.evidence
