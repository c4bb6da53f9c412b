"""The kinds of sets, by name, and what is done with a set of any kind: build, plan, show, apply decisions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from builders.publication import BuildResult, check_set_name, publish_decisions
from flows import gallery_set, generated_set, import_set, precision_set, queries_set, recall_set
from flows.set_kind import SetKind, fetch_source_sets, find_work_folder
from querytruth.backends.files.column_profile import use_table_options
from querytruth.backends.files.durable_files import write_page
from querytruth.backends.steps import active_run, current_run, keep_work_at
from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.sets import set_files
from querytruth.sets.leaked_queries import describe_overlap
from querytruth.sets.published_files import describe_notice

SET_KINDS: dict[str, SetKind] = {
    kind.name: kind
    for kind in (
        gallery_set.GALLERY_SET,
        precision_set.PRECISION_SET,
        recall_set.RECALL_SET,
        generated_set.GENERATED_SET,
        queries_set.QUERIES_SET,
        import_set.IMPORTED_SET,
    )
}


def build_set(definition: SetDefinition) -> BuildResult:
    """Build and publish the next version of the set, without its page. Raises UserError where it cannot be built."""
    check_set_name(definition)
    return SET_KINDS[definition.kind].build_set(definition)


def build_set_with_page(definition: SetDefinition) -> BuildResult:
    """Build and publish the next version of the set, and write its page. Raises UserError as `build_set`."""
    return SET_KINDS[definition.kind].write_version_page(build_set(definition))


def plan_set(definition: SetDefinition) -> dict[str, Any]:
    """Return what a build would do; nothing is published. Raises ValueError for a kind without a plan."""
    plan = SET_KINDS[definition.kind].plan
    if plan is None:
        raise ValueError(f"a set of kind {definition.kind} has no plan")
    check_set_name(definition)
    with keep_work_at(find_work_folder(definition)), use_table_options(definition.tables):
        fetch_source_sets(definition)
        return plan(definition)


def write_set_page(path: Path, page: Path) -> None:
    """Write the page of the version at `path`, one HTML file with its images inside, with a warning where another
    collection has seen queries of it. Raises UserError if it fails."""
    stored = set_files.read_set(path)
    digest = stored.manifest["content_digest"]
    warnings = [*describe_overlap(path, digest), *describe_notice(path, digest)]
    limitations = [*stored.manifest["known_limitations"], *warnings]
    stored = replace(stored, manifest=stored.manifest | {"known_limitations": limitations})
    write_page(page, SET_KINDS[stored.manifest["kind"]].render_page(stored))


def apply_decisions(path: Path, *, accept_loss: bool) -> BuildResult:
    """Publish the next version from the decisions on the version at `path`, and its page. Raises UserError where a
    newer version is there."""
    newest = set_files.find_set(str(path.parent))
    if path.resolve() != newest.resolve():
        reason = f"is not the newest version; applying to it would undo {newest.name}"
        raise UserError("apply", path, reason, f"apply to {newest}")
    with active_run(replace(current_run(), accept_loss=accept_loss)):
        result = publish_decisions(path)
        return SET_KINDS[result.manifest["kind"]].write_version_page(result)
