"""Refuses to publish a set with nothing left, or one that would lose more than `lose_at_most` allows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from querytruth.definitions import SetDefinition
from querytruth.errors import UserError
from querytruth.sets import decision_outcomes, ledger, published_files, set_files, version_difference
from querytruth.sets.benchmark_set import Tables, content_digest
from querytruth.sets.manifest import pluralize_kind

_SHOWN = 3  # reasons
# What to change in the definition, where the ledger's own advice is to override single items; by kind and reason.
_NEXT_STEPS = {
    ("image", None): "loosen `filter` or `select` in the definition",
    ("caption", None): "try another model or prompt (captions.model, captions.prompt)",
    ("caption", "wrong_language"): "choose a prompt in the language of the captions (captions.prompt: en/caption)",
    ("caption", "cut_off"): "raise captions.max_tokens",
    ("caption", "too_long"): "raise captions.max_length",
    ("caption", "ambiguous"): "choose another ambiguity.policy, such as merge",
    ("caption", "no_caption"): "give captions of these images: file names, paths or image ids must match",
    ("label", None): "lower searchable.min_images, or give annotations with larger boxes",
    ("label", "too_few_images"): "lower searchable.min_images, or give more annotated images",
    ("label", "never_prominent"): "lower searchable.area_ratio",
    ("label", "too_seldom_prominent"): "lower searchable.min_images, or choose searchable.count: any",
    ("label", "not_a_name"): "name them in a labels.csv and give its folder as `labels`",
    ("label", "no_images"): "check that labels and annotations belong together, or annotate more images",
}


class ShrinkageError(UserError):
    """The version was built and not published. `digest`: of the content that waits for a person's approval."""

    digest = ""


def check_shrinkage(definition: SetDefinition, tables: Tables) -> None:
    """Raise ShrinkageError where a larger share than `lose_at_most` of the newest version's queries (of its images, if
    it has no queries) is missing, and no person dropped it. `tables` have the build's ledger."""
    folder = definition.out / definition.name
    newest = published_files.newest_version(folder)
    if newest is None or definition.lose_at_most is None:
        return
    before = set_files.read_set(folder / f"v{newest}", ("queries", "images")).tables
    lost = version_difference.find_losses(before, tables)
    if lost.lost_count <= definition.lose_at_most * lost.total:
        return
    share = f"{lost.lost_count:,} of its {lost.total:,} {lost.kind} ({lost.lost_count / lost.total:.0%})"
    limit = f"lose_at_most ({definition.lose_at_most:.0%})"
    reason = f"would lose {share}, more than {limit} allows ({lost.reasons}); nothing was published"
    accept = "--lose-at-most 1" if definition.kind == "imported" else "--set lose_at_most=1"
    next_step = f"check that the inputs are complete, or publish anyway with {accept}"
    error = ShrinkageError("publish", f"{definition.name}/v{newest}", reason, next_step)
    error.digest = content_digest(tables.to_arrow_tables())
    raise error


def has_content(kind: str, tables: Tables) -> bool:
    """Return whether a set of this kind has its main content: images in a gallery, queries in any other set."""
    return len(tables.images if kind == "gallery" else tables.queries) > 0


def check_not_empty(kind: str, name: str, tables: Tables, funnel: Iterable[Mapping[str, Any]]) -> None:
    """Raise UserError where a stage of the funnel accepted nothing and the set has no content for that."""
    stages = list(funnel)
    emptied = next((stage for stage in stages if stage["entered"] and not stage["accepted"]), None)
    if emptied is None or has_content(kind, tables):
        return
    losses = Counter[tuple[str, str, str]]()  # stage, bucket and reason
    for stage in stages:
        if stage["kind"] == emptied["kind"]:
            for bucket in ledger.BUCKETS:
                losses.update({(stage["stage"], bucket, reason): n for reason, n in stage[bucket].items()})
    ranked = sorted(losses.items(), key=lambda pair: (-pair[1], pair[0]))
    listed = ", ".join(f"{number:,} {reason.replace('_', ' ')}" for (*_, reason), number in ranked[:_SHOWN])
    wanted = "image" if kind == "gallery" else "query"
    entered = max(stage["entered"] for stage in stages if stage["kind"] == emptied["kind"])
    kinds = emptied["kind"] if entered == 1 else pluralize_kind(emptied["kind"])
    reason = f"no {wanted} is left of {entered:,} {kinds} ({listed}); nothing was published"
    raise UserError("publish", name, reason, _next_step(emptied["kind"], *ranked[0][0]))


def _next_step(kind: str, stage: str, bucket: str, reason: str) -> str:
    if bucket != "pending" and (kind, reason) in _NEXT_STEPS:
        return _NEXT_STEPS[kind, reason]
    usual = _NEXT_STEPS.get((kind, None), "change the definition, then build again")
    return decision_outcomes.advise_fix(stage, kind, bucket, reason) or usual
