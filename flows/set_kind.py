"""The record of a kind of set: how it is built, planned and shown, also if its versions are in a bucket.

Each kind's own file fills in one. With a bucket, the newest version is fetched before a build, and the new one is
published after it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builders.gallery.source_sets import list_source_sets, pin_source_sets
from builders.lint import lint_tables
from builders.publication import BuildResult, BuiltTables, check_decision_logs, publish_built
from builders.set_page import render_set_page, select_set_queries
from flows.definition_checks import check_before_build
from flows.requests import BuildRequest
from querytruth.backends.files import durable_files, safe_paths
from querytruth.backends.files.bucket import BucketObjects
from querytruth.backends.files.bucket_urls import BucketFolder, SetUrl
from querytruth.backends.files.column_profile import use_table_options
from querytruth.backends.steps import current_run, keep_work_at, step
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.review.page_parts import pages_in
from querytruth.sets import bucket_reading, bucket_versions, manifest, published_files, set_files, set_publishing
from querytruth.sets.build_progress import write_progress
from querytruth.sets.set_thumbnails import make_set_thumbnails

RenderSetPage = Callable[[set_files.StoredSet], str]
_SET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}(/v[1-9][0-9]{0,8})?")


def find_work_folder(definition: SetDefinition) -> BucketFolder | None:
    """Return where the set's work is kept in a bucket; None where its definition names no such place."""
    return None if definition.work is None else BucketFolder.parse(definition.work).below(definition.name)


@step("fetch")
def fetch_source_sets(definition: SetDefinition) -> None:
    """Put the sets that the definition reads into its `out`, where only the bucket has them. Raises UserError where
    `out` has another version of that number."""
    if definition.publish_to is None:
        return
    for name in list_source_sets(definition).values():
        if not Path(name).exists() and _SET_NAME.fullmatch(name):
            _fetch(SetUrl.parse(f"{BucketFolder.parse(definition.publish_to)}/{name}"), definition.out)


@step("fetch")
def fetch_newest_versions(definition: SetDefinition) -> None:
    """Put the newest version of the set in the bucket, and of the smaller sets in it, into the definition's `out`, so
    that the next one follows it. Raises UserError where `out` has another version of that number."""
    if definition.publish_to is None:
        return
    folder = BucketFolder.parse(definition.publish_to)
    names = BucketObjects(folder).list_level()
    nested = re.compile(re.escape(definition.name) + r"-[0-9]+")
    for name in sorted(one for one in names if one == definition.name or nested.fullmatch(one)):
        _fetch(folder.set_url(name), definition.out)


def _fetch(asked: SetUrl, out: Path) -> None:
    remote, here = bucket_reading.find_newest_version(asked), out / asked.name
    if remote is None:
        return
    present = here / f"v{remote.url.version}"
    if (present / "manifest.json").is_file():
        if manifest.read_manifest(present)["content_digest"] != remote.manifest["content_digest"]:
            reason = f"differs from {remote.url}: both were built from the version before them"
            raise UserError("fetch", present, reason, f"move {present} away, then run the same command")
    elif asked.version is not None or (published_files.newest_version(here) or 0) < (remote.url.version or 0):
        set_publishing.install_version(bucket_reading.fetch_version(str(remote.url)), here, current_run().reporter.log)


def publish_to_bucket(definition: SetDefinition, result: BuildResult) -> BuildResult:
    """Return the result with the URLs of the version and of the smaller sets in the bucket that the definition names,
    where they are stored now. Raises UserError where another build published that version meanwhile."""
    return result if definition.publish_to is None else _store_in_bucket(definition, result)


@step("publish to the bucket")
def _store_in_bucket(definition: SetDefinition, result: BuildResult) -> BuildResult:
    assert definition.publish_to is not None
    tables = set_files.read_set(result.path, ("images", "queries")).tables
    next_step = "set publish_places, publish_names: true if readers may see them; the version is built and stored here"
    allowed = {"places": definition.publish_places, "names": definition.publish_names}
    tables.refuse_facts("publish", result.path, next_step, **allowed)
    nested_results = [publish_to_bucket(definition, nested) for nested in result.nested_results]
    stored = bucket_versions.publish_version(result.path, BucketFolder.parse(definition.publish_to))
    return replace(result, nested_results=nested_results, url=stored.url)


def render_judged_page(stored: set_files.StoredSet) -> str:
    """Return the page of a set of queries and judgments."""
    shown = select_set_queries(stored.tables, stored.manifest["notes"].get("parents", ()))
    small = make_set_thumbnails(stored, shown.image_ids)
    return render_set_page(stored.tables, stored.manifest, small, lint_tables(stored.tables), shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKind:
    """`build_tables` builds without publishing. `publish` builds and publishes, None: just those tables. `plan` returns
    what a build would cost. `parameters`: those of the kind's Prefect flow, None without a flow."""

    name: str
    summary: str
    build_tables: Callable[[Any], BuiltTables]
    publish: Callable[[Any], BuildResult] | None = None
    plan: Callable[[Any], dict[str, Any]] | None = None
    render_page: RenderSetPage = render_judged_page
    parameters: type[BuildRequest] | None = None

    @property
    def flow_name(self) -> str:
        """Return the name of the kind's file and of the flow in it."""
        return f"{self.name}_set"

    def build_set(self, definition: Any) -> BuildResult:
        """Build and publish the next version of the set. Raises UserError where the build cannot go on."""
        folder = definition.out / definition.name
        with keep_work_at(find_work_folder(definition)), use_table_options(definition.tables), write_progress(folder):
            return self._build_set(definition)

    def _build_set(self, definition: Any) -> BuildResult:
        fetch_source_sets(definition)  # the checks look for them
        check_before_build(definition)
        definition = pin_source_sets(definition)
        fetch_newest_versions(definition)
        set_publishing.check_locks(definition.out / definition.name)  # before the work, which would be in vain
        check_decision_logs(definition.out / definition.name)
        if self.publish is not None:
            return publish_to_bucket(definition, self.publish(definition))
        return publish_to_bucket(definition, publish_built(definition, self.build_tables(definition)))

    def write_version_page(self, result: BuildResult) -> BuildResult:
        """Return the result with the page of the version and those of its nested sets, in `shown/` beside the versions.
        An unchanged version keeps its page; a page that cannot be written is logged, and the build is not lost."""
        nested_results = [self.write_version_page(nested) for nested in result.nested_results]
        definition = result.manifest.get("envelope", {}).get("definition") or {}
        try:  # of a set that was fetched, `shown` may lead anywhere
            page = safe_paths.contained_path(result.path.parent, f"shown/{result.path.name}.html", "write page")
            if result.is_new or not page.exists():
                with pages_in(definition.get("page_language", "en")):
                    _write_version_page(self.render_page, result, page)
        except UserError as error:
            current_run().reporter.log(str(error))
            return replace(result, nested_results=nested_results, tables=None)
        return replace(result, nested_results=nested_results, page=page, tables=None)


@step("write page")
def _write_version_page(render_page: RenderSetPage, result: BuildResult, page: Path) -> None:
    held, version = result.tables, result.path
    stored = set_files.read_set(version) if held is None else set_files.hold_set(version, held)
    durable_files.write_page(page, render_page(stored), "then run querytruth show SET --page FILE")
