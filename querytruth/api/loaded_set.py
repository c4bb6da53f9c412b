"""A published set: its tables as data frames, and what is done with it as methods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pandas as pd

from builders.publication import BuildResult
from querytruth.api.set_views import QueryView, SetDifference, SystemBoard
from querytruth.audit.requests import OverlapRequest
from querytruth.audit.shortcuts import describe_shortcuts
from querytruth.backends.environment import current_user_name
from querytruth.backends.files.bucket_urls import BucketFolder, join_set_url
from querytruth.backends.steps import BuildRun, active_run
from querytruth.defaults import DATASETS_FOLDER
from querytruth.errors import UserError, translate_write_errors
from querytruth.evaluation.requests import SearchRequest
from querytruth.formats import exporters
from querytruth.formats.set_card import render_set_card
from querytruth.requests import takes_request
from querytruth.review.search_views import render_facts
from querytruth.sets import bucket_versions, manifest, published_files, set_files, set_publishing, set_thumbnails
from querytruth.sets.benchmark_set import Tables
from querytruth.sets.bucket_reading import fetch_version
from querytruth.sets.decision_log import find_lost_decisions, lint_decision_logs, verify_decision_logs
from querytruth.sets.manifest import FUNNEL_COLUMNS, tabulate_funnel
from querytruth.sets.set_files import StoredSet, locate_set_images
from querytruth.sets.set_places import RemoteUse
from querytruth.sets.text_sieve import refuse_private
from querytruth.sets.version_difference import compare_versions

if TYPE_CHECKING:
    from flows.search import QueryResults

_FINDING_COLUMNS = ["check", "severity", "count", "says", "examples"]


class _HasVersionFolder(Protocol):
    @property
    def path(self) -> Path: ...


AnySet: TypeAlias = str | Path | _HasVersionFolder  # name, name/v3, a folder, a LoadedSet or a SetBuild


def load(set_: AnySet, *, out: str | Path = DATASETS_FOLDER, images: Sequence[str | Path] = ()) -> LoadedSet:
    """Find a version of a set: `name` (the newest), `name/v3`, its folder or URL; tables are read on first use. `out`:
    folder that holds the sets; `images`: folders or URLs outside the set where its images can be read. Raises
    UserError where there is none."""
    roots = [str(root) for root in images]
    return LoadedSet(find_version(set_, out, remote="whole"), Path(out), roots)


def find_version(set_: AnySet, out: str | Path = DATASETS_FOLDER, *, remote: RemoteUse = "refused") -> Path:
    """Return the folder of a version, as `querytruth.sets.set_files.find_set`. Raises UserError where there is none."""
    if isinstance(set_, str | Path):
        return set_files.find_set(str(set_), Path(out), remote=remote)
    return set_.path


class LoadedSet:
    """A version of a set in the folder `path`. Its tables are pandas data frames with the columns of
    docs/set-format.md; their first use raises UserError where the version is damaged. `out`: folder of other sets."""

    def __init__(self, path: Path, out: Path = DATASETS_FOLDER, images: Sequence[str] = ()) -> None:
        self.path, self.out, self._image_roots = path, out, images

    @functools.cached_property
    def stored(self) -> StoredSet:
        """Return the version as the other parts of the library take it."""
        with published_files.image_roots(self._image_roots):
            return set_files.read_set(self.path)

    @property
    def name(self) -> str:
        """Return the name and version, such as family-album/v2."""
        return f"{self.manifest['name']}/v{self.manifest['version']}"

    @functools.cached_property
    def manifest(self) -> manifest.Manifest:
        """Return the manifest: definition, inputs, models, prompts, thresholds, funnel, counts and digests."""
        return manifest.read_manifest(self.path)

    @property
    def tables(self) -> Tables:
        """Return all tables of the set."""
        return self.stored.tables

    @property
    def queries(self) -> pd.DataFrame:
        """Return a row per query: query_id, text, language, style, level, labels …"""
        return self.tables.queries

    @property
    def images(self) -> pd.DataFrame:
        """Return a row per image: image_id, path, file_name, width, height, licence …"""
        return self.tables.images

    @property
    def qrels(self) -> pd.DataFrame:
        """Return a row per judged pair: query_id, image_id, relevance, judged_by, evidence."""
        return self.tables.qrels

    @property
    def ledger(self) -> pd.DataFrame:
        """Return a row per item that is not in the set: stage, kind, item, reason …"""
        return self.tables.ledger

    @property
    def funnel(self) -> pd.DataFrame:
        """Return a row per stage of the build, with the numbers that entered and were accepted."""
        return pd.DataFrame(tabulate_funnel(self.manifest["funnel"]), columns=FUNNEL_COLUMNS)

    @property
    def card(self) -> str:
        """Return the card of the set, as Markdown."""
        noticed = published_files.describe_notice(self.path, self.manifest["content_digest"])
        return render_set_card(self.manifest, self.tables, [*describe_shortcuts(self.tables), *noticed])

    def locate_images(self, image_ids: Sequence[str] | None = None) -> dict[str, str]:
        """Return the path or URL of each image that can be read here, by image_id; None: of all."""
        return locate_set_images(self.stored, self.images["image_id"].tolist() if image_ids is None else image_ids)

    def show(self, query: str, *, max_images: int = 24) -> QueryView:
        """Return a query, given by its id or its text, with its judged images: a notebook shows them, the highest
        grade first. Raises UserError for an unknown query."""
        queries = self.queries
        rows = queries[queries["query_id"] == query]
        rows = rows if len(rows) else queries[queries["text"] == query]
        if not len(rows):
            raise UserError("show", query, f"is not a query of {self.name}", "give an id or text from its `queries`")
        row = rows.iloc[0]
        judgments = self.qrels[self.qrels["query_id"] == row["query_id"]].drop(columns="query_id")
        judgments = judgments.sort_values(["relevance", "image_id"], ascending=[False, True], kind="stable")
        names = self.images.set_index("image_id")["file_name"]
        judgments = judgments.assign(file_name=judgments["image_id"].astype("str").map(names)).reset_index(drop=True)
        shown = judgments["image_id"].astype("str").head(max_images).tolist()
        return QueryView(row, judgments, set_thumbnails.make_set_thumbnails(self.stored, shown))

    def lint(self) -> pd.DataFrame:
        """Return what makes figures on the set wrong or doubtful, errors first: a row per finding with check, severity
        (error, warning, note), count, says and examples; no row for a clean set."""
        from builders.lint import lint_certificate, lint_tables

        findings = [*lint_decision_logs(self.path), *lint_tables(self.tables), *lint_certificate(self.manifest)]
        return pd.DataFrame([asdict(finding) for finding in findings], columns=_FINDING_COLUMNS)

    def diff(self, other: AnySet) -> SetDifference:
        """Return the queries, images and judgments that were added, removed or changed in the other version."""
        after = other if isinstance(other, LoadedSet) else LoadedSet(find_version(other, self.out, remote="tables"))
        losses = [(one, loss) for one in (self, after) for loss in find_lost_decisions(one.path)]
        warnings = [f"{one.path.parent}: {loss}" for one, loss in losses]
        return SetDifference(self.name, after.name, compare_versions(self.tables, after.tables), warnings)

    def rebuild(self, *, offline: bool = True) -> dict[str, Any]:
        """Build the version again from its manifest, publish nothing, and return whether the digest is the `same`, the
        `content_digest` as built now, and `inputs_changed`, the names of inputs that are other files by now. Raises
        UserError for a set from elsewhere whose definition names anything outside it."""
        from flows.rebuild import rebuild_tables

        with active_run(BuildRun(offline=offline)):
            rebuilt = rebuild_tables(self.path)
        same = rebuilt.digest == self.manifest["content_digest"]
        return {"same": same, "content_digest": rebuilt.digest, "inputs_changed": rebuilt.inputs_changed}

    def apply(self, *, accept_loss: bool = False) -> SetBuild:
        """Publish the next version from the decisions made on this one. Raises UserError for another version than the
        newest, and where the decision log lost decisions of that, unless `accept_loss`."""
        from flows.set_kinds import apply_decisions

        return SetBuild(apply_decisions(self.path, accept_loss=accept_loss))

    def publish(
        self, to: str, *, with_places: bool = False, with_names: bool = False, private: bool = True
    ) -> bucket_versions.StoredVersion:
        """Store the version in a bucket, as `<to>/<name>/v<N>`; `to` is a URL such as s3://bucket/sets. Readers see the
        whole version or none. Return its URL, whether it `is_new` there, and the files and bytes that were sent. Raises
        UserError where another version has that number, and for one with places unless `with_places`, or with names of
        people, places or texts of an album unless `with_names`. `private`: host and folders of the build and the
        decision logs stay here; what a published file holds is refused."""
        folder = BucketFolder.parse(to)
        next_step = "if readers may know that, give --with-places, --with-names (with_places=True …)"
        self.tables.refuse_facts("publish", self.path, next_step, places=with_places, names=with_names)
        if private:
            refuse_private(self.tables, "publish", self.path)
        return bucket_versions.publish_version(self.path, folder, is_private=private)

    def export(
        self,
        format: str,
        to: str | Path,
        *,
        allow_loss: bool = False,
        with_places: bool = False,
        with_names: bool = False,
        private: bool = True,
    ) -> list[str]:
        """Write the set in another format (docs/formats.md) into a new or empty folder; where images were taken goes
        out `with_places` alone, queries that name people, places or texts of an album `with_names` alone. `private`:
        without owner, serial numbers and comments in image files, folders of this machine and addresses of reviewers.
        Return what the format does not hold, and how many places and names were left out. Raises UserError for a loss
        that changes figures unless `allow_loss`."""
        exporters.EXPORTERS.import_plugin(format)  # an unknown one is refused before the set is read
        roots = published_files.image_roots(self._image_roots)
        with roots, translate_write_errors("export", Path(to), "or give another folder"):
            facts = [name for name, is_kept in (("places", with_places), ("names", with_names)) if is_kept]
            return exporters.export_set(
                format, self.stored, Path(to), allow_loss=allow_loss, facts=facts, private=private
            )

    def export_review(self, to: str | Path, *, judgments: int = 500, xlsx: bool = False) -> list[Path]:
        """Write queries.csv and judgments.csv for a spreadsheet into the folder `to`, and return their paths.
        `judgments`: how many are drawn, besides all that wait for one; `xlsx`: beside each an .xlsx with thumbnails."""
        from querytruth.review.review_exports import build_review_export, write_review_export

        written: list[Path] = []
        for view in ("queries", "judgments"):
            export = build_review_export(self.path, view, judgments)
            written += write_review_export(export, self.path, Path(to) / f"{view}.csv", xlsx)
        return sorted(written, key=lambda file: file.suffix)

    def import_qrels(self, file: str | Path, *, reviewer: str = "", allow_unknown: bool = False) -> int:
        """Take judgments that were made elsewhere as decisions: TREC qrels, or a table of query, image and grade, in
        the ids of the set, of its publisher or of a log, file names or ends of paths. Return how many there are;
        `apply` publishes them. Raises UserError, and takes none, where a row names nothing of the set, unless
        `allow_unknown`, or has another grade than those of the set."""
        from querytruth.review.foreign_judgments import read_foreign_judgments
        from querytruth.review.review_exports import take_decisions

        reviewer = reviewer or current_user_name()
        reading = read_foreign_judgments(self.path, Path(file), reviewer, allow_unknown=allow_unknown)
        if problems := reading.problems:
            reason = f"{problems[0]} ({len(problems):,} such rows); no decision was imported"
            raise UserError("import judgments", file, reason, "fix the rows, or ignore unknown ones: allow_unknown")
        take_decisions(self.path.parent, reading.decisions)
        return len(reading.decisions)

    def leaderboard(self, metric: str | None = None) -> SystemBoard:
        """Order the systems whose results are stored beside the version, by a metric (ndcg@10, else hit@1), on the
        queries that all of them have. Raises UserError without results."""
        from flows.leaderboard import build_leaderboard

        return SystemBoard(build_leaderboard(self.path, metric))

    @takes_request(SearchRequest, of_self="of")
    def search(self, request: SearchRequest) -> QueryResults:
        """Try one query, of the set or a new one, on a model, a search service or a run file: the result has `hits`
        with rank, id, score and grade (None: not judged), and `missed`, the relevant images that are not among them.
        Raises UserError."""
        from querytruth.api.evaluations import search_set

        return search_set(request)

    @takes_request(OverlapRequest, of_self="of")
    def overlap(self, request: OverlapRequest) -> dict[str, pd.DataFrame]:
        """Return what other collections have of the set: `pairs` of images and texts, and `queries` with what leaks
        them. Both are written, with a page. Raises UserError."""
        from querytruth.audit.overlap_page import overlap_set

        return overlap_set(request)[0]

    def __repr__(self) -> str:
        """Return name, kind and numbers in one line."""
        return f"<{self.manifest['kind']} set {self.name}: {', '.join(f'{n:,} {what}' for what, n in self._counts())}>"

    def _repr_html_(self) -> str:
        facts: list[tuple[str, object]] = [*self._counts(), ("licence", self.manifest["licence"] or "not stated")]
        facts += [("content digest", self.manifest["content_digest"]), ("folder", str(self.path))]
        samples = self.queries["text"].head(5).tolist()
        return render_facts(f"{self.manifest['title']} · {self.manifest['kind']} set {self.name}", facts, samples)

    def _counts(self) -> list[tuple[str, int]]:
        counts = self.manifest["counts"]
        return [(what, counts[what]) for what in ("queries", "images", "judgments") if counts[what]]


@dataclass(frozen=True, slots=True, repr=False)
class SetBuild:
    """The published version, or the newest one where nothing changed (`is_new` is False). `set`: its tables; `result`:
    stale decisions, conflicts and nested sets."""

    result: BuildResult

    @property
    def path(self) -> Path:
        """Return the folder of the version."""
        return self.result.path

    @property
    def is_new(self) -> bool:
        """Return whether a version was published."""
        return self.result.is_new

    @property
    def page(self) -> Path | None:
        """Return the HTML page of the version, if it was written."""
        return self.result.page

    @property
    def set(self) -> LoadedSet:
        """Return the version, read from disk."""
        return LoadedSet(self.path)

    @property
    def funnel(self) -> pd.DataFrame:
        """Return a row per stage, with the numbers that entered and were accepted."""
        return self.set.funnel

    def __repr__(self) -> str:
        """Return whether it was published, and the set in one line."""
        return f"{'published' if self.is_new else 'unchanged'}: {self.set!r}"

    def _repr_html_(self) -> str:
        return self.set._repr_html_()


def verify(
    set_: AnySet,
    *,
    out: str | Path = DATASETS_FOLDER,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> list[str]:
    """Recompute all checksums of a version, follow the chains of its decision logs, and compare the logs with the
    version. Return a line per problem, the file first; none for an intact set. `progress` is called with numbers of
    bytes read. For a URL in object storage, every object is read again."""
    url = join_set_url(str(set_), str(out)) if isinstance(set_, str | Path) else None
    path, damaged = (find_version(set_, out), []) if url is None else bucket_versions.check_objects(url)
    if path is None:
        return damaged
    return [*set_files.verify_set(path, progress), *(f"../{problem}" for problem in verify_decision_logs(path))]


def fetch(url: str, to: str | Path = DATASETS_FOLDER) -> set_publishing.PublishedVersion:
    """Put a version from object storage, with its decision logs, into a folder of sets, as
    `<to>/<name>/v<N>`, where it can be reviewed and built on. Return its path and whether it `is_new` there. Raises
    UserError where an object is damaged, and where the folder has another version of that number or other decisions."""
    copy = fetch_version(url)
    return set_publishing.install_version(copy, Path(to) / copy.parent.name)
