"""The review page of a version: which views it has, and the files behind each.

Resolves the argument of `querytruth review`, a set or a table of topics or objects, and the command that follows.

The table of topics or objects that a stage exported, as `querytruth review TABLE.csv` reads and replaces it.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from fastapi import APIRouter

from builders.generated.generation_journal import read_exported_table
from querytruth.backends.files import durable_files, safe_paths, text_formats
from querytruth.errors import UserError
from querytruth.records import empty_frame
from querytruth.review import (
    gallery_cards,
    query_cards,
    query_queue,
    query_views,
    rejection_cards,
    review_exports,
    similar_images,
)
from querytruth.review.deck import ActionError, DecisionSummary, summarize_decisions
from querytruth.review.gallery_views import caption_routes, duplicate_routes, rejection_routes
from querytruth.review.pool_views import CONFLICT_MESSAGE, PoolFile, PoolFileContent, PoolSession, pool_routes
from querytruth.review.server import image_routes
from querytruth.review.server_session import LogSession, ReviewSession, ReviewStorage
from querytruth.sets import (
    benchmark_set,
    decision_application,
    decision_outcomes,
    ledger,
    published_files,
    review_csv,
    set_files,
)
from querytruth.sets.decision_log import DecisionLog, find_lost_decisions, read_decisions
from querytruth.sets.decision_records import HumanCaption, ImagePairDecision, Override, QueryDecision, UndeterminedPair
from querytruth.sets.review_tables import ImportTolerances, ReviewExport, read_filled_table
from querytruth.sets.set_thumbnails import make_set_thumbnail_reader, make_source_thumbnail_reader

REVIEW_STAGE = "review"
_NEXT_COMMANDS = {"topics": "querytruth objects DEFINITION", "objects": "querytruth collect DEFINITION"}
_KINDS_WITH_OVERRIDES = ("gallery", "recall", "generated")


def is_pool_table(target: str) -> bool:
    """Whether the target is a table, not a set."""
    return target.endswith(".csv")


def resolve_review_target(target: str, out: Path) -> Path:
    """Return the version's folder, or the table. Raises UserError for anything else; for a definition the error lists
    what of it can be reviewed."""
    if is_pool_table(target):
        return find_pool_table(target)
    try:
        return set_files.find_set(target, out, remote="whole")
    except UserError:
        path = Path(target)
        if path.suffix not in (".yaml", ".yml") or not path.is_file():
            raise
    raise UserError(REVIEW_STAGE, target, "is a definition, not a set", _suggest_reviewable(path, out))


def find_pool_table(path: str) -> Path:
    """Return the path of a readable table of topics or objects. Raises UserError where there is none."""
    table = Path(path)
    if table.stem not in _NEXT_COMMANDS:
        reason = "is no table of topics or objects"
        raise UserError(REVIEW_STAGE, table, reason, "give the file after “awaiting review”, or a set's name")
    compute_table_digest(table)
    return table


def compute_table_digest(path: Path) -> str:
    """Return the sha256 of a table's bytes. Raises UserError where there is no such file."""
    try:
        return hashlib.sha256(safe_paths.read_regular(path)).hexdigest()
    except FileNotFoundError:
        raise UserError(REVIEW_STAGE, path, "is not there", "run the stage that hands it out again") from None
    except OSError as error:
        raise UserError(REVIEW_STAGE, path, f"cannot be read ({error.strerror})", "check the path") from None


def _suggest_reviewable(definition: Path, out: Path) -> str:
    """Names the published set of a definition, and the tables that its stages exported."""
    try:
        definition_data = text_formats.load_yaml(
            safe_paths.read_regular(definition, text_formats.MAX_YAML_BYTES).decode("utf-8")
        )
    except (OSError, ValueError, yaml.YAMLError):
        definition_data = None
    if not isinstance(definition_data, dict) or not isinstance(definition_data.get("name"), str):
        return "give a set's name, or the file after “awaiting review”"
    folder = Path(str(definition_data.get("out", out))) / definition_data["name"]
    reviewable_paths = [folder] if published_files.newest_version(folder) is not None else []
    reviewable_paths += [
        table for stage in ("objects", "topics") if (table := folder / "review" / f"{stage}.csv").is_file()
    ]
    if not reviewable_paths:
        return f"build {definition_data['name']} first"
    return " or ".join(f"querytruth review {path}" for path in reviewable_paths)


def suggest_next_command(target: str, views: list[str]) -> str:
    """Return the command that goes on from a review page with these views."""
    if is_pool_table(target):
        return _NEXT_COMMANDS[Path(target).stem]
    if "Queries" in views:
        return f"querytruth apply {target}"
    recall = "querytruth build recall DEFINITION"
    if views == ["Captions", "Decisions"]:
        return recall
    return f"{recall}; after decisions about images: querytruth build gallery DEFINITION"


def build_pool_routes(table: Path) -> tuple[list[APIRouter], dict[str, Any]]:
    """Return the routes of a table in <out>/<name>/review, and what its page shows of it."""
    session = PoolSession(
        PoolFile(
            lambda known_digest: _read_checked_table(table, known_digest),
            lambda export, known: _replace_table(table, export, known),
        )
    )
    name = session.table.export.set_name.partition("/")[0]
    views = [table.stem.title()]
    page_context = {"name": name, "version": 0, "title": name, "grades": {}, "reviewer": "", "views": views}
    return [pool_routes(session, page_context)], page_context


def _read_checked_table(table: Path, known_digest: str) -> PoolFileContent | None:
    """Return the table checked cell by cell, as the next stage will; None while its bytes have the known digest."""
    while True:
        digest = compute_table_digest(table)
        if digest == known_digest:
            return None
        filled = review_csv.read_review_csv(table)
        export = _load_original_export(table, filled)
        reading = read_filled_table(export, filled.rows, ImportTolerances())
        if digest != compute_table_digest(table):
            continue  # written again while it was read
        if reading.problems:
            reason = f"{len(reading.problems)} problems, the first: {reading.problems[0]}"
            raise UserError(REVIEW_STAGE, table, reason, "fix those cells in a spreadsheet")
        return PoolFileContent(digest, export, reading.decisions)


def _load_original_export(table: Path, filled: ReviewExport) -> ReviewExport:
    """Return the table as the stage wrote it beside its journal. Raises UserError where it wrote another one."""
    export = read_exported_table(table.absolute().parents[1] / "generated", table.stem, filled)
    if export is None:
        reason = f"is the export {filled.export_id} of {filled.set_name}, which was not handed out here"
        raise UserError(REVIEW_STAGE, table, reason, "give the table where the stage put it")
    return export


def _replace_table(table: Path, export: ReviewExport, known_digest: str) -> str:
    """Put the table in place of the one with the known digest, durably, and return the new digest."""
    temporary_file = table.with_name(f".{table.name}.page")
    try:
        with _lock_folder(table.parent):
            if (opened := table.with_name(f".~lock.{table.name}#")).exists():
                where = f"in LibreOffice ({opened.name})"
                raise ActionError(f"the table is open {where}: close it there, then decide again")
            review_csv.write_review_csv(export, temporary_file)
            digest = compute_table_digest(temporary_file)
            # As late as possible: a spreadsheet asks nobody before it writes.
            if compute_table_digest(table) != known_digest:
                temporary_file.unlink()
                raise ActionError(CONFLICT_MESSAGE)
            temporary_file.replace(table)
            durable_files.sync_folder(table.parent)
            return digest
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); nothing was taken"
        raise UserError(REVIEW_STAGE, table, reason, "fix that and do the same again") from None


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no other page writes in it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class ReviewSite:
    """The routes of all views, what every page shows of the set, the work to do while the browser starts, and what to
    tell the reviewer about the runs."""

    routes: list[APIRouter]
    about: dict[str, Any]
    prepare: Callable[[], None] = lambda: None
    notes: Sequence[str] = ()
    has_results: bool = False  # of searches, to judge

    @property
    def start_path(self) -> str:
        """The path that the page opens at: its first view, or the results to judge."""
        return "/pairs?source=results" if self.has_results else f"/{self.about['views'][0].lower()}"


def open_review_site(
    path: Path, reviewer: str, runs: Sequence[Path] = (), depth: int = 10, systems: Sequence[Path] = ()
) -> ReviewSite:
    """Open the version at `path`: to judge its queries, or, of a gallery, to caption its images; then the views that
    only some sets have. With `runs`, or search services described in files (`systems`), it begins with the unjudged
    ones of their first `depth` results. Raises UserError where it has nothing to review."""
    stored = set_files.read_set(path)
    manifest, judged = stored.manifest, len(stored.tables.queries) > 0
    if not judged and manifest["kind"] != "gallery":
        raise UserError("review", path, "holds no queries", "look at it with querytruth show SET --page FILE")
    about = {
        **{key: manifest[key] for key in ("name", "version", "title", "grades")},
        "reviewer": reviewer,
        "views": ["Queries", "Pairs", "Decisions"] if judged else ["Captions", "Decisions"],
        "losses": [str(loss) for loss in find_lost_decisions(path)],
    }
    if (runs or systems) and not judged:
        option = "--run" if runs else "--system"
        raise UserError("review", path, "has no queries that a run could answer", f"leave out {option}")
    pool = (
        review_exports.read_result_pool(stored, runs, depth, systems)
        if runs or systems
        else review_exports.ResultPool([], [])
    )
    site = _judging_site(stored, reviewer, about, pool) if judged else _captioning_site(stored, reviewer, about)
    for name, build_routes in (
        ("Audit", _audit_routes),
        ("Duplicates", _duplicate_routes),
        ("Rejects", _rejection_routes),
    ):
        if routes := build_routes(stored, reviewer, about):
            about["views"].insert(-1, name)
            site.routes.extend(routes)
    return replace(site, notes=[*about["losses"], *site.notes])


def _judging_site(
    stored: set_files.StoredSet, reviewer: str, about: dict[str, Any], pool: review_exports.ResultPool
) -> ReviewSite:
    path, image = stored.path, make_set_thumbnail_reader(stored)
    callbacks = ReviewStorage(
        log=DecisionLog(path.parent, QueryDecision),
        export_csv=lambda view: review_exports.export_review_csv(path, view),
        import_csv=lambda data, upload: review_exports.import_review_csv(path, data, upload, reviewer),
        read_outcome=lambda: _read_outcome(stored),
    )
    review_state = query_cards.ReviewState[QueryDecision](
        reviewer, frozenset(stored.manifest["decisions"]["in_effect"])
    )
    render_mode = benchmark_set.get_render_options(stored.manifest).get("mode")
    cards = query_cards.QueryCards(stored.tables, stored.manifest["grades"], review_state, render_mode)
    session = ReviewSession(cards, callbacks, pool.pairs)
    judging = [
        query_views.page_routes(session, about),
        query_views.data_routes(session),
        query_views.pair_routes(session),
    ]
    judging.append(query_views.csv_routes(session, about["name"]))
    judging.append(query_views.decision_routes(_make_decision_summary_reader(stored), about, session))
    images = image_routes("/image", cards.has_image, image)
    search = similar_images.SimilarImageSearch(stored)
    similar = query_views.SimilarImages(search.find_by_image, search.find_by_file)
    judging.append(query_views.image_finder_routes(session, stored.tables, similar))

    def prepare_thumbnails() -> None:  # those that a person sees first
        for group in query_queue.filter_groups(
            cards.groups, query_queue.QueryFilter(state="open"), cards.text_of, cards.is_decided
        )[:3]:
            for image_entry in cards.build_query_card(group.key)["images"][:24]:
                image(image_entry["image_id"], 320)

    return ReviewSite([*judging, images], about, prepare_thumbnails, pool.notes, bool(pool.pairs))


def _captioning_site(stored: set_files.StoredSet, reviewer: str, about: dict[str, Any]) -> ReviewSite:
    cards = gallery_cards.CaptionCards(stored.tables.images, reviewer)
    session = LogSession(cards.apply_entries, DecisionLog(stored.path.parent, HumanCaption))
    images = image_routes("/image", cards.has_image, make_set_thumbnail_reader(stored))
    decisions = query_views.decision_routes(_make_decision_summary_reader(stored), about)
    return ReviewSite([caption_routes(session, cards, about), images, decisions], about)


def _make_decision_summary_reader(stored: set_files.StoredSet) -> Callable[[], DecisionSummary]:
    """Returns a function that counts the decisions on images and rejections, and the captions people wrote, as the logs
    are when it is called."""
    folder = stored.path.parent

    def read_summary() -> DecisionSummary:
        pairs = read_decisions(folder, ImagePairDecision)
        return summarize_decisions(
            pairs,
            read_decisions(folder, Override),
            read_decisions(folder, HumanCaption),
            stored.manifest["decisions"],
            _image_names(stored, {image_id for pair in pairs for image_id in pair.images}),
        )

    return read_summary


def _image_names(stored: set_files.StoredSet, image_ids: set[str]) -> dict[str, str]:
    """The names that people know these images by."""
    duplicates, images = stored.tables.duplicates, stored.tables.images
    duplicates = duplicates[duplicates["image_id"].isin(image_ids)]
    names_by_image = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    named = images[images["image_id"].isin(image_ids) & images["file_name"].notna()]
    return names_by_image | dict(zip(named["image_id"].astype("str"), named["file_name"].astype("str"), strict=True))


def _audit_routes(stored: set_files.StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Returns no routes for a version without audits, and loads nothing of them: statistics and stores of replies."""
    if not (stored.path.parent / published_files.AUDITS_FOLDER).is_dir():
        return []
    from querytruth.audit.cards import build_audit_routes

    return build_audit_routes(stored, reviewer, about)


def _read_outcome(stored: set_files.StoredSet) -> decision_outcomes.DecisionOutcome:
    """Returns which decisions of the log fit the version, and which contradict each other, as `apply` takes them."""
    from querytruth.audit.answers import find_disputes

    log, in_effect = (
        read_decisions(stored.path.parent, QueryDecision),
        frozenset(stored.manifest["decisions"]["in_effect"]),
    )
    disputes = find_disputes(log, read_decisions(stored.path.parent, UndeterminedPair), in_effect)
    return decision_application.apply_decisions(
        stored.tables, disputes.exclude_from(log, in_effect), ledger.Ledger(), in_effect
    )[1]


def _duplicate_routes(stored: set_files.StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Returns no routes for a set whose groups come from another set's build, since only that build can apply a
    decision, nor for a set whose build looked for no duplicates."""
    manifest, duplicates = stored.manifest, stored.tables.duplicates
    other_set = manifest["configuration"].get("gallery") or manifest["notes"].get("nested")
    if other_set or not (len(duplicates) or manifest["kind"] == "gallery"):
        return []
    items = dict(zip(duplicates["image_id"].astype("str"), duplicates["item"].astype("str"), strict=True))
    cards, log = (
        gallery_cards.DuplicateCards(stored.tables, reviewer),
        DecisionLog(stored.path.parent, ImagePairDecision),
    )
    return [
        duplicate_routes(LogSession(cards.apply_entries, log), cards, about),
        image_routes("/duplicates/image", cards.has_image, make_source_thumbnail_reader(stored, items)),
    ]


def _rejection_routes(stored: set_files.StoredSet, reviewer: str, about: dict[str, Any]) -> list[APIRouter]:
    """Returns no routes for a version that rejected nothing."""
    if not len(stored.tables.ledger):
        return []
    manifest, tables = stored.manifest, stored.tables
    context = rejection_cards.RejectionContext(
        _reason_not_overridable(manifest),
        {stale["decision"]: stale["why"] for stale in manifest["decisions"]["stale"]},
        tables.duplicates if "Duplicates" in about["views"] else empty_frame("duplicates"),
    )
    cards, log = (
        rejection_cards.RejectionCards(tables.ledger, context, reviewer),
        DecisionLog(stored.path.parent, Override),
    )
    return rejection_routes(
        LogSession(cards.apply_entries, log), cards, similar_images.open_rejected_files(stored), about
    )


def _reason_not_overridable(manifest: Mapping[str, Any]) -> str:
    """Returns why no build of this set applies an override, or ""."""
    if nested := manifest["notes"].get("nested"):
        return f"this set is a part of {nested['of']}: rescue there, and build that one"
    if manifest["notes"].get("held_out"):
        return "a training kept this set back: rescue in the set that it is a part of, and train again"
    if manifest["kind"] not in _KINDS_WITH_OVERRIDES:
        return "no build of such a set follows a rescue"
    if not isinstance(manifest["envelope"].get("definition"), dict):
        return "this version does not say what it was built from: build it from its definition, then rescue"
    return ""
