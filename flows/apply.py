"""The next version of a set, from what people decided on the newest one.

set ─► queries and judgments as people left them ─► certificate ─► set v<N+1> ─► page
"""

from dataclasses import replace
from pathlib import Path

from builders.publication import BuildResult, publish_decisions
from flows.set_kinds import SET_KINDS
from querytruth.backends.steps import active_run, current_run
from querytruth.errors import UserError
from querytruth.sets import set_files


def apply_decisions(path: Path, *, accept_loss: bool) -> BuildResult:
    """Publish the next version from the decisions on the version at `path`, and its page. Raises UserError where a
    newer version is there."""
    newest = set_files.find_set(str(path.parent))
    if path.resolve() != newest.resolve():
        reason = f"is not the newest version, applying to it would undo {newest.name}"
        raise UserError("apply", path, reason, f"apply to {newest}")
    with active_run(replace(current_run(), accept_loss=accept_loss)):
        result = publish_decisions(path)
        return SET_KINDS[result.manifest["kind"]].write_version_page(result)
