"""The record of a kind of set: how it is built, planned and shown. Each kind's own file fills in one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backends.durable_files import write_page
from backends.sets import set_files
from backends.sets.set_publishing import check_locks
from builders.errors import UserError
from flows.bucket_output import fetch_gallery, fetch_newest_versions, find_work_folder, publish_to_bucket
from flows.definition_checks import check_before_build
from flows.pages.set_pages import RenderSetPage, render_judged_page
from flows.prefect_runs.build_parameters import BuildParameters
from flows.set_publication import BuildResult, BuiltTables, check_decision_logs, publish_built
from flows.steps import current_run, keep_work_at, step


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKind:
    """`build_tables` builds without publishing. `publish` builds and publishes, None: just those tables. `plan` returns
    what a build would cost. `parameters` are those of the kind's Prefect flow, None: it has none."""

    name: str
    summary: str
    build_tables: Callable[[Any], BuiltTables]
    publish: Callable[[Any], BuildResult] | None = None
    plan: Callable[[Any], dict[str, Any]] | None = None
    render_page: RenderSetPage = render_judged_page
    parameters: type[BuildParameters] | None = None

    @property
    def flow_name(self) -> str:
        """The name of the kind's file and of the flow in it."""
        return f"{self.name}_set"

    def build_set(self, definition: Any) -> BuildResult:
        """Build and publish the next version of the set. Raises UserError where the build cannot go on."""
        with keep_work_at(find_work_folder(definition)):
            return self._build_set(definition)

    def _build_set(self, definition: Any) -> BuildResult:
        fetch_gallery(definition)  # the checks look for it
        check_before_build(definition)
        fetch_newest_versions(definition)
        check_locks(definition.out / definition.name)  # before the work, which would be in vain
        check_decision_logs(definition.out / definition.name)
        if self.publish is not None:
            return publish_to_bucket(definition, self.publish(definition))
        return publish_to_bucket(definition, publish_built(definition, self.build_tables(definition)))

    def write_version_page(self, result: BuildResult) -> BuildResult:
        """The result with the page of the version and those of its nested sets, in `shown/` beside the versions. An
        unchanged version keeps its page; a page that cannot be written is logged, and the build is not lost."""
        nested_results = [self.write_version_page(nested) for nested in result.nested_results]
        page = result.path.parent / "shown" / f"{result.path.name}.html"
        try:
            if result.is_new or not page.exists():
                _write_version_page(self.render_page, result.path, page)
        except UserError as error:
            current_run().reporter.log(str(error))
            return replace(result, nested_results=nested_results)
        return replace(result, nested_results=nested_results, page=page)


@step("write page")
def _write_version_page(render_page: RenderSetPage, version: Path, page: Path) -> None:
    write_page(page, render_page(set_files.read_set(version)), "then run querytruth show SET --page FILE")
