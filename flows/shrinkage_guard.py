"""Stops a build that would lose more of the last version than `lose_at_most` allows."""

from backends.sets import set_files
from backends.sets.version_numbers import newest_version
from builders.benchmark_set import Tables, content_digest
from builders.errors import UserError
from builders.version_losses import find_losses
from flows.definitions import SetDefinition


class ShrinkageError(UserError):
    """The version was built and not published. `digest`: of the content that waits for a person's approval."""

    digest = ""


def check_shrinkage(definition: SetDefinition, tables: Tables) -> None:
    """Raise ShrinkageError where a larger share than `lose_at_most` of the newest version's queries (of its images, if
    it has no queries) is missing, and no person dropped it. `tables` have the build's ledger."""
    folder = definition.out / definition.name
    newest = newest_version(folder)
    if newest is None or definition.lose_at_most is None:
        return
    before = set_files.read_set(folder / f"v{newest}", ("queries", "images")).tables
    lost = find_losses(before, tables)
    if lost.lost_count <= definition.lose_at_most * lost.total:
        return
    share = f"{lost.lost_count:,} of its {lost.total:,} {lost.kind} ({lost.lost_count / lost.total:.0%})"
    limit = f"lose_at_most ({definition.lose_at_most:.0%})"
    reason = f"would lose {share}, more than {limit} allows ({lost.reasons}); nothing was published"
    accept = "--lose-at-most 1" if definition.kind == "imported" else "--set lose_at_most=1"
    next_step = f"see whether the inputs are whole, or publish all the same with {accept}"
    error = ShrinkageError("publish", f"{definition.name}/v{newest}", reason, next_step)
    error.digest = content_digest(tables.to_arrow_tables())
    raise error
