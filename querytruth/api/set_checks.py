"""Checks of published sets: lint, verify, rebuild, and the difference between two versions.

Sets in object storage: versions are published to a bucket, and fetched from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from builders import lint as lint_checks
from flows.rebuild import rebuild_tables
from querytruth.api.loaded_set import DATASETS_FOLDER, AnySet, LoadedSet, find_version, load
from querytruth.backends.files.bucket_urls import BucketFolder, join_set_url
from querytruth.backends.steps import BuildRun, active_run
from querytruth.review.search_views import render_table
from querytruth.sets import bucket_reading, manifest, set_files, set_publishing, version_difference
from querytruth.sets.bucket_versions import StoredVersion, check_objects, publish_version
from querytruth.sets.decision_log import find_lost_decisions, lint_decision_logs, verify_decision_logs

_FINDING_COLUMNS = ["check", "severity", "count", "says", "examples"]
_CHANGE_COLUMNS = ["table", "change", "query_id", "image_id", "details"]


def lint(set_: AnySet, *, out: str | Path = DATASETS_FOLDER) -> pd.DataFrame:
    """Return what makes figures on the set wrong or doubtful, errors first: a row per finding with check, severity
    (error, warning, note), count, says and examples; no row for a clean set."""
    loaded = _load_once(set_, out)
    findings = [*lint_decision_logs(loaded.path), *lint_checks.lint_tables(loaded.tables)]
    return pd.DataFrame([asdict(finding) for finding in findings], columns=_FINDING_COLUMNS)


def verify(
    set_: AnySet, *, out: str | Path = DATASETS_FOLDER, progress: Callable[[int], None] = lambda _bytes: None
) -> list[str]:
    """Compute every checksum of a version again, follow the chains of its decision logs, and compare the logs with the
    version. Return a line per problem, the file first; none for an intact set. `progress` is called with numbers of
    bytes read. Of a URL in object storage every object is read again."""
    url = join_set_url(str(set_), str(out)) if isinstance(set_, str | Path) else None
    path, damaged = (find_version(set_, out), []) if url is None else check_objects(url)
    if path is None:
        return damaged
    problems = list(set_files.verify_set(path, progress))
    return problems + [f"../{problem}" for problem in verify_decision_logs(path)]


@dataclass(frozen=True, slots=True, repr=False)
class SetDifference:
    """What differs between two versions. `changes`: rows with table (queries, images, judgments), change (added,
    removed, changed), query_id, image_id and details. `warnings`: what decision logs lost since the versions."""

    before: LoadedSet
    after: LoadedSet
    difference: version_difference.VersionDifference
    warnings: Sequence[str] = ()

    @property
    def comparability(self) -> str:
        """A sentence on whether figures on both versions are comparable."""
        return self.difference.comparability

    @property
    def changes(self) -> pd.DataFrame:
        """A row per query, image or judgment that differs."""
        rows = []
        for table in ("queries", "images", "judgments"):
            for change in ("added", "removed", "changed"):
                for entry in getattr(self.difference, f"{table}_{change}"):
                    given = {"image_id": entry} if isinstance(entry, str) else dict(entry)
                    ids = {name: given.pop(name, None) for name in ("query_id", "image_id")}
                    rows.append({"table": table, "change": change, **ids, "details": given})
        return pd.DataFrame(rows, columns=_CHANGE_COLUMNS)

    def __repr__(self) -> str:
        """Numbers of changes, and the sentence on comparability."""
        counts = self.changes.groupby(["table", "change"], sort=False).size()
        parts = [f"{count:,} {table} {change}" for (table, change), count in counts.items()]
        return f"{self.before.name} to {self.after.name}: {', '.join([*parts, self.comparability])}"

    def _repr_html_(self) -> str:
        counts = self.changes.groupby(["table", "change"], sort=False).size().reset_index(name="rows")
        return render_table(f"{self.before.name} to {self.after.name}", counts, [self.comparability])


def diff(before: AnySet, after: AnySet, *, out: str | Path = DATASETS_FOLDER) -> SetDifference:
    """Return the queries, images and judgments that were added, removed or changed between two versions."""
    old, new = (_load_once(one, out) for one in (before, after))
    losses = [(one, loss) for one in (old, new) for loss in find_lost_decisions(one.path)]
    warnings = [f"{one.path.parent}: {loss}" for one, loss in losses]
    return SetDifference(old, new, version_difference.compare_versions(old.tables, new.tables), warnings)


def _load_once(set_: AnySet, out: str | Path) -> LoadedSet:
    """The tables of a set; of one in object storage without its images."""
    return set_ if isinstance(set_, LoadedSet) else load(find_version(set_, out, remote="tables"))


def rebuild(set_: AnySet, *, offline: bool = True, out: str | Path = DATASETS_FOLDER) -> dict[str, Any]:
    """Build a version again from its manifest, publish nothing, and return whether the digest is the `same`, the
    `content_digest` as built now, and `inputs_changed`, the names of inputs that are other files by now. Raises
    UserError for a set from elsewhere whose definition names anything outside it."""
    path = find_version(set_, out)
    with active_run(BuildRun(offline=offline)):
        rebuilt = rebuild_tables(path)
    same = rebuilt.digest == manifest.read_manifest(path)["content_digest"]
    return {"same": same, "content_digest": rebuilt.digest, "inputs_changed": rebuilt.inputs_changed}


def publish(set_: AnySet, to: str, *, out: str | Path = DATASETS_FOLDER) -> StoredVersion:
    """Store a version in a bucket, as `<to>/<name>/v<N>`; `to` is a URL such as s3://bucket/sets. Readers see the whole
    version or none. Return its URL, whether it `is_new` there, and the files and bytes that were sent. Raises
    UserError where another version has that number."""
    folder = BucketFolder.parse(to)
    return publish_version(find_version(set_, out), folder)


def fetch(url: str, to: str | Path = DATASETS_FOLDER) -> set_publishing.PublishedVersion:
    """Put a version from object storage, with its decision logs, into a folder of sets, as `<to>/<name>/v<N>`, where it
    can be reviewed and built on. Return its path and whether it `is_new` there. Raises UserError where an object is
    damaged, and where the folder has another version of that number or other decisions."""
    copy = bucket_reading.fetch_version(url)
    return set_publishing.install_version(copy, Path(to) / copy.parent.name)
