"""Stops a build that would lose more of the last version than `lose_at_most` allows."""

from backends.sets import set_files
from builders.benchmark_set import Tables, content_digest
from builders.errors import UserError
from flows.definitions import SetDefinition


class ShrinkageError(UserError):
    """The version was built and not published. `digest`: of the content that waits for a person's approval."""

    digest = ""


def check_shrinkage(definition: SetDefinition, tables: Tables) -> None:
    """Raise ShrinkageError where a larger share than `lose_at_most` of the newest version's queries (of its images, if
    it has no queries) is missing."""
    folder = definition.out / definition.name
    newest = set_files.newest_version(folder)
    if newest is None or definition.lose_at_most is None:
        return
    before = set_files.read_set(folder / f"v{newest}", ("queries", "images")).tables
    kind, old, new = "queries", before.queries["query_id"], tables.queries["query_id"]
    if old.empty:
        kind, old, new = "pictures", before.images["image_id"], tables.images["image_id"]
    removed_count = len(set(old.astype(str)) - set(new.astype(str)))
    if removed_count <= definition.lose_at_most * len(old):
        return
    share = f"{removed_count:,} of its {len(old):,} {kind} ({removed_count / len(old):.0%})"
    reason = f"would lose {share}, more than lose_at_most ({definition.lose_at_most:.0%}) allows; nothing was published"
    next_step = "see whether the inputs are whole, or publish all the same with --set lose_at_most=1"
    error = ShrinkageError("publish", f"{definition.name}/v{newest}", reason, next_step)
    error.digest = content_digest(tables.to_arrow_tables())
    raise error
