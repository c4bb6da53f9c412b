"""Refuses to publish a set in which nothing is left, with the reason that took most."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from builders.benchmark_set import Tables
from builders.decisions.overridable import advise_fix
from builders.errors import UserError
from builders.ledger import BUCKETS, pluralize_kind

_SHOWN = 3  # reasons
# What to change in the definition, where the ledger's own advice is to override single items; by kind and reason.
_NEXT_STEPS = {
    ("image", None): "loosen `filter` or `select` in the definition",
    ("caption", None): "look at the replies of another model or prompt (captions.model, captions.prompt)",
    ("caption", "wrong_language"): "name a prompt in the language of the captions (captions.prompt: en/caption)",
    ("caption", "cut_off"): "raise captions.max_tokens",
    ("caption", "too_long"): "raise captions.max_length",
    ("caption", "ambiguous"): "choose another ambiguity.policy, such as merge",
    ("caption", "no_caption"): "give captions of these pictures: file names, paths or image ids must agree",
    ("label", None): "lower searchable.min_images, or give annotations with larger boxes",
    ("label", "too_few_images"): "lower searchable.min_images, or give more annotated pictures",
    ("label", "never_prominent"): "lower searchable.area_ratio",
    ("label", "too_seldom_prominent"): "lower searchable.min_images, or choose searchable.count: any",
    ("label", "no_images"): "check that labels and annotations belong together, or annotate more pictures",
}


class _Loss(NamedTuple):
    """Items of a kind that one stage did not accept for one reason."""

    kind: str
    stage: str
    bucket: str
    reason: str


def has_content(kind: str, tables: Tables) -> bool:
    """Whether a set of this kind has what it is published for: a gallery images, any other set queries."""
    return len(tables.images if kind == "gallery" else tables.queries) > 0


def check_not_empty(kind: str, name: str, tables: Tables, funnel: Iterable[Mapping[str, Any]]) -> None:
    """Raises UserError where a stage of the funnel accepted nothing and the set has no content for that."""
    stages = list(funnel)
    emptied = next((stage for stage in stages if stage["entered"] and not stage["accepted"]), None)
    if emptied is None or has_content(kind, tables):
        return
    losses = Counter[_Loss]()
    for stage in stages:
        if stage["kind"] == emptied["kind"]:
            for bucket in BUCKETS:
                counts = {_Loss(stage["kind"], stage["stage"], bucket, one): n for one, n in stage[bucket].items()}
                losses.update(counts)
    ranked = sorted(losses.items(), key=lambda pair: (-pair[1], pair[0]))
    listed = ", ".join(f"{number:,} {loss.reason.replace('_', ' ')}" for loss, number in ranked[:_SHOWN])
    wanted = "picture" if kind == "gallery" else "query"
    kinds = pluralize_kind(emptied["kind"]).replace("image", "picture")
    entered = max(stage["entered"] for stage in stages if stage["kind"] == emptied["kind"])
    reason = f"no {wanted} is left of {entered:,} {kinds} ({listed}); nothing was published"
    raise UserError("publish", name, reason, _next_step(ranked[0][0]))


def _next_step(loss: _Loss) -> str:
    advice = _NEXT_STEPS.get((loss.kind, loss.reason)) if loss.bucket != "pending" else None
    return (
        advice
        or advise_fix(loss.stage, loss.kind, loss.bucket, loss.reason)
        or _NEXT_STEPS.get((loss.kind, None), "change the definition, then build again")
    )
